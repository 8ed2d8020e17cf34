//! A Chat Completions server on loopback whose model does what the last words say.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The server; it ends with this.
pub(crate) struct Model {
    url: String,
    asked: Asked,
    task: JoinHandle<()>,
}

type Asked = Arc<Mutex<Vec<String>>>;

impl Drop for Model {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Model {
    pub(crate) async fn start() -> Self {
        let asked = Asked::default();
        let routes = Router::new().route("/v1/chat/completions", post(answer)).with_state(Arc::clone(&asked));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = TowerToHyperService::new(routes.clone());
                tokio::spawn(async move {
                    let builder = Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { url, asked, task }
    }

    /// The options by which the program finds it.
    pub(crate) fn words(&self) -> Vec<String> {
        ["--base-url", &self.url, "--model", "scripted"].map(str::to_owned).to_vec()
    }

    /// What it was shown, request by request.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn text(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|p| p["text"].as_str()).collect(),
        _ => String::new(),
    }
}

async fn answer(State(asked): State<Asked>, body: String) -> ([(&'static str, &'static str); 1], String) {
    let body: Value = serde_json::from_str(&body).unwrap();
    let messages: Vec<&Value> = body["messages"].as_array().unwrap().iter().collect();
    let said = messages.iter().filter_map(|m| match m["role"].as_str()? {
        "tool" => Some("tool".to_owned()),
        role @ ("user" | "assistant") => Some(format!("{role}({})", text(m))),
        _ => None,
    });
    asked.lock().unwrap().push(said.collect::<Vec<_>>().join(" "));
    let wish = messages.iter().rev().find(|m| m["role"] == "user").map(|m| text(m)).unwrap();
    let has_result = messages.last().unwrap()["role"] == "tool";
    let (verb, what) = wish.split_once(' ').unwrap();
    let delta = match (verb, has_result) {
        ("write", false) => {
            call("write_file", &json!({"path": "notes.txt", "content": what}), messages.len())
        }
        ("write", true) => json!({"content": format!("I wrote {what}.")}),
        ("run", false) => call("bash", &json!({"command": "echo ran >> ran.txt"}), messages.len()),
        ("hide", false) => {
            let command = format!("ls {}\ntouch ran.txt \u{202e}\u{1b}[2K", "a".repeat(300));
            call("bash", &json!({ "command": command }), messages.len())
        }
        ("find", false) => call("search", &json!({"pattern": what}), messages.len()),
        ("run", true) => json!({"content": "It ran."}),
        _ => json!({"content": format!("It is {what}.")}),
    };
    let reason = if delta.get("tool_calls").is_some() { "tool_calls" } else { "stop" };
    let chunk = |delta: &Value, reason: Value| {
        let chunk = json!({
            "id": "x", "object": "chat.completion.chunk", "created": 0, "model": "scripted",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        });
        format!("data: {chunk}\n\n")
    };
    let stream =
        [chunk(&delta, Value::Null), chunk(&json!({}), json!(reason)), "data: [DONE]\n\n".to_owned()];
    ([("content-type", "text/event-stream")], stream.concat())
}

fn call(name: &str, arguments: &Value, n: usize) -> Value {
    let function = json!({"name": name, "arguments": arguments.to_string()});
    json!({"tool_calls": [{"index": 0, "id": format!("call_{n}"), "type": "function", "function": function}]})
}
