//! The form that the answer must have: natively where the model's documentation says so, else by a tool whose
//! arguments are the answer.

use std::borrow::Cow;

use agent_core::{ErrorKind, ProviderError, ResponseFormat, StreamConfig};
use serde_json::{Value, json};

use crate::answer_tool;
use crate::anthropic::config::{is_vendor, refuse};
use crate::catalogue::{self, ModelFacts};

/// How the form of the answer is demanded.
#[derive(Debug, PartialEq)]
pub(super) enum Format<'r> {
    /// It is free.
    Free,
    /// By `output_config.format`, with this schema.
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

/// Chooses.
///
/// # Errors
/// When the model knows neither way.
pub(super) fn choose<'r>(
    request: &'r StreamConfig,
    facts: Option<&ModelFacts>,
) -> Result<Format<'r>, ProviderError> {
    let by_tool = |schema| Format::Tool {
        name: answer_tool::name(request),
        description: answer_tool::DESCRIPTION,
        schema,
    };
    match &request.response_format {
        ResponseFormat::JsonSchema { schema, strict, .. } if is_native(request, facts) => {
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
pub(in crate::anthropic) fn response_tool(request: &StreamConfig) -> Option<String> {
    let by_tool = match &request.response_format {
        ResponseFormat::JsonObject => true,
        ResponseFormat::JsonSchema { .. } => {
            !is_native(request, catalogue::find(&request.model.provider, &request.model.id))
        }
        _ => false,
    };
    by_tool.then(|| answer_tool::name(request))
}

/// A model that nobody has heard of is likely a new one, and new models of the vendor do it natively.
fn is_native(request: &StreamConfig, facts: Option<&ModelFacts>) -> bool {
    facts.map_or_else(|| is_vendor(&request.model), |f| f.json_schema)
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
