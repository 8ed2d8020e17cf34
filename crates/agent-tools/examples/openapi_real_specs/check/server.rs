//! A server that records requests and answers them with success.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A recorded request.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    /// The request as received on the wire.
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Request {
    /// Returns the values of a header, joined by commas.
    pub fn header(&self, name: &str) -> Option<String> {
        let values: Vec<String> = self
            .headers
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect();
        (!values.is_empty()).then(|| values.join(", "))
    }
}

/// A function that answers a request.
pub type Answer = Arc<dyn Fn(&Request) -> Response + Send + Sync>;

#[derive(Clone)]
struct Shared {
    seen: Arc<Mutex<Vec<Request>>>,
    answer: Answer,
}

/// A server on a free port of the loopback interface, which ends when the value is dropped.
pub struct Server {
    url: String,
    seen: Arc<Mutex<Vec<Request>>>,
    task: JoinHandle<()>,
}

impl Server {
    pub async fn start() -> Self {
        Self::answering(|_| {
            (StatusCode::OK, [("content-type", "application/json")], r#"{"ok":true}"#).into_response()
        })
        .await
    }

    pub async fn answering(answer: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let shared = Shared { seen: seen.clone(), answer: Arc::new(answer) };
        let app = Router::new().fallback(keep).with_state(shared);
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, seen, task }
    }

    /// Returns the address `http://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the latest request and forgets all.
    pub fn take(&self) -> Option<Request> {
        self.take_all().pop()
    }

    pub fn take_all(&self) -> Vec<Request> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep(
    State(shared): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let request = Request {
        method: method.to_string(),
        path: uri.path().to_owned(),
        query: uri.query().unwrap_or_default().to_owned(),
        headers,
        body: body.to_vec(),
    };
    let response = (shared.answer)(&request);
    shared.seen.lock().unwrap().push(request);
    response
}
