//! What a loop runs with (REQ-028, REQ-029).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::Value;

use crate::budget::{Budget, BudgetError};
use crate::context::{CompactionStrategy, ContextConfig, HeuristicTokenCounter, TokenCounter};
use crate::environment::Environment;
use crate::event::LoopConfigSnapshot;
use crate::history::History;
use crate::hooks::Hooks;
use crate::identity::{AgentId, ContinuationKind, GroupMember, LoopId, SessionId, TurnTrigger};
use crate::journal::Journal;
use crate::limits::ExecutionLimits;
use crate::message::CostConfig;
use crate::model::{CacheConfig, ModelConfig, ResponseFormat, ThinkingBudgets, ThinkingLevel, ToolChoice};
use crate::prefix::Prefixes;
use crate::provider::{RequestHook, StreamProvider, WireHooks};
use crate::retry::RetryConfig;
use crate::route::Route;
use crate::run::{BudgetSetup, Gates, QueueMode, Run, RunSetup, SteeringPolicy};
use crate::tool::validate::{ArgumentValidator, SchemaValidator};
use crate::tool::{AgentTool, ToolExecutionStrategy, Tools};

/// How long an aborted tool may take to end before it is left behind (D2).
pub const GRACE: Duration = Duration::from_millis(500);

/// The counter and the validator of every configuration that names no other.
static COUNTER: LazyLock<Arc<dyn TokenCounter>> = LazyLock::new(|| Arc::new(HeuristicTokenCounter));
static VALIDATOR: LazyLock<Arc<dyn ArgumentValidator>> = LazyLock::new(|| Arc::new(SchemaValidator));

/// How a loop behaves. Everything but provider, model and environment has a default.
#[derive(Clone)]
#[non_exhaustive]
pub struct AgentLoopConfig {
    /// Calls the model.
    pub provider: Arc<dyn StreamProvider>,
    /// The model.
    pub model: Arc<ModelConfig>,
    /// Time, sleep, tasks, ids.
    pub environment: Arc<dyn Environment>,
    /// How much the model is asked to think.
    pub thinking_level: ThinkingLevel,
    /// What the levels mean in tokens.
    pub thinking_budgets: ThinkingBudgets,
    /// The most tokens of an answer.
    pub max_tokens: Option<u32>,
    /// Randomness.
    pub temperature: Option<f32>,
    /// Prompt caching.
    pub cache_config: CacheConfig,
    /// Whether tools must be called.
    pub tool_choice: ToolChoice,
    /// The form of the answer.
    pub response_format: ResponseFormat,
    /// Texts at which the model stops.
    pub stop_sequences: Vec<String>,
    /// Headers for each call.
    pub headers: BTreeMap<String, Option<String>>,
    /// Whether the readable thinking of another model is shown as text.
    pub foreign_thinking_as_text: bool,
    /// Sees and may replace the body of each request.
    pub request_hook: Option<RequestHook>,
    /// Look at the bytes of each exchange.
    pub wire_hooks: WireHooks,
    /// How the calls of a reply are run.
    pub tool_execution: ToolExecutionStrategy,
    /// The most calls that run at once, within a group; `None` for all.
    pub max_concurrent_tools: Option<usize>,
    /// The longest that a call may take, unless its tool says otherwise.
    pub tool_timeout: Option<Duration>,
    /// How long an aborted call may take to end (D2).
    pub grace: Duration,
    /// What steering does to calls that have not begun.
    pub steering_policy: SteeringPolicy,
    /// How many steering messages are taken at once.
    pub steering_mode: QueueMode,
    /// How many follow-ups are taken at once.
    pub follow_up_mode: QueueMode,
    /// Limits.
    pub execution_limits: Option<ExecutionLimits>,
    /// Retries.
    pub retry_config: RetryConfig,
    /// Who is asked when the model fails, in order.
    pub routes: Vec<Route>,
    /// The budget of the context; `None` switches compaction off.
    pub context_config: Option<ContextConfig>,
    /// How the history is shortened; the default cascade when absent.
    pub compaction_strategy: Option<Arc<dyn CompactionStrategy>>,
    /// Counts tokens.
    pub token_counter: Arc<dyn TokenCounter>,
    /// Checks the arguments of calls.
    pub validator: Arc<dyn ArgumentValidator>,
    /// Hooks.
    pub hooks: Hooks,
    /// The middle of the loop's id; found from provider and model when absent (REQ-187).
    pub config_id: Option<String>,
    /// What opens the first turn of a first loop.
    pub first_turn_trigger: TurnTrigger,
    /// Noted in `AgentStart`.
    pub metadata: Value,
    /// Where the run is written down before anything is done.
    pub journal: Option<Arc<dyn Journal>>,
    /// Whether each request is compared with the last one, to say where a prompt cache is broken; on unless said otherwise.
    pub watch_cache: bool,
    /// What may be spent, together with everybody who has the same account or one below it.
    pub budget: Option<Budget>,
}

