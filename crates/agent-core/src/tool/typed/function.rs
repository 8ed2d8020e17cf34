//! Tools made from async functions.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::schema::Arguments;
use crate::environment::BoxFuture;
use crate::tool::{AgentTool, Effects, ToolCallers, ToolConcurrency, ToolContext, ToolError, ToolResult};

type Call = dyn Fn(&Value, ToolContext) -> BoxFuture<'static, Result<ToolResult, ToolError>> + Send + Sync;

/// Makes a tool from an async function.
///
/// The argument type must be named in the closure, because the schema is derived from it. The output may be any
/// [`Serialize`] value; see [`ToolResult::from_output`]. Effects, timeout, label and concurrency have the defaults of
/// [`Tool`](super::Tool) and are changed with the methods of [`FunctionTool`].
///
/// ```
/// use agent_core::{AgentTool, Effects, tool_fn};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Weather {
///     city: String,
/// }
///
/// let weather = tool_fn("weather", "Current weather in a city", |args: Weather, cx| async move {
///     cx.check_cancelled()?;
///     Ok(format!("{}: 21 °C", args.city))
/// })
/// .with_effects(Effects::ReadOnly);
/// assert_eq!(weather.name(), "weather");
/// ```
pub fn tool_fn<A, O, F, R>(name: impl Into<String>, description: impl Into<String>, call: F) -> FunctionTool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    O: Serialize + 'static,
    F: Fn(A, ToolContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<O, ToolError>> + Send + 'static,
{
    let arguments = Arguments::cached::<A>();
    let schema = arguments.schema();
    let call = move |value: &Value, cx: ToolContext| -> BoxFuture<'static, Result<ToolResult, ToolError>> {
        match arguments.parse::<A>(value) {
            Ok(args) => {
                let running = call(args, cx);
                Box::pin(async move { ToolResult::from_output(running.await?) })
            }
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    };
    FunctionTool {
        name: name.into(),
        label: None,
        description: description.into(),
        schema,
        call: Arc::new(call),
        effects: Effects::Once,
        timeout: None,
        concurrency: ToolConcurrency::Parallel,
        callers: ToolCallers::Model,
    }
}

/// A tool that calls an async function, made by [`tool_fn`].
#[derive(Clone)]
pub struct FunctionTool {
    name: String,
    label: Option<String>,
    description: String,
    schema: Value,
    call: Arc<Call>,
    effects: Effects,
    timeout: Option<Duration>,
    concurrency: ToolConcurrency,
    callers: ToolCallers,
}

impl FunctionTool {
    /// Sets the side effects of every call. The default is [`Effects::Once`].
    #[must_use]
    pub fn with_effects(mut self, effects: Effects) -> Self {
        self.effects = effects;
        self
    }

    /// Sets the maximum duration of one call, which overrides the limit of the agent.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets who may call the tool. The default is [`ToolCallers::Model`].
    #[must_use]
    pub fn with_callers(mut self, callers: ToolCallers) -> Self {
        self.callers = callers;
        self
    }

    /// Sets the name that is displayed to users. The default is the name of the tool.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Runs all calls of a reply one after the other if this tool is among them.
    #[must_use]
    pub fn sequential(mut self) -> Self {
        self.concurrency = ToolConcurrency::Sequential;
        self
    }
}

impl fmt::Debug for FunctionTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionTool")
            .field("name", &self.name)
            .field("effects", &self.effects)
            .field("timeout", &self.timeout)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl AgentTool for FunctionTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn label(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.name)
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn parameters_schema(&self) -> Value {
        self.schema.clone()
    }

    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        (self.call)(&arguments, ctx).await
    }

    fn effects(&self, _arguments: &Value) -> Effects {
        self.effects
    }

    fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    fn concurrency(&self) -> ToolConcurrency {
        self.concurrency
    }

    fn callers(&self) -> ToolCallers {
        self.callers
    }
}
