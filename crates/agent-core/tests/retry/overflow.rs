//! A conversation that is too long for its model.

use agent_core::compat::SeedSetters as _;
use agent_core::compat::SeedVerbs as _;
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool, transcript};
use agent_core::{
    AgentEvent, AgentMessage, BasicAgent, CompactionContext, CompactionError, CompactionOutcome,
    CompactionReason, CompactionStrategy, ContextConfig, DefaultCompaction, ErrorKind, History, Message,
    ModelConfig, RunEnd, RunFailure, StopReason, Usage,
};
use async_trait::async_trait;
use serde_json::json;
use std::sync::{Arc, Mutex};

use crate::room::{agent, boxed, model, run};

fn overflow() -> ScriptedReply {
    ScriptedReply::error(ErrorKind::ContextOverflow, "prompt is too long: 210000 tokens > 200000 maximum")
}

/// An agent with a past of forty long messages.
fn with_past(model: &ScriptedProvider) -> BasicAgent {
    with_past_of(model, 100)
}

/// An agent with a past of forty messages of this many words.
fn with_past_of(model: &ScriptedProvider, words: usize) -> BasicAgent {
    let agent = agent(model);
    let past = (0..20).flat_map(|n| {
        let mut reply = agent_core::AssistantMessage::new("p", "m", StopReason::Stop);
        reply.content.push(agent_core::Content::text(format!("answer {n} {}", "word ".repeat(words))));
        [AgentMessage::user(format!("question {n} {}", "word ".repeat(words))), Message::from(reply).into()]
    });
    agent.replace_messages(past.collect()).unwrap();
    agent
}

fn reasons(events: &[AgentEvent]) -> Vec<CompactionReason> {
    let reasons = events.iter().filter_map(|e| match e {
        AgentEvent::CompactionStarted { reason, .. } => Some(*reason),
        _ => None,
    });
    reasons.collect()
}

/// B-167, REQ-077.
#[tokio::test]
async fn an_overflow_is_answered_by_one_compaction_and_the_same_turn_again() {
    let model = model([overflow(), "hello".into()]);
    let agent = with_past(&model);
    let events = run(&agent).await;
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user compact+ compact- assistant(hello) turn_end agent_end(completed)"
    );
    assert_eq!(reasons(&events), [CompactionReason::Overflow]);
    let sent: Vec<u64> = model.requests().iter().map(|r| r.history.tokens()).collect();
    assert!(sent[1] * 100 <= sent[0] * 75, "what is sent again is shorter: {sent:?}");
    let last = model.requests()[1].messages().last().unwrap().text();
    assert_eq!(last, "go", "the newest message is still there");
    assert!(agent.history().llm_messages().all(|m| !m.is_context_overflow()));
}

/// Compacts as the default strategy does, and records the budgets.
#[derive(Debug, Clone, Default)]
struct Budgets(Arc<Mutex<Vec<u64>>>);

#[async_trait]
impl CompactionStrategy for Budgets {
    async fn compact(
        &self,
        history: &History,
        config: &ContextConfig,
        cx: &CompactionContext,
    ) -> Result<CompactionOutcome, CompactionError> {
        self.0.lock().unwrap().push(cx.budget);
        DefaultCompaction.compact(history, config, cx).await
    }
}

/// REQ-077.
#[tokio::test]
async fn an_overflow_is_compacted_to_three_quarters_of_what_was_sent() {
    let model = model([overflow(), "hello".into()]);
    let budgets = Budgets::default();
    let agent = with_past(&model).with_compaction_strategy(budgets.clone());
    run(&agent).await;
    let sent: Vec<u64> = model.requests().iter().map(|r| r.history.tokens()).collect();
    assert_eq!(*budgets.0.lock().unwrap(), [sent[0] * 75 / 100]);
    assert!(sent[1] <= sent[0] * 75 / 100);
}

/// B-167.
#[tokio::test]
async fn a_second_overflow_is_the_turns_error() {
    let model = model([overflow(), overflow()]);
    let agent = with_past(&model);
    let events = run(&agent).await;
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user compact+ compact- assistant!() turn_end agent_end(error)"
    );
    let Some(RunEnd::Failed(RunFailure::Model { kind, .. })) = agent.finish().await else { panic!() };
    assert_eq!(kind, ErrorKind::ContextOverflow);
    assert!(agent.error_message().unwrap().contains("prompt is too long"));
}

/// REQ-077.
#[tokio::test]
async fn without_a_context_config_an_overflow_is_an_error_and_nothing_is_compacted() {
    let model = model([overflow()]);
    let agent = with_past(&model).with_context_config(None);
    let events = run(&agent).await;
    assert!(reasons(&events).is_empty());
    assert!(transcript(&events).ends_with("agent_end(error)"));
    assert!(agent.history().last_reply().unwrap().is_context_overflow());
}

