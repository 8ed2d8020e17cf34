//! Runs that fail.

use agent_core::compat::SeedSetters as _;
use agent_core::compat::SeedVerbs as _;
use std::sync::Arc;

use agent_core::drive::MAX_REPLY_BYTES;
use agent_core::testing::{Latch, ScriptedReply, ScriptedTool, assert_well_formed, transcript};
use agent_core::{
    AgentEvent, BasicAgent, Completion, Ended, ErrorKind, EventSink, HookError, Hooks, Message, ModelConfig,
    ModelRequest, ProviderError, RunEnd, RunFailure, StopReason, StreamDelta, StreamEvent, StreamProvider,
};
use async_trait::async_trait;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::room::{Notes, agent, boxed, model, run};

const FAILED: &str = "agent_start turn_start user assistant!() turn_end agent_end(error)";

/// B-067, B-068, REQ-083.
#[tokio::test]
async fn an_error_of_the_provider_is_in_the_state_and_the_next_prompt_clears_it() {
    let model = model([ScriptedReply::error(ErrorKind::Auth, "the key is wrong"), "hello".into()]);
    let agent = agent(&model);
    let events = run(&agent).await;
    assert_eq!(transcript(&events), FAILED);
    let error = agent.error_message().unwrap();
    assert!(error.contains("the key is wrong"), "{error}");
    let reply = agent.history().last_reply().cloned().unwrap();
    assert!(reply.content.is_empty() && reply.stop_reason == StopReason::Error);
    assert_eq!(reply.error_message.as_ref(), Some(&error));

    let events = agent.prompt("again").unwrap();
    assert_eq!(agent.error_message(), None, "cleared when the prompt begins, not when it has ended");
    assert_well_formed(&events.collect().await);
    assert_eq!(agent.error_message(), None);
    // The failed reply is kept for people and not sent.
    let sent: Vec<_> = model.requests()[1].messages().map(Message::role).collect();
    assert!(
        model.requests()[1].history.units().any(|u| u.kind() == agent_core::UnitKind::Failed),
        "{sent:?}"
    );
}

/// Says "word" for ever, a mebibyte at a time.
struct Endless;

#[async_trait]
impl StreamProvider for Endless {
    fn provider_id(&self) -> &'static str {
        "endless"
    }

    async fn stream(
        &self,
        _: &ModelRequest,
        sink: &mut EventSink<'_>,
        _: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        let words = "word".repeat(256 * 1_024);
        sink(StreamEvent::Start { response_id: None, model: None });
        loop {
            sink(StreamEvent::TextDelta { index: 0, delta: &words });
            tokio::task::yield_now().await;
        }
    }
}

/// Whoever is at the other end, a reply does not fill the memory.
#[tokio::test]
async fn a_reply_without_end_is_an_error_at_a_named_size() {
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(Endless);
    let mut events = agent.prompt("Hi").unwrap();
    let mut bytes = 0;
    let mut ended = None;
    while let Some(event) = events.recv().await {
        match event {
            AgentEvent::MessageUpdate { delta: StreamDelta::Text { text: delta }, .. } => {
                bytes += delta.len()
            }
            AgentEvent::AgentEnd(end) => ended = Some(end.ended),
            _ => {}
        }
    }
    assert!(bytes <= MAX_REPLY_BYTES + (1 << 20), "{bytes}");
    let Some(Ended::Error { message, .. }) = ended else { panic!("{ended:?}") };
    assert!(message.contains("64 MiB"), "{message}");
}

struct Broken;

#[async_trait]
impl StreamProvider for Broken {
    fn provider_id(&self) -> &'static str {
        "broken"
    }

    async fn stream(
        &self,
        _: &ModelRequest,
        _: &mut EventSink<'_>,
        _: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        panic!("no such method")
    }
}

/// B-069.
#[tokio::test]
async fn a_provider_that_panics_ends_the_run_like_one_that_fails() {
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(Broken);
    let events = run(&agent).await;
    assert_eq!(transcript(&events), FAILED);
    assert!(agent.error_message().unwrap().contains("no such method"));
    assert!(!agent.is_streaming());
}

/// REQ-039.
#[tokio::test]
async fn a_reply_shows_its_start_its_pieces_and_its_end() {
    let model = model([ScriptedReply::new()
        .and_thinking("hm", Some("sig"))
        .and_text("hello")
        .in_pieces_of(2)
        .and_call("a", "t", json!({}))]);
    let agent = agent(&model).with_tools(boxed([ScriptedTool::saying("t", "ok")]));
    let mut stream = agent.prompt("go").unwrap();
    let notes = Notes::default();
    let mut pieces = String::new();
    while let Some(event) = stream.recv().await {
        match event {
            AgentEvent::MessageStart { message, .. } if message.role() == "assistant" => notes.add("start"),
            AgentEvent::MessageUpdate { delta, content_index, attempt: 0, message, .. } => {
                if let StreamDelta::Text { text: delta } = &delta {
                    pieces.push_str(delta);
                    assert_eq!(message.text(), pieces);
                }
                let kind = match delta {
                    StreamDelta::Text { .. } => "text",
                    StreamDelta::Thinking { .. } => "thinking",
                    _ => "call",
                };
                notes.add(format!("{kind}{content_index}"));
            }
            AgentEvent::MessageEnd { message, .. } if message.role() == "assistant" => {
                notes.add("end");
                break;
            }
            _ => {}
        }
    }
    assert_eq!(notes.joined(), "start thinking0 text1 text1 text1 call2 end");
    agent.abort();
    agent.wait_for_idle().await;
}

