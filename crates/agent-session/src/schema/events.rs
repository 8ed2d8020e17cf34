//! The schemas of events: live events, and events in files of version 1.

use serde_json::{Value, json};

use super::{
    any, config, continuation, data, ended, flag, list, long, member, natural, object, origin, place,
    reference, refusal, spending, text, trigger,
};

/// What the shape is called that any kind of a later version has.
const LATER: &str = "a kind of event that a later version has";

/// Which form of events a schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The form of live events.
    Live,
    /// The form of events in files of version 1: tags are the names of variants, messages are referred to by place.
    Stored,
}

/// An event in a file of version 1.
pub(super) fn stored() -> Value {
    let mut shapes = kinds(Form::Stored);
    let mut later = object(&[("type", text())], &[]);
    if let Some(map) = later.as_object_mut() {
        map.insert("title".to_owned(), json!(LATER));
    }
    shapes.push(later);
    any(&shapes)
}

/// A live event.
pub(super) fn live() -> Value {
    let mut shapes = kinds(Form::Live);
    shapes.extend(groups());
    any(&shapes)
}

impl Form {
    fn kind(self, name: &str, required: &[(&str, Value)], optional: &[(&str, Value)]) -> Value {
        let mut fields = vec![("type", json!({ "const": self.name(name) }))];
        // In a file an event does not name the loop among whose events it is stored.
        let mut rest = Vec::new();
        match self {
            Self::Live => fields.push(("loop_id", text())),
            Self::Stored => rest.push(("loop_id", text())),
        }
        fields.extend_from_slice(required);
        rest.extend_from_slice(optional);
        object(&fields, &rest)
    }

    fn name(self, name: &str) -> String {
        if self == Self::Stored {
            return name.to_owned();
        }
        let mut snake = String::new();
        for letter in name.chars() {
            if letter.is_ascii_uppercase() && !snake.is_empty() {
                snake.push('_');
            }
            snake.push(letter.to_ascii_lowercase());
        }
        snake
    }

    fn message(self) -> Value {
        match self {
            Self::Live => reference("message"),
            Self::Stored => place(),
        }
    }

    fn delta(self) -> Value {
        let flat = |name: &str| object(&[("type", json!({ "const": name })), ("text", text())], &[]);
        let nested = |name: &str| object(&[(name, object(&[("delta", long())], &[]))], &[]);
        match self {
            Self::Live => any(&["text_delta", "thinking_delta", "tool_call_delta"].map(flat)),
            Self::Stored => any(&["Text", "Thinking", "ToolCallDelta"].map(nested)),
        }
    }

    fn trigger(self) -> Value {
        match self {
            Self::Live => json!({ "enum": ["user", "sub_agent", "continuation", "branch"] }),
            Self::Stored => trigger(),
        }
    }

    fn answer(self) -> Value {
        let tagged = |name: &str, field: Option<(&'static str, Value)>| {
            let mut fields = vec![("type", json!({ "const": name }))];
            fields.extend(field);
            object(&fields, &[])
        };
        match self {
            Self::Live => any(&[
                tagged("allow", None),
                tagged("allow_with", Some(("arguments", data()))),
                tagged("raise", Some(("by", spending()))),
                tagged("deny", Some(("reason", text()))),
            ]),
            Self::Stored => any(&[
                json!({ "const": "allow" }),
                object(&[("allowWith", data())], &[]),
                object(&[("raise", object(&[("by", spending())], &[]))], &[]),
                object(&[("deny", object(&[("reason", long())], &[]))], &[]),
            ]),
        }
    }

    fn arguments_text(self) -> &'static str {
        match self {
            Self::Live => "arguments_text",
            Self::Stored => "argumentsText",
        }
    }
}

/// The events of a group of parallel loops. A file stores the group in its records instead.
fn groups() -> [Value; 2] {
    let tag = |name: &str| ("type", json!({ "const": name }));
    let ids = [("group_id", text()), ("session_id", text())];
    let [group, session] = ids;
    [
        object(
            &[
                tag("parallel_loop_start"),
                group.clone(),
                session.clone(),
                ("agent_id", text()),
                ("loop_ids", list(text())),
                ("timestamp", natural()),
            ],
            &[("parent_loop_id", text())],
        ),
        object(
            &[
                tag("parallel_loop_end"),
                group,
                session,
                ("evaluation_usage", reference("usage")),
                ("timestamp", natural()),
            ],
            &[
                ("selected_loop_id", text()),
                ("selected_config_index", natural()),
                ("judge_loop_id", text()),
                ("reason", long()),
            ],
        ),
    ]
}

fn question() -> Value {
    object(&[("id", text()), ("text", long())], &[("call", data()), ("budget", refusal())])
}

fn result() -> Value {
    object(
        &[("content", list(reference("content")))],
        &[
            ("details", data()),
            ("isError", flag()),
            ("terminate", flag()),
            ("childLoopId", text()),
            ("usage", reference("usage")),
        ],
    )
}

fn budget_note() -> Value {
    let what = |name: &str| ("what", json!({ "const": name }));
    any(&[
        object(&[what("reserved"), ("amounts", spending())], &[("max_output", natural())]),
        object(&[what("spent"), ("amounts", spending())], &[("estimated", flag())]),
        object(&[what("refused"), ("refusal", refusal())], &[]),
        object(&[what("raised"), ("by", spending())], &[]),
    ])
}

