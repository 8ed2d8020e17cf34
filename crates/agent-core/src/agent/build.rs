//! Builders and setters. Each acts on the next run; queue modes act at once.

use std::sync::Arc;
use std::time::Duration;

use super::{AgentError, BasicAgent};
use crate::budget::Budget;
use crate::context::{CompactionStrategy, ContextConfig, TokenCounter};
use crate::drive::AgentLoopConfig;
use crate::environment::Environment;
use crate::hooks::{Hooks, InputFilter};
use crate::journal::Journal;
use crate::limits::ExecutionLimits;
use crate::model::{CacheConfig, ModelConfig, ResponseFormat, ThinkingBudgets, ThinkingLevel, ToolChoice};
use crate::provider::{ReceivedPart, RequestHook, SentRequest, StreamProvider};
use crate::retry::RetryConfig;
use crate::route::Route;
use crate::run::{QueueKind, QueueMode, SteeringPolicy};
use crate::tool::validate::ArgumentValidator;
use crate::tool::{AgentTool, ToolExecutionStrategy, Tools};

/// Builders. They change the agent behind the handle, so they also act for its clones.
impl BasicAgent {
    /// Changes the configuration of the next run.
    #[must_use]
    pub fn configure(self, change: impl FnOnce(&mut AgentLoopConfig)) -> Self {
        let modes = {
            let mut settings = self.settings();
            settings.change(change);
            (settings.config.steering_mode, settings.config.follow_up_mode)
        };
        if modes != self.inner.mailbox.modes() {
            self.inner.mailbox.set_mode(QueueKind::Steering, modes.0);
            self.inner.mailbox.set_mode(QueueKind::FollowUp, modes.1);
        }
        self
    }

    /// The configuration of the next run.
    #[must_use]
    pub fn config(&self) -> AgentLoopConfig {
        AgentLoopConfig::clone(&self.settings().config)
    }

    /// Calls models through this provider.
    #[must_use]
    pub fn with_provider(self, provider: impl StreamProvider + 'static) -> Self {
        self.with_provider_override(Arc::new(provider))
    }

    /// Calls models through this shared provider (REQ-025).
    #[must_use]
    pub fn with_provider_override(self, provider: Arc<dyn StreamProvider>) -> Self {
        self.configure(|c| c.provider = provider)
    }

    /// Takes time, sleep and tasks from here.
    #[must_use]
    pub fn with_environment(self, environment: Arc<dyn Environment>) -> Self {
        self.configure(|c| c.environment = environment)
    }

    /// The system prompt.
    #[must_use]
    pub fn with_system_prompt(self, text: impl Into<Arc<str>>) -> Self {
        self.set_system_prompt(text);
        self
    }

    /// The model.
    #[must_use]
    pub fn with_model_config(self, model: ModelConfig) -> Self {
        self.set_model(model);
        self
    }

    /// The tools, in place of those that were there.
    #[must_use]
    pub fn with_tools(self, tools: Vec<Arc<dyn AgentTool>>) -> Self {
        self.set_tools(tools);
        self
    }

    /// Tools that many agents share, in place of those that were there.
    #[must_use]
    pub fn with_toolkit(self, tools: Tools) -> Self {
        self.settings().tools = tools;
        self
    }

    /// One more tool.
    #[must_use]
    pub fn with_tool(self, tool: impl AgentTool + 'static) -> Self {
        let mut settings = self.settings();
        settings.tools = settings.tools.with(Arc::new(tool));
        drop(settings);
        self
    }

    /// The most tokens of an answer.
    #[must_use]
    pub fn with_max_tokens(self, tokens: u32) -> Self {
        self.configure(|c| c.max_tokens = Some(tokens))
    }

    /// Randomness.
    #[must_use]
    pub fn with_temperature(self, temperature: f32) -> Self {
        self.configure(|c| c.temperature = Some(temperature))
    }

    /// How much the model is asked to think.
    #[must_use]
    pub fn with_thinking(self, level: ThinkingLevel) -> Self {
        self.configure(|c| c.thinking_level = level)
    }

    /// What the thinking levels mean in tokens.
    #[must_use]
    pub fn with_thinking_budgets(self, budgets: ThinkingBudgets) -> Self {
        self.configure(|c| c.thinking_budgets = budgets)
    }

