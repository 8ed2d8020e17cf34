//! Sends requests of the exporters.
//!
//! The exporters call from threads without a runtime, so the client has a runtime of its own with one thread.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError, ResponseBodyTooLarge};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::OtelError;

/// The maximum size of a response that is read. The receiver answers with a short message.
const MAX_RESPONSE_BYTES: usize = 1024 * 1024;

/// The time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The client and its thread. The thread ends when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Sender {
    client: reqwest::Client,
    runtime: Arc<OwnRuntime>,
}

/// A runtime that may be dropped inside of another one.
struct OwnRuntime(Option<Runtime>);

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Sender {
    pub(crate) fn new(is_secure: bool) -> Result<Self, OtelError> {
        let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).timeout(TIMEOUT);
        let client = for_scheme(builder, is_secure)?.build();
        let client = client.map_err(|error| OtelError::Client(Box::new(error.without_url())))?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("looptree-otel")
            .enable_all()
            .build()
            .map_err(|error| OtelError::Client(Box::new(error)))?;
        Ok(Self { client, runtime: Arc::new(OwnRuntime(Some(runtime))) })
    }

    /// Returns the runtime of the client.
    pub(crate) fn handle(&self) -> Result<Handle, HttpError> {
        let runtime = self.runtime.0.as_ref().ok_or("the exporter was shut down")?;
        Ok(runtime.handle().clone())
    }
}

/// A client for `http://` loads no certificates.
#[cfg(any(feature = "tls-rustls", feature = "tls-native"))]
fn for_scheme(builder: reqwest::ClientBuilder, is_secure: bool) -> Result<reqwest::ClientBuilder, OtelError> {
    Ok(if is_secure { builder } else { builder.tls_certs_only([]) })
}

#[cfg(not(any(feature = "tls-rustls", feature = "tls-native")))]
fn for_scheme(builder: reqwest::ClientBuilder, is_secure: bool) -> Result<reqwest::ClientBuilder, OtelError> {
    if is_secure { Err(OtelError::NoTls) } else { Ok(builder) }
}

async fn exchange(client: reqwest::Client, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let request = reqwest::Request::try_from(request).map_err(reqwest::Error::without_url)?;
    let mut response = client.execute(request).await.map_err(reqwest::Error::without_url)?;
    let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(reqwest::Error::without_url)? {
        if body.len() + piece.len() > MAX_RESPONSE_BYTES {
            return Err(ResponseBodyTooLarge::new().into());
        }
        body.extend_from_slice(&piece);
    }
    let mut answer = Response::new(Bytes::from(body));
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    Ok(answer)
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        self.handle()?.spawn(exchange(self.client.clone(), request)).await?
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}
