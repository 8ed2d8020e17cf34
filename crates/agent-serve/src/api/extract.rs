//! Extractors whose rejections are errors of the service.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::error::ApiError;
use crate::keys::Account;
use crate::service::Service;

/// The account of the key of the request.
#[derive(Debug, Clone)]
pub(crate) struct Caller(pub(crate) Arc<Account>);

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| ApiError::internal(&"a route was called without its authentication"))
    }
}

/// A JSON body.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Service> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, service: &Service) -> Result<Self, ApiError> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let essence = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
        if essence.as_deref() != Some("application/json") {
            let text = "send the body as JSON with Content-Type: application/json";
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", text));
        }
        let limit = service.inner.shared.limits.body_bytes;
        let body = read(request, service, limit).await?;
        let value = serde_json::from_slice(&body).map_err(|error| {
            ApiError::bad_request(format!("the body is not what the route expects: {error}"))
        })?;
        Ok(Self(value))
    }
}

/// Reads a body within the limits of size and time.
pub(crate) async fn read(request: Request, service: &Service, limit: usize) -> Result<Bytes, ApiError> {
    let time = service.inner.shared.limits.body_time;
    let body = axum::body::to_bytes(request.into_body(), limit);
    match tokio::time::timeout(time, body).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => {
            let text = format!("the body broke off, or is larger than {limit} bytes");
            Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", text))
        }
        Err(_) => {
            let text = format!("the body took longer than {} s to arrive", time.as_secs());
            Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "too_slow", text))
        }
    }
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
