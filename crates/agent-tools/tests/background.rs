//! Commands that `bash` starts in the background: the tool by itself, with an agent and real processes.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this is a part of tests"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::{BasicAgent, Message, ModelConfig, SystemEnvironment};
use agent_tools::BashTool;
use agent_tools::background_work::{BackgroundWork, WorkState};
use serde_json::json;
use support::{call, failure, folder};

const HANG: Duration = Duration::from_secs(60);

/// Runs a command in the background to its end. Returns the text that the conversation has of it.
async fn end_of(work: &BackgroundWork, command: &str) -> String {
    let folder = folder();
    let model = ScriptedProvider::new([
        ScriptedReply::call("c1", "bash", json!({"command": command, "background": true})),
        "It runs.".into(),
        "It has ended.".into(),
    ]);
    let agent = BasicAgent::new(ModelConfig::default())
        .with_environment(Arc::new(SystemEnvironment))
        .with_provider(model)
        .with_tool(BashTool::new(folder.workspace.clone()).with_background_work(work.clone()));
    work.attach(&agent).unwrap();
    for prompt in ["Start it", "And?"] {
        tokio::time::timeout(HANG, agent.prompt(prompt).unwrap().collect()).await.expect("it hangs");
        tokio::time::timeout(HANG, work.wait()).await.expect("the work hangs");
    }
    let messages = agent.messages();
    let ends = messages
        .iter()
        .filter(|message| matches!(message.as_llm(), Some(Message::User(user)) if user.deferred.is_some()));
    ends.map(|message| message.text()).collect()
}

#[tokio::test]
async fn the_end_has_the_last_output_and_the_key_of_the_rest() {
    let work = BackgroundWork::new();
    let end = end_of(&work, "echo one; echo two >&2; exit 3").await;
    assert!(end.contains("Exit code: 3\n"), "{end}");
    assert!(end.contains("one\n") && end.contains("two\n"), "{end}");
    assert!(!end.contains("bytes; read_output"), "{end}");

    let end = end_of(&work, "head -c 40000 /dev/zero | tr '\\0' x; echo END").await;
    let [_, info] = &work.list()[..] else { panic!("{:?}", work.list()) };
    let note =
        format!("Exit code: 0\n[the last 16384 of 40004 bytes; read_output with key \"{}\"", info.output_key);
    assert!(end.contains(&note), "{end}");
    assert!(end.contains("xEND\n"), "{end}");
    assert_eq!(end.matches('x').count(), 16_380 + 1, "the text \"Exit\" has one more");
    let whole = work.output_store().read(&info.output_key, 0, 1 << 20).await.unwrap();
    assert_eq!(whole.text().len(), 40_004);
}

#[tokio::test]
async fn the_end_of_a_signal_and_of_a_time_limit_are_named() {
    let work = BackgroundWork::new();
    let end = end_of(&work, "echo before; kill -9 $$").await;
    assert!(end.contains("Exit code: -1\nbefore\n"), "{end}");
    assert_eq!(work.list()[0].state, WorkState::Ended);
    let work = BackgroundWork::new().with_max_duration(Duration::from_secs(2));
    let end = end_of(&work, "echo before; sleep 300").await;
    assert!(end.contains("Command timed out after 2s\nbefore\n"), "{end}");
    assert_eq!(work.list()[0].state, WorkState::TimedOut);
}

#[tokio::test]
async fn without_background_work_nothing_is_started() {
    let folder = folder();
    let tool = BashTool::new(folder.workspace.clone());
    let told = failure(call(&tool, json!({"command": "touch started", "background": true})).await);
    assert!(told.contains("background"), "{told}");
    assert!(!folder.path().join("started").exists());
}
