//! The vendor's own tools with the tools of this library: commands run, and files change, as the items of a server ask for.

#![cfg(all(feature = "openai-responses", feature = "tools"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails loudly")]

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::post;
use looptree::ProviderRegistry;
use looptree::model::ServerTool;
use looptree::prelude::*;
use looptree::tools::{ApplyPatchTool, BashTool};
use serde_json::{Value, json};

/// The replies that remain, and the requests so far.
#[derive(Default)]
struct Script {
    replies: Vec<Vec<Value>>,
    asked: Vec<Value>,
}

/// Answers with the items of the next reply.
async fn answer(State(script): State<Arc<Mutex<Script>>>, body: String) -> impl IntoResponse {
    let mut script = script.lock().unwrap();
    script.asked.push(serde_json::from_str(&body).unwrap());
    let items = script.replies.remove(0);
    let mut frames: Vec<Value> = (0..)
        .zip(&items)
        .map(|(at, item): (usize, _)| json!({"type": "response.output_item.done", "output_index": at, "item": item}))
        .collect();
    frames.push(json!({"type": "response.completed", "response": {"id": "resp", "status": "completed",
        "output": items, "usage": {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}}}));
    let text: String = frames.iter().map(|frame| format!("data: {frame}\n\n")).collect();
    ([(CONTENT_TYPE, "text/event-stream")], text)
}

fn shell(id: &str, commands: &[&str], timeout_ms: Option<u64>) -> Value {
    json!({"type": "shell_call", "id": format!("sh_{id}"), "call_id": id, "status": "completed",
        "action": {"commands": commands, "max_output_length": null, "timeout_ms": timeout_ms}})
}

#[expect(clippy::needless_pass_by_value, reason = "tests pass what `json!` makes")]
fn patch(id: &str, operation: Value) -> Value {
    json!({"type": "apply_patch_call", "id": format!("apc_{id}"), "call_id": id, "status": "completed",
        "operation": operation})
}

/// The outputs of the last request by the ids of their calls.
fn output<'b>(body: &'b Value, id: &str) -> &'b Value {
    let mut outputs = body["input"].as_array().unwrap().iter();
    outputs
        .rfind(|item| item["call_id"] == id && item["type"].as_str().unwrap().ends_with("_output"))
        .unwrap()
}

#[tokio::test]
async fn a_shell_call_runs_in_the_workspace_and_a_patch_call_changes_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let update = |diff: &str| json!({"type": "update_file", "path": "a.txt", "diff": diff});
    let replies = vec![
        vec![shell("c1", &["printf 'one\\ntwo\\n' > a.txt", "echo out", "echo err >&2; exit 3"], None)],
        vec![
            patch("c2", update("@@\n one\n-two\n+2\n")),
            patch("c3", json!({"type": "create_file", "path": "b.txt", "diff": "+new\n"})),
        ],
        vec![patch("c4", update("@@\n-missing\n+x\n")), shell("c5", &["echo half; sleep 60"], Some(1_000))],
        vec![patch("c6", json!({"type": "delete_file", "path": "b.txt"}))],
        vec![json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "Done.", "annotations": []}]})],
    ];
    let script = Arc::new(Mutex::new(Script { replies, asked: Vec::new() }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().fallback(post(answer)).with_state(Arc::clone(&script));
    let server = tokio::spawn(async move { axum::serve(listener, app).await });

    let model =
        ModelConfig::openai_responses("gpt-5.5", "GPT", "key").with_base_url(format!("http://{address}"));
    let workspace = Workspace::open(folder.path()).unwrap();
    let agent = BasicAgent::new(model)
        .with_provider(ProviderRegistry::default())
        .with_tool(BashTool::new(workspace.clone()))
        .with_tool(ApplyPatchTool::new(workspace))
        .configure(|c| c.request.server_tools = vec![ServerTool::Bash, ServerTool::ApplyPatch]);
    let said = agent.chat("Change it.").await.unwrap();
    server.abort();
    assert!(said.contains("Done."), "{said}");

    let asked = script.lock().unwrap().asked.clone();
    assert_eq!(asked.len(), 5);
    assert_eq!(
        output(&asked[1], "c1")["output"],
        json!([{"stdout": "out\n", "stderr": "err\n", "outcome": {"type": "exit", "exit_code": 3}}])
    );
    for id in ["c2", "c3"] {
        assert_eq!(output(&asked[2], id)["status"], "completed", "{}", output(&asked[2], id));
    }
    assert_eq!(output(&asked[3], "c4")["status"], "failed");
    let late = &output(&asked[3], "c5")["output"][0];
    assert_eq!((&late["stdout"], &late["outcome"]), (&json!("half\n"), &json!({"type": "timeout"})));
    assert_eq!(output(&asked[4], "c6")["status"], "completed");
    assert_eq!(std::fs::read_to_string(folder.path().join("a.txt")).unwrap(), "one\n2\n");
    assert!(!folder.path().join("b.txt").exists());
}
