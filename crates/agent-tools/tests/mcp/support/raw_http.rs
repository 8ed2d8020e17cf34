//! The server written by hand, over HTTP.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::raw;

/// Whether answers are event streams.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Events {
    No,
    Yes,
}

struct Site {
    mode: &'static str,
    folder: Option<PathBuf>,
    events: Events,
    /// The number of the session that is known.
    session: AtomicU64,
}

/// A server that ends with the value.
pub struct RawHttp {
    url: String,
    site: Arc<Site>,
    runtime: Option<Runtime>,
}

impl RawHttp {
    pub async fn start(mode: &'static str, folder: Option<PathBuf>, events: Events) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.spawn(TcpListener::bind("127.0.0.1:0")).await.unwrap().unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let site = Arc::new(Site { mode, folder, events, session: AtomicU64::new(0) });
        let app = Router::new().route("/mcp", post(answer)).with_state(Arc::clone(&site));
        drop(runtime.spawn(async move { axum::serve(listener, app).await.unwrap() }));
        Self { url, site, runtime: Some(runtime) }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Forgets the session, as a server that was restarted.
    pub fn forget_session(&self) {
        self.site.session.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for RawHttp {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn answer(State(site): State<Arc<Site>>, headers: HeaderMap, body: String) -> Response {
    let message: Value = serde_json::from_str(&body).unwrap();
    let session = site.session.load(Ordering::SeqCst).to_string();
    let given = headers.get("mcp-session-id").and_then(|value| value.to_str().ok());
    if message["method"] != "initialize" && given != Some(session.as_str()) {
        return StatusCode::NOT_FOUND.into_response();
    }
    let lines = raw::lines_for(site.mode, site.folder.as_deref(), &message);
    if lines.is_empty() {
        return StatusCode::ACCEPTED.into_response();
    }
    let (kind, body) = match site.events {
        Events::No => ("application/json", lines.last().unwrap().clone()),
        Events::Yes => {
            ("text/event-stream", lines.iter().map(|line| format!("data: {line}\n\n")).collect::<String>())
        }
    };
    ([("content-type", kind.to_owned()), ("mcp-session-id", session)], body).into_response()
}
