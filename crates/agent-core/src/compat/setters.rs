//! [`SeedSetters`]: one setter for each option of an agent.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::agent::{AgentError, BasicAgent};
use crate::context::ContextConfig;
use crate::drive::AgentLoopConfig;
use crate::hooks::InputFilter;
use crate::identity::AgentId;
use crate::journal::Journal;
use crate::limits::ExecutionLimits;
use crate::model::{CacheConfig, ModelConfig, ResponseFormat, ThinkingBudgets, ThinkingLevel, ToolChoice};
use crate::provider::{ReceivedPart, RequestHook, SentRequest, StreamProvider};
use crate::retry::RetryConfig;
use crate::run::{QueueMode, SteeringPolicy};
use crate::tool::ToolExecutionStrategy;
use crate::tool::validate::ArgumentValidator;

/// The maximum number of turns of an agent from [`SeedSetters::from_legacy`].
const LEGACY_TURNS: u32 = 10;

/// One builder or setter for each option, as short forms of [`BasicAgent::configure`] and [`BasicAgent::set_config`].
pub trait SeedSetters: Sized {
    /// Returns an agent for an Ollama model with its host, a system prompt, and at most ten turns.
    fn from_legacy(model: Option<&str>, host: Option<&str>, system_prompt: Option<&str>) -> Self;
    /// The same as [`BasicAgent::configure`]. Most of the other methods call it.
    #[must_use]
    fn configured(self, change: impl FnOnce(&mut AgentLoopConfig)) -> Self;

    /// The same as [`BasicAgent::with_provider`] for a shared provider.
    #[must_use]
    fn with_provider_override(self, provider: Arc<dyn StreamProvider>) -> Self {
        self.configured(|c| c.services.provider = provider)
    }

    /// The same as [`BasicAgent::with_model`].
    #[must_use]
    fn with_model_config(self, model: ModelConfig) -> Self {
        self.configured(|c| c.model = Arc::new(model))
    }

    /// Sets the agent's id. Default: a random id.
    #[must_use]
    fn with_agent_id(self, id: impl Into<AgentId>) -> Self;
    /// Sets `request.max_tokens`, the maximum number of tokens of one answer.
    #[must_use]
    fn with_max_tokens(self, tokens: u32) -> Self {
        self.configured(|c| c.request.max_tokens = Some(tokens))
    }

    /// Sets the configuration field `request.temperature`.
    #[must_use]
    fn with_temperature(self, temperature: f32) -> Self {
        self.configured(|c| c.request.temperature = Some(temperature))
    }

    /// Sets the configuration field `request.thinking_budgets`.
    #[must_use]
    fn with_thinking_budgets(self, budgets: ThinkingBudgets) -> Self {
        self.configured(|c| c.request.thinking_budgets = budgets)
    }

    /// Sets the configuration field `request.cache_config`.
    #[must_use]
    fn with_cache_config(self, config: CacheConfig) -> Self {
        self.configured(|c| c.request.cache_config = config)
    }

    /// Sets the configuration field `request.tool_choice`.
    #[must_use]
    fn with_tool_choice(self, choice: ToolChoice) -> Self {
        self.configured(|c| c.request.tool_choice = choice)
    }

    /// Sets the configuration field `request.response_format`.
    #[must_use]
    fn with_response_format(self, format: ResponseFormat) -> Self {
        self.configured(|c| c.request.response_format = format)
    }

    /// Sets the configuration field `request.response_format` to the JSON schema of `T`.
    #[must_use]
    fn with_answers_of<T: JsonSchema + DeserializeOwned>(self) -> Self {
        self.with_response_format(ResponseFormat::of::<T>())
    }

    /// Sets the configuration field `request.request_hook`.
    #[must_use]
    fn with_request_hook(self, hook: RequestHook) -> Self {
        self.configured(|c| c.request.request_hook = Some(hook))
    }

