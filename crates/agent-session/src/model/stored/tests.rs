use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{AgentEvent, BasicAgent, ModelConfig, Timestamp};
use serde_json::{Value, json};

use super::{Content, Counts, Gaps, ReadContent};
use crate::model::event_messages::Places;
use crate::model::recording::Recording;
use crate::model::{LoopRecord, RecordedEvent, Session};
use crate::recorder::SessionRecorder;

/// A session of one loop: a call and its result, and a reply.
fn recorded() -> Session {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let call = ScriptedReply::text("calls").and_call("c", "echo", json!({ "text": "hi" }));
        let agent = BasicAgent::new(ModelConfig::default())
            .with_provider(ScriptedProvider::new([call, ScriptedReply::text("done")]))
            .with_tool(ScriptedTool::saying("echo", "hi"));
        let recorder = SessionRecorder::new();
        for event in agent.prompt("go").unwrap().collect().await {
            recorder.on_event(&event);
        }
        recorder.sessions().pop().unwrap()
    })
}

fn written(record: &LoopRecord) -> Value {
    written_at(record, None)
}

/// The content of a line with this time.
fn written_at(record: &LoopRecord, time: Option<Timestamp>) -> Value {
    let places = Places::of(record);
    let Content { messages, other_messages, events, .. } =
        Content::between(record, &places, 0, Counts::default(), Counts::of(record), time);
    json!({ "messages": messages, "other_messages": other_messages, "events": events })
}

/// Reads a line with this content.
fn read(value: &Value) -> Result<LoopRecord, String> {
    read_at(value, None)
}

fn read_at(value: &Value, time: Option<Timestamp>) -> Result<LoopRecord, String> {
    let record = recorded().loops.remove(0);
    let session = Session::new(record.session_id.clone(), record.agent_id.clone(), record.started_at);
    let mut recording = Recording::new(session);
    let empty = LoopRecord::new(record.loop_id, record.session_id, record.agent_id, record.started_at);
    let at = recording.restore(empty);
    let raw = |key: &str| -> Vec<Box<serde_json::value::RawValue>> {
        serde_json::from_value(value[key].clone()).unwrap()
    };
    let (messages, other_messages, events) = (raw("messages"), raw("other_messages"), raw("events"));
    let content = ReadContent {
        after: Counts::default(),
        messages: messages.iter().map(AsRef::as_ref).collect(),
        other_messages: other_messages.iter().map(AsRef::as_ref).collect(),
        events: events.iter().map(AsRef::as_ref).collect(),
        time,
    };
    content.apply(&mut recording, at, Gaps::Refused, &mut 100_000)?;
    Ok(recording.record(at).unwrap().clone())
}

#[test]
fn an_event_says_only_what_no_message_says() {
    let record = recorded().loops.remove(0);
    let mut value = written(&record);
    for event in value["events"].as_array_mut().unwrap() {
        for key in ["timestamp", "began", "config", "agent_id", "session_id", "loop_id", "tokens"] {
            event.as_object_mut().unwrap().shift_remove(key);
        }
    }
    assert_eq!(
        value["events"],
        json!([
            { "type": "agent_start" },
            { "type": "turn_start", "turn_index": 0, "triggered_by": "user" },
            { "type": "message", "message": 0 },
            { "type": "reply", "message": 1 },
            { "type": "tool_start", "call": [1, 0] },
            { "type": "tool_end", "message": 2 },
            { "type": "message", "message": 2 },
            { "type": "turn_end", "message": 1 },
            { "type": "turn_start", "turn_index": 1, "triggered_by": "continuation" },
            { "type": "reply", "message": 3 },
            { "type": "turn_end", "message": 3 },
            { "type": "agent_end", "messages": 4, "usage": value["events"][11]["usage"], "ended": { "how": "completed" } },
        ])
    );
}

#[test]
fn what_was_written_reads_back_as_the_same_events() {
    let record = recorded().loops.remove(0);
    let back = read(&written(&record)).unwrap();
    let events = |record: &LoopRecord| -> Vec<AgentEvent> {
        record.events.iter().filter_map(|event| event.known().cloned()).collect()
    };
    // The ids of the two agents differ in the first event only.
    assert_eq!(events(&back)[1..].len(), events(&record)[1..].len());
    assert_eq!(back.turns.len(), record.turns.len());
    assert_eq!(
        written(&back)["events"].as_array().unwrap()[1..],
        written(&record)["events"].as_array().unwrap()[1..]
    );
}

