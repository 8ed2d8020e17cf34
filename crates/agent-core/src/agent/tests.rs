//! The handle.

use std::sync::{Arc, Mutex};

use super::handle::stream_tokens;
use super::{BasicAgent, ChatToken};
use crate::drive::{EventSender, Output, event_channel};
use crate::event::{AgentEvent, NumberedEvent};
use crate::history::History;
use crate::message::{AssistantMessage, Content, Message, StopReason};
use crate::model::ModelConfig;
use crate::provider::MessageSnapshot;
use crate::run::{Input, Reply, Run, RunSetup};
use crate::testing::ScriptedProvider;

/// Returns the events of a whole loop that replies with two pieces of `text`, or of one that asks and is suspended.
pub(crate) fn loop_events(id: &str, depth: u32, text: &str, asks: bool) -> Vec<NumberedEvent> {
    let mut setup = RunSetup::new(id);
    setup.depth = depth;
    setup.parent_loop_id = (depth > 0).then(|| "parent.m.1".into());
    setup.gates.before_turn = asks;
    let mut events = Vec::new();
    let now = crate::Timestamp(1);
    let mut run = Run::start(setup, History::new(), vec!["go".into()], now, &mut events).unwrap();
    if asks {
        let verdict = crate::run::GateVerdict::Ask("May I?".to_owned());
        run.apply(now, Input::GateDecided { verdict }, &mut events).unwrap();
        run.apply(now, Input::Suspended, &mut events).unwrap();
        return run.numbered(events);
    }
    run.apply(now, Input::ReplyStarted, &mut events).unwrap();
    events.push(AgentEvent::MessageUpdate {
        loop_id: id.into(),
        step: "model-0.0".into(),
        attempt: 0,
        message: MessageSnapshot::default(),
        content_index: 0,
        delta: crate::event::StreamDelta::Text { text: text.to_owned() },
    });
    let mut message = AssistantMessage::new("demo", "demo", StopReason::Stop);
    message.content.push(Content::text(text));
    run.apply(now, Input::ModelReplied { reply: Reply::new(message).unwrap() }, &mut events).unwrap();
    run.apply(now, Input::QueuesRead, &mut events).unwrap();
    assert!(run.ended().is_some());
    run.numbered(events)
}

/// Returns the events of a parent with those of `child` in the middle.
pub(crate) fn with_child(child: Vec<NumberedEvent>) -> Vec<NumberedEvent> {
    let mut events = loop_events("parent.m.1", 0, "parent", false);
    let at = events.iter().position(|e| e.event.text_delta().is_some()).unwrap();
    events.splice(at..at, child);
    events
}

/// The text and the tool calls of a sub-agent are not those of the chat, and its end does not end the chat.
#[tokio::test]
async fn a_chat_consists_of_the_run_s_own_tokens() {
    for asks in [false, true] {
        let (tx, rx) = event_channel();
        for event in with_child(loop_events("child.m.1", 1, "child", asks)) {
            tx.send_numbered(event);
        }
        drop(tx);
        let mut tokens = Vec::new();
        let text = stream_tokens(rx, |token| match token {
            ChatToken::Text(text) => tokens.push(text.to_owned()),
            other => panic!("{other:?}"),
        });
        assert_eq!(text.await.unwrap(), "parent");
        assert_eq!(tokens, ["parent"]);
    }
}

/// Listeners and the receiver get the events of a sub-agent, and the state of the agent is that of its own run.
#[tokio::test]
async fn the_events_of_a_sub_agent_do_not_change_the_state_of_the_agent() {
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(ScriptedProvider::texts(["Hello."]));
    agent.chat("Hi").await.unwrap();
    let before = agent.messages();
    let heard = Arc::new(Mutex::new(0));
    let hearing = Arc::clone(&heard);
    let _subscription = agent.subscribe(move |_| *hearing.lock().unwrap() += 1);

    let (tx, mut rx) = event_channel();
    let output = Output::with_audience(tx, agent.inner.clone());
    let child = loop_events("child.m.1", 1, "child", false);
    let sent = child.len();
    for event in child {
        output.emit_now(event);
    }
    assert!(!output.withholds(), "the end of the child is not that of the run");
    assert_eq!(agent.messages(), before);
    assert!(agent.inner.state().stream_message.is_none());
    assert!(!agent.is_streaming());
    assert_eq!(*heard.lock().unwrap(), sent);
    let received: Vec<_> = std::iter::from_fn(|| rx.try_recv()).collect();
    assert_eq!(received.len(), sent, "nothing is withheld");

    // Events of a loop at the depth of the run do change it, and its end is withheld.
    for event in loop_events("own.m.1", 0, "own", false) {
        output.emit_now(event);
    }
    assert!(output.withholds());
    let last = agent.messages().last().and_then(|m| m.as_llm().map(Message::text));
    assert_eq!(last.as_deref(), Some("own"));
}

/// A sender for a run and a sub-agent inside of it passes only the end of the run to the receiver of its caller.
#[tokio::test]
async fn the_caller_of_a_run_gets_the_end_of_the_run_alone() {
    let (all, mut all_rx) = event_channel();
    let (end, end_rx) = event_channel();
    let sender: EventSender = all.with_end_to(end);
    let events = with_child(loop_events("child.m.1", 1, "child", false));
    let sent = events.len();
    events.into_iter().for_each(|event| sender.send_numbered(event));
    drop(sender);
    let ends = end_rx.collect_numbered().await;
    let of: Vec<_> = ends.iter().map(|e| e.event.loop_id().as_str()).collect();
    assert_eq!(of, ["parent.m.1"]);
    assert_eq!(std::iter::from_fn(|| all_rx.try_recv()).count(), sent);
}
