//! Where events go: the receiver of a prompt, a sender of the caller's, a receiver that merges, the loop as a stream.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

#[path = "support/runs.rs"]
mod runs;

use agent_core::compat::SeedSetters as _;
use agent_core::compat::SeedVerbs as _;
use std::sync::Arc;
use std::time::Duration;

use agent_core::drive::MAX_WAITING_EVENTS;
use agent_core::provider::MessageSnapshot;
use agent_core::testing::{
    Latch, ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed, transcript,
};
use agent_core::{
    AgentContext, AgentError, AgentEvent, AgentLoopConfig, BasicAgent, BoxFuture, CancellationToken,
    Environment, LoopId, ModelConfig, NoRuntime, StepKey, StreamDelta, SystemEnvironment, TaskHandle,
    Timestamp, agent_loop_stream, event_channel, merging_channel,
};
use futures_util::StreamExt;
use serde_json::json;

use runs::{agent, kinds, run, said, within};

fn text_of(events: &[AgentEvent]) -> String {
    let delta = |e: &AgentEvent| match e {
        AgentEvent::MessageUpdate { delta: StreamDelta::Text { text: delta }, .. } => Some(delta.clone()),
        _ => None,
    };
    events.iter().filter_map(delta).collect()
}

/// REQ-032.
#[test]
fn a_thousand_events_are_sent_without_a_reader_and_read_in_order() {
    let (tx, mut rx) = event_channel();
    for n in 0..1_000 {
        tx.send(AgentEvent::InputRejected { loop_id: LoopId::from("l"), reason: n.to_string() });
    }
    for n in 0..1_000 {
        let Some(AgentEvent::InputRejected { reason, .. }) = rx.try_recv() else { panic!("{n} is lost") };
        assert_eq!(reason, n.to_string());
    }
    assert!(rx.try_recv().is_none());
    drop(rx);
    tx.send(AgentEvent::InputRejected { loop_id: LoopId::from("l"), reason: "nobody".into() });
}

/// REQ-034, REQ-035.
#[tokio::test]
async fn prompt_returns_before_the_first_event_and_leaves_an_idle_agent_with_the_messages() {
    let (agent, model) = agent(["ok"]);
    let mut events = agent.prompt("Hi").unwrap();
    assert!(events.try_recv().is_none(), "nothing has happened yet");
    assert!(agent.is_streaming() && model.requests().is_empty());
    let mut idle_at_end = None;
    while let Some(event) = within(events.recv()).await {
        if matches!(event, AgentEvent::AgentEnd(_)) {
            idle_at_end = Some(!agent.is_streaming());
        }
    }
    assert_eq!(idle_at_end, Some(true), "who reads the end finds the agent idle");
    assert_eq!(said(&agent), "user(Hi) assistant(ok)");
}

#[tokio::test]
async fn a_receiver_that_is_dropped_does_not_stop_the_run() {
    let (agent, model) = agent([ScriptedReply::call("c1", "look", json!({})), "ok".into()]);
    let agent = agent.with_tool(ScriptedTool::saying("look", "x"));
    drop(agent.prompt("Hi").unwrap());
    within(agent.wait_for_idle()).await;
    assert_eq!(model.requests().len(), 2);
    assert_eq!(said(&agent), "user(Hi) assistant() result(c1) assistant(ok)");
}

#[test]
fn a_prompt_without_a_runtime_is_an_error_and_changes_nothing() {
    let (agent, model) = agent(["ok"]);
    agent.steer("s");
    let heard = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&heard);
    let _listening = agent.subscribe(move |_| {
        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    });
    let error = agent.prompt("Hi").unwrap_err();
    assert!(matches!(error, AgentError::NoRuntime(_)));
    assert!(error.to_string().contains("runtime"), "{error}");
    assert!(!agent.is_streaming() && agent.messages().is_empty() && agent.error_message().is_none());
    assert!(agent.last_loop_id().is_none() && agent.last_active_at().is_none());
    assert!(agent.has_queued_messages() && model.requests().is_empty());
    assert_eq!(heard.load(std::sync::atomic::Ordering::SeqCst), 0);
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    rt.block_on(async { run(&agent, "Hi").await });
    assert_eq!(said(&agent), "user(Hi) user(s) assistant(ok)");
}

