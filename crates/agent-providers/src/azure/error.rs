//! Errors of Azure: those of OpenAI and those of the service in front of it.

#[cfg(test)]
mod tests;

use agent_core::{ErrorKind, ModelRequest, ProviderError};
use serde_json::Value;

use crate::protocol::Rejection;
use crate::rejection;

/// Parses an error response. The text names the content filters that rejected the request, and lists possible causes if
/// the address was not found.
pub(super) fn rejected(request: &ModelRequest, rejection: &Rejection<'_>) -> ProviderError {
    let error = rejection::read(request, rejection);
    let body: Value = serde_json::from_slice(rejection.body).unwrap_or_default();
    let filters = filters(&body);
    let model = &request.model;
    let kind = error.kind();
    error.map_context(|context| {
        if !filters.is_empty() {
            context.message.push_str(" (filtered: ");
            context.message.push_str(&filters.join(", "));
            context.message.push(')');
        }
        if kind == ErrorKind::ModelNotFound {
            context.advice = Some(format!(
                "check that the resource has a deployment named {:?}, and that base_url and its api-version are right",
                model.id
            ));
        }
    })
}

/// Returns the names of the filters that rejected the request, each with the severity.
fn filters(body: &Value) -> Vec<String> {
    let inner = body.pointer("/error/innererror");
    let result =
        inner.and_then(|i| i.get("content_filter_result").or_else(|| i.get("content_filter_results")));
    let hit = |(name, found): (&String, &Value)| {
        let is = |key: &str| found.get(key).is_some_and(|v| v == &Value::Bool(true));
        let severity = found.get("severity").and_then(Value::as_str).map(|s| format!(" {s}"));
        (is("filtered") || is("detected")).then(|| format!("{name}{}", severity.unwrap_or_default()))
    };
    result.and_then(Value::as_object).into_iter().flatten().filter_map(hit).collect()
}