/// A conversation that cannot be shortened: the error says what the provider said, not only what the budget lacks.
#[tokio::test]
async fn an_overflow_that_nothing_can_be_done_about_is_told_in_the_providers_words() {
    let model = model([overflow()]);
    let agent = agent(&model);
    let events = run(&agent).await;
    assert!(transcript(&events).ends_with("agent_end(error)"));
    let error = agent.error_message().unwrap();
    assert!(error.contains("prompt is too long: 210000 tokens"), "{error}");
    assert!(error.contains("cannot be shortened"), "{error}");
}

/// A window that the past of one word for each message fits by the estimate.
fn small_window() -> ModelConfig {
    ModelConfig::default().with_limits(1_000, 100)
}

/// B-161.
#[tokio::test]
async fn a_prompt_that_was_cut_in_silence_is_an_overflow() {
    let cut = [
        ScriptedReply::text("what?").using(Usage::new(700, 5, 301, 0)),
        ScriptedReply::new().stopping(StopReason::Length).using(Usage::new(990, 0, 0, 0)),
        // Tokens that were read from a cache or written to one are a part of the prompt.
        ScriptedReply::text("what?").using(Usage::new(1, 5, 500, 500)),
        ScriptedReply::text("what?").using(Usage::new(1, 5, 0, 1_000)),
        ScriptedReply::new().stopping(StopReason::Length).using(Usage::new(90, 0, 500, 400)),
    ];
    for reply in cut {
        let model = model([reply, "hello".into()]);
        let agent = with_past_of(&model, 1).with_model_config(small_window());
        let events = run(&agent).await;
        assert_eq!(reasons(&events), [CompactionReason::Overflow]);
        assert!(
            transcript(&events).ends_with("assistant(hello) turn_end agent_end(completed)"),
            "{}",
            transcript(&events)
        );
    }
    let whole = [
        ScriptedReply::text("ok").using(Usage::new(700, 5, 300, 0)),
        ScriptedReply::new().stopping(StopReason::Length).using(Usage::new(980, 0, 0, 0)),
        ScriptedReply::text("long").stopping(StopReason::Length).using(Usage::new(995, 5, 0, 0)),
    ];
    for reply in whole {
        let model = model([reply]);
        let agent = with_past_of(&model, 1).with_model_config(small_window());
        assert!(reasons(&run(&agent).await).is_empty());
    }
}

/// B-161, B-167.
#[tokio::test]
async fn a_prompt_that_is_cut_in_silence_twice_is_an_error() {
    let cut = || ScriptedReply::text("what?").using(Usage::new(1_001, 5, 0, 0));
    let model = model([cut(), cut()]);
    let agent = with_past_of(&model, 1).with_model_config(small_window());
    let events = run(&agent).await;
    assert_eq!(reasons(&events), [CompactionReason::Overflow]);
    let Some(RunEnd::Failed(RunFailure::Model { kind, .. })) = agent.finish().await else {
        panic!("{}", transcript(&events))
    };
    assert_eq!(kind, ErrorKind::ContextOverflow);
}

/// B-168.
#[tokio::test]
async fn an_overflow_of_the_model_before_compacts_nothing_for_the_next_one() {
    let model = model([overflow(), "hello".into()]);
    let mut agent = with_past(&model).with_context_config(None);
    run(&agent).await;
    assert!(agent.history().last_reply().unwrap().is_context_overflow());
    agent.set_model(ModelConfig::anthropic("larger", "Larger", "key"));
    let agent = agent.with_context_config(ContextConfig::default());
    let events = run(&agent).await;
    assert!(reasons(&events).is_empty());
    assert!(transcript(&events).ends_with("assistant(hello) turn_end agent_end(completed)"));
}

/// B-184.
#[tokio::test]
async fn a_count_from_before_a_compaction_does_not_set_off_another() {
    let call = |id: &str| ScriptedReply::call(id, "t", json!({}));
    let model = model([
        call("a").using(Usage::new(150_000, 10, 0, 0)),
        call("b"),
        call("c").using(Usage::new(2_000, 10, 0, 0)),
        "done".into(),
    ]);
    let agent = with_past(&model).with_tools(boxed([ScriptedTool::saying("t", "ok")]));
    let events = run(&agent).await;
    assert_eq!(reasons(&events), [CompactionReason::Budget]);
    let words = transcript(&events);
    assert!(words.contains("result(a) turn_end turn_start compact+ compact-"), "{words}");
}
