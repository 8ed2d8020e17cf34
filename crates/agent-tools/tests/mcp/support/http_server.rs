//! The server over streamable HTTP, in this process, on a port of its own.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::identity_provider;
use super::server::TestServer;

/// A server that ends with the value, and all its connections with it.
pub struct HttpServer {
    pub address: SocketAddr,
    pub seen: Arc<Seen>,
    runtime: Option<Runtime>,
}

/// What it has seen, and what it wants to see.
#[derive(Default)]
pub struct Seen {
    pub requests: Mutex<Vec<(String, HeaderMap)>>,
    pub wanted: Option<&'static str>,
    /// What an authorization server at the same address was asked: path and body.
    pub asked: Mutex<Vec<(String, String)>>,
    pub login: Login,
}

/// Whether there is an authorization server at the same address.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub enum Login {
    #[default]
    No,
    Yes,
}

impl HttpServer {
    pub async fn start() -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), Seen::default(), TestServer::new(None)).await
    }

    /// A server that answers only who has this `Authorization`.
    pub async fn guarded(wanted: &'static str) -> Self {
        let seen = Seen { wanted: Some(wanted), ..Seen::default() };
        Self::start_at("127.0.0.1:0".parse().unwrap(), seen, TestServer::new(None)).await
    }

    pub async fn start_at(address: SocketAddr, seen: Seen, server: TestServer) -> Self {
        let seen = Arc::new(seen);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.spawn(TcpListener::bind(address)).await.unwrap().unwrap();
        let address = listener.local_addr().unwrap();
        let service = StreamableHttpService::new(
            move || Ok(server.clone()),
            Arc::new(LocalSessionManager::default()),
            StreamableHttpServerConfig::default(),
        );
        let app = Router::new()
            .nest_service("/mcp", service)
            .layer(middleware::from_fn_with_state(Arc::clone(&seen), look));
        drop(runtime.spawn(async move { axum::serve(listener, app).await.unwrap() }));
        Self { address, seen, runtime: Some(runtime) }
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Ends it with all its sessions and connections.
    pub fn stop(self) -> SocketAddr {
        self.address
    }

    pub fn methods(&self) -> Vec<String> {
        self.seen.requests.lock().unwrap().iter().map(|(method, _)| method.clone()).collect()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn look(State(seen): State<Arc<Seen>>, request: Request, next: Next) -> Response {
    if seen.login == Login::Yes && request.uri().path() != "/mcp" {
        return authorization_server(&seen, request).await;
    }
    let method = request.method().to_string();
    seen.requests.lock().unwrap().push((method, request.headers().clone()));
    let given = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    match seen.wanted {
        Some(wanted) if given != Some(wanted) => {
            let host = request.headers()["host"].to_str().unwrap();
            let about = match seen.login {
                Login::No => "realm=\"test\"".to_owned(),
                Login::Yes => {
                    format!("resource_metadata=\"http://{host}/.well-known/oauth-protected-resource\"")
                }
            };
            (StatusCode::UNAUTHORIZED, [("www-authenticate", format!("Bearer {about}"))]).into_response()
        }
        _ => next.run(request).await,
    }
}

/// Registers everybody, and gives the token that is wanted to who has the code `the-code` or an account.
async fn authorization_server(seen: &Seen, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let base = format!("http://{}", request.headers()["host"].to_str().unwrap());
    let given =
        request.headers().get("authorization").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let body = axum::body::to_bytes(request.into_body(), 64 * 1024).await.unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap();
    seen.asked.lock().unwrap().push((path.clone(), body.clone()));
    if let Some(answer) =
        identity_provider::answer(seen.wanted.unwrap(), &base, &path, given.as_deref(), &body)
    {
        let status = if answer.get("error").is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
        return (status, [("content-type", "application/json")], answer.to_string()).into_response();
    }
    let answer = match path.as_str() {
        "/.well-known/oauth-protected-resource" => {
            json!({"resource": format!("{base}/mcp"), "authorization_servers": [base], "scopes_supported": ["read"]})
        }
        "/.well-known/oauth-authorization-server" => json!({
            "issuer": base,
            "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"),
            "registration_endpoint": format!("{base}/register"),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "client_credentials"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_post", "client_secret_basic", "private_key_jwt"],
            "code_challenge_methods_supported": ["S256"],
        }),
        "/register" => {
            let asked: Value = serde_json::from_str(&body).unwrap();
            json!({"client_id": "given-id", "redirect_uris": asked["redirect_uris"], "client_name": asked["client_name"]})
        }
        "/token" if body.contains("code=the-code") || body.contains("grant_type=client_credentials") => {
            let token = seen.wanted.unwrap().trim_start_matches("Bearer ");
            json!({"access_token": token, "token_type": "Bearer", "expires_in": 3600, "scope": "read"})
        }
        "/token" => {
            let refused = json!({"error": "invalid_grant"}).to_string();
            return (StatusCode::BAD_REQUEST, [("content-type", "application/json")], refused)
                .into_response();
        }
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    let status = if path == "/register" { StatusCode::CREATED } else { StatusCode::OK };
    (status, [("content-type", "application/json")], answer.to_string()).into_response()
}
