//! What things cost in memory, so that a careless field is noticed.

use std::mem::{size_of, size_of_val};
use std::sync::Arc;

use agent_core::drive::drive;
use agent_core::run::{Checkpoint, Input, Run, RunSetup, Step};
use agent_core::testing::ScriptedProvider;
use agent_core::{
    AgentContext, AgentEvent, AgentLoopConfig, AgentMessage, CancellationToken, Content, Entry, EventSender,
    History, MessageRef, ModelConfig, StreamDelta, Timestamp, ToolResult, agent_loop,
};

#[track_caller]
fn check(what: &str, bytes: usize, most: usize) {
    println!("{what}: {bytes} bytes");
    assert!(bytes <= most, "{what} has grown to {bytes} bytes, more than {most}");
}

/// Every event goes through channels, listeners and the log by value.
#[test]
fn events_and_inputs_are_small() {
    check("AgentEvent", size_of::<AgentEvent>(), 120);
    check("StreamDelta", size_of::<StreamDelta>(), 40);
    check("Input", size_of::<Input>(), 200);
    check("Step", size_of::<Step>(), 120);
    check("Content", size_of::<Content>(), 120);
    check("ToolResult", size_of::<ToolResult>(), 144);
    check("History", size_of::<History>(), 8);
}

/// A run is moved and cloned by the driver, its checkpoints and its tests.
#[test]
fn a_run_is_small() {
    check("Run", size_of::<Run>(), 1_024);
}

/// A sub-agent's loop is inside a tool's future inside a loop: what one level costs is paid at each.
#[test]
fn the_future_of_a_loop_is_bounded() {
    let model = Arc::new(ScriptedProvider::texts(["hello"]));
    let config = AgentLoopConfig::system(model, ModelConfig::default());
    let mut context = AgentContext::new("");
    let begun =
        agent_loop(vec!["go".into()], &mut context, &config, EventSender::none(), CancellationToken::new());
    check("agent_loop", size_of_val(&begun), 10 * 1_024);
    drop(begun);
    let mut events = Vec::new();
    let run =
        Run::start(RunSetup::new("s.demo.1"), History::new(), vec!["go".into()], Timestamp(1), &mut events)
            .unwrap();
    let driven = drive(run, &context, &config, EventSender::none(), CancellationToken::new());
    check("drive", size_of_val(&driven), 10 * 1_024);
}

/// Forks and checkpoints cost the same however long the conversation is.
#[test]
fn a_clone_of_a_run_shares_everything_that_grows() {
    let mut history = History::new();
    for n in 0..1_000 {
        history.push(AgentMessage::user(format!("message {n}"))).unwrap();
    }
    let mut events = Vec::new();
    let prompts = (0..100).map(|n| AgentMessage::user(format!("prompt {n}"))).collect();
    let run =
        Run::start(RunSetup::new("s.demo.1"), history.clone(), prompts, Timestamp(1), &mut events).unwrap();
    let clone = run.clone();
    assert!(std::ptr::eq(run.setup(), clone.setup()));
    assert!(std::ptr::eq(run.new_messages().in_memory(), clone.new_messages().in_memory()));
    assert_eq!(run.history().shared_units(clone.history()), 1_100);
    assert_eq!(
        run.history().shared_units(&history),
        1_000,
        "a run shares the conversation that it was begun with"
    );
    let Step::CallModel { history: shown, .. } = run.next() else { panic!() };
    assert_eq!(shown.shared_units(run.history()), 1_100, "and so does a step");
}

/// A whole run contains each of its messages once, and its reader shares them again.
#[test]
fn a_whole_run_contains_each_message_once() {
    let run = crate::long_run::run_of(1_000).unwrap();
    let json = serde_json::to_string(&Checkpoint::of(&run)).unwrap();
    check("a whole run of 1,000 turns", json.len(), 700_000);
    assert_eq!(json.matches("src/file_512.rs").count(), 1);
    let read = Checkpoint::from_json(&json).unwrap().into_run();
    assert_eq!(read, run);
    let in_history = read.history().entries().map(Entry::shared);
    assert_eq!(read.new_messages().len(), 2_001);
    assert!(
        read.new_messages()
            .in_memory()
            .iter()
            .zip(in_history)
            .all(|(new, entry)| MessageRef::same(new, entry))
    );
}

/// The light form does not grow with the conversation.
#[test]
fn a_light_checkpoint_does_not_grow_with_the_conversation() {
    let size = |messages: usize| {
        let mut history = History::new();
        for n in 0..messages {
            history.push(AgentMessage::user(format!("message {n}"))).unwrap();
        }
        let mut events = Vec::new();
        let run =
            Run::start(RunSetup::new("s.demo.1"), history, vec!["go".into()], Timestamp(1), &mut events)
                .unwrap();
        serde_json::to_string(&run.checkpoint()).unwrap().len()
    };
    let (few, many) = (size(10), size(10_000));
    assert!(many <= few + 8, "{few} bytes for 10 messages, {many} for 10,000");
    check("a light checkpoint", many, 1_024);
}