    /// Sets the configuration field `request.wire_hooks.on_request`.
    #[must_use]
    fn with_on_request(self, hook: impl Fn(&SentRequest<'_>) + Send + Sync + 'static) -> Self {
        self.configured(|c| c.request.wire_hooks.on_request = Some(Arc::new(hook)))
    }

    /// Sets the configuration field `request.wire_hooks.on_response`.
    #[must_use]
    fn with_on_response(self, hook: impl Fn(&ReceivedPart<'_>) + Send + Sync + 'static) -> Self {
        self.configured(|c| c.request.wire_hooks.on_response = Some(Arc::new(hook)))
    }

    /// Sets the configuration field `policy.context`; `None` switches compaction off.
    #[must_use]
    fn with_context_config(self, config: impl Into<Option<ContextConfig>>) -> Self {
        let config = config.into();
        self.configured(|c| c.policy.context = config)
    }

    /// The same as [`BasicAgent::with_limits`].
    #[must_use]
    fn with_execution_limits(self, limits: impl Into<Option<ExecutionLimits>>) -> Self {
        let limits = limits.into();
        self.configured(|c| c.policy.limits = limits)
    }

    /// Sets the configuration field `policy.retry`.
    #[must_use]
    fn with_retry_config(self, config: RetryConfig) -> Self {
        self.configured(|c| c.policy.retry = config)
    }

    /// Sets the configuration field `policy.tool_execution`.
    #[must_use]
    fn with_tool_execution(self, strategy: ToolExecutionStrategy) -> Self {
        self.configured(|c| c.policy.tool_execution = strategy)
    }

    /// Sets the configuration field `policy.max_concurrent_tools`.
    #[must_use]
    fn with_max_concurrent_tools(self, most: usize) -> Self {
        self.configured(|c| c.policy.max_concurrent_tools = Some(most))
    }

    /// Sets the configuration field `policy.tool_timeout`.
    #[must_use]
    fn with_tool_timeout(self, timeout: Duration) -> Self {
        self.configured(|c| c.policy.tool_timeout = Some(timeout))
    }

    /// Sets the configuration field `policy.steering_policy`.
    #[must_use]
    fn with_steering_policy(self, policy: SteeringPolicy) -> Self {
        self.configured(|c| c.policy.steering_policy = policy)
    }

    /// Sets the configuration field `policy.steering_mode`, also for the open run.
    #[must_use]
    fn with_steering_mode(self, mode: QueueMode) -> Self {
        self.configured(|c| c.policy.steering_mode = mode)
    }

    /// Sets the configuration field `policy.follow_up_mode`, also for the open run.
    #[must_use]
    fn with_follow_up_mode(self, mode: QueueMode) -> Self {
        self.configured(|c| c.policy.follow_up_mode = mode)
    }

    /// Sets the configuration field `policy.config_id`.
    #[must_use]
    fn with_config_id(self, id: impl Into<String>) -> Self {
        self.configured(|c| c.policy.config_id = Some(id.into()))
    }

    /// Switches the detection of cache breaks off, which sets `policy.watch_cache` to false.
    #[must_use]
    fn without_cache_watch(self) -> Self {
        self.configured(|c| c.policy.watch_cache = false)
    }

    /// Sets the configuration field `services.validator`.
    #[must_use]
    fn with_argument_validator(self, validator: impl ArgumentValidator + 'static) -> Self {
        self.configured(|c| c.services.validator = Arc::new(validator))
    }

    /// The same as [`BasicAgent::with_hooks`] with one input filter.
    #[must_use]
    fn with_input_filter(self, filter: impl InputFilter + 'static) -> Self {
        self.configured(|c| *c.hooks = std::mem::take(&mut *c.hooks).input_filter(filter))
    }

    /// Sets the configuration field `request.thinking_level`.
    fn set_thinking_level(&mut self, level: ThinkingLevel);
    /// Sets the configuration field `policy.steering_mode`, also for the open run.
    fn set_steering_mode(&mut self, mode: QueueMode);
    /// Sets the configuration field `policy.follow_up_mode`, also for the open run.
    fn set_follow_up_mode(&mut self, mode: QueueMode);
    /// Sets the configuration field `services.journal`.
    fn set_journal(&mut self, journal: Option<Arc<dyn Journal>>);
    /// The same as [`BasicAgent::set_model`], after the provider has checked that it can serve the model.
    ///
    /// # Errors
    /// Returns [`AgentError::Provider`] with what is missing. The agent keeps its model.
    fn switch_provider(&mut self, model: ModelConfig) -> Result<(), AgentError>;
    /// Replaces model and provider together, after the provider has checked that it can serve the model.
    ///
    /// # Errors
    /// Returns [`AgentError::Provider`] with what is missing. The agent keeps its model and provider.
    fn switch_provider_to(
        &mut self,
        provider: Arc<dyn StreamProvider>,
        model: ModelConfig,
    ) -> Result<(), AgentError>;
}

impl SeedSetters for BasicAgent {
    fn configured(self, change: impl FnOnce(&mut AgentLoopConfig)) -> Self {
        self.configure(change)
    }

    fn from_legacy(model: Option<&str>, host: Option<&str>, system_prompt: Option<&str>) -> Self {
        let mut config = model.map_or_else(ModelConfig::default, ModelConfig::ollama);
        if let Some(host) = host {
            config = config.with_base_url(host);
        }
        Self::new(config)
            .with_system_prompt(system_prompt.unwrap_or_default())
            .with_limits(ExecutionLimits::default().with_max_turns(LEGACY_TURNS))
    }

    fn with_agent_id(self, id: impl Into<AgentId>) -> Self {
        self.inner.settings().agent_id = id.into();
        self
    }

    fn set_thinking_level(&mut self, level: ThinkingLevel) {
        self.set_config(|c| c.request.thinking_level = level);
    }

    fn set_steering_mode(&mut self, mode: QueueMode) {
        self.set_config(|c| c.policy.steering_mode = mode);
    }

    fn set_follow_up_mode(&mut self, mode: QueueMode) {
        self.set_config(|c| c.policy.follow_up_mode = mode);
    }

    fn set_journal(&mut self, journal: Option<Arc<dyn Journal>>) {
        self.set_config(|c| c.services.journal = journal);
    }

    fn switch_provider(&mut self, model: ModelConfig) -> Result<(), AgentError> {
        self.config().services.provider.check(&model)?;
        self.set_model(model);
        Ok(())
    }

    fn switch_provider_to(
        &mut self,
        provider: Arc<dyn StreamProvider>,
        model: ModelConfig,
    ) -> Result<(), AgentError> {
        provider.check(&model)?;
        self.set_config(|c| {
            c.services.provider = provider;
            c.model = Arc::new(model);
        });
        Ok(())
    }
}
