#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeSet;

use agent_core::{
    AgentEvent, ContinuationKind, Ended, Entry, GroupMember, GroupRole, LoopConfigSnapshot, LoopId, Message,
    MessageRef, SessionId, Timestamp, TurnId, TurnTrigger, Usage,
};
use serde_json::{Value, json};

use super::{event_schema, session_schema};
use crate::files::FileState;
use crate::model::{
    ChildLoopRef, Extra, ForkRef, LoopBase, LoopEvent, LoopRecord, LoopStatus, OpenRun, ParallelGroupRecord,
    RecordedEvent, SESSION_VERSION, Session, SessionFormation, SessionScope, SpawnRef, Turn, form1,
};

/// The kinds that a reader of events knows, which its error about an unknown kind lists.
fn known_kinds(error: &serde_json::Error) -> BTreeSet<String> {
    let text = error.to_string();
    let (_, listed) = text.split_once("expected one of ").unwrap();
    listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn kinds(events: &Value) -> BTreeSet<String> {
    let shapes = events["anyOf"].as_array().unwrap().iter();
    let tags = shapes.filter_map(|shape| shape["properties"]["type"]["const"].as_str());
    tags.map(str::to_owned).collect()
}

#[test]
fn the_schemas_name_every_kind_of_event() {
    let unknown = json!({"type": "no such kind"});
    let live = known_kinds(&serde_json::from_value::<AgentEvent>(unknown.clone()).unwrap_err());
    assert!(live.len() > 20, "{live:?}");
    assert_eq!(kinds(&event_schema()), live);

    let mut stored = known_kinds(&form1::read(unknown).unwrap_err());
    // A file stores a group in its records instead.
    assert!(stored.remove("ParallelLoopStart") && stored.remove("ParallelLoopEnd"));
    assert_eq!(kinds(&session_schema()["$defs"]["event"]), stored);
}

/// A session in which no member is absent.
fn full() -> Session {
    let (id, loop_id) = (SessionId::from("s-1"), LoopId::from("s-1.a.1"));
    let message = || MessageRef::new(Message::user("hi").into());
    let record = LoopRecord {
        loop_id: loop_id.clone(),
        session_id: id.clone(),
        agent_id: "a".into(),
        parent_loop_id: Some("s-1.a.0".into()),
        continuation_kind: ContinuationKind::Default,
        started_at: Timestamp(1),
        ended_at: Some(Timestamp(2)),
        status: LoopStatus::Completed,
        rejection: Some("no".into()),
        ended: Some(Ended::Completed),
        config: LoopConfigSnapshot::default(),
        base: Some(LoopBase {
            after_loop: Some("s-1.a.0".into()),
            keep: 0,
            added: vec![Entry::new(message(), 1)],
        }),
        messages: vec![message()],
        other_messages: vec![message()],
        turns: vec![Turn {
            turn_id: TurnId { loop_id: loop_id.clone(), turn_index: 0 },
            triggered_by: TurnTrigger::User,
            usage: Usage::default(),
            input_messages: vec![0],
            output_message: Some(0),
            tool_results: vec![0],
            started_at: Timestamp(1),
            ended_at: Some(Timestamp(2)),
        }],
        usage: Usage::default(),
        metadata: json!({"of": 1}),
        events: vec![LoopEvent { sequence: 0, event: RecordedEvent::Foreign(json!({"type": "Dreamt"})) }],
        children_loop_ids: vec!["s-1.a.2".into()],
        child_loop_refs: vec![ChildLoopRef {
            tool_call_id: "c".into(),
            tool_name: "t".into(),
            child_loop_id: "s-2.a.1".into(),
            child_session_id: "s-2".into(),
        }],
        group: Some(GroupMember::new("g".into(), GroupRole::Judge)),
        parallel_group: Some(ParallelGroupRecord {
            all_loop_ids: [loop_id.clone()].into(),
            selected_loop_id: Some(loop_id.clone()),
            selected_config_index: Some(0),
            selected_after_loops: Some(1),
            evaluation_usage: Usage::default(),
            judge_loop_id: Some("s-1.a.3".into()),
            reason: Some("it is best".into()),
            ended_at: Some(Timestamp(2)),
            is_selected: true,
        }),
        open_run: Some(OpenRun::Foreign(json!({}))),
        extra: Extra::default(),
    };
    Session {
        session_id: id.clone(),
        agent_id: "a".into(),
        created_at: Timestamp(1),
        last_active_at: Timestamp(2),
        formation: SessionFormation::Explicit { timestamp: Timestamp(1) },
        parent_spawn_ref: Some(SpawnRef {
            parent_session_id: "s-0".into(),
            parent_loop_id: "s-0.a.1".into(),
            tool_call_id: "c".into(),
            tool_name: "t".into(),
        }),
        forked_from: Some(ForkRef {
            session_id: "s-0".into(),
            loop_id: "s-0.a.1".into(),
            messages: 1,
            timestamp: Timestamp(1),
            files: FileState([("a".to_owned(), None)].into()),
        }),
        scope: SessionScope::Persistent,
        loops: vec![record],
        journal_records: 1,
        extra: Extra::default(),
    }
}

#[test]
fn the_schema_has_the_members_of_a_session_and_no_others() {
    let file = serde_json::to_value(full()).unwrap();
    let schema = session_schema();
    assert_eq!(schema["properties"]["version"]["const"], SESSION_VERSION);
    let record = &schema["$defs"]["loop"]["properties"];
    for (shape, pointer) in [
        (&schema["properties"], ""),
        (&schema["properties"]["parent_spawn_ref"]["properties"], "/parent_spawn_ref"),
        (&schema["properties"]["forked_from"]["properties"], "/forked_from"),
        (record, "/loops/0"),
        (&record["base"]["properties"], "/loops/0/base"),
        (&record["turns"]["items"]["properties"], "/loops/0/turns/0"),
        (&record["events"]["items"]["properties"], "/loops/0/events/0"),
        (&record["child_loop_refs"]["items"]["properties"], "/loops/0/child_loop_refs/0"),
        (&record["parallel_group"]["properties"], "/loops/0/parallel_group"),
    ] {
        let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
        assert_eq!(names(shape), names(file.pointer(pointer).unwrap()), "{pointer}");
    }
}
