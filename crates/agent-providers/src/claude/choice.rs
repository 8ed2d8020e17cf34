//! Tool choice: which tools a model must, may or must not call.

use agent_core::{ErrorKind, ModelRequest, ProviderError, ToolChoice};

use super::format;
use crate::catalogue::ModelFacts;
use crate::request::refuse;
use crate::server_tools::has_tools;

/// Which tools the model must, may or must not call.
#[derive(Debug, PartialEq)]
pub(crate) enum Choice<'r> {
    /// The model decides.
    Auto,
    /// The model must not call a tool.
    Never,
    /// The model must call at least one tool.
    Any,
    /// The model must call this tool.
    Tool(&'r str),
}

impl Choice<'_> {
    /// Returns whether a call is required, which the API does not combine with thinking.
    pub(crate) fn is_forced(&self) -> bool {
        matches!(self, Self::Any | Self::Tool(_))
    }
}

/// Returns the tool choice of the request: the caller's choice, or the demand for the tool that carries the answer.
///
/// # Errors
/// Returns an error if a call is required but impossible.
pub(crate) fn choose<'r>(
    request: &'r ModelRequest,
    format: &'r format::Format<'r>,
    facts: Option<&ModelFacts>,
) -> Result<Choice<'r>, ProviderError> {
    let none = !has_tools(request);
    let choice = match (&request.options.tool_choice, format) {
        (ToolChoice::Tool(name), _) if !none => Choice::Tool(name),
        (ToolChoice::Auto | ToolChoice::Required, format::Format::Tool { .. }) if !none => Choice::Any,
        (_, format::Format::Tool { name, .. }) => Choice::Tool(name),
        (ToolChoice::Required, _) if !none => Choice::Any,
        (ToolChoice::None, _) if !none => Choice::Never,
        (ToolChoice::Required | ToolChoice::Tool(_), _) => {
            let message = "the request demands a tool call and names no tools";
            let advice = "give it tools, or leave the choice to the model";
            return Err(refuse(&request.model, ErrorKind::Other, message, advice));
        }
        _ => Choice::Auto,
    };
    if choice.is_forced() && facts.is_some_and(|f| !f.forced_tools) {
        let message = "this model does not take a demand for a tool call";
        let advice = "leave the choice to the model and say in the prompt which tool to call";
        return Err(refuse(&request.model, ErrorKind::Other, message, advice));
    }
    Ok(choice)
}
