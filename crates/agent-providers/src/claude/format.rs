//! The format of a reply: enforced by the API if the model supports it, otherwise through a tool whose arguments are
//! the reply.

use std::borrow::Cow;

use agent_core::{ErrorKind, ModelRequest, ProviderError, ResponseFormat};
use serde_json::{Value, json};

use super::schema;
use crate::answer_format;
use crate::catalogue::ModelFacts;
use crate::request::refuse;

/// How a request demands the format of the reply.
#[derive(Debug, PartialEq)]
pub(crate) enum Format<'r> {
    /// No format is required.
    Free,
    /// The member of the protocol, with this schema.
    Native(Value),
    /// A tool that must be called.
    Tool {
        /// The name of the tool.
        name: String,
        /// The description that the model receives.
        description: &'static str,
        /// The schema of the answer.
        schema: Cow<'r, Value>,
    },
}

/// Whether the provider can enforce a schema for the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Native {
    /// The provider enforces the schema.
    Yes,
    /// The provider does not enforce schemas, or this is unknown.
    No,
}

impl Native {
    /// Returns the catalogue's value, or `likely` for a model that the catalogue lacks.
    pub(crate) fn of(facts: Option<&ModelFacts>, likely: bool) -> Self {
        if facts.and_then(|f| f.json_schema).unwrap_or(likely) { Self::Yes } else { Self::No }
    }
}

/// Selects how the format is demanded.
///
/// # Errors
/// Returns an error if the model supports neither way.
pub(crate) fn choose<'r>(
    request: &'r ModelRequest,
    facts: Option<&ModelFacts>,
    native: Native,
) -> Result<Format<'r>, ProviderError> {
    let by_tool = |schema| Format::Tool {
        name: answer_format::tool_name(request),
        description: answer_format::TOOL_DESCRIPTION,
        schema,
    };
    match &request.options.response_format {
        ResponseFormat::JsonSchema { schema, .. } => match held_to(schema, native) {
            Some(grammar) => Ok(Format::Native(grammar)),
            None if native == Native::Yes && facts.is_some_and(|f| !f.forced_tools) => {
                let message = "this model cannot be held to a schema with open parts";
                let advice = "close its objects, say the type of every value, and let no type hold itself";
                Err(refuse(&request.model, ErrorKind::Other, message, advice))
            }
            None => Ok(by_tool(Cow::Borrowed(schema))),
        },
        ResponseFormat::JsonObject if facts.is_some_and(|f| !f.forced_tools) => {
            let message = "this model takes no demand for JSON without a schema";
            Err(refuse(
                &request.model,
                ErrorKind::Other,
                message,
                "give a schema: ResponseFormat::JsonSchema",
            ))
        }
        ResponseFormat::JsonObject => Ok(by_tool(Cow::Owned(json!({"type": "object"})))),
        _ => Ok(Format::Free),
    }
}

/// Returns the name of the tool whose arguments are the answer, if this request has one. The decoder emits them as
/// text.
pub(crate) fn response_tool(request: &ModelRequest, native: Native) -> Option<String> {
    let by_tool = match &request.options.response_format {
        ResponseFormat::JsonObject => true,
        ResponseFormat::JsonSchema { schema, .. } => held_to(schema, native).is_none(),
        _ => false,
    };
    by_tool.then(|| answer_format::tool_name(request))
}

/// Returns the schema that the provider enforces for the answer, if it can.
fn held_to(schema: &Value, native: Native) -> Option<Value> {
    (native == Native::Yes).then(|| schema::grammar(schema)).flatten()
}