#[test]
fn the_time_of_a_turn_is_left_out_where_it_is_that_of_the_line() {
    let mut record = recorded().loops.remove(0);
    let (time, later) = (Timestamp(5_000), Timestamp(5_007));
    let mut times = [time, time, later, time].into_iter();
    for event in &mut record.events {
        if let RecordedEvent::Known(event) = &mut event.event
            && let AgentEvent::TurnStart { timestamp, .. } | AgentEvent::TurnEnd { timestamp, .. } =
                &mut **event
        {
            *timestamp = times.next().unwrap();
        }
    }
    let value = written_at(&record, Some(time));
    let of = |value: &Value| [1, 7, 8, 10].map(|at: usize| value["events"][at]["timestamp"].clone());
    assert_eq!(of(&value), [json!(null), json!(null), json!(5_007), json!(null)]);
    let all = written(&record);
    // A line of an earlier version has all times; its reader adds nothing to the record.
    for line in [&value, &all] {
        let back = read_at(line, Some(time)).unwrap();
        assert_eq!(of(&written(&back)), of(&all));
        assert_eq!(of(&written_at(&back, Some(time))), of(&value));
    }
    assert_eq!(of(&written(&read_at(&value, Some(later)).unwrap())), [5_007; 4].map(|time| json!(time)));
    assert!(read(&value).unwrap_err().contains("a turn has no time"));
}

#[test]
fn a_result_that_a_hook_changed_is_written_with_the_event() {
    let mut record = recorded().loops.remove(0);
    let changed = record.events.iter_mut().find_map(|event| match &mut event.event {
        RecordedEvent::Known(event) => match &mut **event {
            AgentEvent::ToolExecutionEnd(end) => Some(end),
            _ => None,
        },
        RecordedEvent::Foreign(_) => None,
    });
    changed.unwrap().result.details = json!({ "of": "the tool" });
    let value = written(&record);
    let end = &value["events"][5];
    assert_eq!(
        (&end["type"], &end["result"]["details"]["of"]),
        (&json!("tool_execution_end"), &json!("the tool"))
    );
    let back = read(&value).unwrap();
    assert_eq!(written(&back)["events"][5], *end);
}

#[test]
fn an_event_that_names_a_message_that_is_not_there_is_an_error() {
    let value = written(&recorded().loops[0]);
    for (at, event) in [
        (2, json!({ "type": "message", "message": 9, "tokens": 1 })),
        (3, json!({ "type": "reply", "message": 2, "tokens": 1 })),
        (4, json!({ "type": "tool_start", "call": [1, 1] })),
        (4, json!({ "type": "tool_start", "call": [{ "other": 0 }, 0] })),
        (5, json!({ "type": "tool_end", "message": 1 })),
        (11, json!({ "type": "agent_end", "messages": 9, "usage": {}, "ended": {} })),
    ] {
        let mut value = value.clone();
        value["events"][at] = event.clone();
        assert!(read(&value).is_err(), "{event}");
    }
}

#[test]
fn unknown_kinds_and_members_are_kept() {
    let mut value = written(&recorded().loops[0]);
    value["events"][4]["later"] = json!([1]);
    value["messages"][2]["later"] = json!({ "a": 1 });
    value["events"].as_array_mut().unwrap().push(json!({ "type": "dreamt", "of": 1 }));
    let back = read(&value).unwrap();
    assert_eq!(written(&back), value);
}

/// A small file whose references would fill the memory.
#[test]
fn references_expand_to_a_bounded_size() {
    let mut value = written(&recorded().loops[0]);
    value["messages"][2]["content"][0]["text"] = json!("x".repeat(10_000));
    let events = value["events"].as_array_mut().unwrap();
    let end = events[5].clone();
    events.extend(std::iter::repeat_n(end, 20));
    assert!(read(&value).unwrap_err().contains("unfold to far more"));
}