/// REQ-039, REQ-083.
#[tokio::test]
async fn what_had_arrived_of_a_broken_reply_is_kept_with_the_error() {
    let model = model([ScriptedReply::text("half an ans").failing(ErrorKind::Api, "it broke")]);
    let agent = agent(&model);
    let events = run(&agent).await;
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user assistant!(half an ans) turn_end agent_end(error)"
    );
    assert!(matches!(
        agent.finish().await,
        Some(RunEnd::Failed(RunFailure::Model { kind: ErrorKind::Api, .. }))
    ));
}

/// REQ-081, REQ-093, REQ-092.
#[tokio::test]
async fn on_error_is_told_and_then_the_turn_ends_and_after_turn_is_told() {
    let notes = Notes::default();
    let (error, turn, heard) = (notes.clone(), notes.clone(), notes.clone());
    let hooks = Hooks::new()
        .on_error(move |text| error.add(format!("on_error({})", text.contains("it broke"))))
        .after_turn(move |t| turn.add(format!("after_turn({})", t.message.is_some())));
    let model = model([ScriptedReply::error(ErrorKind::Api, "it broke")]);
    let agent = agent(&model).with_hooks(hooks);
    agent.subscribe(move |e| {
        if !matches!(e, AgentEvent::MessageStart { .. }) {
            heard.add(transcript(std::slice::from_ref(e)));
        }
    });
    run(&agent).await;
    assert_eq!(
        notes.joined(),
        "agent_start turn_start user assistant!() on_error(true) turn_end after_turn(true) agent_end(error)"
    );
}

/// REQ-082, REQ-092.
#[tokio::test]
async fn an_abort_ends_the_turn_and_after_turn_is_told_and_on_error_is_not() {
    let notes = Notes::default();
    let (error, turn) = (notes.clone(), notes.clone());
    let hooks =
        Hooks::new().on_error(move |_| error.add("on_error")).after_turn(move |_| turn.add("after_turn"));
    let latch = Latch::new();
    let model = model([ScriptedReply::text("half").and_wait(&latch)]);
    let agent = agent(&model).with_hooks(hooks);
    let events = agent.prompt("go").unwrap();
    latch.reached().await;
    agent.abort();
    let events = events.collect().await;
    assert_well_formed(&events);
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user assistant!(half) turn_end agent_end(aborted)"
    );
    assert_eq!(notes.joined(), "after_turn");
}

/// B-084.
#[tokio::test]
async fn after_a_failure_nothing_is_pending_and_the_agent_is_idle() {
    let latch = Latch::new();
    let hold = latch.clone();
    let tool = ScriptedTool::new("t", move |_, _| {
        let hold = hold.clone();
        async move {
            hold.wait().await;
            Ok("ok".into())
        }
    });
    let model = model([ScriptedReply::call("a", "t", json!({})), "hello".into()]);
    let agent = agent(&model).with_tools(boxed([tool]));
    let events = agent.prompt("go").unwrap();
    latch.reached().await;
    assert_eq!(agent.state().pending_tool_calls.len(), 1);
    agent.abort();
    assert_well_formed(&events.collect().await);
    let state = agent.state();
    assert!(state.pending_tool_calls.is_empty() && !state.is_streaming && state.stream_message.is_none());
    assert_eq!(agent.chat("again").await.unwrap(), "hello");
}

/// A hook that fails is the run's error, in words that name it.
#[tokio::test]
async fn a_context_hook_that_fails_or_panics_is_the_turns_error() {
    let failing = Hooks::new().transform_context(|_| async { Err(HookError::new("no index")) });
    let panicking = Hooks::new().api_key(|_| -> futures_util::future::Ready<_> { panic!("no index") });
    for (hooks, name) in [(failing, "transform_context"), (panicking, "api_key")] {
        let model = model([]);
        let agent = agent(&model).with_hooks(hooks);
        assert_eq!(transcript(&run(&agent).await), FAILED);
        let error = agent.error_message().unwrap();
        assert!(error.contains(name) && error.contains("no index"), "{error}");
        assert!(model.requests().is_empty());
    }
}

/// A prompt outside a runtime is an error, and the agent is as usable as before.
#[test]
fn a_prompt_outside_a_runtime_is_a_typed_error() {
    let agent = BasicAgent::new(ModelConfig::default()).with_provider_override(Arc::new(Broken));
    let error = agent.prompt("go").unwrap_err();
    assert!(error.to_string().contains("runtime"), "{error}");
    assert!(!agent.is_streaming());
}
