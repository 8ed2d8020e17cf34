//! Sub-agents in the recorded tree.
#![cfg(all(feature = "tools", feature = "session"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

use looptree::Message;
use looptree::Usage;
use looptree::identity::SessionId;
use looptree::model::ApiProtocol;
use looptree::prelude::*;
use looptree::session::LoopStatus;
use looptree::testing::{ScriptedProvider, ScriptedReply};
use looptree::tools::SubAgentTool;
use serde_json::json;

fn model(id: &str) -> ModelConfig {
    ModelConfig::new(ApiProtocol::AnthropicMessages, "p", id)
}

fn boss_and_helpers() -> ScriptedProvider {
    ScriptedProvider::responding(|r| match (r.model.id.as_str(), r.messages().count()) {
        ("boss", 1) => ScriptedReply::new().and_call("a", "helper", json!({"task": "first"})).and_call(
            "b",
            "helper",
            json!({"task": "second"}),
        ),
        ("small", _) => ScriptedReply::text("found").using(Usage::new(7, 3, 0, 0)),
        _ => "done".into(),
    })
}

/// REQ-141, REQ-194, REQ-212.
#[tokio::test]
async fn a_child_s_loop_is_in_the_tree_and_both_sides_name_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let store = JsonStore::open(folder.path()).unwrap();
    let mut agent = looptree::agent(model("boss"))
        .with_provider(boss_and_helpers())
        .with_tool(SubAgentTool::new("helper", model("small")));
    let recorder = SessionRecorder::attach(&mut agent, store);
    agent.prompt("go").unwrap().collect().await;
    let parent_id = agent.session_id();
    recorder.close().await.unwrap();

    let store = JsonStore::open(folder.path()).unwrap();
    let parent = store.load_session(parent_id.as_str()).unwrap().into_session();
    let record = &parent.loops[0];
    assert_eq!(record.status, LoopStatus::Completed);
    // The calls run at the same time, so either can end first.
    let mut refs: Vec<_> = record.child_loop_refs.iter().collect();
    refs.sort_by(|a, b| a.tool_call_id.cmp(&b.tool_call_id));
    let calls: Vec<&str> = refs.iter().map(|r| r.tool_call_id.as_str()).collect();
    assert_eq!(calls, ["a", "b"]);
    for (link, task) in refs.iter().zip(["first", "second"]) {
        let child: SessionId = link.child_session_id.clone();
        let child = store.load_session(child.as_str()).unwrap();
        let child = child.into_session();
        let spawn = child.parent_spawn_ref.as_ref().unwrap();
        assert_eq!((&spawn.parent_session_id, &spawn.parent_loop_id), (&parent_id, &record.loop_id));
        assert_eq!((&spawn.tool_call_id, spawn.tool_name.as_str()), (&link.tool_call_id, "helper"));
        assert_eq!(child.loops[0].loop_id, link.child_loop_id);
        assert_eq!(child.loops[0].parent_loop_id.as_ref(), Some(&record.loop_id));
        assert_eq!(child.loops[0].status, LoopStatus::Completed);
        let history = child.history().unwrap();
        let said: Vec<String> = history.llm_messages().map(Message::text).collect();
        assert_eq!(said, [task, "found"]);
    }
}
