//! The vendor's own tools with local tools: commands run, files change, and a screen is controlled, as the items of a server
//! ask for.

#![cfg(all(feature = "openai-responses", feature = "tools"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails loudly")]

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::post;
use looptree::hooks::Decision;
use looptree::message::Content;
use looptree::model::{ComputerUse, ServerTool};
use looptree::prelude::*;
use looptree::tools::{ApplyPatchTool, BashTool};
use looptree::{ProviderRegistry, ToolPolicy, ToolRule};
use serde_json::{Map, Value, json};

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

/// Serves on a free port, and returns the address.
async fn serve(app: Router) -> (String, tokio::task::JoinHandle<std::io::Result<()>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    (address, tokio::spawn(async move { axum::serve(listener, app).await }))
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
    let (address, server) = serve(Router::new().fallback(post(answer)).with_state(Arc::clone(&script))).await;
    let model = ModelConfig::openai_responses("gpt-5.5", "GPT", "key").with_base_url(address);
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

/// A tool that executes actions on a fake screen, and the arguments of its calls.
fn screen(log: &Arc<Mutex<Vec<Value>>>) -> impl AgentTool + use<> {
    let log = Arc::clone(log);
    looptree::tool_fn("computer", "Controls the screen.", move |action: Map<String, Value>, _| {
        log.lock().unwrap().push(action.into());
        let page = json!({"url": "https://shop.example/"});
        async { Ok(ToolResult::content(vec![Content::image(PNG, "image/png")]).with_details(page)) }
    })
}

/// An image of one pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==";

/// Asks for each call that the vendor wants to be confirmed.
fn policy() -> ToolPolicy {
    let computer = |pointer: &str| ToolRule::tool("computer").argument(pointer, "*");
    ToolPolicy::new(Decision::Allow).ask(computer("/pending_safety_checks")).ask(computer("/safety_decision"))
}

/// Runs the task, allows the first question and denies the others. Returns how many there were.
async fn confirm_the_first(agent: &BasicAgent) -> usize {
    let mut asked = 0;
    let mut end = agent.prompt("Buy it.").unwrap().end().await;
    while let RunEnd::Suspended(questions) = &end {
        let shown = questions[0].approval().unwrap().to_string();
        assert!(shown.contains("It buys"), "{shown}");
        let answer = if asked == 0 { Answer::Allow } else { Answer::deny("not that") };
        asked += 1;
        end = agent.answer(questions[0].id.clone(), answer).unwrap().end().await;
    }
    assert!(end.is_completed(), "{end:?}");
    asked
}

#[tokio::test]
async fn actions_of_the_responses_api_control_the_screen_and_a_denied_one_is_not_confirmed() {
    let checks = json!([{"id": "cu_sc_1", "code": "sensitive_domain", "message": "It buys something."}]);
    let call = |id: &str, actions: Value, checks: &Value| {
        json!({"type": "computer_call", "id": format!("cu_{id}"), "call_id": id, "status": "completed",
            "actions": actions, "pending_safety_checks": checks})
    };
    let click = json!([{"type": "click", "button": "left", "x": 10, "y": 20}, {"type": "screenshot"}]);
    let first = call("c1", json!([{"type": "screenshot"}]), &json!([]));
    let bought = call("c2", click.clone(), &checks);
    let denied = call("c3", click.clone(), &checks);
    let replies = vec![
        vec![first.clone()],
        vec![bought.clone()],
        vec![denied.clone()],
        vec![json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "Done.", "annotations": []}]})],
    ];
    let script = Arc::new(Mutex::new(Script { replies, asked: Vec::new() }));
    let (address, server) = serve(Router::new().fallback(post(answer)).with_state(Arc::clone(&script))).await;
    let model = ModelConfig::openai_responses("gpt-5.5", "GPT", "key").with_base_url(address);
    let log = Arc::default();
    let agent = BasicAgent::new(model)
        .with_provider(ProviderRegistry::default())
        .with_tool(screen(&log))
        .with_hooks(Hooks::new().policy(policy()))
        .configure(|c| c.request.server_tools = vec![ComputerUse::new(1_280, 800).into()]);
    assert_eq!(confirm_the_first(&agent).await, 2);
    server.abort();
    assert_eq!(
        *log.lock().unwrap(),
        [
            json!({"actions": [{"type": "screenshot"}]}),
            json!({"actions": click, "pending_safety_checks": checks}),
        ]
    );

    let asked = script.lock().unwrap().asked.clone();
    assert_eq!(asked.len(), 4);
    assert_eq!(asked[0]["tools"], json!([{"type": "computer"}]));
    let input = asked[3]["input"].as_array().unwrap();
    for item in [&first, &bought, &denied] {
        assert!(input.contains(item), "{input:?}");
    }
    let screenshot = format!("data:image/png;base64,{PNG}");
    let shown = json!({"type": "computer_screenshot", "image_url": screenshot});
    assert_eq!((&output(&asked[3], "c1")["output"], &output(&asked[3], "c2")["output"]), (&shown, &shown));
    assert_eq!(output(&asked[3], "c1").get("acknowledged_safety_checks"), None);
    assert_eq!(output(&asked[3], "c2")["acknowledged_safety_checks"], checks);
    assert_eq!(output(&asked[3], "c3").get("acknowledged_safety_checks"), None);
    let last = input.last().unwrap().to_string();
    assert!(last.contains("failed without a screenshot") && last.contains("not that"), "{last}");
}

