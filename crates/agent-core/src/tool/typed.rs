//! Typed tools: the argument type gives the schema, and a call receives parsed arguments.

mod function;
mod schema;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use function::{FunctionTool, tool_fn};
pub use schema::argument_schema;
pub(crate) use schema::plain_schema;

use super::{
    AgentTool, Confinement, Effects, ToolCallers, ToolConcurrency, ToolContext, ToolError, ToolResult,
};
use schema::Arguments;

/// A tool with typed arguments and a serializable output.
///
/// Every `Tool` is an [`AgentTool`], so it can be passed wherever one is accepted. The JSON schema that the model
/// receives is derived from [`Args`](Self::Args) once per type and cached for the life of the process.
///
/// Implement [`AgentTool`] instead if the name or the schema is only known at run time, or use [`tool_fn`] for a tool
/// that is one async function.
///
/// ```
/// use agent_core::{AgentTool, Effects, Tool, ToolContext, ToolError};
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// struct Weather;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Place {
///     /// The city, with its country if the name is ambiguous.
///     city: String,
/// }
///
/// #[derive(Serialize)]
/// struct Forecast {
///     city: String,
///     celsius: i32,
/// }
///
/// impl Tool for Weather {
///     const NAME: &'static str = "weather";
///     type Args = Place;
///     type Output = Forecast;
///
///     fn description(&self) -> &str {
///         "Current weather in a city"
///     }
///
///     fn effects(&self, _: &Place) -> Effects {
///         Effects::ReadOnly
///     }
///
///     async fn call(&self, place: Place, _: &ToolContext) -> Result<Forecast, ToolError> {
///         let celsius = "21".parse()?;
///         Ok(Forecast { city: place.city, celsius })
///     }
/// }
///
/// let tool: &dyn AgentTool = &Weather;
/// assert_eq!(tool.parameters_schema()["required"][0], "city");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    label = "neither `Tool` nor `AgentTool` is implemented for `{Self}`",
    note = "implement `Tool` for it (typed arguments) or `AgentTool` (arguments as JSON)",
    note = "to make a tool from an async function, use `tool_fn(name, description, |args: Args, cx| async move {{ .. }})`"
)]
pub trait Tool: Send + Sync + Sized + 'static {
    /// The name by which the model calls the tool: 1 to 64 ASCII letters, digits, `_` and `-`.
    const NAME: &'static str;

    /// The arguments, usually a struct. The model reads its field names and their doc comments in the schema.
    type Args: DeserializeOwned + JsonSchema + Send + 'static;

    /// The result, converted by [`ToolResult::from_output`]: a `String` or `&'static str` becomes plain text, a
    /// [`ToolResult`] is used as it is, and any other value becomes JSON.
    type Output: Serialize + 'static;

    /// Returns what the tool does and when to use it, for the model.
    fn description(&self) -> &str;

    /// Executes one call. Implementations usually write it as `async fn`.
    ///
    /// # Errors
    /// Returns the reason why the call failed. The model receives its text as the result of the call. `?` converts any
    /// [`std::error::Error`]; [`ToolError::failed`] makes an error from a text.
    fn call(
        &self,
        args: Self::Args,
        cx: &ToolContext,
    ) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;

    /// Returns the JSON schema of the arguments. Defaults to the one that is derived from [`Args`](Self::Args); override
    /// it to add what is only known at run time, for example the limits that the tool was configured with.
    fn parameters_schema(&self) -> Value {
        Arguments::cached::<Self::Args>().schema()
    }

    /// Returns the name that is displayed to users. Defaults to [`NAME`](Self::NAME).
    fn label(&self) -> &str {
        Self::NAME
    }

    /// Returns the side effects of a call with these arguments, which decide whether an interrupted call may run again.
    /// Defaults to [`Effects::Once`].
    fn effects(&self, args: &Self::Args) -> Effects {
        let _ = args;
        Effects::Once
    }

    /// Returns the question that the user must answer before this call runs, or `None` (the default) to run without
    /// approval.
    fn question(&self, args: &Self::Args) -> Option<String> {
        let _ = args;
        None
    }

    /// Returns the folder in which calls run, for an approver. `None`, the default, if the tool has none.
    fn working_directory(&self) -> Option<PathBuf> {
        None
    }

    /// Returns the arguments with every path resolved. `None`, the default, if no argument is a path. See
    /// [`AgentTool::resolved_arguments`].
    fn resolved_arguments(&self, arguments: &Value) -> Option<Value> {
        let _ = arguments;
        None
    }

    /// Returns the restriction that the tools of a sub-agent inherit. See [`AgentTool::confinement`].
    fn confinement(&self) -> Option<Confinement> {
        None
    }

    /// Returns this tool under the restrictions of a calling agent. See [`AgentTool::confined`].
    fn confined(&self, by: &[Confinement]) -> Option<Arc<dyn AgentTool>> {
        let _ = by;
        None
    }

    /// Returns the maximum duration of one call. Overrides the agent's limit; `None` (the default) keeps it.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Returns whether the calls of one reply may run concurrently if this tool is among them. Defaults to
    /// [`ToolConcurrency::Parallel`].
    fn concurrency(&self) -> ToolConcurrency {
        ToolConcurrency::Parallel
    }

    /// Returns who may call the tool: the model (the default), code that the vendor runs, or both.
    fn callers(&self) -> ToolCallers {
        ToolCallers::Model
    }

    /// Rewrites the arguments that the model sent before they are checked against the schema, for example to accept
    /// an older name of a field. Returns them unchanged by default.
    fn prepare_arguments(&self, arguments: Value) -> Value {
        arguments
    }
}

#[async_trait]
impl<T: Tool> AgentTool for T {
    fn name(&self) -> &str {
        T::NAME
    }

    fn label(&self) -> &str {
        Tool::label(self)
    }

    fn description(&self) -> &str {
        Tool::description(self)
    }

    fn parameters_schema(&self) -> Value {
        Tool::parameters_schema(self)
    }

    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        let args = Arguments::cached::<T::Args>().parse(&arguments)?;
        ToolResult::from_output(self.call(args, &ctx).await?)
    }

    /// Returns [`Effects::Once`] for arguments that do not parse.
    fn effects(&self, arguments: &Value) -> Effects {
        let args = Arguments::cached::<T::Args>().parse(arguments);
        args.map_or(Effects::Once, |args| Tool::effects(self, &args))
    }

    fn question(&self, arguments: &Value) -> Option<String> {
        let args = Arguments::cached::<T::Args>().parse(arguments).ok()?;
        Tool::question(self, &args)
    }

    fn working_directory(&self) -> Option<PathBuf> {
        Tool::working_directory(self)
    }

    fn resolved_arguments(&self, arguments: &Value) -> Option<Value> {
        Tool::resolved_arguments(self, arguments)
    }

    fn confinement(&self) -> Option<Confinement> {
        Tool::confinement(self)
    }

    fn confined(&self, by: &[Confinement]) -> Option<Arc<dyn AgentTool>> {
        Tool::confined(self, by)
    }

    fn timeout(&self) -> Option<Duration> {
        Tool::timeout(self)
    }

    fn concurrency(&self) -> ToolConcurrency {
        Tool::concurrency(self)
    }

    fn callers(&self) -> ToolCallers {
        Tool::callers(self)
    }

    fn prepare_arguments(&self, arguments: Value) -> Value {
        Tool::prepare_arguments(self, arguments)
    }
}
