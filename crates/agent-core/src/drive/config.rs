//! The configuration, the services and the context of a loop.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use super::LoopError;
use super::telemetry::Telemetry;
use crate::budget::{Budget, BudgetError};
use crate::context::{CompactionStrategy, HeuristicTokenCounter, TokenCounter};
use crate::environment::Environment;
use crate::event::{LoopConfigSnapshot, SpawningCall};
use crate::history::History;
use crate::hooks::Hooks;
use crate::identity::{AgentId, ContinuationKind, GroupMember, LoopId, SessionId};
use crate::journal::Journal;
use crate::message::CostConfig;
use crate::model::{ModelConfig, ThinkingLevel};
use crate::prefix::Prefixes;
use crate::provider::{RequestOptions, StreamProvider};
use crate::route::Route;
use crate::run::{BudgetSetup, Gates, LoopPolicy, Run, RunSetup};
use crate::shared::Shared;
use crate::tool::validate::{ArgumentValidator, SchemaValidator};
use crate::tool::{AgentTool, Tools};

/// The services of a loop: the model provider, the environment, the token counter, the validator, the journal and the
/// budget.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Services {
    /// The provider that calls models.
    pub provider: Arc<dyn StreamProvider>,
    /// Provides time, sleep, tasks and random ids.
    pub environment: Arc<dyn Environment>,
    /// Counts the tokens of a message when it enters the conversation. Default: [`HeuristicTokenCounter`].
    pub token_counter: Arc<dyn TokenCounter>,
    /// Validates the arguments of tool calls. Default: [`SchemaValidator`].
    pub validator: Arc<dyn ArgumentValidator>,
    /// Shortens the history when it outgrows the context. Default: the built-in cascade of three levels.
    pub compaction: Option<Arc<dyn CompactionStrategy>>,
    /// Records each input of a run before the run acts on it. Default: none, the run is not recorded.
    pub journal: Option<Arc<dyn Journal>>,
    /// A budget that this loop shares with all other holders of the same account. Default: none.
    pub budget: Option<Budget>,
    /// Connects the spans of the loop to a tracing system. Default: none, no trace context is passed to others.
    pub telemetry: Option<Arc<dyn Telemetry>>,
}

impl Services {
    /// Returns services with this provider and environment, and defaults for everything else.
    #[must_use]
    pub fn new(provider: Arc<dyn StreamProvider>, environment: Arc<dyn Environment>) -> Self {
        Self {
            provider,
            environment,
            token_counter: Arc::clone(&COUNTER),
            validator: Arc::clone(&VALIDATOR),
            compaction: None,
            journal: None,
            budget: None,
            telemetry: None,
        }
    }
}

/// The token counter and the argument validator of every configuration that sets no other.
static COUNTER: LazyLock<Arc<dyn TokenCounter>> = LazyLock::new(|| Arc::new(HeuristicTokenCounter));
static VALIDATOR: LazyLock<Arc<dyn ArgumentValidator>> = LazyLock::new(|| Arc::new(SchemaValidator));
/// The options, the policy and the hooks with which every configuration starts.
static OPTIONS: LazyLock<Shared<RequestOptions>> = LazyLock::new(Shared::default);
static POLICY: LazyLock<Shared<LoopPolicy>> = LazyLock::new(Shared::default);
static HOOKS: LazyLock<Shared<Hooks>> = LazyLock::new(Shared::default);

/// The configuration of a loop. Everything except the model, the provider and the environment has a default.
///
/// Options, policy and hooks are [`Shared`]: a clone of the configuration costs a few reference counts, and assigning to a
/// field of a clone leaves the original unchanged.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AgentLoopConfig {
    /// The model to call.
    pub model: Arc<ModelConfig>,
    /// Models to try, in order, when a call of `model` fails.
    pub routes: Vec<Route>,
    /// The options of model requests: sampling, thinking, caching and the form of the answer.
    pub request: Shared<RequestOptions>,
    /// The rules of the loop: limits, retries, tool execution, queues and context compaction.
    pub policy: Shared<LoopPolicy>,
    /// The provider, the environment and the other services that the loop uses.
    pub services: Services,
    /// Hooks that run at fixed points of the loop.
    pub hooks: Shared<Hooks>,
}

impl AgentLoopConfig {
    /// Returns the default configuration for this provider and model.
    #[must_use]
    pub fn new(
        provider: Arc<dyn StreamProvider>,
        model: impl Into<Arc<ModelConfig>>,
        environment: Arc<dyn Environment>,
    ) -> Self {
        Self {
            model: model.into(),
            routes: Vec::new(),
            request: OPTIONS.clone(),
            policy: POLICY.clone(),
            services: Services::new(provider, environment),
            hooks: HOOKS.clone(),
        }
    }

    /// Returns the default configuration with a [`SystemEnvironment`](crate::SystemEnvironment).
    #[cfg(feature = "system")]
    #[must_use]
    pub fn system(provider: Arc<dyn StreamProvider>, model: impl Into<Arc<ModelConfig>>) -> Self {
        Self::new(provider, model, Arc::new(crate::environment::SystemEnvironment))
    }

