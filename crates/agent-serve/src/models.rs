//! A server that holds the keys of model providers and streams replies to clients with a token.
//!
//! There is one route, [`PATH`]. Nothing is answered without a token, not even that a route is unknown. A client names
//! provider and model; the server knows the address and the key ([`Models`]). The server sends what arrives, piece by
//! piece: a client that reads slowly slows down the call, and one that goes away ends it.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use agent_core::ModelConfig;
//! use agent_providers::ProviderRegistry;
//! use agent_serve::models::{Limits, Server, Tokens, serve};
//!
//! # async fn example(tokens: &str) -> Result<(), Box<dyn std::error::Error>> {
//! let models = |provider: &str, model: &str| (provider == "ollama").then(|| ModelConfig::ollama(model));
//! let tokens = Tokens::parse(tokens)?;
//! let server = Server::new(Arc::new(ProviderRegistry::default()), Arc::new(models), tokens, Limits::default());
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8787").await?;
//! serve(listener, server, std::future::pending()).await;
//! # Ok(())
//! # }
//! ```

mod auth;
mod limits;
mod stream;

use std::sync::Arc;

use agent_core::{ModelConfig, StreamProvider};
use agent_providers::remote::{PATH, RemoteRequest, refusal};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::Response;
use axum::routing::post;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

pub use auth::{Tokens, TokensError};
pub use limits::Limits;

use crate::serving::{ConnectionLimits, serve_routes};

/// Returns the model with a provider's name and a model's id, with address and key; `None` when the server has none.
pub type Models = Arc<dyn Fn(&str, &str) -> Option<ModelConfig> + Send + Sync>;

/// A server of models. Cloning is cheap.
#[derive(Clone)]
pub struct Server {
    provider: Arc<dyn StreamProvider>,
    models: Models,
    tokens: Arc<Tokens>,
    limits: Limits,
    streams: Arc<Semaphore>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Server {
    /// Creates a server that calls these models through this provider, for clients with one of the tokens.
    #[must_use]
    pub fn new(provider: Arc<dyn StreamProvider>, models: Models, tokens: Tokens, limits: Limits) -> Self {
        let streams = Arc::new(Semaphore::new(limits.streams));
        Self { provider, models, tokens: Arc::new(tokens), limits, streams }
    }

    /// Returns its routes. All of them require the token, including the answer to unknown ones.
    pub fn router(&self) -> Router {
        Router::new()
            .route(PATH, post(answer))
            .fallback(unknown)
            .method_not_allowed_fallback(unknown)
            .layer(middleware::from_fn_with_state(Arc::clone(&self.tokens), auth::require))
            .with_state(self.clone())
    }
}

/// Answers until `stop` completes; the connections that are open are then closed.
pub async fn serve(listener: TcpListener, server: Server, stop: impl Future<Output = ()> + Send) {
    let Limits { connections, head_time, write_time, .. } = server.limits;
    let limits = ConnectionLimits { connections, head_time, write_time };
    serve_routes(listener, server.router(), limits, stop).await;
}

async fn unknown() -> Response {
    refused(StatusCode::NOT_FOUND, "not_found", &format!("there is only POST {PATH} here"))
}

async fn answer(State(server): State<Server>, request: Request) -> Response {
    let Ok(permit) = Arc::clone(&server.streams).try_acquire_owned() else {
        let mut busy =
            refused(StatusCode::SERVICE_UNAVAILABLE, "busy", "as many streams are open as are allowed");
        busy.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        return busy;
    };
    let limits = server.limits;
    let body = match tokio::time::timeout(limits.body_time, to_bytes(request.into_body(), limits.body_bytes))
        .await
    {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => {
            let text = format!("the request broke off, or is larger than {} bytes", limits.body_bytes);
            return refused(StatusCode::PAYLOAD_TOO_LARGE, "too_large", &text);
        }
        Err(_) => {
            let text = format!("the request took longer than {} s to arrive", limits.body_time.as_secs());
            return refused(StatusCode::REQUEST_TIMEOUT, "too_slow", &text);
        }
    };
    let asked = match RemoteRequest::from_json(&body) {
        Ok(asked) => asked,
        Err(text) => return refused(StatusCode::BAD_REQUEST, "bad_request", &text),
    };
    drop(body);
    let Some(model) = (server.models)(&asked.provider, &asked.model) else {
        let text = format!("there is no model {:?} of {:?} here", asked.model, asked.provider);
        return refused(StatusCode::NOT_FOUND, "model_not_found", &text);
    };
    let pieces = stream::start(server.provider, asked.into_config(model), limits, permit);
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}

fn refused(status: StatusCode, code: &str, text: &str) -> Response {
    let mut response = Response::new(Body::from(refusal(code, text)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}
