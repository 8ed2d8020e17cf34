//! Shapes of events.

use crate::event::SpawningCall;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    AgentEnd, AgentEvent, AgentStart, Answer, CompactionEnded, CompactionReason, Ended, LoopConfigSnapshot,
    ParallelLoopEnd, ParallelLoopStart, Question, RetryNote, RouteChange, StreamDelta, ToolExecutionEnd,
    TransportFallback, UnknownFact, UnknownModel,
};
use crate::history::{MessageRef, Splice};
use crate::identity::{
    ContinuationKind, GroupMember, GroupRole, LoopId, SessionOrigin, Timestamp, TurnTrigger,
};
use crate::journal::JournalWarning;
use crate::message::{Content, Message, ToolArguments, ToolCall, Usage, UserMessage};
use crate::provider::{ErrorKind, MessageSnapshot, ReplyLog, StreamEvent};
use crate::route::RouteName;
use crate::tool::ToolResult;

fn id() -> LoopId {
    LoopId::from("s.a.1")
}

fn message() -> MessageRef {
    MessageRef::from(Message::User(UserMessage::new(vec![Content::text("hi")], Timestamp(1))))
}

fn message_json() -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 1})
}

fn usage_json() -> Value {
    json!({"input": 1, "output": 2, "reasoning": 0, "cache_read": 0, "cache_write": 0, "total_tokens": 3})
}

/// The event has this JSON beside `type` and `loop_id`, and the JSON this event.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "so that a case is one line")]
fn check(event: &AgentEvent, name: &str, expect: Value) {
    let mut whole = json!({"type": name, "loop_id": "s.a.1"});
    whole.as_object_mut().unwrap().extend(expect.as_object().unwrap().clone());
    assert_eq!(serde_json::to_value(event).unwrap(), whole);
    assert_eq!(&serde_json::from_value::<AgentEvent>(whole).unwrap(), event);
    assert_eq!(event.loop_id(), &id());
}

fn note(error: Option<&str>) -> Box<RetryNote> {
    Box::new(RetryNote {
        loop_id: id(),
        attempt: 1,
        max_attempts: 3,
        delay_ms: 1_000,
        error: error.map(str::to_owned),
    })
}

/// REQ-198.
#[test]
fn groups_have_their_shapes() {
    let check = |event: AgentEvent, kind: &str, fields: Value| {
        let mut shape = json!({"type": kind, "group_id": "s.g", "session_id": "s", "timestamp": 5});
        shape.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(json, shape);
        assert_eq!(serde_json::from_value::<AgentEvent>(json).unwrap(), event);
        assert_eq!(event.loop_id().as_str(), "s.g");
        assert!(!event.is_live() && !event.is_terminal());
    };
    let start = ParallelLoopStart {
        group_id: "s.g".into(),
        session_id: "s".into(),
        agent_id: "a".into(),
        parent_loop_id: None,
        loop_ids: vec!["s.1".into(), "s.2".into()],
        timestamp: Timestamp(5),
    };
    let fields = json!({"agent_id": "a", "loop_ids": ["s.1", "s.2"]});
    check(AgentEvent::ParallelLoopStart(Box::new(start)), "parallel_loop_start", fields);
    let end = ParallelLoopEnd {
        group_id: "s.g".into(),
        session_id: "s".into(),
        selected_loop_id: Some("s.2".into()),
        selected_config_index: Some(1),
        evaluation_usage: Usage::default(),
        judge_loop_id: None,
        reason: None,
        timestamp: Timestamp(5),
    };
    let fields = json!({
        "selected_loop_id": "s.2", "selected_config_index": 1,
        "evaluation_usage": serde_json::to_value(Usage::default()).unwrap(),
    });
    check(AgentEvent::ParallelLoopEnd(Box::new(end)), "parallel_loop_end", fields);
}

