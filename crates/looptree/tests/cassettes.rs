//! Cassettes of runs with sub-agents and with the tools of an MCP server.
#![cfg(all(feature = "mcp", feature = "session"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

use looptree::Message;
use looptree::compat::SeedSetters as _;
use std::io::{BufRead as _, Write as _};
use std::time::Duration;

use looptree::model::ApiProtocol;
use looptree::prelude::*;
use looptree::retry::RetryConfig;
use looptree::session::{CassetteRecorder, Replay};
use looptree::testing::{ScriptedProvider, ScriptedReply};
use looptree::tools::SubAgentTool;
use serde_json::{Value, json};

async fn run(agent: &BasicAgent) -> Vec<AgentEvent> {
    let events = agent.prompt("go").unwrap().collect();
    tokio::time::timeout(Duration::from_secs(30), events).await.expect("it hangs")
}

fn results(events: &[AgentEvent]) -> Vec<String> {
    let ends = events.iter().filter_map(|event| match event {
        AgentEvent::ToolExecutionEnd(end) => Some(end.result.to_text()),
        _ => None,
    });
    ends.collect()
}

fn model(id: &str) -> ModelConfig {
    ModelConfig::new(ApiProtocol::AnthropicMessages, "p", id)
}

fn boss(provider: &ScriptedProvider) -> BasicAgent {
    let helper =
        SubAgentTool::new("helper", model("small")).configure(|c| c.policy.retry = RetryConfig::none());
    BasicAgent::new(model("boss"))
        .with_provider(provider.clone())
        .with_retry_config(RetryConfig::none())
        .with_tool(helper)
}

/// X2. A sub-agent that is run again in a replay gets the recorded replies of its own model.
#[tokio::test]
async fn a_recorded_run_replays_with_its_children() {
    let provider =
        ScriptedProvider::responding(|request| {
            match (request.model.id.as_str(), request.messages().count()) {
                ("boss", 1) => ScriptedReply::new()
                    .and_call("c0", "helper", json!({"task": "task 0"}))
                    .and_call("c1", "helper", json!({"task": "task 1"})),
                ("boss", _) => "done".into(),
                _ => {
                    let task = request.messages().last().map(Message::text).unwrap_or_default();
                    format!("done with {task}").as_str().into()
                }
            }
        });
    let recorder = CassetteRecorder::new().running_again(["helper"]);
    let then = run(&recorder.attach(boss(&provider))).await;
    let file = recorder.cassette().to_json().unwrap();

    let replay = Replay::from_json(&file).unwrap();
    let nobody = ScriptedProvider::new(Vec::<ScriptedReply>::new()).exhaustive();
    let now = run(&replay.attach(boss(&nobody))).await;
    assert_eq!(results(&now), ["done with task 0", "done with task 1"]);
    assert_eq!(results(&now), results(&then));
    let replayed = replay.finish().unwrap();
    assert_eq!((replayed.model_calls, replayed.tool_calls), (4, 0));
    assert!(nobody.requests().is_empty());
}

/// The variable that makes a process of this test an MCP server over stdio.
const MODE: &str = "LOOPTREE_TEST_MCP_SERVER";

/// A server with one tool, which repeats its argument.
#[test]
fn server_process() {
    if std::env::var_os(MODE).is_none() {
        return;
    }
    let mut out = std::io::stdout().lock();
    // The test harness has begun a line.
    writeln!(out).unwrap();
    for line in std::io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let Some(id) = message.get("id") else { continue };
        let result = match message["method"].as_str().unwrap() {
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "echo", "version": "1"},
            }),
            "tools/list" => json!({"tools": [{
                "name": "echo",
                "description": "Repeats a text.",
                "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
            }]}),
            "tools/call" => {
                json!({"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]})
            }
            _ => json!({}),
        };
        writeln!(out, "{}", json!({"jsonrpc": "2.0", "id": id, "result": result})).unwrap();
        out.flush().unwrap();
    }
}

/// X2. A run with the tools of a server replays when the server is gone.
#[tokio::test]
async fn a_recorded_run_replays_without_its_server() {
    let provider = ScriptedProvider::new([
        ScriptedReply::call("1", "echo", json!({"text": "hello"})),
        ScriptedReply::text("Done."),
    ]);
    let recorder = CassetteRecorder::new();
    let program = std::env::current_exe().unwrap();
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(provider)
        .with_mcp_server_stdio(program, ["server_process", "--exact", "--nocapture"], [(MODE, "1")])
        .await
        .unwrap();
    let then = run(&recorder.attach(agent)).await;
    let file = recorder.cassette().to_json().unwrap();

    let replay = Replay::from_json(&file).unwrap();
    let agent = BasicAgent::new(ModelConfig::default()).with_tools(replay.tools());
    let now = run(&replay.attach(agent)).await;
    assert_eq!(now, then);
    assert_eq!(results(&now), ["hello"]);
    replay.finish().unwrap();
}
