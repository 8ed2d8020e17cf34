//! Tools from functions.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::schema::Arguments;
use crate::environment::BoxFuture;
use crate::tool::{AgentTool, Effects, ToolConcurrency, ToolContext, ToolError, ToolResult};

type Call = dyn Fn(&Value, ToolContext) -> BoxFuture<'static, Result<ToolResult, ToolError>> + Send + Sync;

/// A tool from an async function. Only the argument's type has to be named.
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
    O: Into<ToolResult>,
    F: Fn(A, ToolContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<O, ToolError>> + Send + 'static,
{
    let arguments = Arguments::of::<A>();
    let schema = arguments.schema();
    let call = move |value: &Value, cx: ToolContext| -> BoxFuture<'static, Result<ToolResult, ToolError>> {
        match arguments.parse::<A>(value) {
            Ok(args) => {
                let running = call(args, cx);
                Box::pin(async move { running.await.map(Into::into) })
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
    }
}

/// A tool made by [`tool_fn`].
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
}

impl FunctionTool {
    /// The same, and what a call does to the world; [`Effects::Once`] unless said otherwise.
    #[must_use]
    pub fn with_effects(mut self, effects: Effects) -> Self {
        self.effects = effects;
        self
    }

    /// The same, with the longest that one call may take.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The same, with a name for people.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// The same, never run beside another call.
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
}
