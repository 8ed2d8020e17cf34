//! Hooks that stop a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent_core::testing::ManualEnvironment;
use agent_core::testing::{ScriptedReply, ScriptedTool, assert_well_formed, transcript};
use agent_core::{
    AgentContext, AgentEvent, AgentLoopConfig, CancellationToken, Ended, EventSender, FilterResult,
    HookError, Hooks, ModelConfig, agent_loop, event_channel,
};
use serde_json::json;

use crate::room::{agent, boxed, model, run};

/// REQ-182.
#[tokio::test]
async fn a_loop_that_is_refused_says_agent_end_alone_and_after_loop_is_not_told() {
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let hooks = Hooks::new().before_loop(|_| async { false }).after_loop(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let model = model([]);
    let agent = agent(&model).with_hooks(hooks);
    let events = run(&agent).await;
    assert_eq!(transcript(&events), "agent_end(vetoed)");
    assert!(matches!(&events[0], AgentEvent::AgentEnd(end) if end.messages.is_empty()));
    assert_eq!(told.load(Ordering::SeqCst), 0);
    assert!(model.requests().is_empty() && agent.messages().is_empty());
}

/// REQ-182.
#[tokio::test]
async fn after_loop_is_told_the_messages_and_the_tokens_of_the_run() {
    let seen = crate::room::Notes::default();
    let note = seen.clone();
    let hooks =
        Hooks::new().before_loop(|info| async move { info.history.is_empty() }).after_loop(move |end| {
            note.add(format!("{} messages, {} tokens", end.messages.len(), end.usage.total_tokens));
        });
    let usage = agent_core::Usage::new(10, 5, 0, 0);
    let model = model([ScriptedReply::text("hello").using(usage)]);
    let mut context = AgentContext::new("").with_tools(Vec::new());
    let mut config = AgentLoopConfig::new(
        Arc::new(model),
        ModelConfig::default(),
        Arc::new(ManualEnvironment::skipping(0)),
    );
    *config.hooks = hooks;
    let (tx, _rx) = event_channel();
    agent_loop(vec!["hi".into()], &mut context, &config, tx, CancellationToken::new()).await.unwrap();
    assert_eq!(seen.all(), ["2 messages, 15 tokens"]);
    // A second loop finds a conversation, and is refused.
    let none = EventSender::none();
    let messages =
        agent_loop(vec!["hi".into()], &mut context, &config, none, CancellationToken::new()).await.unwrap();
    assert!(messages.is_empty());
    assert_eq!(seen.all().len(), 1);
}

/// REQ-091.
#[tokio::test]
async fn a_turn_that_is_refused_does_not_begin_and_the_run_ends() {
    let hooks = Hooks::new().before_turn(|turn| async move { turn.index == 0 });
    let model = model([ScriptedReply::call("a", "t", json!({}))]);
    let agent = agent(&model).with_tools(boxed([ScriptedTool::saying("t", "ok")])).with_hooks(hooks);
    let events = run(&agent).await;
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user assistant() tool+(a) tool-(a) result(a) turn_end agent_end(turn_vetoed)"
    );
    assert_eq!(model.requests().len(), 1);
}

/// B-007: what was let in by the filters stays in the conversation, also where its turn never begins.
#[tokio::test]
async fn a_prompt_outlives_the_refusal_of_its_turn() {
    let model = model([]);
    let agent = agent(&model).with_hooks(Hooks::new().before_turn(|_| async { false }));
    let events = run(&agent).await;
    assert_eq!(transcript(&events), "agent_start user agent_end(turn_vetoed)");
    assert_well_formed(&events);
    let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!() };
    assert_eq!((end.messages.len(), agent.messages().len()), (1, 1));
}

/// REQ-091.
#[tokio::test]
async fn before_turn_is_told_the_conversation_and_the_number_of_the_turn() {
    let seen = crate::room::Notes::default();
    let note = seen.clone();
    let hooks = Hooks::new().before_turn(move |turn| {
        note.add(format!("{}:{}", turn.index, turn.history.len()));
        async { true }
    });
    let model = model([ScriptedReply::call("a", "t", json!({})), "done".into()]);
    let agent = agent(&model).with_tools(boxed([ScriptedTool::saying("t", "ok")])).with_hooks(hooks);
    run(&agent).await;
    assert_eq!(seen.all(), ["0:0", "1:3"]);
}

/// A gate that cannot decide lets nothing through, whether it fails later or at once.
#[tokio::test]
async fn a_gate_that_fails_or_panics_is_closed() {
    let cases = [
        Hooks::new().before_loop(|_| async { Err::<bool, _>(HookError::new("no list")) }),
        Hooks::new().before_loop(|_| -> std::future::Ready<bool> { panic!("no list") }),
        Hooks::new().before_turn(|_| async { Err::<bool, _>(HookError::new("no list")) }),
        Hooks::new().before_turn(|_| -> std::future::Ready<bool> { panic!("no list") }),
        Hooks::new().input_filter(|_: &str| -> FilterResult { panic!("no list") }),
    ];
    for hooks in cases {
        let model = model([]);
        let events = run(&agent(&model).with_hooks(hooks)).await;
        let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!() };
        let (Ended::Vetoed { reason } | Ended::TurnVetoed { reason } | Ended::InputRejected { reason }) =
            &end.ended
        else {
            panic!("{:?}", end.ended)
        };
        assert!(reason.contains("no list"), "{reason}");
        assert!(model.requests().is_empty());
    }
}
