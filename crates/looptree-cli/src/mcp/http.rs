//! The server over HTTP: a bearer token, the names of the host, and no requests of web pages.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use looptree::model::Secret;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use subtle::ConstantTimeEq as _;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

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
/// The maximum number of connections at the same time.
const MAX_CONNECTIONS: usize = 64;
/// The time that a client has for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(30);

type Service = StreamableHttpService<Server, LocalSessionManager>;
type Body = BoxBody<Bytes, Infallible>;

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
    let service = Service::new(move || Ok(server.clone()), Arc::default(), config);
    screen.line(&format!("listening on http://{address}{PATH}"));
    screen.line(&match given {
        Some(_) => format!("the token is the one of {TOKEN}"),
        None => format!("token: {token} (set {TOKEN} to choose it)"),
    });
    let token = Arc::new(Secret::new(token));
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let place = Arc::clone(&places).acquire_owned().await?;
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // For example too many open files: the next connection may work.
                screen.error_line(&format!("a connection failed: {error}"));
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (service, token) = (service.clone(), Arc::clone(&token));
        tokio::spawn(async move {
            let answer = service_fn(move |request| {
                let (service, token) = (service.clone(), Arc::clone(&token));
                async move { Ok::<_, Infallible>(guarded(request, &service, &token).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME)
                .serve_connection(TokioIo::new(stream), answer);
            // A broken connection is the client's matter.
            let _ = connection.await;
            drop(place);
        });
    }
}

/// Answers a request that has the token.
async fn guarded(request: Request<Incoming>, service: &Service, token: &Secret) -> Response<Body> {
    if request.uri().path() != PATH {
        return refusal(StatusCode::NOT_FOUND, "the server is at /mcp");
    }
    let given =
        request.headers().get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    let is_right = given.is_some_and(|given| bool::from(given.ct_eq(token.expose().as_bytes())));
    if !is_right {
        let mut answer = refusal(StatusCode::UNAUTHORIZED, "send the token as Authorization: Bearer TOKEN");
        answer.headers_mut().insert(WWW_AUTHENTICATE, hyper::header::HeaderValue::from_static("Bearer"));
        return answer;
    }
    service.handle(request).await
}

fn refusal(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *answer.status_mut() = status;
    answer
}
