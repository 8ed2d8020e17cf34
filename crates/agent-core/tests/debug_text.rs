//! The Debug text of contexts, channels, runs and agents: figures, and no word of a conversation.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

#[path = "support/runs.rs"]
mod runs;

use std::fmt::Debug;

use agent_core::testing::{ScriptedReply, ScriptedTool};
use agent_core::{
    AgentContext, AgentMessage, Branch, BranchSpec, History, Hooks, ReplyLog, RunEnd, StreamEvent, Verdict,
    agent_loop_stream, event_channel,
};
use serde_json::json;

const PRIVATE: &str = "my password is tulip";

#[track_caller]
fn check(name: &str, value: &dyn Debug) {
    for text in [format!("{value:?}"), format!("{value:#?}")] {
        assert!(text.contains(|c: char| c.is_ascii_uppercase()), "{name} has no name of a type: {text:?}");
        assert!(!text.contains("tulip"), "{name}: {text}");
        assert!(text.len() < 2_500, "{name} is {} characters long: {text}", text.len());
    }
}

/// A program that logs one of these must not write whole conversations into its log.
#[tokio::test]
async fn no_debug_text_of_a_container_has_a_word_of_the_conversation() {
    let (agent, model) = runs::agent([PRIVATE, "done"]);
    let events = runs::run(&agent, PRIVATE).await;
    assert!(events.iter().any(|e| format!("{e:?}").contains(PRIVATE)), "the run has the words");

    let (tx, receiver) = event_channel();
    for event in events {
        tx.send(event);
    }
    let history = History::repaired(agent.messages()).0;
    assert_eq!(history.len(), 2);
    let context = AgentContext::new(PRIVATE).with_history(history.clone());
    let mut log = ReplyLog::new();
    log.push(&StreamEvent::TextDelta { index: 0, delta: PRIVATE });
    agent.follow_up(PRIVATE);
    check("agent", &agent);
    check("handle", &agent.handle());
    check("state", &agent.state());
    check("agent snapshot", &agent.snapshot());
    check("history", &history);
    check("context", &context);
    check("receiver", &receiver);
    check("sender", &tx);
    check("reply log", &log);
    check("reply snapshot", &log.snapshot());
    check("request", &agent.request(PRIVATE));
    check("typed request", &agent.request(PRIVATE).typed::<u32>());
    check("model request", &model.requests()[0]);
    check("units", &history.units().collect::<Vec<_>>());
    let Some(RunEnd::Completed(reply)) = agent.finish().await else { panic!() };
    assert_eq!(reply.messages.len(), 2);
    check("reply of a run", &reply);
    assert_eq!(model.requests().len(), 1);

    let config = agent.config();
    let branch = Branch::new(config.clone())
        .with_prompts(vec![AgentMessage::user(PRIVATE)])
        .with_history(history)
        .with_system_prompt(PRIVATE);
    check("branch", &branch);
    check("branch specification", &BranchSpec::new().with_system_prompt(PRIVATE));
    let prompts = vec![AgentMessage::user(PRIVATE)];
    let stream = agent_loop_stream(prompts, context, config, agent_core::CancellationToken::new());
    let stream = stream.unwrap();
    check("stream", &stream);
    check("result", &runs::within(stream.result()).await.unwrap());
}

/// A run that waits holds its messages, its open calls, its queues and the question.
#[tokio::test]
async fn no_debug_text_of_a_waiting_run_has_a_word_of_the_conversation() {
    let call = ScriptedReply::call("c1", "work", json!({"for": PRIVATE})).and_text(PRIVATE);
    let (agent, _) = runs::agent([call, "done".into()]);
    let hooks = Hooks::new().before_tool(|_| async { Verdict::Ask("May it?".into()) });
    let agent = agent.with_hooks(hooks).with_tool(ScriptedTool::saying("work", PRIVATE));
    runs::run(&agent, PRIVATE).await;
    agent.follow_up(PRIVATE);
    let snapshot = agent.snapshot();
    check("agent snapshot", &snapshot);
    let run = snapshot.suspended.expect("the run waits");
    check("run", &run);
    check("checkpoint", &run.checkpoint());
}
