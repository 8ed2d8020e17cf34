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
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

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
    let method = request.method().to_string();
    seen.requests.lock().unwrap().push((method, request.headers().clone()));
    let given = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    match seen.wanted {
        Some(wanted) if given != Some(wanted) => {
            (StatusCode::UNAUTHORIZED, [("www-authenticate", "Bearer realm=\"test\"")]).into_response()
        }
        _ => next.run(request).await,
    }
}
