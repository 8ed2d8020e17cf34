//! A server written by hand, for answers that the SDK would not send.

use std::io::{BufRead as _, Write as _};

use serde_json::{Value, json};

use super::server::PNG;

/// Answers line by line until its input ends.
pub async fn run(mode: &str) -> i32 {
    let mode = mode.to_owned();
    tokio::task::spawn_blocking(move || serve(&mode)).await.unwrap()
}

fn serve(mode: &str) -> i32 {
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line.unwrap()) else { continue };
        let Some(id) = message.get("id").cloned() else { continue };
        let method = message["method"].as_str().unwrap_or_default();
        let answer =
            if method == "initialize" { greeting(mode, &message) } else { answer(mode, method, &message) };
        let mut lines = Vec::new();
        for (key, value) in answer {
            lines.push(match key {
                Key::Result => json!({"jsonrpc": "2.0", "id": id, "result": value}),
                Key::Neither => json!({"jsonrpc": "2.0", "id": id}),
                Key::Error => json!({"jsonrpc": "2.0", "id": id, "error": value}),
                Key::Progress => {
                    let mut params = value;
                    params["progressToken"] = message["params"]["_meta"]["progressToken"].clone();
                    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
                }
                Key::AnswerTo(other) => json!({"jsonrpc": "2.0", "id": other, "result": value}),
                Key::Padding(bytes) => json!({"padding": "x".repeat(bytes)}),
            });
        }
        for line in lines {
            out.write_all(format!("{line}\n").as_bytes()).unwrap();
        }
        out.flush().unwrap();
    }
    0
}

enum Key {
    Result,
    Error,
    /// An answer with neither.
    Neither,
    Progress,
    AnswerTo(u64),
    /// A line of this many bytes.
    Padding(usize),
}

/// It calls itself by the version that was asked for.
fn greeting(mode: &str, message: &Value) -> Vec<(Key, Value)> {
    if mode == "raw_refuses" {
        return vec![(Key::Error, json!({"code": -32600, "message": "this version is not spoken"}))];
    }
    let capabilities = if mode == "raw_no_tools" { json!({}) } else { json!({"tools": {}}) };
    vec![(
        Key::Result,
        json!({
            "protocolVersion": "2025-06-18",
            "capabilities": capabilities,
            "serverInfo": {"name": "raw", "version": message["params"]["protocolVersion"]},
        }),
    )]
}

fn answer(mode: &str, method: &str, message: &Value) -> Vec<(Key, Value)> {
    let ok = |value: Value| vec![(Key::Result, value)];
    match (mode, method) {
        ("raw_no_tools", _) => vec![(Key::Error, json!({"code": -32601, "message": "Method not found"}))],
        ("raw_loop", "tools/list") => {
            ok(json!({"tools": [{"name": "a", "inputSchema": {}}], "nextCursor": "again"}))
        }
        ("raw_endless", "tools/list") => {
            let page: u64 = message["params"]["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
            ok(json!({"tools": [], "nextCursor": (page + 1).to_string()}))
        }
        ("raw_many", "tools/list") => {
            let tools: Vec<Value> =
                (0..5000).map(|n| json!({"name": format!("t{n}"), "inputSchema": {}})).collect();
            ok(json!({"tools": tools}))
        }
        ("raw_no_list", "tools/list") => ok(json!({"items": []})),
        (_, "tools/list") => ok(json!({"tools": [
            {"name": "plain", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}},
            {"name": "bare"},
            {"name": "empty", "inputSchema": {}, "description": ""},
            {"description": "nameless", "inputSchema": {}},
            {"name": "odd", "inputSchema": "string"},
            {"name": "listing", "inputSchema": {"type": "array"}},
            {"name": "titled", "inputSchema": {"type": "object"}, "annotations": {"title": "A title", "readOnlyHint": "yes"}},
        ]})),
        ("raw_unknown", "tools/call") => ok(json!({"content": [
            {"type": "hologram", "depth": 3},
            {"type": "text"},
            {"type": "text", "text": "known"},
        ]})),
        ("raw_bad_image", "tools/call") => ok(json!({"content": [
            {"type": "image", "data": "%%%", "mimeType": "image/png"},
            {"type": "image", "data": PNG, "mimeType": "image/JPG; q=1"},
        ]})),
        ("raw_twice", "tools/call") => ok(json!({
            "content": [{"type": "image", "data": PNG, "mimeType": "image/png"}],
            "structuredContent": {"data": PNG},
        })),
        ("raw_empty", "tools/call") => ok(json!({})),
        ("raw_empty_error", "tools/call") => ok(json!({"content": [], "isError": true})),
        ("raw_bad_content", "tools/call") => ok(json!({"content": "text"})),
        ("raw_long", "tools/call") => ok(json!({"content": [
            {"type": "text", "text": "ä".repeat(200_000)},
            {"type": "text", "text": "never seen"},
        ]})),
        // Answers of calls that are long over, and a line longer than any that is taken.
        ("raw_noise", "tools/call") => vec![
            (Key::AnswerTo(4_000_000), json!({"content": [{"type": "text", "text": "somebody else's"}]})),
            (Key::Padding(17 * 1024 * 1024), json!(null)),
            (Key::Result, json!({"content": [{"type": "text", "text": "mine"}]})),
        ],
        ("raw_neither", "tools/call") => vec![(Key::Neither, json!(null))],
        ("raw_wrong", "tools/call") => vec![(Key::Error, json!("no"))],
        ("raw_endless_answer", "tools/call") => ok(json!({"content": [
            {"type": "text", "text": "x".repeat(17 * 1024 * 1024)},
        ]})),
        ("raw_fast", "tools/call") => {
            let mut all: Vec<(Key, Value)> =
                (1..=20).map(|n| (Key::Progress, json!({"progress": n, "total": 20}))).collect();
            all.extend(ok(json!({"content": [{"type": "text", "text": "done"}]})));
            all
        }
        (_, "tools/call") => ok(json!({"content": [{"type": "text", "text": "ok"}]})),
        _ => vec![(Key::Error, json!({"code": -32601, "message": "Method not found"}))],
    }
}
