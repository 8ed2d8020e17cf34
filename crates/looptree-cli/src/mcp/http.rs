//! The server over HTTP: a bearer token, the names of the host, and no requests of web pages.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use looptree::model::Secret;
use looptree::serve::serving::{ConnectionLimits, Seat, serve_routes};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use subtle::ConstantTimeEq as _;
use tokio::net::TcpListener;

use super::{Listen, Server};
use crate::exit::usage;
use crate::screen::Screen;

/// The path of the server.
const PATH: &str = "/mcp";
/// The environment variable with the token.
const TOKEN: &str = "LOOPTREE_MCP_TOKEN";
/// The shortest token.
const MIN_TOKEN: usize = 16;
/// The maximum size of a request: 4 MiB.
const MAX_BODY: usize = 4 << 20;
/// The maximum number of connections whose requests have the token at the same time.
const MAX_CONNECTIONS: usize = 64;
/// The maximum number of sessions of clients. A session that is idle for 5 minutes ends.
const MAX_SESSIONS: usize = 64;
/// The header of the requests of a session.
const SESSION: &str = "mcp-session-id";
/// The time that a client has for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// The time that a client has for the body of a request.
const BODY_TIME: Duration = Duration::from_secs(60);

/// Serves until the process ends.
pub(super) async fn serve(server: Server, listen: Listen, screen: &Screen) -> Result<()> {
    let given = std::env::var(TOKEN).ok();
    let token = match &given {
        Some(token) if token.len() < MIN_TOKEN => {
            return Err(usage(format!("{TOKEN} has fewer than {MIN_TOKEN} characters")));
        }
        Some(token) => token.clone(),
        None => format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple()),
    };
    let listener = TcpListener::bind(listen.address)
        .await
        .with_context(|| format!("cannot listen on {}", listen.address))?;
    let address = listener.local_addr()?;
    let mut hosts =
        vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned(), address.ip().to_string()];
    hosts.extend(listen.hosts);
    // A web page sends an Origin, which must be the server itself; programs send none.
    let port = address.port();
    let origins = ["localhost", "127.0.0.1", "[::1]"].map(|name| format!("http://{name}:{port}"));
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts)
        .with_allowed_origins(origins)
        .enforce_origin_validation()
        .with_max_request_body_bytes(MAX_BODY);
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(server.clone()), Arc::clone(&sessions), config);
    screen.line(format!("listening on http://{address}{PATH}"));
    screen.line(&match given {
        Some(_) => format!("the token is the one of {TOKEN}"),
        None => format!("token: {token} (set {TOKEN} to choose it)"),
    });
    let guard = Arc::new(Guard { token: Secret::new(token), sessions });
    let routes =
        Router::new().route_service(PATH, service).layer(middleware::from_fn_with_state(guard, guarded));
    let mut limits = ConnectionLimits::default();
    limits.connections = MAX_CONNECTIONS;
    limits.head_time = HEAD_TIME;
    serve_routes(listener, routes, limits, std::future::pending()).await;
    Ok(())
}

/// What a request needs to be answered.
struct Guard {
    token: Secret,
    sessions: Arc<LocalSessionManager>,
}

/// Forwards a request that has the token and whose body arrives in time.
async fn guarded(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    if request.uri().path() != PATH {
        return refusal(StatusCode::NOT_FOUND, "the server is at /mcp");
    }
    let given =
        request.headers().get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    let is_right = given.is_some_and(|given| bool::from(given.ct_eq(guard.token.expose().as_bytes())));
    if !is_right {
        let mut answer = refusal(StatusCode::UNAUTHORIZED, "send the token as Authorization: Bearer TOKEN");
        answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return answer;
    }
    if let Some(Err(busy)) = request.extensions().get::<Seat>().map(Seat::admit) {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, busy.to_string());
    }
    let begins = request.method() == Method::POST && !request.headers().contains_key(SESSION);
    if begins && guard.sessions.sessions.read().await.len() >= MAX_SESSIONS {
        let text = format!(
            "{MAX_SESSIONS} sessions of clients are open; end one, or wait until one is idle for 5 minutes"
        );
        return refusal(StatusCode::SERVICE_UNAVAILABLE, text);
    }
    let (head, body) = request.into_parts();
    match tokio::time::timeout(BODY_TIME, to_bytes(body, MAX_BODY)).await {
        Ok(Ok(body)) => next.run(Request::from_parts(head, Body::from(body))).await,
        Ok(Err(_)) => {
            let text = format!("the body broke off, or is larger than {MAX_BODY} bytes");
            refusal(StatusCode::PAYLOAD_TOO_LARGE, text)
        }
        Err(_) => {
            let text = format!("the body took longer than {} s to arrive", BODY_TIME.as_secs());
            refusal(StatusCode::REQUEST_TIMEOUT, text)
        }
    }
}

fn refusal(status: StatusCode, text: impl Into<String>) -> Response {
    (status, text.into()).into_response()
}
