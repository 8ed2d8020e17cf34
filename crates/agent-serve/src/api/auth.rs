//! Who may call: a bearer token, its rate, and for a service without keys only programs of this machine.

use std::sync::Arc;

use axum::body::HttpBody as _;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::error::ApiError;
use super::extract::Caller;
use crate::keys::Account;
use crate::service::Service;
use crate::serving::{Seat, holding};

/// The size up to which the body of a response is not counted, in bytes. The number of requests bounds these.
const SMALL: usize = 64 << 10;

/// The routes that are answered without a key. They contain nothing about conversations.
pub(crate) const OPEN_ROUTES: &[&str] = &["/healthz", "/openapi.json"];

/// Answers a request that has a valid key and keeps its rate.
pub(crate) async fn require(State(service): State<Service>, mut request: Request, next: Next) -> Response {
    if OPEN_ROUTES.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let account = match account(&service, request.headers()) {
        Ok(account) => account,
        Err(error) => {
            service.inner.shared.metrics.refused_keys.inc();
            return error.into_response();
        }
    };
    if let Err(wait) = account.bucket.take(service.inner.shared.environment.monotonic_ms()) {
        service.inner.shared.metrics.rate_limited.inc();
        let text = "the key has made more requests than its rate allows";
        let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", text);
        return error.retry_after(wait.as_millis().div_ceil(1_000).try_into().unwrap_or(60)).into_response();
    }
    if let Some(Err(busy)) = request.extensions().get::<Seat>().map(Seat::admit) {
        return ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", busy.to_string())
            .retry_after(1)
            .into_response();
    }
    if let Err(error) = service.count_spending().await {
        return ApiError::from(error).into_response();
    }
    let bounds = &account.bounds;
    let Some(place) = bounds.requests.take() else {
        service.inner.shared.metrics.bounded.inc();
        let text = format!(
            "{} requests of the key are being answered, with its streams, and more are not allowed; wait for one to end",
            bounds.requests.most
        );
        return ApiError::over_bound("too_many_requests", text).into_response();
    };
    let reads = request.method().is_safe();
    request.extensions_mut().insert(Caller(Arc::clone(&account)));
    let response = next.run(request).await;
    let size = response.body().size_hint().exact().and_then(|size| usize::try_from(size).ok());
    let size = size.filter(|size| reads && *size > SMALL).unwrap_or_default();
    match bounds.room(size, None) {
        Some(room) => holding(response, (place, room)),
        None => {
            service.inner.shared.metrics.bounded.inc();
            no_room(&account).into_response()
        }
    }
}

/// Returns the error of a body for which the key has no room.
pub(super) fn no_room(account: &Account) -> ApiError {
    let text = format!(
        "the bodies of the key that are being received or sent would be larger than {} bytes together; wait for one to end",
        account.bounds.body_bytes()
    );
    ApiError::over_bound("too_many_bytes", text)
}

fn account(service: &Service, headers: &HeaderMap) -> Result<Arc<Account>, ApiError> {
    let accounts = &service.inner.accounts;
    if let Some(account) = accounts.open() {
        return local_only(headers).map(|()| Arc::clone(account));
    }
    // With two of them, a proxy could have checked the other one.
    let mut all = headers.get_all(header::AUTHORIZATION).iter().map(HeaderValue::as_bytes);
    let given = all.next().filter(|_| all.next().is_none());
    let token = given.and_then(|given| {
        let (scheme, token) = given.split_at_checked("Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
    });
    let account = token.and_then(|token| accounts.of_token(token));
    account.map(Arc::clone).ok_or_else(|| {
        let text = "send a valid key as Authorization: Bearer KEY";
        ApiError::new(StatusCode::UNAUTHORIZED, "invalid_api_key", text)
    })
}

/// Refuses requests that a web page of another origin makes in the user's browser, also through a name that leads here.
fn local_only(headers: &HeaderMap) -> Result<(), ApiError> {
    let refuse = |text| Err(ApiError::new(StatusCode::FORBIDDEN, "not_local", text));
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(header::HOST).unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    if !matches!(name, "localhost" | "127.0.0.1" | "::1") {
        return refuse("a service without keys is called by the name localhost");
    }
    match text(header::ORIGIN) {
        Some(origin) if origin.strip_prefix("http://") != Some(host) => {
            refuse("a service without keys answers no pages of other origins")
        }
        _ => Ok(()),
    }
}

/// Counts a request and measures it until the head of its response.
pub(crate) async fn measure(State(service): State<Service>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("unknown", MatchedPath::as_str).to_owned();
    let method = match request.method().as_str() {
        known @ ("GET" | "POST" | "PUT" | "DELETE" | "HEAD" | "OPTIONS") => known.to_owned(),
        // A client can send any number of methods.
        _ => "other".to_owned(),
    };
    let environment = &service.inner.shared.environment;
    let begun = environment.monotonic_ms();
    let response = next.run(request).await;
    let milliseconds = u32::try_from(environment.monotonic_ms().saturating_sub(begun)).unwrap_or(u32::MAX);
    let status = response.status().as_u16();
    service.inner.shared.metrics.request(&method, &route, status, f64::from(milliseconds) / 1_000.0);
    response
}