    /// The budget of the context; `None` switches compaction off.
    #[must_use]
    pub fn with_context_config(self, config: impl Into<Option<ContextConfig>>) -> Self {
        let config = config.into();
        self.configure(|c| c.context_config = config)
    }

    /// Limits of a run; `None` for none.
    #[must_use]
    pub fn with_execution_limits(self, limits: impl Into<Option<ExecutionLimits>>) -> Self {
        let limits = limits.into();
        self.configure(|c| c.execution_limits = limits)
    }

    /// Retries.
    #[must_use]
    pub fn with_retry_config(self, config: RetryConfig) -> Self {
        self.configure(|c| c.retry_config = config)
    }

    /// Prompt caching.
    #[must_use]
    pub fn with_cache_config(self, config: CacheConfig) -> Self {
        self.configure(|c| c.cache_config = config)
    }

    /// How the calls of a reply are run.
    #[must_use]
    pub fn with_tool_execution(self, strategy: ToolExecutionStrategy) -> Self {
        self.configure(|c| c.tool_execution = strategy)
    }

    /// The most calls that run at once within a group.
    #[must_use]
    pub fn with_max_concurrent_tools(self, most: usize) -> Self {
        self.configure(|c| c.max_concurrent_tools = Some(most))
    }

    /// The longest that a call may take, unless its tool says otherwise.
    #[must_use]
    pub fn with_tool_timeout(self, timeout: Duration) -> Self {
        self.configure(|c| c.tool_timeout = Some(timeout))
    }

    /// One more model to ask when those before it fail.
    #[must_use]
    pub fn with_route(self, route: Route) -> Self {
        self.configure(|c| c.routes.push(route))
    }

    /// What steering does to calls that have not begun.
    #[must_use]
    pub fn with_steering_policy(self, policy: SteeringPolicy) -> Self {
        self.configure(|c| c.steering_policy = policy)
    }

    /// How many steering messages are taken at once.
    #[must_use]
    pub fn with_steering_mode(self, mode: QueueMode) -> Self {
        self.set_steering_mode(mode);
        self
    }

    /// How many follow-ups are taken at once.
    #[must_use]
    pub fn with_follow_up_mode(self, mode: QueueMode) -> Self {
        self.set_follow_up_mode(mode);
        self
    }

    /// How the history is shortened (REQ-146).
    #[must_use]
    pub fn with_compaction_strategy(self, strategy: impl CompactionStrategy + 'static) -> Self {
        self.configure(|c| c.compaction_strategy = Some(Arc::new(strategy)))
    }

    /// Counts tokens (REQ-162).
    #[must_use]
    pub fn with_token_counter(self, counter: impl TokenCounter + 'static) -> Self {
        self.configure(|c| c.token_counter = Arc::new(counter))
    }

    /// Checks the arguments of calls.
    #[must_use]
    pub fn with_argument_validator(self, validator: impl ArgumentValidator + 'static) -> Self {
        self.configure(|c| c.validator = Arc::new(validator))
    }

    /// Hooks, in place of those that were there.
    #[must_use]
    pub fn with_hooks(self, hooks: Hooks) -> Self {
        self.configure(|c| c.hooks = hooks)
    }

    /// One more filter over the prompts (REQ-068).
    #[must_use]
    pub fn with_input_filter(self, filter: impl InputFilter + 'static) -> Self {
        self.configure(|c| c.hooks.input_filters.push(Arc::new(filter)))
    }

    /// Whether tools must be called.
    #[must_use]
    pub fn with_tool_choice(self, choice: ToolChoice) -> Self {
        self.configure(|c| c.tool_choice = choice)
    }

    /// The form of the answer.
    #[must_use]
    pub fn with_response_format(self, format: ResponseFormat) -> Self {
        self.configure(|c| c.response_format = format)
    }

    /// Sees and may replace the body of each request (B-156).
    #[must_use]
    pub fn with_request_hook(self, hook: RequestHook) -> Self {
        self.configure(|c| c.request_hook = Some(hook))
    }

