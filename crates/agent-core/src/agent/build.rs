//! Building an agent, and changing its settings.

use std::sync::{Arc, Mutex};

use super::listeners::Listeners;
use super::state::State;
use super::{AgentHandle, BasicAgent, Inner, Settings, missing};
use crate::budget::Budget;
use crate::context::{CompactionStrategy, TokenCounter};
use crate::drive::{AgentLoopConfig, Mailbox};
use crate::environment::Environment;
use crate::hooks::Hooks;
use crate::identity::{AgentId, SessionId};
use crate::journal::Journal;
use crate::limits::ExecutionLimits;
use crate::model::{ModelConfig, ThinkingLevel};
use crate::prefix::Prefixes;
use crate::provider::StreamProvider;
use crate::route::Route;
use crate::run::{QueueKind, QueueMode};
use crate::shared::Shared;
use crate::tool::{AgentTool, Tools};

/// Builders. Each method takes the agent and returns it with the change.
impl BasicAgent {
    /// Returns an agent for this model with default settings and no provider.
    ///
    /// Set the provider with [`with_provider`](Self::with_provider), or use `looptree::agent`, which brings one for
    /// every protocol whose feature is enabled. Without a provider the first run fails with an error that names the
    /// feature.
    #[must_use]
    pub fn new(model: ModelConfig) -> Self {
        let config = AgentLoopConfig::new(missing::provider(), model, missing::environment());
        Self::of(Arc::new(config), Arc::from(""), Tools::default())
    }

    fn of(config: Arc<AgentLoopConfig>, system_prompt: Arc<str>, tools: Tools) -> Self {
        let environment = &config.services.environment;
        let agent_id = AgentId::from(environment.random_id());
        let state = State::new(environment.random_id().into());
        let modes = (config.policy.steering_mode, config.policy.follow_up_mode);
        let inner = Inner {
            settings: Mutex::new(Settings { agent_id, system_prompt, tools, config }),
            state: Mutex::new(state),
            mailbox: Arc::new(Mailbox::new(modes.0, modes.1)),
            listeners: Listeners::default(),
            prefixes: Prefixes::default(),
            idle: tokio::sync::Notify::new(),
        };
        Self { handle: AgentHandle { inner: Arc::new(inner) } }
    }

    /// Returns a second agent with the same settings, its own id and session, and an empty conversation.
    ///
    /// Changing one of the two later does not change the other. Both share the provider, the budget and the tools. The
    /// second agent has no journal: a journal belongs to one agent.
    #[must_use]
    pub fn with_same_settings(&self) -> Self {
        let Settings { system_prompt, tools, mut config, .. } = self.inner.settings().clone();
        if config.services.journal.is_some() {
            Arc::make_mut(&mut config).services.journal = None;
        }
        Self::of(config, system_prompt, tools)
    }

    /// Returns a handle to this agent.
    #[must_use]
    pub fn handle(&self) -> AgentHandle {
        self.handle.clone()
    }

