//! Extractors whose rejections are errors of the service.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;

use super::auth::no_room;
use super::error::ApiError;
use crate::conversation::requests::{MAX_KEY, RequestId};
use crate::keys::Account;
use crate::service::Service;

/// The account of the key of the request.
#[derive(Debug, Clone)]
pub(crate) struct Caller(pub(crate) Arc<Account>);

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        caller(&parts.extensions)
    }
}

fn caller(extensions: &Extensions) -> Result<Caller, ApiError> {
    let caller = extensions.get::<Caller>().cloned();
    caller.ok_or_else(|| ApiError::internal(&"a route was called without its authentication"))
}

/// A JSON body, and the id of its request if that has an idempotency key.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T, pub(crate) Option<RequestId>);

/// The id of a request without a body, if it has an idempotency key.
#[derive(Debug)]
pub(crate) struct Keyed(pub(crate) Option<RequestId>);

/// The size up to which a body is parsed on an async thread, in bytes.
const SMALL: usize = 64 << 10;

impl<T: DeserializeOwned + Send + 'static> FromRequest<Service> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, service: &Service) -> Result<Self, ApiError> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let essence = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
        if essence.as_deref() != Some("application/json") {
            let text = "send the body as JSON with Content-Type: application/json";
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", text));
        }
        let key = idempotency_key(request.headers())?;
        let path = request.uri().path().to_owned();
        let limit = service.inner.shared.limits.body_bytes;
        let Caller(account) = caller(request.extensions())?;
        let body = read(request, service, limit).await?;
        let is_small = body.bytes.len() <= SMALL;
        let parse = move || {
            let id = key.and_then(|key| RequestId::new(key.as_bytes(), &path, &body.bytes));
            serde_json::from_slice(&body.bytes).map(|value| Self(value, id))
        };
        let parsed = if is_small {
            parse()
        } else {
            let parse = tokio::task::spawn_blocking(parse);
            service.read(&account, parse).await?.map_err(|error| ApiError::internal(&error))?
        };
        parsed.map_err(|error| {
            ApiError::bad_request(format!("the body is not what the route expects: {error}"))
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Keyed {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let key = idempotency_key(&parts.headers)?;
        Ok(Self(key.and_then(|key| RequestId::new(key.as_bytes(), parts.uri.path(), &[]))))
    }
}

/// Returns the idempotency key of a request.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<HeaderValue>, ApiError> {
    let mut all = headers.get_all("idempotency-key").iter();
    match (all.next(), all.next()) {
        (None, _) => Ok(None),
        (Some(key), None) if RequestId::new(key.as_bytes(), "", &[]).is_some() => Ok(Some(key.clone())),
        _ => {
            let text = format!(
                "an Idempotency-Key is one header with 1 to {MAX_KEY} printable characters of ASCII without blanks"
            );
            Err(ApiError::bad_request(text).at("Idempotency-Key"))
        }
    }
}

/// A body that was received. The key has less room for others until it is dropped.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) bytes: Vec<u8>,
    room: Option<OwnedSemaphorePermit>,
}

/// Reads a body within the limits of size and time, and within the room that the key has for bodies.
pub(crate) async fn read(request: Request, service: &Service, limit: usize) -> Result<Received, ApiError> {
    let time = service.inner.shared.limits.body_time;
    match tokio::time::timeout(time, receive(request, limit)).await {
        Ok(received) => received,
        Err(_) => {
            let text = format!("the body took longer than {} s to arrive", time.as_secs());
            Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "too_slow", text))
        }
    }
}

async fn receive(request: Request, limit: usize) -> Result<Received, ApiError> {
    let Caller(account) = caller(request.extensions())?;
    let too_large = || {
        let text = format!("the body is larger than {limit} bytes");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", text)
    };
    let mut received = Received { bytes: Vec::new(), room: None };
    let mut pieces = request.into_body().into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| ApiError::bad_request("the body broke off"))?;
        let size = received.bytes.len().saturating_add(piece.len());
        if size > limit {
            return Err(too_large());
        }
        let room = account.bounds.room(size, received.room.take());
        received.room = Some(room.ok_or_else(|| no_room(&account))?);
        received.bytes.extend_from_slice(&piece);
    }
    Ok(received)
}

/// The query of a request.
#[derive(Debug)]
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(params)) => Ok(Self(params)),
            Err(error) => Err(ApiError::bad_request(error.body_text())),
        }
    }
}

/// The parameters in the path of a request.
#[derive(Debug)]
pub(crate) struct InPath<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for InPath<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(value)) => Ok(Self(value)),
            Err(error) => Err(ApiError::bad_request(error.body_text())),
        }
    }
}