/// REQ-007, REQ-210.
#[test]
fn runs_turns_and_messages_have_their_shapes() {
    let start = AgentStart {
        agent_id: "agent".into(),
        session_id: "s".into(),
        loop_id: id(),
        parent_loop_id: None,
        continuation_kind: None,
        spawned_by: None,
        group: None,
        session_origin: None,
        timestamp: Timestamp(5),
        config: Arc::new(LoopConfigSnapshot {
            model: "m".into(),
            provider: "p".into(),
            ..LoopConfigSnapshot::default()
        }),
        metadata: Value::Null,
    };
    let mut shape = json!({
        "agent_id": "agent", "session_id": "s", "timestamp": 5, "config": {"model": "m", "provider": "p"},
    });
    check(&AgentEvent::AgentStart(Box::new(start.clone())), "agent_start", shape.clone());
    let branch = AgentStart {
        parent_loop_id: Some("s.a.0".into()),
        continuation_kind: Some(ContinuationKind::Branch { tag: "t".into() }),
        spawned_by: Some(Box::new(SpawningCall::new("c1", "reader"))),
        group: Some(GroupMember { group_id: "s.g".into(), role: GroupRole::Branch { index: 2 } }),
        session_origin: Some(SessionOrigin::Inactivity {
            threshold_secs: 60,
            previous_session_id: "r".into(),
        }),
        metadata: json!({"user": 7}),
        ..start
    };
    let more = json!({"parent_loop_id": "s.a.0", "continuation_kind": {"Branch": {"tag": "t"}},
        "spawned_by": {"tool_call_id": "c1", "tool_name": "reader"},
        "group": {"group_id": "s.g", "role": {"branch": {"index": 2}}}, "metadata": {"user": 7},
        "session_origin": {"inactivity": {"threshold_secs": 60, "previous_session_id": "r"}}});
    shape.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    check(&AgentEvent::AgentStart(Box::new(branch)), "agent_start", shape);

    check(
        &AgentEvent::TurnStart {
            loop_id: id(),
            turn_index: 0,
            timestamp: Timestamp(5),
            triggered_by: TurnTrigger::User,
        },
        "turn_start",
        json!({"turn_index": 0, "timestamp": 5, "triggered_by": "user"}),
    );
    check(
        &AgentEvent::MessageStart { loop_id: id(), message: message() },
        "message_start",
        json!({"message": message_json()}),
    );
    let end =
        |superseded| AgentEvent::MessageEnd { loop_id: id(), message: message(), tokens: 7, superseded };
    check(&end(false), "message_end", json!({"message": message_json(), "tokens": 7}));
    check(&end(true), "message_end", json!({"message": message_json(), "tokens": 7, "superseded": true}));
    check(
        &AgentEvent::TurnEnd {
            loop_id: id(),
            message: Some(message()),
            usage: Usage::new(1, 2, 0, 0),
            timestamp: Timestamp(6),
            tool_results: vec![message()],
        },
        "turn_end",
        json!({"message": message_json(), "usage": usage_json(), "timestamp": 6, "tool_results": [message_json()]}),
    );
    check(
        &AgentEvent::AgentEnd(Box::new(AgentEnd {
            tool_usage: Usage::default(),
            loop_id: id(),
            messages: vec![message()].into(),
            usage: Usage::new(1, 2, 0, 0),
            spent: None,
            ended: Ended::Completed,
            timestamp: Timestamp(7),
        })),
        "agent_end",
        json!({"messages": [message_json()], "usage": usage_json(), "ended": {"how": "completed"}, "timestamp": 7}),
    );
    check(
        &AgentEvent::InputRejected { loop_id: id(), reason: "no".into() },
        "input_rejected",
        json!({"reason": "no"}),
    );
}

