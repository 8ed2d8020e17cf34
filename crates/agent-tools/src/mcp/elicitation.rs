//! Elicitation: questions of a server to the user during a call.
//!
//! The server waits for the answer while the call is open, so such a question cannot suspend the run. It is passed to a
//! handler of the caller, which may show a form, use an approval service, or answer by a rule.
//! [`Questions`](super::Questions) is a handler that collects the questions in a list. While a question is open, the
//! call does not time out.

use std::fmt;
use std::sync::Arc;

use agent_core::{ArgumentErrors, ArgumentValidator as _, BoxFuture, SchemaValidator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A question of a server to the user, with the form of the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Elicitation {
    /// The server that asks.
    pub server: String,
    /// The message for the user.
    pub message: String,
    /// The form to fill in.
    pub form: ElicitationForm,
}

/// The kind of answer that a server requests from the user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ElicitationForm {
    /// Values that conform to a JSON schema: an object of strings, numbers, booleans and choices.
    Fields {
        /// The schema of the answer.
        schema: Value,
    },
    /// A visit to a web page, for data that must not pass through the agent, such as passwords and payments.
    Page {
        /// The address of the page.
        url: String,
    },
}

/// The answer of the user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", content = "content", rename_all = "camelCase")]
#[non_exhaustive]
pub enum ElicitationAnswer {
    /// The user accepted, with these values. Missing fields get the defaults of the schema. The value for a page is
    /// `{}`.
    Accept(Value),
    /// The user declined the request.
    Decline,
    /// The question was closed without an answer.
    Cancel,
}

/// A function that answers the questions of servers.
pub type ElicitationHandler = Arc<dyn Fn(Elicitation) -> BoxFuture<'static, ElicitationAnswer> + Send + Sync>;

/// Returns a handler for unattended runs, which accepts every form with the defaults of its schema and declines pages.
///
/// A form with a required field that has no default is declined.
#[must_use]
pub fn accept_defaults() -> ElicitationHandler {
    Arc::new(|asked: Elicitation| {
        let answer = match asked.form {
            ElicitationForm::Fields { schema } => match completed(&schema, Value::Object(Map::new())) {
                Ok(values) => ElicitationAnswer::Accept(values),
                Err(_) => ElicitationAnswer::Decline,
            },
            ElicitationForm::Page { .. } => ElicitationAnswer::Decline,
        };
        Box::pin(std::future::ready(answer))
    })
}

/// The error of values that do not conform to the form.
#[derive(Debug)]
pub(super) struct Misfit(ArgumentErrors);

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the answer does not fit the form.\n{}", self.0)
    }
}

/// Returns the values with the defaults of missing fields, validated against the schema.
pub(super) fn completed(schema: &Value, mut values: Value) -> Result<Value, Misfit> {
    if let (Some(fields), Some(values)) =
        (schema.get("properties").and_then(Value::as_object), values.as_object_mut())
    {
        for (name, field) in fields {
            if let Some(default) = field.get("default")
                && values.get(name).is_none_or(Value::is_null)
            {
                values.insert(name.clone(), default.clone());
            }
        }
    }
    SchemaValidator.validate(schema, values).map_err(Misfit)
}
