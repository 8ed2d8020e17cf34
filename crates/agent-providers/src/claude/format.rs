//! The form that the answer must have: natively where the model's documentation says so, else by a tool whose
//! arguments are the answer.

use std::borrow::Cow;

use agent_core::{ErrorKind, ProviderError, ResponseFormat, StreamConfig};
use serde_json::{Value, json};

use crate::answer_tool;
use crate::catalogue::ModelFacts;
use crate::request::refuse;

/// How the form of the answer is demanded.
#[derive(Debug, PartialEq)]
pub(crate) enum Format<'r> {
    /// It is free.
    Free,
    /// By the protocol's own member, with this schema.
    Native(Cow<'r, Value>),
    /// By a tool that must be called.
    Tool {
        /// Its name.
        name: String,
        /// What the model is told of it.
        description: &'static str,
        /// The schema of the answer.
        schema: Cow<'r, Value>,
    },
}

/// Whether the model can be held to a schema by its provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Native {
    /// It can.
    Yes,
    /// It cannot, or nobody knows.
    No,
}

impl Native {
    /// What the catalogue says; of a model that nobody has heard of, what is likely.
    pub(crate) fn of(facts: Option<&ModelFacts>, likely: bool) -> Self {
        if facts.map_or(likely, |f| f.json_schema) { Self::Yes } else { Self::No }
    }
}

/// Chooses.
///
/// # Errors
/// When the model knows neither way.
pub(crate) fn choose<'r>(
    request: &'r StreamConfig,
    facts: Option<&ModelFacts>,
    native: Native,
) -> Result<Format<'r>, ProviderError> {
    let by_tool = |schema| Format::Tool {
        name: answer_tool::name(request),
        description: answer_tool::DESCRIPTION,
        schema,
    };
    match &request.response_format {
        ResponseFormat::JsonSchema { schema, strict, .. } if native == Native::Yes => {
            Ok(Format::Native(if *strict { Cow::Owned(closed(schema)) } else { Cow::Borrowed(schema) }))
        }
        ResponseFormat::JsonSchema { schema, .. } => Ok(by_tool(Cow::Borrowed(schema))),
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

/// The tool whose arguments are the answer, when this request has one: the decoder shows them as text.
pub(crate) fn response_tool(request: &StreamConfig, native: Native) -> Option<String> {
    let by_tool = match &request.response_format {
        ResponseFormat::JsonObject => true,
        ResponseFormat::JsonSchema { .. } => native == Native::No,
        _ => false,
    };
    by_tool.then(|| answer_tool::name(request))
}

/// The schema with every object closed: the API takes no other, and demands that it is said.
fn closed(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let mut out: serde_json::Map<String, Value> =
                members.iter().map(|(k, v)| (k.clone(), closed(v))).collect();
            let object = out.get("type").is_some_and(|t| t == "object")
                || out.get("properties").is_some_and(Value::is_object);
            if object && !out.contains_key("additionalProperties") && !members.contains_key("$ref") {
                out.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
            Value::Object(out)
        }
        Value::Array(items) => Value::Array(items.iter().map(closed).collect()),
        other => other.clone(),
    }
}
