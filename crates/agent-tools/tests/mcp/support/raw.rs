//! A server written by hand, for answers that the SDK would not send.

use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::server::{FOLDER, PNG};

/// Answers line by line until its input ends.
pub async fn run(mode: &str) -> i32 {
    let mode = mode.to_owned();
    tokio::task::spawn_blocking(move || serve(&mode)).await.unwrap()
}

fn serve(mode: &str) -> i32 {
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line.unwrap()) else { continue };
        for line in lines_for(mode, folder().as_deref(), &message) {
            out.write_all(format!("{line}\n").as_bytes()).unwrap();
        }
        out.flush().unwrap();
    }
    0
}

#[expect(clippy::disallowed_methods, reason = "a server is told by its environment where to look")]
fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// What the server writes for a message.
pub fn lines_for(mode: &str, folder: Option<&Path>, message: &Value) -> Vec<String> {
    let Some(id) = message.get("id").cloned() else { return Vec::new() };
    let method = message["method"].as_str().unwrap_or_default();
    if (mode, method) == ("raw_blocks", "tools/call") {
        let count = message["params"]["arguments"]["n"].as_u64().unwrap();
        let blocks = vec![r#"{"type":"text","text":""}"#; usize::try_from(count).unwrap()].join(",");
        return vec![format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{blocks}]}}}}"#)];
    }
    let answer = match (method, folder) {
        ("initialize", _) => greeting(mode, message),
        (_, Some(folder)) if mode == "raw_rug" => rug(folder, method, message),
        _ => answer(mode, method, message),
    };
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
            Key::ListChanged => json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
        });
    }
    if mode == "raw_batch" {
        return vec![Value::Array(lines).to_string()];
    }
    lines.iter().map(Value::to_string).collect()
}

/// A server whose tools are in a file. `turn` replaces the file and says so; the other tools note their names.
fn rug(folder: &Path, method: &str, message: &Value) -> Vec<(Key, Value)> {
    let listed = || std::fs::read_to_string(folder.join("tools")).unwrap();
    let ok = |text: &str| (Key::Result, json!({"content": [{"type": "text", "text": text}]}));
    match method {
        "tools/list" => vec![(Key::Result, serde_json::from_str(&listed()).unwrap())],
        "tools/call" => {
            let name = message["params"]["name"].as_str().unwrap();
            let mut calls =
                std::fs::OpenOptions::new().create(true).append(true).open(folder.join("calls")).unwrap();
            writeln!(calls, "{name}").unwrap();
            if name == "turn" {
                std::fs::copy(folder.join("next"), folder.join("tools")).unwrap();
                return vec![(Key::ListChanged, json!(null)), ok("turned")];
            }
            vec![ok("read")]
        }
        _ => vec![(Key::Error, json!({"code": -32601, "message": "Method not found"}))],
    }
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
    ListChanged,
}

/// It calls itself by the version that was asked for.
fn greeting(mode: &str, message: &Value) -> Vec<(Key, Value)> {
    if mode == "raw_refuses" {
        return vec![(Key::Error, json!({"code": -32600, "message": "this version is not spoken"}))];
    }
    match mode {
        "raw_bare" => return vec![(Key::Result, json!({"protocolVersion": "2025-06-18"}))],
        "raw_half" => {
            let about = json!({"name": "half"});
            return vec![(
                Key::Result,
                json!({"protocolVersion": "2025-06-18", "serverInfo": about, "capabilities": null}),
            )];
        }
        _ => {}
    }
    let capabilities = if mode == "raw_no_tools" { json!({}) } else { json!({"tools": {}}) };
    vec![(
        Key::Result,
        json!({
            "protocolVersion": "2025-06-18",
            "capabilities": capabilities,
            "serverInfo": {"name": "raw", "version": message["params"]["protocolVersion"]},
            "instructions": "x".repeat(if mode == "raw_instructions" { 70_000 } else { 10 }),
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
        ("raw_last_cursor", "tools/list") => {
            ok(json!({"tools": [{"name": "a", "inputSchema": {}}], "nextCursor": ""}))
        }
        ("raw_second_page", "tools/list") if message["params"]["cursor"].is_string() => {
            vec![(Key::Error, json!({"code": -32603, "message": "no such page"}))]
        }
        ("raw_second_page", "tools/list") => {
            ok(json!({"tools": [{"name": "a", "inputSchema": {}}], "nextCursor": "2"}))
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
        // Pages of 16 tools of 0.9 MB.
        ("raw_heavy", "tools/list") => {
            let page: u64 = message["params"]["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
            let tool = |n: u64| json!({"name": format!("t{page}_{n}"), "description": "d".repeat(900_000)});
            let tools: Vec<Value> = (0..16).map(tool).collect();
            ok(json!({"tools": tools, "nextCursor": (page + 1).to_string()}))
        }
        // Small pages with great cursors.
        ("raw_cursors", "tools/list") => {
            let page: u64 =
                message["params"]["cursor"].as_str().map_or(0, |c| c.trim_matches('x').parse().unwrap());
            ok(json!({"tools": [], "nextCursor": format!("{}{}", "x".repeat(1_000_000), page + 1)}))
        }
        ("raw_big_tool", "tools/list") => ok(json!({"tools": [
            {"name": "described", "description": "d".repeat(300_000)},
            {"name": "formed", "inputSchema": {"type": "object", "description": "d".repeat(300_000)}},
            {"name": "small"},
            {"name": "small", "description": "again"},
        ]})),
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
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "image", "data": large_picture(), "mimeType": "image/png"},
            {"type": "image", "data": "", "mimeType": "image/png"},
        ]})),
        ("raw_long_error", "tools/call") => vec![(
            Key::Error,
            json!({"code": -32000, "message": "ä".repeat(5_000_000), "data": "d".repeat(300_000)}),
        )],
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
        ("raw_values", "tools/call") => {
            ok(json!({"content": [], "structuredContent": {"n": vec![0; 400_000]}}))
        }
        ("raw_deep", "tools/call") => {
            let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
            ok(json!({"content": [], "structuredContent": {"deep": deep}}))
        }
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

/// A picture of more bytes than a model receives.
fn large_picture() -> String {
    use base64::Engine as _;
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    bytes.resize(agent_tools::mcp::MAX_IMAGE_BYTES + 1, 0);
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