    /// Returns the middle part of a loop's id: `policy.config_id` if it is set, otherwise
    /// `{provider}.{model}[.thinking]`. In the model's id, every character that is not a letter, a digit or `-` is
    /// replaced by `-`.
    #[must_use]
    pub fn config_segment(&self) -> String {
        if let Some(id) = &self.policy.config_id {
            return id.clone();
        }
        let thinking = if self.request.thinking_level == ThinkingLevel::Off { "" } else { ".thinking" };
        let mut segment = self.services.provider.provider_id_for(&self.model);
        segment.reserve_exact(1 + self.model.id.len() + thinking.len());
        segment.push('.');
        segment.extend(self.model.id.chars().map(|c| if c.is_alphanumeric() || c == '-' { c } else { '-' }));
        segment.push_str(thinking);
        segment
    }

    /// Returns this configuration with the facts that the providers know about its models
    /// ([`StreamProvider::complete_model`]); `None` if nothing is missing. An agent does this by itself, and so does a
    /// [`Performer`](super::Performer).
    #[must_use]
    pub fn completed(&self) -> Option<Self> {
        // A provider that panics knows nothing about the model; the panic of its call ends the run.
        let complete = |provider: &Arc<dyn StreamProvider>, model: &ModelConfig| {
            catch_unwind(AssertUnwindSafe(|| provider.complete_model(model))).ok().flatten()
        };
        let own = complete(&self.services.provider, &self.model);
        let of_route = |route: &Route| {
            complete(route.provider.as_ref().unwrap_or(&self.services.provider), &route.model)
        };
        if own.is_none() && !self.routes.iter().any(|route| of_route(route).is_some()) {
            return None;
        }
        let mut completed = self.clone();
        if let Some(model) = own {
            completed.model = Arc::new(model);
        }
        for route in &mut completed.routes {
            if let Some(model) = of_route(route) {
                route.model = Arc::new(model);
            }
        }
        Some(completed)
    }

    /// Checks that the budget can count the cost of all configured models.
    pub(crate) fn check_budget(&self) -> Result<(), BudgetError> {
        let Some(budget) = &self.services.budget else { return Ok(()) };
        let routes = self.routes.iter().map(|route| &route.model);
        std::iter::once(&self.model).chain(routes).try_for_each(|model| budget.check(model))
    }

    pub(crate) fn snapshot(&self) -> LoopConfigSnapshot {
        LoopConfigSnapshot {
            model: self.model.id.clone(),
            provider: self.model.provider.clone(),
            config_id: self.policy.config_id.clone(),
            name: Some(self.model.name.clone()),
            api: Some(self.model.api),
            context_window: self.model.context_window,
            max_tokens: self.request.max_tokens.or(self.model.max_tokens),
            thinking_level: Some(self.request.thinking_level),
            temperature: self.request.temperature,
            prices: (self.model.cost != CostConfig::default()).then(|| self.model.cost.clone()),
        }
    }
}

/// The conversation and the identity that a loop runs with. Cloning it does not copy the conversation.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct AgentContext {
    /// The system prompt of the loop.
    pub system_prompt: Arc<str>,
    /// The conversation. The loop replaces it by the extended conversation when it ends or is suspended.
    pub history: History,
    /// The tools that the model can call.
    pub tools: Tools,
    /// The id of the agent. Default: a random id.
    pub agent_id: Option<AgentId>,
    /// The id of the session. Default: a random id.
    pub session_id: Option<SessionId>,
    /// The id of the loop. Default: the session id, [`config_segment`](AgentLoopConfig::config_segment) and 1. A further
    /// loop over the same context gets the next number, and the previous loop becomes its parent.
    pub loop_id: Option<LoopId>,
    /// The loop that this one continues, or that started it.
    pub parent_loop_id: Option<LoopId>,
    /// How the loop continues its parent; `None` for a first loop.
    pub continuation_kind: Option<ContinuationKind>,
    /// The membership in a group of parallel loops.
    pub group: Option<GroupMember>,
    /// The suspended run, if one waits for an answer.
    pub suspended: Option<Box<Run>>,
    /// The last requests, for the detection of cache breaks. A clone tracks its own requests.
    pub(crate) prefixes: Prefixes,
    /// The id of the last loop that was started over this context.
    pub(crate) started: Option<LoopId>,
    /// The place of a child loop below the call that started it.
    pub(crate) spawned: Option<Box<Spawned>>,
}

/// The place of a child loop below the call that started it.
#[derive(Debug, Clone)]
pub(crate) struct Spawned {
    pub(crate) depth: u32,
    pub(crate) question_prefix: String,
    pub(crate) by: Box<SpawningCall>,
}

/// Shows figures and ids, without the conversation.
impl fmt::Debug for AgentContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentContext")
            .field("system_prompt_bytes", &self.system_prompt.len())
            .field("history", &self.history)
            .field("tools", &self.tools)
            .field("agent_id", &self.agent_id)
            .field("session_id", &self.session_id)
            .field("loop_id", &self.loop_id)
            .field("parent_loop_id", &self.parent_loop_id)
            .field("is_suspended", &self.suspended.is_some())
            .finish_non_exhaustive()
    }
}