/// Somebody runs tasks while he is asked, and nobody any more when there is one.
#[derive(Debug)]
struct Closing;

impl Environment for Closing {
    fn now(&self) -> Timestamp {
        SystemEnvironment.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        SystemEnvironment.sleep(duration)
    }

    fn spawn(&self, _task: BoxFuture<'static, ()>) -> Result<TaskHandle, NoRuntime> {
        Err(NoRuntime)
    }

    fn can_spawn(&self) -> bool {
        true
    }

    fn random_id(&self) -> String {
        SystemEnvironment.random_id()
    }
}

#[test]
fn a_run_whose_task_cannot_be_had_after_all_ends_and_leaves_the_agent_idle() {
    let (agent, model) = agent(["ok"]);
    let agent = agent.with_environment(Arc::new(Closing));
    let (tx, mut rx) = event_channel();
    let error = agent.prompt_with_sender("Hi", tx).unwrap_err();
    assert!(matches!(error, AgentError::NoRuntime(_)));
    let events: Vec<AgentEvent> = std::iter::from_fn(|| rx.try_recv()).collect();
    assert!(matches!(events.last(), Some(AgentEvent::AgentEnd(_))), "{events:?}");
    assert_eq!(events.iter().filter(|e| e.is_terminal()).count(), 1);
    assert!(!agent.is_streaming() && model.requests().is_empty());
}

/// REQ-144, REQ-035.
#[tokio::test]
async fn one_sender_serves_many_prompts() {
    let (agent, _) = agent(["a", "b", "c"]);
    let (tx, rx) = event_channel();
    agent.prompt_with_sender("one", tx.clone()).unwrap();
    within(agent.wait_for_idle()).await;
    agent.prompt_messages_with_sender(vec!["two".into(), "three".into()], tx.clone()).unwrap();
    within(agent.wait_for_idle()).await;
    let (raw, mut plain) = tokio::sync::mpsc::unbounded_channel();
    agent.prompt_with_sender("four", raw).unwrap();
    within(agent.wait_for_idle()).await;
    drop(tx);
    let events = within(rx.collect()).await;
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user assistant(a) turn_end agent_end(completed) \
         agent_start turn_start user user assistant(b) turn_end agent_end(completed)"
    );
    assert!(matches!(within(plain.recv()).await, Some(AgentEvent::AgentStart(_))));
}

