//! Questions of a server to the user, in the middle of a call.
//!
//! Such a question cannot end the run as data, since the server waits for the answer with the call open; it goes to a
//! handler of the caller's, which may show a form, ask an approval service, or answer by a rule. [`Questions`](super::Questions)
//! is a handler that keeps them as a list, as data. While a question is open the call's time does not run out.

use std::fmt;
use std::sync::Arc;

use agent_core::{ArgumentErrors, ArgumentValidator as _, BoxFuture, SchemaValidator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A question of a server.
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

/// A request of a server to the user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ElicitationForm {
    /// Values that fit this JSON schema: an object of strings, numbers, booleans and choices.
    Fields {
        /// The schema of the answer.
        schema: Value,
    },
    /// A visit to this page, for what must not go through the agent: passwords, payments.
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
    /// Yes, with these values. Fields that are missing get the schema's defaults. `{}` for a page.
    Accept(Value),
    /// The user declined the request.
    Decline,
    /// The question was closed without an answer.
    Cancel,
}

/// Answers questions of servers.
pub type ElicitationHandler = Arc<dyn Fn(Elicitation) -> BoxFuture<'static, ElicitationAnswer> + Send + Sync>;

/// Accepts every form with the defaults that its schema names, and declines pages. For unattended runs.
///
/// A form that wants a field without a default is declined.
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

/// Values that do not fit the form.
#[derive(Debug)]
pub(super) struct Misfit(ArgumentErrors);

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the answer does not fit the form.\n{}", self.0)
    }
}

/// The values with the defaults of missing fields, checked against the schema.
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