fn cache_break_cause() -> Value {
    let cause = |name: &str| ("cause", json!({ "const": name }));
    let names = || list(text());
    let mut shapes: Vec<Value> = ["system_prompt", "history", "context_hook", "compaction", "unknown"]
        .map(|name| object(&[cause(name)], &[]))
        .into();
    shapes.push(object(
        &[cause("tools")],
        &[("added", names()), ("removed", names()), ("changed", names()), ("reordered", flag())],
    ));
    shapes.push(object(&[cause("setting"), ("name", text())], &[]));
    shapes.push(object(&[cause("model_switched"), ("from", text()), ("to", text())], &[]));
    any(&shapes)
}

#[expect(clippy::too_many_lines, reason = "one entry for each kind of event")]
fn kinds(form: Form) -> Vec<Value> {
    let kind = |name: &str, required: &[(&str, Value)], optional: &[(&str, Value)]| {
        form.kind(name, required, optional)
    };
    let reason = || json!({ "enum": ["budget", "overflow"] });
    let call = || [("tool_call_id", text()), ("tool_name", text())];
    let [call_id, tool] = call();
    let retry = |name: &str| {
        kind(
            name,
            &[("attempt", natural()), ("max_attempts", natural()), ("delay_ms", natural())],
            &[("error", long())],
        )
    };
    let splice =
        object(&[("from", natural()), ("to", natural()), ("messages", list(reference("entry")))], &[]);
    vec![
        kind(
            "AgentStart",
            &[("agent_id", text()), ("session_id", text()), ("timestamp", natural()), ("config", config())],
            &[
                ("parent_loop_id", text()),
                ("continuation_kind", continuation()),
                ("group", member()),
                ("session_origin", origin()),
                ("metadata", data()),
            ],
        ),
        kind("InputRejected", &[("reason", long())], &[]),
        kind(
            "TurnStart",
            &[("turn_index", natural()), ("timestamp", natural()), ("triggered_by", form.trigger())],
            &[],
        ),
        kind("MessageStart", &[("message", form.message())], &[]),
        kind(
            "MessageUpdate",
            &[
                ("step", text()),
                ("attempt", natural()),
                ("content_index", natural()),
                ("delta", form.delta()),
            ],
            &[],
        ),
        kind("MessageEnd", &[("message", form.message()), ("tokens", natural())], &[("superseded", flag())]),
        kind(
            "ToolExecutionStart",
            &[call_id.clone(), tool.clone(), ("arguments", data())],
            &[(form.arguments_text(), long())],
        ),
        kind("ToolExecutionUpdate", &[call_id.clone(), tool.clone(), ("partial_result", result())], &[]),
        kind("ProgressMessage", &[call_id.clone(), tool.clone(), ("text", long())], &[]),
        kind(
            "ToolExecutionEnd",
            &[call_id, tool, ("result", result()), ("is_error", flag())],
            &[("duration_ms", natural()), ("child_loop_id", text())],
        ),
        kind("QuestionAsked", &[("question", question())], &[]),
        kind("QuestionAnswered", &[("question_id", text()), ("answer", form.answer())], &[]),
        kind("RunSuspended", &[("questions", list(question()))], &[]),
        retry("RetryStart"),
        retry("RetryEnd"),
        kind("RouteChanged", &[("from", data()), ("to", data()), ("kind", text()), ("error", long())], &[]),
        kind("Budget", &[("step", text()), ("note", budget_note()), ("spent", spending())], &[]),
        kind(
            "CacheBroken",
            &[
                ("step", text()),
                ("field", text()),
                ("cause", cache_break_cause()),
                ("intended", flag()),
                ("rebilled_tokens", natural()),
            ],
            &[
                ("byte", natural()),
                ("message", natural()),
                (
                    "reported",
                    object(&[("read", natural()), ("written", natural()), ("expected", natural())], &[]),
                ),
            ],
        ),
        kind(
            "CompactionStarted",
            &[
                ("reason", reason()),
                ("estimated_tokens", natural()),
                ("message_count", natural()),
                ("timestamp", natural()),
            ],
            &[],
        ),
        kind(
            "CompactionEnded",
            &[
                ("reason", reason()),
                ("splices", list(splice)),
                ("messages_before", natural()),
                ("messages_after", natural()),
                ("estimated_tokens_before", natural()),
                ("estimated_tokens_after", natural()),
                ("timestamp", natural()),
            ],
            &[("usage", reference("usage")), ("fallback", long())],
        ),
        kind(
            "TurnEnd",
            &[
                ("message", any(&[json!({ "type": "null" }), form.message()])),
                ("usage", reference("usage")),
                ("timestamp", natural()),
                ("tool_results", list(form.message())),
            ],
            &[],
        ),
        kind(
            "AgentEnd",
            &[
                ("messages", list(form.message())),
                ("usage", reference("usage")),
                ("ended", ended()),
                ("timestamp", natural()),
            ],
            &[("tool_usage", reference("usage")), ("spent", spending())],
        ),
    ]
}
