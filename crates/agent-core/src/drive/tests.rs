//! The driver.

use std::sync::{Arc, Mutex};

use tokio::sync::mpsc::unbounded_channel;

use super::{EventSender, event_channel, merging_channel};
use crate::agent::tests::{loop_events, with_child};
use crate::event::{AgentEvent, NumberedEvent, RunEnd};
use crate::fold::Fold;
use crate::history::History;

fn replies(end: &RunEnd) -> Option<String> {
    end.clone().into_reply().ok().map(|reply| reply.text())
}

/// A child's end, or its suspension, is not the end of the stream, whether the child's events come before or after.
#[tokio::test]
async fn the_end_of_a_stream_is_that_of_its_own_loop() {
    for asks in [false, true] {
        let (tx, mut rx) = event_channel();
        with_child(loop_events("child.m.1", 1, "child", asks)).into_iter().for_each(|e| tx.send_numbered(e));
        drop(tx);
        assert_eq!(replies(&rx.end().await).as_deref(), Some("parent"));
    }
    // A parent that was cut off after its child had ended.
    let (tx, mut rx) = event_channel();
    let mut events = with_child(loop_events("child.m.1", 1, "child", false));
    events.truncate(events.iter().rposition(|e| e.depth == 1).unwrap() + 1);
    events.into_iter().for_each(|e| tx.send_numbered(e));
    drop(tx);
    assert!(matches!(rx.end().await, RunEnd::Failed(_)));
    // The stream of a sub-agent, whose loops all have a depth, has an end, too.
    let (tx, mut rx) = event_channel();
    loop_events("child.m.1", 2, "child", false).into_iter().for_each(|e| tx.send_numbered(e));
    loop_events("grandchild.m.1", 3, "grandchild", false).into_iter().for_each(|e| tx.send_numbered(e));
    drop(tx);
    assert_eq!(replies(&rx.end().await).as_deref(), Some("child"));
}

/// The filter drops the events of sub-agents on each way of reading and keeps those of several loops at one depth.
#[tokio::test]
async fn a_receiver_can_leave_out_sub_agents() {
    let send = || {
        let (tx, rx) = event_channel();
        with_child(loop_events("child.m.1", 1, "child", false)).into_iter().for_each(|e| tx.send_numbered(e));
        loop_events("branch.m.2", 0, "branch", false).into_iter().for_each(|e| tx.send_numbered(e));
        rx
    };
    let expected: Vec<NumberedEvent> = loop_events("parent.m.1", 0, "parent", false)
        .into_iter()
        .chain(loop_events("branch.m.2", 0, "branch", false))
        .collect();
    assert_eq!(send().without_sub_agents().collect_numbered().await, expected);
    let mut rx = send().without_sub_agents();
    let polled: Vec<AgentEvent> = std::iter::from_fn(|| rx.try_recv()).collect();
    assert_eq!(polled, expected.iter().map(|e| e.event.clone()).collect::<Vec<_>>());
    let mut all = with_child(loop_events("child.m.1", 1, "child", false));
    all.extend(loop_events("branch.m.2", 0, "branch", false));
    assert_eq!(send().len(), all.len());
    assert_eq!(send().collect_numbered().await, all, "each event has its own place");
    assert!(all.len() > expected.len());
}

/// Each kind of sender gets the numbers, and a caller's own event has the number 0.
#[test]
fn senders_pass_the_numbers_on() {
    let events = loop_events("s.m.1", 1, "text", false);
    let (tx, mut numbered) = unbounded_channel();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let seeing = Arc::clone(&seen);
    let function = EventSender::function(Arc::new(move |event| seeing.lock().unwrap().push(event)));
    let (plain_tx, mut plain) = unbounded_channel();
    for sender in [EventSender::numbered(tx), function, EventSender::channel(plain_tx)] {
        events.iter().for_each(|event| sender.send_numbered(event.clone()));
    }
    let got: Vec<NumberedEvent> = std::iter::from_fn(|| numbered.try_recv().ok()).collect();
    assert_eq!(got, events);
    assert_eq!(*seen.lock().unwrap(), events);
    let got: Vec<AgentEvent> = std::iter::from_fn(|| plain.try_recv().ok()).collect();
    assert_eq!(got, events.iter().map(|e| e.event.clone()).collect::<Vec<_>>());

    let (tx, mut numbered) = unbounded_channel();
    let first = events[0].event.clone();
    EventSender::numbered(tx).send(first.clone());
    assert_eq!(numbered.try_recv().unwrap(), NumberedEvent::new(0, first));
}

/// Deltas of two loops are not merged although their steps have the same key; those of one loop keep the first number.
#[tokio::test]
async fn deltas_of_different_loops_are_not_merged() {
    let delta = |id: &str| loop_events(id, 0, "a", false).into_iter().find(NumberedEvent::is_live).unwrap();
    let (tx, rx) = merging_channel(1);
    for id in ["one.m.1", "one.m.1", "two.m.1"] {
        tx.send_numbered(delta(id));
    }
    drop(tx);
    let got = rx.collect_numbered().await;
    let texts: Vec<_> =
        got.iter().map(|e| (e.event.loop_id().as_str(), e.event.text_delta(), e.number)).collect();
    let number = delta("one.m.1").number;
    assert_eq!(texts, [("one.m.1", Some("aa"), number), ("two.m.1", Some("a"), number)]);
}

/// The fold of a stream with a sub-agent's events is that of the run alone, and so is the count of its events.
#[tokio::test]
async fn a_fold_skips_the_events_of_sub_agents() {
    use crate::testing::{ScriptedProvider, ScriptedReply};
    let tool = crate::tool_fn("work", "Works.", |_: serde_json::Value, _| async { Ok("done".to_owned()) });
    let replies = [ScriptedReply::call("c1", "work", serde_json::json!({})), "Done.".into()];
    let agent = crate::BasicAgent::new(crate::ModelConfig::default())
        .with_provider(ScriptedProvider::new(replies))
        .with_tool(tool);
    let own = agent.prompt("go").unwrap().collect_numbered().await;
    let at = own.iter().position(|e| matches!(e.event, AgentEvent::ToolExecutionEnd(_))).unwrap();
    let mut events = own.clone();
    events.splice(at..at, loop_events("child.m.1", 1, "child", false));
    let folded = |events: &[NumberedEvent]| {
        let mut fold = Fold::new(History::new());
        events.iter().for_each(|event| fold.push(&event.event).unwrap());
        (fold.history().clone(), fold.new_messages().to_vec(), fold.event_count())
    };
    assert_eq!(folded(&events), folded(&own));
    assert_eq!(folded(&own).0, agent.history());
    assert_eq!(folded(&own).2, own.last().unwrap().number);
}
