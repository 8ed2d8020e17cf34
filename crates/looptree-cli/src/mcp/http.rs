//! The server over HTTP: a bearer token, the names of the host, and no requests of web pages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use looptree::model::Secret;
use looptree::serve::serving::{ConnectionLimits, Seat, serve_routes};
use rmcp::transport::streamable_http_server::session::SessionManager as _;
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
/// The maximum number of sessions of clients. For another client, the session that is idle for the longest time ends.
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
    let mut sessions = LocalSessionManager::default();
    // A call can take longer than the usual time without a request. Idle sessions make room for others.
    sessions.session_config.keep_alive = None;
    let sessions = Arc::new(sessions);
    let service = StreamableHttpService::new(move || Ok(server.clone()), Arc::clone(&sessions), config);
    screen.line(format!("listening on http://{address}{PATH}"));
    screen.line(&match given {
        Some(_) => format!("the token is the one of {TOKEN}"),
        None => format!("token: {token} (set {TOKEN} to choose it)"),
    });
    let guard = Arc::new(Guard { token: Secret::new(token), sessions, uses: Arc::default() });
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
    /// The use of each session, by its id.
    uses: Arc<Mutex<BTreeMap<String, SessionUse>>>,
}

/// When a session was used last, and its answers that are not complete.
struct SessionUse {
    last: Instant,
    open: usize,
}

/// An answer of a session, until it is complete.
struct OpenAnswer {
    uses: Arc<Mutex<BTreeMap<String, SessionUse>>>,
    session: String,
}

impl Drop for OpenAnswer {
    fn drop(&mut self) {
        if let Some(used) = locked(&self.uses).get_mut(&self.session) {
            used.open = used.open.saturating_sub(1);
            used.last = Instant::now();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Guard {
    fn begin_answer(&self, session: &str) -> OpenAnswer {
        let mut uses = locked(&self.uses);
        let used = uses.entry(session.to_owned()).or_insert(SessionUse { last: Instant::now(), open: 0 });
        used.last = Instant::now();
        used.open = used.open.saturating_add(1);
        OpenAnswer { uses: Arc::clone(&self.uses), session: session.to_owned() }
    }

    /// Makes room for another session: ends the one that is idle for the longest time. Returns whether there is room.
    async fn make_room(&self) -> bool {
        let known: BTreeSet<String> =
            self.sessions.sessions.read().await.keys().map(ToString::to_string).collect();
        if known.len() < MAX_SESSIONS {
            return true;
        }
        let idle = {
            let mut uses = locked(&self.uses);
            uses.retain(|session, _| known.contains(session));
            let idle = uses.iter().filter(|(_, used)| used.open == 0).min_by_key(|(_, used)| used.last);
            idle.map(|(session, _)| session.clone())
        };
        let Some(session) = idle else { return false };
        locked(&self.uses).remove(&session);
        self.sessions.close_session(&session.into()).await.is_ok()
    }
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
    let session = request.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
    if request.method() == Method::POST && session.is_none() && !guard.make_room().await {
        let text =
            format!("{MAX_SESSIONS} sessions of clients are open, and all of them wait for answers; end one");
        return refusal(StatusCode::SERVICE_UNAVAILABLE, text);
    }
    let (head, body) = request.into_parts();
    match tokio::time::timeout(BODY_TIME, to_bytes(body, MAX_BODY)).await {
        Ok(Ok(body)) => {
            let open = session.map(|session| guard.begin_answer(&session));
            let answer = next.run(Request::from_parts(head, Body::from(body))).await;
            let begun = answer.headers().get(SESSION).and_then(|id| id.to_str().ok());
            let Some(open) = open.or_else(|| Some(guard.begin_answer(begun?))) else { return answer };
            let (head, body) = answer.into_parts();
            // The answer is open until its body has been sent.
            let body = body.into_data_stream().inspect(move |_| {
                let _ = &open;
            });
            Response::from_parts(head, Body::from_stream(body))
        }
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