impl AgentLoopConfig {
    /// The defaults, for this provider and model.
    #[must_use]
    pub fn new(
        provider: Arc<dyn StreamProvider>,
        model: impl Into<Arc<ModelConfig>>,
        environment: Arc<dyn Environment>,
    ) -> Self {
        Self {
            provider,
            model: model.into(),
            environment,
            thinking_level: ThinkingLevel::Off,
            thinking_budgets: ThinkingBudgets::default(),
            max_tokens: None,
            temperature: None,
            cache_config: CacheConfig::default(),
            tool_choice: ToolChoice::Auto,
            response_format: ResponseFormat::Text,
            stop_sequences: Vec::new(),
            headers: BTreeMap::new(),
            foreign_thinking_as_text: false,
            request_hook: None,
            wire_hooks: WireHooks::default(),
            tool_execution: ToolExecutionStrategy::default(),
            max_concurrent_tools: None,
            tool_timeout: None,
            grace: GRACE,
            steering_policy: SteeringPolicy::default(),
            steering_mode: QueueMode::default(),
            follow_up_mode: QueueMode::default(),
            execution_limits: Some(ExecutionLimits::default()),
            retry_config: RetryConfig::default(),
            routes: Vec::new(),
            context_config: Some(ContextConfig::default()),
            compaction_strategy: None,
            token_counter: Arc::clone(&COUNTER),
            validator: Arc::clone(&VALIDATOR),
            hooks: Hooks::default(),
            config_id: None,
            first_turn_trigger: TurnTrigger::User,
            metadata: Value::Null,
            journal: None,
            watch_cache: true,
            budget: None,
        }
    }

    /// The defaults, in the operating system's time and tokio's runtime.
    #[cfg(feature = "system")]
    #[must_use]
    pub fn system(provider: Arc<dyn StreamProvider>, model: impl Into<Arc<ModelConfig>>) -> Self {
        Self::new(provider, model, Arc::new(crate::environment::SystemEnvironment))
    }

    /// The middle of a loop's id: the caller's, else `{provider}.{model}[.thinking]` with every character of the
    /// model's id that is neither a letter, a digit nor `-` replaced by `-` (REQ-187).
    #[must_use]
    pub fn config_segment(&self) -> String {
        if let Some(id) = &self.config_id {
            return id.clone();
        }
        let thinking = if self.thinking_level == ThinkingLevel::Off { "" } else { ".thinking" };
        let mut segment = self.provider.provider_id_for(&self.model);
        segment.reserve_exact(1 + self.model.id.len() + thinking.len());
        segment.push('.');
        segment.extend(self.model.id.chars().map(|c| if c.is_alphanumeric() || c == '-' { c } else { '-' }));
        segment.push_str(thinking);
        segment
    }

    /// Whether what the models cost can be counted.
    pub(crate) fn check_budget(&self) -> Result<(), BudgetError> {
        let Some(budget) = &self.budget else { return Ok(()) };
        let routes = self.routes.iter().map(|route| &route.model);
        std::iter::once(&self.model).chain(routes).try_for_each(|model| budget.check(model))
    }

    pub(crate) fn snapshot(&self) -> LoopConfigSnapshot {
        LoopConfigSnapshot {
            model: self.model.id.clone(),
            provider: self.model.provider.clone(),
            config_id: self.config_id.clone(),
            name: Some(self.model.name.clone()),
            api: Some(self.model.api),
            context_window: Some(self.model.context_window),
            max_tokens: self.max_tokens.or(Some(self.model.max_tokens)),
            thinking_level: Some(self.thinking_level),
            temperature: self.temperature,
            prices: (self.model.cost != CostConfig::default()).then(|| self.model.cost.clone()),
        }
    }
}

