//! Tools from Rust types: the schema comes from the argument type, the arguments arrive parsed.

mod function;
mod schema;

#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use function::{FunctionTool, tool_fn};
pub use schema::argument_schema;
pub(crate) use schema::plain_schema;

use super::{AgentTool, Effects, ToolConcurrency, ToolContext, ToolError, ToolResult};
use schema::Arguments;

/// A tool with typed arguments. [`into_tool`](Self::into_tool) gives the form that an agent takes.
///
/// ```
/// use agent_core::{AgentTool, Effects, Tool, ToolContext, ToolError};
/// use schemars::JsonSchema;
/// use serde::Deserialize;
///
/// struct Weather;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Place {
///     /// The city, with its country where it is not unique.
///     city: String,
/// }
///
/// impl Tool for Weather {
///     const NAME: &'static str = "weather";
///     type Args = Place;
///     type Output = String;
///
///     fn description(&self) -> &str {
///         "Current weather in a city"
///     }
///
///     fn effects(&self, _: &Place) -> Effects {
///         Effects::ReadOnly
///     }
///
///     async fn call(&self, place: Place, _: &ToolContext) -> Result<String, ToolError> {
///         Ok(format!("{}: 21 °C", place.city))
///     }
/// }
///
/// let tool = Weather.into_tool();
/// assert_eq!(tool.parameters_schema()["required"][0], "city");
/// ```
pub trait Tool: Send + Sync + Sized + 'static {
    /// The name that the model calls it by: letters, digits, `_` and `-`, at most 64.
    const NAME: &'static str;

    /// What it is called with; a struct, as a rule.
    type Args: DeserializeOwned + JsonSchema + Send + 'static;

    /// What it gives back: a text, a JSON value, content blocks or a whole [`ToolResult`].
    type Output: Into<ToolResult>;

    /// What it does, for the model.
    fn description(&self) -> &str;

    /// Runs it. Can be written as `async fn`.
    ///
    /// # Errors
    /// What went wrong; the model is told.
    fn call(
        &self,
        args: Self::Args,
        cx: &ToolContext,
    ) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;

    /// A name for people.
    fn label(&self) -> &str {
        Self::NAME
    }

    /// What a call with these arguments does to the world (X6). In doubt: [`Effects::Once`].
    fn effects(&self, args: &Self::Args) -> Effects {
        let _ = args;
        Effects::Once
    }

    /// Whether a person must be asked before this call, and what (X5).
    fn question(&self, args: &Self::Args) -> Option<String> {
        let _ = args;
        None
    }

    /// The longest that one call may take; wins over the agent's own limit.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Whether calls of a reply that holds this tool may run beside each other (B-099).
    fn concurrency(&self) -> ToolConcurrency {
        ToolConcurrency::Parallel
    }

    /// Puts arguments of an older or sloppier form right before they are checked (B-089).
    fn prepare_arguments(&self, arguments: Value) -> Value {
        arguments
    }

    /// The form that an agent takes.
    fn into_tool(self) -> TypedTool<Self> {
        TypedTool { tool: self, arguments: Arguments::of::<Self::Args>() }
    }
}

/// A [`Tool`] as the loop sees it.
pub struct TypedTool<T> {
    tool: T,
    arguments: Arguments,
}

impl<T: Tool> From<T> for TypedTool<T> {
    fn from(tool: T) -> Self {
        tool.into_tool()
    }
}

impl<T: Tool> fmt::Debug for TypedTool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedTool").field(&T::NAME).finish()
    }
}

#[async_trait]
impl<T: Tool> AgentTool for TypedTool<T> {
    fn name(&self) -> &str {
        T::NAME
    }

    fn label(&self) -> &str {
        self.tool.label()
    }

    fn description(&self) -> &str {
        self.tool.description()
    }

    fn parameters_schema(&self) -> Value {
        self.arguments.schema()
    }

    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        let args = self.arguments.parse(&arguments)?;
        self.tool.call(args, &ctx).await.map(Into::into)
    }

    /// Of arguments that do not parse nothing is known: [`Effects::Once`].
    fn effects(&self, arguments: &Value) -> Effects {
        self.arguments.parse(arguments).map_or(Effects::Once, |args| self.tool.effects(&args))
    }

    fn question(&self, arguments: &Value) -> Option<String> {
        self.arguments.parse(arguments).ok().and_then(|args| self.tool.question(&args))
    }

    fn timeout(&self) -> Option<Duration> {
        self.tool.timeout()
    }

    fn concurrency(&self) -> ToolConcurrency {
        self.tool.concurrency()
    }

    fn prepare_arguments(&self, arguments: Value) -> Value {
        self.tool.prepare_arguments(arguments)
    }
}