impl AgentContext {
    /// Creates a context with a system prompt, no messages and no tools.
    #[must_use]
    pub fn new(system_prompt: impl Into<Arc<str>>) -> Self {
        Self { system_prompt: system_prompt.into(), ..Self::default() }
    }

    /// Adds tools to those of the context.
    #[must_use]
    pub fn with_tools(self, tools: Vec<Arc<dyn AgentTool>>) -> Self {
        self.with_shared_tools(tools.into())
    }

    /// Adds tools that other contexts share. Their definitions are encoded only once.
    #[must_use]
    pub fn with_shared_tools(mut self, tools: Tools) -> Self {
        self.tools = self.tools.with_all(tools);
        self
    }

    /// Replaces the conversation that the loop continues.
    #[must_use]
    pub fn with_history(mut self, history: History) -> Self {
        self.history = history;
        self
    }

    /// Checks that a loop can continue from the messages without a new prompt.
    pub(crate) fn check_continues(&self) -> Result<(), LoopError> {
        match self.history.last() {
            None => Err(LoopError::EmptyContext),
            Some(last) if last.role() == "assistant" && self.history.paused_reply().is_none() => {
                Err(LoopError::AssistantTail)
            }
            Some(_) => Ok(()),
        }
    }

    /// Creates the ids that are not set, and the next id of a loop if this one has been used.
    pub(crate) fn fill_ids(&mut self, config: &AgentLoopConfig) {
        if let Some(used) = self.loop_id.take_if(|id| self.started.as_ref() == Some(id)) {
            self.loop_id = Some(used.following());
            self.parent_loop_id = Some(used);
            self.continuation_kind.get_or_insert(ContinuationKind::Default);
        }
        let env = &config.services.environment;
        self.agent_id.get_or_insert_with(|| AgentId::from(env.random_id()));
        let session = self.session_id.get_or_insert_with(|| SessionId::from(env.random_id())).clone();
        self.loop_id.get_or_insert_with(|| LoopId::from(format!("{session}.{}.1", config.config_segment())));
    }

    pub(crate) fn setup(&self, config: &AgentLoopConfig) -> RunSetup {
        let of_loop = self.loop_id.clone().unwrap_or_else(|| LoopId::from("loop"));
        let session = || SessionId::from(of_loop.as_str().split('.').next().unwrap_or_default());
        let ids = LoopIds {
            agent: self.agent_id.clone().unwrap_or_else(|| AgentId::from("agent")),
            session: self.session_id.clone().unwrap_or_else(session),
            parent: self.parent_loop_id.clone(),
            group: self.group.clone(),
            of_loop,
        };
        let mut setup = run_setup(config, &self.tools, ids, self.continuation_kind.clone());
        if let Some(spawned) = &self.spawned {
            setup.depth = spawned.depth;
            setup.question_prefix.clone_from(&spawned.question_prefix);
            setup.spawned_by = Some(spawned.by.clone());
        }
        setup
    }
}

/// The ids that a run is started with.
pub(crate) struct LoopIds {
    pub(crate) agent: AgentId,
    pub(crate) session: SessionId,
    pub(crate) of_loop: LoopId,
    /// The loop that this one continues, or that started it.
    pub(crate) parent: Option<LoopId>,
    /// The membership in a group of parallel loops.
    pub(crate) group: Option<GroupMember>,
}

/// Returns the setup of a run with this configuration and these tools.
pub(crate) fn run_setup(
    config: &AgentLoopConfig,
    tools: &Tools,
    ids: LoopIds,
    continuation: Option<ContinuationKind>,
) -> RunSetup {
    let completed = config.completed();
    let config = completed.as_ref().unwrap_or(config);
    let route = |route: &Route| {
        let mut setup = route.setup();
        setup.max_tokens = config.request.max_tokens.or(setup.max_tokens);
        setup
    };
    RunSetup {
        agent_id: ids.agent,
        session_id: ids.session,
        loop_id: ids.of_loop,
        parent_loop_id: ids.parent,
        depth: 0,
        continuation,
        spawned_by: None,
        session_origin: None,
        group: ids.group,
        policy: config.policy.clone(),
        config: Arc::new(config.snapshot()),
        api: Some(config.model.api),
        gates: Gates {
            before_loop: !config.hooks.run.before.is_empty(),
            input: !config.hooks.input_filters.is_empty(),
            before_turn: !config.hooks.turn.before.is_empty(),
            after_tool: !config.hooks.tool.after.is_empty(),
        },
        sequential_tools: tools.sequential().clone(),
        routes: config.routes.iter().map(route).collect(),
        context_window: config.model.context_window,
        budget: config
            .services
            .budget
            .as_ref()
            .map(|b| BudgetSetup::new(b.policy(), config.model.cost.clone())),
        question_prefix: String::new(),
    }
}
