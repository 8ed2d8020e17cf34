//! A Chat Completions server on loopback whose model does what the last words say.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
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
        ["--base-url", &self.url, "--model", "local/scripted"].map(str::to_owned).to_vec()
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// What it was shown, request by request.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn text(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let image = |part: &Value| part["image_url"]["url"].as_str().map(|url| format!("image({url})"));
            parts.iter().filter_map(|p| p["text"].as_str().map(str::to_owned).or_else(|| image(p))).collect()
        }
        _ => String::new(),
    }
}

async fn answer(State(asked): State<Asked>, headers: HeaderMap, body: String) -> Response {
    let body: Value = serde_json::from_str(&body).unwrap();
    let messages: Vec<&Value> = body["messages"].as_array().unwrap().iter().collect();
    let said = messages.iter().filter_map(|m| match m["role"].as_str()? {
        "tool" => Some("tool".to_owned()),
        role @ ("user" | "assistant") => Some(format!("{role}({})", text(m))),
        "system" if text(m).contains("secret-instruction") => Some("system(secret-instruction)".to_owned()),
        _ => None,
    });
    asked.lock().unwrap().push(said.collect::<Vec<_>>().join(" "));
    if headers.get("authorization").is_some_and(|key| key == "Bearer wrong") {
        let error =
            json!({"error": {"message": "Incorrect API key provided", "type": "invalid_request_error"}});
        return (StatusCode::UNAUTHORIZED, error.to_string()).into_response();
    }
    let wish = messages.iter().rev().find(|m| m["role"] == "user").map(|m| text(m)).unwrap();
    // A message after one without a reply is sent in the same message.
    let wish = wish
        .rsplit("\n\n")
        .next()
        .filter(|_| wish.starts_with("fail") || wish.starts_with("limit"))
        .map_or(wish.clone(), str::to_owned);
    let has_result = messages.last().unwrap()["role"] == "tool";
    let (verb, what) = wish.split_once(' ').unwrap_or((&wish, ""));
    let said = |text: String| json!({ "content": text });
    let run = |command: &str| call("bash", &json!({ "command": command }), messages.len());
    let delta = match (verb, has_result) {
        ("limit", _) => {
            let error = json!({"error": {"message": "Rate limit reached", "type": "rate_limit_error"}});
            return (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "0")], error.to_string())
                .into_response();
        }
        ("fail", _) => {
            let error =
                json!({"error": {"message": "the model is out of order", "type": "invalid_request_error"}});
            return (StatusCode::BAD_REQUEST, error.to_string()).into_response();
        }
        ("think", _) => {
            json!({"reasoning_content": format!("about {what}"), "content": format!("It is {what}.")})
        }
        ("plan", false) => {
            let step =
                |verb: &str, status: &str| json!({"step": format!("{verb} the {what}"), "status": status});
            let steps = [step("read", "completed"), step("change", "in_progress")];
            call("plan", &json!({ "steps": steps }), messages.len())
        }
        ("use", false) => {
            let (tool, task) = what.split_once(' ').unwrap();
            call(tool, &json!({ "task": task }), messages.len())
        }
        ("use", true) => said(format!("The other one said: {}", text(messages.last().unwrap()))),
        // A call with its arguments as JSON.
        ("call", false) => {
            let (tool, arguments) = what.split_once(' ').unwrap();
            call(tool, &serde_json::from_str(arguments).unwrap(), messages.len())
        }
        ("write", false) => {
            call("write_file", &json!({"path": "notes.txt", "content": format!("{what}\n")}), messages.len())
        }
        ("write", true) => said(format!("I wrote {what}.")),
        ("edit", false) => call(
            "edit_file",
            &json!({"path": "notes.txt", "old_text": "two", "new_text": what}),
            messages.len(),
        ),
        ("run", false) => run("echo ran >> ran.txt"),
        ("exec", false) => run(what),
        ("sleep", false) => run(&format!("sleep {what}; echo slept")),
        // Two commands, one after the other.
        ("twice", false) => run(what),
        ("twice", true) if messages.iter().filter(|m| m["role"] == "tool").count() == 1 => {
            run("echo ran >> ran.txt")
        }
        ("hide", false) => run(&format!("ls {}\ntouch ran.txt \u{202e}\u{1b}[2K", "a".repeat(300))),
        ("long", false) => run(&(0..60).map(|n| format!("echo line {n}")).collect::<Vec<_>>().join("\n")),
        ("find", false) => call("search", &json!({"pattern": what}), messages.len()),
        ("run" | "exec" | "sleep" | "hide" | "long", true) => {
            let result = text(messages.last().unwrap());
            said(if result.contains("not allow") || result.contains("because") {
                format!("It was refused: {result}")
            } else {
                "It ran.".to_owned()
            })
        }
        ("mute", _) => said(String::new()),
        ("page", _) => said(PAGE.to_owned()),
        ("table", _) => said(TABLE.to_owned()),
        ("count", _) => said(format!("There are {} lines.", wish.lines().count())),
        ("[Summary" | "Summarize" | "summarize", _) => said("a summary of everything".to_owned()),
        _ => said(format!("It is {what}.")),
    };
    let reason = match verb {
        "cut" => "length",
        _ if delta.get("tool_calls").is_some() => "tool_calls",
        _ => "stop",
    };
    let chunk = |delta: &Value, reason: Value, usage: Value| {
        let chunk = json!({
            "id": "x", "object": "chat.completion.chunk", "created": 0, "model": "scripted",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], "usage": usage,
        });
        format!("data: {chunk}\n\n")
    };
    let usage = json!({"prompt_tokens": 1200, "completion_tokens": 34, "total_tokens": 1234});
    let stream = [
        chunk(&delta, Value::Null, Value::Null),
        chunk(&json!({}), json!(reason), usage),
        "data: [DONE]\n\n".to_owned(),
    ];
    ([("content-type", "text/event-stream")], stream.concat()).into_response()
}

/// A reply with everything that a renderer has to handle.
const PAGE: &str = "# Findings\n\nThe parser **fails** on an empty line because `next_line` returns before the buffer \
is drained, which nobody noticed.\n\n- first point with enough words that it must be broken at forty columns\n- second\n\n\
1. a numbered point with enough words that it must be broken, too\n\n```rust\nfn main() {}\n```\n\n| name | size |\n|---|---|\n| a | 1 |\n";

/// A table that is wider than forty columns, and a link.
const TABLE: &str = "| function | what it does | called from |\n|---|---|---|\n\
| `open_session` | opens the session and reads the configuration | the command line |\n\
| `close_everything` | closes every connection | the signal handler |\n\nSee [the documentation](https://docs.example/guide) first.\n";

fn call(name: &str, arguments: &Value, n: usize) -> Value {
    let function = json!({"name": name, "arguments": arguments.to_string()});
    json!({"tool_calls": [{"index": 0, "id": format!("call_{n}"), "type": "function", "function": function}]})
}