/// Answers with the parts of the next reply of Gemini.
#[cfg(feature = "google")]
async fn answer_in_parts(State(script): State<Arc<Mutex<Script>>>, body: String) -> impl IntoResponse {
    let mut script = script.lock().unwrap();
    script.asked.push(serde_json::from_str(&body).unwrap());
    let parts = script.replies.remove(0).into_iter();
    let mut frames: Vec<Value> = parts
        .map(|part| json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}))
        .collect();
    frames.push(json!({"candidates": [{"finishReason": "STOP", "index": 0}]}));
    let text: String = frames.iter().map(|frame| format!("data: {frame}\r\n\r\n")).collect();
    ([(CONTENT_TYPE, "text/event-stream")], text)
}

#[cfg(feature = "google")]
#[tokio::test]
async fn actions_of_gemini_control_the_screen_and_a_denied_one_is_not_confirmed() {
    let ask = json!({"decision": "require_confirmation", "explanation": "It buys something."});
    let call =
        |id: &str, name: &str, args: Value| json!({"functionCall": {"id": id, "name": name, "args": args}});
    let buy = json!({"x": 500, "y": 999, "safety_decision": ask});
    let replies = vec![
        vec![
            json!({"text": "I open the shop.", "thought": true}),
            call("c1", "navigate", json!({"url": "https://shop.example"})),
            call("c2", "take_screenshot", json!({"intent": "I look."})),
        ],
        vec![call("c3", "click_at", buy.clone())],
        vec![call("c4", "click_at", buy.clone())],
        vec![json!({"text": "Done."})],
    ];
    let sent = replies.clone();
    let script = Arc::new(Mutex::new(Script { replies, asked: Vec::new() }));
    let app = Router::new().fallback(post(answer_in_parts)).with_state(Arc::clone(&script));
    let (address, server) = serve(app).await;
    let model = ModelConfig::google("gemini-2.5-computer-use-preview-10-2025", "Gemini", "key");
    let log = Arc::default();
    let agent = BasicAgent::new(model.with_base_url(address))
        .with_provider(ProviderRegistry::default())
        .with_tool(screen(&log))
        .with_hooks(Hooks::new().policy(policy()))
        .configure(|c| c.request.server_tools = vec![ComputerUse::new(1_440, 900).into()]);
    assert_eq!(confirm_the_first(&agent).await, 2);
    server.abort();
    assert_eq!(
        *log.lock().unwrap(),
        [
            json!({"action": "navigate", "url": "https://shop.example"}),
            json!({"action": "take_screenshot", "intent": "I look."}),
            json!({"action": "click_at", "x": 500, "y": 999, "safety_decision": ask}),
        ]
    );

    let asked = script.lock().unwrap().asked.clone();
    assert_eq!(asked[0]["tools"], json!([{"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}]));
    let contents = asked[3]["contents"].as_array().unwrap();
    let calls = contents.iter().filter(|content| content["role"] == "model");
    let calls: Vec<&Value> = calls.flat_map(|content| content["parts"].as_array().unwrap()).collect();
    let made = sent.iter().flatten().filter(|part| part.get("functionCall").is_some());
    for part in made {
        assert!(calls.contains(&part), "{calls:?}");
    }
    let parts = contents.iter().flat_map(|content| content["parts"].as_array().unwrap());
    let responses: Vec<&Value> = parts.filter_map(|part| part.get("functionResponse")).collect();
    let page = json!("https://shop.example/");
    let names: Vec<&Value> = responses.iter().map(|response| &response["name"]).collect();
    assert_eq!(names, ["navigate", "take_screenshot", "click_at", "click_at"]);
    assert_eq!(responses[0]["response"], json!({"url": page}));
    assert_eq!(responses[0]["parts"], json!([{"inlineData": {"mimeType": "image/png", "data": PNG}}]));
    assert_eq!(responses[2]["response"], json!({"url": page, "safety_acknowledgement": "true"}));
    let denied = responses[3]["response"].to_string();
    assert!(denied.contains("not that") && !denied.contains("acknowledgement"), "{denied}");
    assert_eq!(responses[3].get("parts"), None);
}