    /// Sees each request as it goes out: the exact bytes, without the credentials.
    #[must_use]
    pub fn with_on_request(self, hook: impl Fn(&SentRequest<'_>) + Send + Sync + 'static) -> Self {
        self.configure(|c| c.wire_hooks.on_request = Some(Arc::new(hook)))
    }

    /// Sees each part of an answer as it arrives: the exact bytes, without the credentials.
    #[must_use]
    pub fn with_on_response(self, hook: impl Fn(&ReceivedPart<'_>) + Send + Sync + 'static) -> Self {
        self.configure(|c| c.wire_hooks.on_response = Some(Arc::new(hook)))
    }

    /// The middle of the loops' ids (REQ-187).
    #[must_use]
    pub fn with_config_id(self, id: impl Into<String>) -> Self {
        self.configure(|c| c.config_id = Some(id.into()))
    }

    /// Does not compare requests to find broken prompt caches.
    #[must_use]
    pub fn without_cache_watch(self) -> Self {
        self.configure(|c| c.watch_cache = false)
    }

    /// What may be spent, by all runs of this agent and by everybody else who has the budget; `None` for no limit.
    #[must_use]
    pub fn with_budget(self, budget: impl Into<Option<Budget>>) -> Self {
        let budget = budget.into();
        self.configure(|c| c.budget = budget)
    }

    /// Where runs are written down before anything is done.
    #[must_use]
    pub fn with_journal(self, journal: Arc<dyn Journal>) -> Self {
        self.configure(|c| c.journal = Some(journal))
    }
}

/// Setters. During a run they act on the next one.
impl BasicAgent {
    /// The system prompt.
    pub fn set_system_prompt(&self, text: impl Into<Arc<str>>) {
        self.settings().system_prompt = text.into();
    }

    /// The model.
    pub fn set_model(&self, model: ModelConfig) {
        self.settings().change(|c| c.model = Arc::new(model));
    }

    /// How much the model is asked to think.
    pub fn set_thinking_level(&self, level: ThinkingLevel) {
        self.settings().change(|c| c.thinking_level = level);
    }

    /// The tools.
    pub fn set_tools(&self, tools: Vec<Arc<dyn AgentTool>>) {
        self.settings().tools = tools.into();
    }

    /// Changes the tools in one step, so that no change of somebody else's is lost in between. `change` must not use
    /// this agent.
    pub fn change_tools(&self, change: impl FnOnce(&mut Vec<Arc<dyn AgentTool>>)) {
        let mut settings = self.settings();
        let mut tools = settings.tools.tools().to_vec();
        change(&mut tools);
        settings.tools = tools.into();
    }

    /// Where runs are written down.
    pub fn set_journal(&self, journal: Option<Arc<dyn Journal>>) {
        self.settings().change(|c| c.journal = journal);
    }

    /// How many steering messages are taken at once; also for the open run (B-042).
    pub fn set_steering_mode(&self, mode: QueueMode) {
        self.settings().change(|c| c.steering_mode = mode);
        self.inner.mailbox.set_mode(QueueKind::Steering, mode);
    }

    /// How many follow-ups are taken at once; also for the open run.
    pub fn set_follow_up_mode(&self, mode: QueueMode) {
        self.settings().change(|c| c.follow_up_mode = mode);
        self.inner.mailbox.set_mode(QueueKind::FollowUp, mode);
    }

    /// Changes the model, after the provider has been asked whether it could serve it. The conversation stays (seed 003).
    ///
    /// # Errors
    /// What is missing. The agent keeps the model it had.
    pub fn switch_provider(&self, model: ModelConfig) -> Result<(), AgentError> {
        let provider = Arc::clone(&self.settings().config.provider);
        provider.check(&model)?;
        self.set_model(model);
        Ok(())
    }

    /// Changes model and provider together, after the provider has been asked.
    ///
    /// # Errors
    /// What is missing. The agent keeps what it had.
    pub fn switch_provider_to(
        &self,
        provider: Arc<dyn StreamProvider>,
        model: ModelConfig,
    ) -> Result<(), AgentError> {
        provider.check(&model)?;
        let mut settings = self.settings();
        settings.change(|c| {
            c.provider = provider;
            c.model = Arc::new(model);
        });
        Ok(())
    }
}

/// Getters.
impl BasicAgent {
    /// The system prompt.
    #[must_use]
    pub fn system_prompt(&self) -> Arc<str> {
        Arc::clone(&self.settings().system_prompt)
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> Arc<ModelConfig> {
        Arc::clone(&self.settings().config.model)
    }

    /// The tools.
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<dyn AgentTool>> {
        self.settings().tools.tools().to_vec()
    }
}