#[tokio::test]
async fn a_lagging_receiver_gets_merged_deltas_and_loses_nothing_else() {
    let text = "The quick brown fox jumps over the lazy dog.";
    let script = || {
        let reply = ScriptedReply::text(text).and_call("c1", "look", json!({"a": [1, 2, 3]})).in_pieces_of(1);
        vec![reply, ScriptedReply::text(text).in_pieces_of(2)]
    };
    let with_tool = |agent: BasicAgent| {
        agent.with_tool(ScriptedTool::new("look", |_, ctx| async move {
            ctx.on_progress("half");
            ctx.on_update(agent_core::ToolResult::text("some"));
            Ok(agent_core::ToolResult::text("all"))
        }))
    };
    let (plain, _) = agent(script());
    let every = run(&with_tool(plain), "Hi").await;

    let (agent, _) = agent(script());
    let agent = with_tool(agent);
    let mut rx = agent.prompt_merging("Hi", 4).unwrap();
    within(agent.wait_for_idle()).await;
    assert!(rx.len() < every.len() / 2, "{} of {}", rx.len(), every.len());
    let mut merged = Vec::new();
    while let Some(event) = within(rx.recv()).await {
        merged.push(event);
    }
    assert!(rx.is_empty());
    assert_well_formed(&merged);
    let without_deltas = |events: &[AgentEvent]| -> Vec<String> {
        kinds(events).into_iter().filter(|k| k != "message_update").collect()
    };
    assert_eq!(without_deltas(&merged), without_deltas(&every));
    assert_eq!(text_of(&merged), text_of(&every));
    let arguments: String = merged
        .iter()
        .filter_map(|e| match e {
            AgentEvent::MessageUpdate { delta: StreamDelta::ToolCallDelta { text: delta }, .. } => {
                Some(delta.as_str())
            }
            _ => None,
        })
        .collect();
    assert_eq!(arguments, r#"{"a":[1,2,3]}"#);
    // The snapshot of a merged delta is that of its newest part.
    let mut so_far = String::new();
    for event in &merged {
        match event {
            AgentEvent::MessageStart { .. } => so_far.clear(),
            AgentEvent::MessageUpdate { message, delta: StreamDelta::Text { text: delta }, .. } => {
                so_far.push_str(delta);
                assert_eq!(message.text(), so_far);
            }
            _ => {}
        }
    }
}

fn delta_of(loop_id: &str, text: &str) -> AgentEvent {
    AgentEvent::MessageUpdate {
        loop_id: LoopId::from(loop_id),
        step: StepKey::from("model-0.0"),
        attempt: 0,
        message: MessageSnapshot::default(),
        content_index: 0,
        delta: StreamDelta::Text { text: text.to_owned() },
    }
}

/// A receiver that is never read holds the text, and not an event for each piece; also of loops that run at the same time.
#[test]
fn a_receiver_that_is_not_read_is_bounded_and_loses_nothing() {
    let (tx, mut rx) = event_channel();
    let loops = ["a", "b", "c"];
    for n in 0..100_000 {
        tx.send(delta_of(loops[n % 3], &format!("{n} ")));
    }
    tx.send(AgentEvent::InputRejected { loop_id: LoopId::from("a"), reason: "end".into() });
    assert_eq!(rx.len(), MAX_WAITING_EVENTS + 1);
    drop(tx);
    let mut texts = [const { String::new() }; 3];
    while let Some(event) = rx.try_recv() {
        let AgentEvent::MessageUpdate { loop_id, delta: StreamDelta::Text { text }, .. } = event else {
            continue;
        };
        texts[loops.iter().position(|id| *loop_id.as_str() == **id).unwrap()].push_str(&text);
    }
    for (at, text) in texts.iter().enumerate() {
        let all: String = (0..100_000).filter(|n| n % 3 == at).map(|n| format!("{n} ")).collect();
        assert!(*text == all, "loop {at}");
    }
}

#[tokio::test]
async fn a_receiver_that_keeps_up_gets_every_delta_and_a_merging_one_ends_with_its_senders() {
    let (agent, _) = agent([ScriptedReply::text("abcdef").in_pieces_of(1)]);
    let mut rx = agent.prompt_merging("Hi", 100).unwrap();
    let mut deltas = 0;
    while let Some(event) = within(rx.recv()).await {
        deltas += usize::from(matches!(event, AgentEvent::MessageUpdate { .. }));
    }
    assert_eq!(deltas, 6);
    let (tx, mut rx) = merging_channel(0);
    let second = tx.clone();
    drop(tx);
    second.send(AgentEvent::InputRejected { loop_id: LoopId::from("l"), reason: "last".into() });
    drop(second);
    assert!(within(rx.recv()).await.is_some());
    assert!(within(rx.recv()).await.is_none());
}

#[test]
fn a_merging_channel_keeps_nothing_for_a_receiver_that_is_gone() {
    let (tx, rx) = merging_channel(2);
    let name: Arc<str> = "l".into();
    let send =
        || tx.send(AgentEvent::InputRejected { loop_id: LoopId::new(name.clone()), reason: "r".into() });
    send();
    assert_eq!(Arc::strong_count(&name), 2, "it waits");
    drop(rx);
    send();
    assert_eq!(Arc::strong_count(&name), 1, "nobody will read it");
}

/// REQ-036, B-118.
#[tokio::test]
async fn the_loop_as_a_stream_gives_events_and_a_result_that_needs_no_reader() {
    for read in [true, false] {
        let model = ScriptedProvider::new([ScriptedReply::call("c1", "look", json!({})), "Done.".into()])
            .exhaustive();
        let config = AgentLoopConfig::system(Arc::new(model), ModelConfig::default());
        let context = AgentContext::new("").with_tools(vec![Arc::new(ScriptedTool::saying("look", "x"))]);
        let mut stream =
            agent_loop_stream(vec!["Hi".into()], context, config, CancellationToken::new()).unwrap();
        if read {
            let mut events = Vec::new();
            while let Some(event) = within(stream.next()).await {
                events.push(event);
            }
            assert_well_formed(&events);
        }
        let result = within(stream.result()).await.unwrap();
        assert_eq!(runs::shown_refs(&result.messages), "user(Hi) assistant() result(c1) assistant(Done.)");
        assert_eq!(result.final_message.map(|m| m.text()).as_deref(), Some("Done."));
        assert_eq!(result.iterations, 2);
        assert_eq!(result.context.history.len(), 4);
        assert!(result.context.loop_id.is_some());
    }
}

#[tokio::test]
async fn a_loop_that_cannot_begin_says_so_in_its_result() {
    let config = AgentLoopConfig::system(Arc::new(ScriptedProvider::texts(["x"])), ModelConfig::default());
    let bare = agent_core::ToolResultMessage::new("c1".into(), "look".into(), vec![]);
    let prompts = vec![agent_core::Message::from(bare).into()];
    let stream = agent_loop_stream(prompts, AgentContext::new(""), config, CancellationToken::new()).unwrap();
    assert!(within(stream.result()).await.unwrap_err().to_string().contains("c1"));
}

#[tokio::test]
async fn the_receiver_is_a_stream_too() {
    let latch = Latch::new();
    latch.open();
    let (agent, _) = agent([ScriptedReply::text("a").and_wait(&latch)]);
    let events: Vec<AgentEvent> = within(agent.prompt("Hi").unwrap().collect()).await;
    assert_well_formed(&events);
    let (again, _) = runs::agent(["b"]);
    let first = within(StreamExt::next(&mut again.prompt("Hi").unwrap())).await;
    assert!(matches!(first, Some(AgentEvent::AgentStart(_))));
}

/// REQ-144.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_one_sender_the_end_of_a_run_comes_before_the_start_of_the_next() {
    let model = ScriptedProvider::responding(|_| "ok".into());
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(model).with_context_config(None);
    let (tx, rx) = event_channel();
    for _ in 0..500 {
        agent.prompt_with_sender("Hi", tx.clone()).unwrap();
        within(agent.wait_for_idle()).await;
        agent.clear_messages().unwrap();
    }
    drop(tx);
    let kinds = kinds(&within(rx.collect()).await);
    for (n, kind) in kinds.iter().enumerate().skip(1) {
        assert_eq!(kind == "agent_start", kinds[n - 1] == "agent_end", "at {n}: {:?}", &kinds[n - 1..=n]);
    }
}

/// A reader that lags behind must not keep everybody else from running, however it reads.
#[tokio::test]
async fn a_reader_that_always_finds_an_event_lets_other_tasks_run() {
    for as_stream in [false, true] {
        let (tx, mut rx) = event_channel();
        for _ in 0..10_000 {
            tx.send(AgentEvent::InputRejected { loop_id: LoopId::new("l"), reason: "r".into() });
        }
        drop(tx);
        let other = tokio::spawn(async {});
        let mut read = 0;
        while !other.is_finished() {
            let event = if as_stream { StreamExt::next(&mut rx).await } else { rx.recv().await };
            assert!(event.is_some(), "the other task waited for the last event; as a stream: {as_stream}");
            read += 1;
        }
        assert!(read < 10_000);
    }
}