    /// Changes the configuration of the next run.
    ///
    /// ```
    /// # use agent_core::{BasicAgent, ModelConfig};
    /// let agent = BasicAgent::new(ModelConfig::default()).configure(|c| {
    ///     c.request.temperature = Some(0.2);
    ///     c.policy.max_concurrent_tools = Some(4);
    /// });
    /// # drop(agent);
    /// ```
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut AgentLoopConfig)) -> Self {
        self.set_config(change);
        self
    }

    /// Sets the provider that calls models. An `Arc<dyn StreamProvider>` is also a provider.
    #[must_use]
    pub fn with_provider(self, provider: impl StreamProvider + 'static) -> Self {
        self.configure(|c| c.services.provider = Arc::new(provider))
    }

    /// Takes time, sleep, tasks and random ids from this environment.
    #[must_use]
    pub fn with_environment(self, environment: Arc<dyn Environment>) -> Self {
        self.configure(|c| c.services.environment = environment)
    }

    /// Sets the system prompt. Default: none.
    #[must_use]
    pub fn with_system_prompt(mut self, text: impl Into<Arc<str>>) -> Self {
        self.set_system_prompt(text);
        self
    }

    /// Sets the model that the next run calls. The conversation is retained.
    #[must_use]
    pub fn with_model(mut self, model: ModelConfig) -> Self {
        self.set_model(model);
        self
    }

    /// Adds a tool. Two tools of one name are an error when a run starts.
    #[must_use]
    pub fn with_tool(self, tool: impl AgentTool + 'static) -> Self {
        {
            let mut settings = self.inner.settings();
            settings.tools = settings.tools.with(tool);
        }
        self
    }

    /// Adds tools. Two tools of one name are an error when a run starts.
    #[must_use]
    pub fn with_tools(self, tools: Vec<Arc<dyn AgentTool>>) -> Self {
        self.with_shared_tools(tools.into())
    }

    /// Adds tools that many agents share: their definitions are built and encoded once for all of them.
    #[must_use]
    pub fn with_shared_tools(self, tools: Tools) -> Self {
        {
            let mut settings = self.inner.settings();
            settings.tools = settings.tools.with_all(tools);
        }
        self
    }

    /// Adds hooks after those that the agent already has.
    #[must_use]
    pub fn with_hooks(self, hooks: Hooks) -> Self {
        self.configure(|c| c.hooks = Hooks::clone(&c.hooks).and(hooks).into())
    }

    /// Adds a model to try when a call of the models before it fails.
    #[must_use]
    pub fn with_route(self, route: Route) -> Self {
        self.configure(|c| c.routes.push(route))
    }

    /// Sets how much the model thinks before it answers. Default: [`ThinkingLevel::Off`].
    #[must_use]
    pub fn with_thinking(self, level: ThinkingLevel) -> Self {
        self.configure(|c| c.request.thinking_level = level)
    }

    /// Sets the limits of a run; `None` removes them. Default: 50 turns, 1,000,000 tokens, 600 seconds.
    #[must_use]
    pub fn with_limits(self, limits: impl Into<Option<ExecutionLimits>>) -> Self {
        let limits = limits.into();
        self.configure(|c| c.policy.limits = limits)
    }

    /// Sets the budget that all runs of this agent draw from; `None` removes it. Default: none.
    #[must_use]
    pub fn with_budget(self, budget: impl Into<Option<Budget>>) -> Self {
        let budget = budget.into();
        self.configure(|c| c.services.budget = budget)
    }

    /// Sets the strategy that shortens the history when it outgrows the context. Default: the built-in cascade.
    #[must_use]
    pub fn with_compaction_strategy(self, strategy: impl CompactionStrategy + 'static) -> Self {
        self.configure(|c| c.services.compaction = Some(Arc::new(strategy)))
    }

    /// Sets the counter that estimates the tokens of messages. Default:
    /// [`HeuristicTokenCounter`](crate::HeuristicTokenCounter).
    #[must_use]
    pub fn with_token_counter(self, counter: impl TokenCounter + 'static) -> Self {
        self.configure(|c| c.services.token_counter = Arc::new(counter))
    }

    /// Sets the journal, which records each input of a run before the run acts on it. Default: none.
    #[must_use]
    pub fn with_journal(self, journal: Arc<dyn Journal>) -> Self {
        self.configure(|c| c.services.journal = Some(journal))
    }

    /// Sets the id of the session that the next run belongs to. Default: a random id.
    #[must_use]
    pub fn with_session_id(self, id: impl Into<SessionId>) -> Self {
        self.inner.state().session_id = id.into();
        self
    }
}

/// Setters. Each replaces the previous value and takes effect with the next run.
impl BasicAgent {
    /// Changes the configuration of the next run. [`configure`](Self::configure) is the same for an agent that is being
    /// built.
    pub fn set_config(&mut self, change: impl FnOnce(&mut AgentLoopConfig)) {
        let modes = {
            let mut settings = self.inner.settings();
            settings.change(change);
            (settings.config.policy.steering_mode, settings.config.policy.follow_up_mode)
        };
        self.inner.set_queue_modes(modes);
    }

    /// Replaces the system prompt of the next run.
    pub fn set_system_prompt(&mut self, text: impl Into<Arc<str>>) {
        self.inner.settings().system_prompt = text.into();
    }

    /// Replaces the model of the next run. The conversation is retained.
    pub fn set_model(&mut self, model: ModelConfig) {
        self.inner.settings().change(|c| c.model = Arc::new(model));
    }

    /// Replaces all tools of the agent. [`with_tools`](Self::with_tools) adds tools instead.
    pub fn set_tools(&mut self, tools: Vec<Arc<dyn AgentTool>>) {
        self.inner.settings().tools = tools.into();
    }

    /// Replaces all hooks of the agent. [`with_hooks`](Self::with_hooks) adds hooks instead.
    pub fn set_hooks(&mut self, hooks: impl Into<Shared<Hooks>>) {
        self.inner.settings().change(|c| c.hooks = hooks.into());
    }
}

impl Inner {
    /// Sets the modes of the queues, also for the open run.
    pub(super) fn set_queue_modes(&self, modes: (QueueMode, QueueMode)) {
        if modes != self.mailbox.view().modes() {
            self.mailbox.set_mode(QueueKind::Steering, modes.0);
            self.mailbox.set_mode(QueueKind::FollowUp, modes.1);
        }
    }
}
