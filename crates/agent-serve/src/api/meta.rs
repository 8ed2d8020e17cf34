//! Routes about the service itself: health, figures, the budget of a key, and the view of a session.

use agent_core::SessionId;
use agent_view::Page;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::error::ApiError;
use super::extract::{Caller, InPath};
use crate::service::Service;

/// The policy of the page of a session: it loads nothing and connects to nothing.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; \
                           font-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; sandbox allow-scripts";

/// Whether the service answers.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Health {
    /// `ok`, or `closing` while the service shuts down
    status: &'static str,
}

pub(super) async fn health(State(service): State<Service>) -> (StatusCode, Json<Health>) {
    match service.inner.closing.is_cancelled() {
        false => (StatusCode::OK, Json(Health { status: "ok" })),
        true => (StatusCode::SERVICE_UNAVAILABLE, Json(Health { status: "closing" })),
    }
}

pub(super) async fn metrics(State(service): State<Service>) -> Response {
    let mut response = service.inner.shared.metrics.text().into_response();
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// What a key has spent, and what is left of its budget.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct KeyUsage {
    /// The name of the key
    key: String,
    /// Tokens, money in millionths, and calls
    spent: Value,
    /// What is left of the limits that the key has
    left: Value,
}

pub(super) async fn usage(
    State(service): State<Service>,
    Caller(account): Caller,
) -> Result<Json<KeyUsage>, ApiError> {
    let now = service.inner.shared.environment.now();
    let as_json = |value: serde_json::Result<Value>| value.map_err(|error| ApiError::internal(&error));
    Ok(Json(KeyUsage {
        key: account.name.to_string(),
        spent: as_json(serde_json::to_value(account.budget.spent_at(now)))?,
        left: as_json(serde_json::to_value(account.budget.left_at(now)))?,
    }))
}

/// The session of a conversation as one page for people.
pub(super) async fn view(
    State(service): State<Service>,
    Caller(account): Caller,
    InPath(id): InPath<String>,
) -> Result<Response, ApiError> {
    let session = service.session(&account, &SessionId::from(id)).await?;
    let page = tokio::task::spawn_blocking(move || Page::new(&session).render());
    let page = service.read(&account, page).await?.map_err(|error| ApiError::internal(&error))?;
    let mut response = Html(page).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}
