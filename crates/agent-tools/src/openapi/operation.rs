//! An operation: its description for the model and the encoding of its calls.

use agent_core::Effects;
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::body::{self, Body};
use super::credentials::Placed;
use super::parameter::{Described, Parameter};
use super::path::Template;
use super::schema::Inliner;
use super::server::Base;

/// An operation of an API.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) id: String,
    pub(super) method: Method,
    /// The path template of the description.
    pub(super) path: String,
    pub(super) label: String,
    pub(super) description: String,
    pub(super) schema: Value,
    pub(super) base: Base,
    pub(super) template: Template,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<Body>,
    /// The value of `Accept`.
    pub(super) accept: String,
    pub(super) credentials: Vec<Placed>,
}

impl Operation {
    /// Returns the side effects of a call, which follow from the HTTP method.
    pub(super) fn effects(&self) -> Effects {
        match self.method {
            Method::GET | Method::HEAD | Method::OPTIONS => Effects::ReadOnly,
            Method::PUT | Method::DELETE => Effects::Idempotent,
            _ => Effects::Once,
        }
    }
}

/// Returns the schema of the arguments: an object with a member for each parameter and one for the body.
pub(super) fn schema(
    parameters: &[Described<'_>],
    body: Option<&body::Described<'_>>,
    inliner: &mut Inliner<'_>,
) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for described in parameters {
        let parameter = &described.parameter;
        let mut schema = match described.schema {
            Some(schema) => inliner.inline(schema),
            None => json!({"type": "string"}),
        };
        if let Some(schema) = schema.as_object_mut()
            && let Some(text) = inliner.measure.description(described.description.as_deref())
        {
            schema.insert("description".to_owned(), text);
        }
        if parameter.required {
            required.push(Value::String(parameter.property.clone()));
        }
        properties.insert(parameter.property.clone(), schema);
    }
    if let Some(described) = body {
        if described.body.required {
            required.push(Value::String(described.body.property.clone()));
        }
        properties.insert(described.body.property.clone(), body::schema(described, inliner));
    }
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty()
        && let Some(schema) = schema.as_object_mut()
    {
        schema.insert("required".to_owned(), Value::Array(required));
    }
    schema
}