impl fmt::Debug for AgentLoopConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentLoopConfig")
            .field("model", &self.model)
            .field("thinking_level", &self.thinking_level)
            .field("tool_execution", &self.tool_execution)
            .field("hooks", &self.hooks)
            .finish_non_exhaustive()
    }
}

/// What a loop runs over (REQ-028, REQ-190). A clone costs O(1) for the conversation (REQ-196).
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct AgentContext {
    /// The system prompt.
    pub system_prompt: Arc<str>,
    /// The conversation; the loop puts the longer one here.
    pub history: History,
    /// The tools.
    pub tools: Tools,
    /// The agent.
    pub agent_id: Option<AgentId>,
    /// The session.
    pub session_id: Option<SessionId>,
    /// The loop.
    pub loop_id: Option<LoopId>,
    /// The loop that this one continues or was started by.
    pub parent_loop_id: Option<LoopId>,
    /// How it continues.
    pub continuation_kind: Option<ContinuationKind>,
    /// Its place in a group of parallel loops.
    pub group: Option<GroupMember>,
    /// A run that waits for an answer.
    pub suspended: Option<Box<Run>>,
    /// The last requests; a clone has its own from then on.
    pub(crate) prefixes: Prefixes,
}

impl AgentContext {
    /// A context with nothing but a system prompt.
    #[must_use]
    pub fn new(system_prompt: impl Into<Arc<str>>) -> Self {
        Self { system_prompt: system_prompt.into(), ..Self::default() }
    }

    /// The same context with these tools.
    #[must_use]
    pub fn with_tools(self, tools: Vec<Arc<dyn AgentTool>>) -> Self {
        self.with_toolkit(tools.into())
    }

    /// The same context with these tools, which others may share.
    #[must_use]
    pub fn with_toolkit(mut self, tools: Tools) -> Self {
        self.tools = tools;
        self
    }

    /// The same context with this conversation.
    #[must_use]
    pub fn with_history(mut self, history: History) -> Self {
        self.history = history;
        self
    }

    /// Makes the ids that are missing.
    pub(crate) fn fill_ids(&mut self, config: &AgentLoopConfig) {
        let env = &config.environment;
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
        run_setup(config, &self.tools, ids, self.continuation_kind.clone())
    }
}

/// Whose run it is.
pub(crate) struct LoopIds {
    pub(crate) agent: AgentId,
    pub(crate) session: SessionId,
    pub(crate) of_loop: LoopId,
    /// The loop that it continues or was started by.
    pub(crate) parent: Option<LoopId>,
    /// Its place in a group of parallel loops.
    pub(crate) group: Option<GroupMember>,
}

/// What a run with this configuration and these tools is decided by.
pub(crate) fn run_setup(
    config: &AgentLoopConfig,
    tools: &Tools,
    ids: LoopIds,
    continuation: Option<ContinuationKind>,
) -> RunSetup {
    RunSetup {
        agent_id: ids.agent,
        session_id: ids.session,
        loop_id: ids.of_loop,
        parent_loop_id: ids.parent,
        continuation,
        session_origin: None,
        group: ids.group,
        first_turn_trigger: config.first_turn_trigger,
        config: Arc::new(config.snapshot()),
        metadata: config.metadata.clone(),
        api: Some(config.model.api),
        gates: Gates {
            before_loop: config.hooks.run.before.is_some(),
            input: !config.hooks.input_filters.is_empty(),
            before_turn: config.hooks.turn.before.is_some(),
            after_tool: config.hooks.tool.after.is_some(),
        },
        strategy: config.tool_execution,
        sequential_tools: tools.sequential().clone(),
        steering_policy: config.steering_policy,
        steering_mode: config.steering_mode,
        follow_up_mode: config.follow_up_mode,
        limits: config.execution_limits,
        retry: config.retry_config,
        routes: config.routes.iter().map(Route::setup).collect(),
        context: config.context_config.clone(),
        context_window: Some(config.model.context_window),
        budget: config.budget.as_ref().map(|b| BudgetSetup::new(b.policy(), config.model.cost.clone())),
    }
}

impl fmt::Debug for AgentContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentContext")
            .field("messages", &self.history.len())
            .field("tools", &self.tools)
            .field("loop_id", &self.loop_id)
            .finish_non_exhaustive()
    }
}