/// REQ-007, REQ-210.
#[test]
fn tools_have_their_shapes() {
    let call = json!({"tool_call_id": "c1", "tool_name": "bash"});
    let with = |more: Value| {
        let mut all = call.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let start = |args| AgentEvent::ToolExecutionStart {
        loop_id: id(),
        tool_call_id: "c1".into(),
        tool_name: "bash".into(),
        args,
    };
    check(
        &start(ToolArguments::from(json!({"a": 1}))),
        "tool_execution_start",
        with(json!({"arguments": {"a": 1}})),
    );
    check(
        &start(ToolArguments::from_text("{\"a\"")),
        "tool_execution_start",
        with(json!({"arguments": null, "arguments_text": "{\"a\""})),
    );
    check(
        &AgentEvent::ToolExecutionUpdate {
            loop_id: id(),
            tool_call_id: "c1".into(),
            tool_name: "bash".into(),
            partial_result: Box::new(ToolResult::text("so far")),
        },
        "tool_execution_update",
        with(json!({"partial_result": {"content": [{"type": "text", "text": "so far"}]}})),
    );
    check(
        &AgentEvent::ProgressMessage {
            loop_id: id(),
            tool_call_id: "c1".into(),
            tool_name: "bash".into(),
            text: "1/2".into(),
        },
        "progress_message",
        with(json!({"text": "1/2"})),
    );
    check(
        &AgentEvent::JournalWarning {
            loop_id: id(),
            warning: JournalWarning::NearlyFull { bytes: 3, limit: 4 },
        },
        "journal_warning",
        json!({"warning": {"cause": "nearly_full", "bytes": 3, "limit": 4}}),
    );
    let fallback = TransportFallback {
        loop_id: id(),
        step: "model-0.0".into(),
        from: "WebSocket".into(),
        to: "HTTP".into(),
        reason: "status 404".into(),
    };
    check(
        &AgentEvent::TransportFallback(Box::new(fallback)),
        "transport_fallback",
        json!({"step": "model-0.0", "from": "WebSocket", "to": "HTTP", "reason": "status 404"}),
    );
    let mut unknown = UnknownModel {
        loop_id: id(),
        provider: "openai".into(),
        model: "gpt-x".into(),
        unknown: vec![UnknownFact::ContextWindow, UnknownFact::MaxTokens, UnknownFact::Prices],
        assumed_output: None,
    };
    let facts = json!(["context_window", "max_tokens", "prices"]);
    check(
        &AgentEvent::ModelUnknown(Box::new(unknown.clone())),
        "model_unknown",
        json!({"provider": "openai", "model": "gpt-x", "unknown": facts}),
    );
    unknown.assumed_output = Some(5);
    check(
        &AgentEvent::ModelUnknown(Box::new(unknown)),
        "model_unknown",
        json!({"provider": "openai", "model": "gpt-x", "unknown": facts, "assumed_output": 5}),
    );
    let mut end = ToolExecutionEnd {
        loop_id: id(),
        tool_call_id: "c1".into(),
        tool_name: "bash".into(),
        result: ToolResult::error("no"),
        is_error: true,
        duration_ms: None,
        child_loop_id: None,
    };
    let result = json!({"content": [{"type": "text", "text": "no"}], "isError": true});
    check(
        &AgentEvent::ToolExecutionEnd(Box::new(end.clone())),
        "tool_execution_end",
        with(json!({"result": result, "is_error": true})),
    );
    end.duration_ms = Some(4);
    end.child_loop_id = Some("s.b.1".into());
    check(
        &AgentEvent::ToolExecutionEnd(Box::new(end)),
        "tool_execution_end",
        with(json!({"result": result, "is_error": true, "duration_ms": 4, "child_loop_id": "s.b.1"})),
    );
}

#[test]
fn questions_retries_and_compactions_have_their_shapes() {
    let question = Question {
        id: "q1".into(),
        text: "Run?".into(),
        call: None,
        tool: None,
        budget: None,
        outcome_unknown: false,
    };
    let about = Question { call: Some(Box::new(ToolCall::new("c1", "bash", json!({})))), ..question.clone() };
    check(
        &AgentEvent::QuestionAsked { loop_id: id(), question: about },
        "question_asked",
        json!({"question": {"id": "q1", "text": "Run?", "call": {"id": "c1", "name": "bash", "arguments": {}}}}),
    );
    for (answer, shape) in [
        (Answer::Allow, json!({"type": "allow"})),
        (Answer::AllowWith(json!({"a": 1})), json!({"type": "allow_with", "arguments": {"a": 1}})),
        (Answer::Deny { reason: "no".into() }, json!({"type": "deny", "reason": "no"})),
    ] {
        check(
            &AgentEvent::QuestionAnswered { loop_id: id(), question_id: "q1".into(), answer },
            "question_answered",
            json!({"question_id": "q1", "answer": shape}),
        );
    }
    let suspended = AgentEvent::RunSuspended { loop_id: id(), questions: vec![question] };
    check(&suspended, "run_suspended", json!({"questions": [{"id": "q1", "text": "Run?"}]}));
    assert!(suspended.is_terminal());

    let shape = json!({"attempt": 1, "max_attempts": 3, "delay_ms": 1_000});
    check(&AgentEvent::RetryEnd(note(None)), "retry_end", shape.clone());
    let mut failed = shape;
    failed["error"] = json!("busy");
    check(&AgentEvent::RetryStart(note(Some("busy"))), "retry_start", failed);
    let name = |index, model: &str| RouteName { index, provider: "p".into(), model: model.into() };
    let change = RouteChange {
        loop_id: id(),
        from: name(0, "a"),
        to: name(1, "b"),
        kind: ErrorKind::RateLimited,
        error: "busy".into(),
    };
    check(
        &AgentEvent::RouteChanged(Box::new(change)),
        "route_changed",
        json!({
            "from": {"index": 0, "provider": "p", "model": "a"},
            "to": {"index": 1, "provider": "p", "model": "b"},
            "kind": "rateLimited", "error": "busy",
        }),
    );

    check(
        &AgentEvent::TurnContinued { loop_id: id(), continuation: 2, max_continuations: 16 },
        "turn_continued",
        json!({"continuation": 2, "max_continuations": 16}),
    );
    check(
        &AgentEvent::CompactionStarted {
            loop_id: id(),
            reason: CompactionReason::Overflow,
            estimated_tokens: 10,
            message_count: 2,
            timestamp: Timestamp(3),
        },
        "compaction_started",
        json!({"reason": "overflow", "estimated_tokens": 10, "message_count": 2, "timestamp": 3}),
    );
    check(
        &AgentEvent::CompactionEnded(Box::new(CompactionEnded {
            loop_id: id(),
            reason: CompactionReason::Budget,
            splices: vec![Splice { from: 0, to: 2, messages: vec![message().into()] }],
            messages_before: 3,
            messages_after: 2,
            estimated_tokens_before: 20,
            estimated_tokens_after: 10,
            usage: Usage::new(1, 2, 0, 0),
            fallback: None,
            timestamp: Timestamp(3),
        })),
        "compaction_ended",
        json!({
            "reason": "budget", "splices": [{"from": 0, "to": 2, "messages": [{"tokens": 5, "message": message_json()}]}],
            "messages_before": 3, "messages_after": 2, "estimated_tokens_before": 20, "estimated_tokens_after": 10,
            "usage": usage_json(), "timestamp": 3,
        }),
    );
}

/// REQ-008.
#[test]
fn deltas_have_their_shapes_and_an_update_carries_no_copy_of_the_message() {
    let delta = || String::from("x");
    for (delta, shape) in [
        (StreamDelta::Text { text: delta() }, json!({"type": "text_delta", "text": "x"})),
        (StreamDelta::Thinking { text: delta() }, json!({"type": "thinking_delta", "text": "x"})),
        (StreamDelta::ToolCallDelta { text: delta() }, json!({"type": "tool_call_delta", "text": "x"})),
    ] {
        let update = |message| AgentEvent::MessageUpdate {
            loop_id: id(),
            step: "model-0.0".into(),
            attempt: 0,
            message,
            content_index: 1,
            delta: delta.clone(),
        };
        let shape = json!({"step": "model-0.0", "attempt": 0, "content_index": 1, "delta": shape});
        check(&update(MessageSnapshot::default()), "message_update", shape.clone());
        let mut log = ReplyLog::new();
        log.push(&StreamEvent::TextDelta { index: 0, delta: &"long ".repeat(1_000) });
        let json = serde_json::to_string(&update(log.snapshot())).unwrap();
        assert!(json.len() < 150 && !json.contains("long"), "{json}");
    }
}

#[test]
fn ends_of_a_run_have_their_shapes() {
    let reason = || String::from("r");
    for (ended, shape) in [
        (Ended::Completed, json!({"how": "completed"})),
        (Ended::Vetoed { reason: reason() }, json!({"how": "vetoed", "reason": "r"})),
        (Ended::InputRejected { reason: reason() }, json!({"how": "input_rejected", "reason": "r"})),
        (Ended::TurnVetoed { reason: reason() }, json!({"how": "turn_vetoed", "reason": "r"})),
        (
            Ended::Limit { reason: "max turns exceeded".into() },
            json!({"how": "limit", "reason": "max turns exceeded"}),
        ),
        (Ended::Aborted, json!({"how": "aborted"})),
        (
            Ended::Error { kind: ErrorKind::RateLimited, message: "m".into() },
            json!({"how": "error", "kind": "rateLimited", "message": "m"}),
        ),
        (Ended::Interrupted { reason: reason() }, json!({"how": "interrupted", "reason": "r"})),
    ] {
        assert_eq!(serde_json::to_value(&ended).unwrap(), shape);
        assert_eq!(serde_json::from_value::<Ended>(shape).unwrap(), ended);
    }
}

#[test]
fn only_what_streams_is_live_and_only_two_events_are_the_last() {
    let rejected = AgentEvent::InputRejected { loop_id: id(), reason: "no".into() };
    assert!(!rejected.is_live() && !rejected.is_terminal());
    let progress = AgentEvent::ProgressMessage {
        loop_id: id(),
        tool_call_id: "c".into(),
        tool_name: "t".into(),
        text: String::new(),
    };
    assert!(progress.is_live() && !progress.is_terminal());
    let warning = JournalWarning::NearlyFull { bytes: 3, limit: 4 };
    let warning = AgentEvent::JournalWarning { loop_id: id(), warning };
    assert!(warning.is_live() && !warning.is_terminal());
    assert!(!AgentEvent::RetryStart(note(None)).is_live());
}

#[test]
fn fields_of_a_later_version_are_ignored_and_missing_optional_ones_are_filled_in() {
    let read: AgentEvent = serde_json::from_value(
        json!({"type": "input_rejected", "loop_id": "s.a.1", "reason": "no", "later": 1}),
    )
    .unwrap();
    assert_eq!(read, AgentEvent::InputRejected { loop_id: id(), reason: "no".into() });
    let old = json!({"type": "agent_start", "agent_id": "a", "session_id": "s", "loop_id": "s.a.1", "timestamp": 1});
    assert!(serde_json::from_value::<AgentEvent>(old).is_ok());
}
