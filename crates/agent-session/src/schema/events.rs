//! The shapes of events, as files have them.

use serde_json::{Value, json};

use super::{
    any, config, continuation, data, ended, flag, list, long, member, natural, object, origin, place,
    reference, refusal, spending, text, trigger,
};

/// What the shape is called that any kind of a later version has.
const LATER: &str = "a kind of event that a later version has";

pub(super) fn event() -> Value {
    let mut shapes = kinds();
    let mut later = object(&[("type", text())], &[]);
    if let Some(map) = later.as_object_mut() {
        map.insert("title".to_owned(), json!(LATER));
    }
    shapes.push(later);
    any(&shapes)
}

fn kind(name: &str, required: &[(&str, Value)], optional: &[(&str, Value)]) -> Value {
    let mut fields = vec![("type", json!({ "const": name }))];
    fields.extend_from_slice(required);
    // An event of the loop that it stands in does not name it.
    let mut rest = vec![("loop_id", text())];
    rest.extend_from_slice(optional);
    object(&fields, &rest)
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

fn kinds() -> Vec<Value> {
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
    let answer = any(&[
        json!({ "const": "allow" }),
        object(&[("allowWith", data())], &[]),
        object(&[("raise", object(&[("by", spending())], &[]))], &[]),
        object(&[("deny", object(&[("reason", long())], &[]))], &[]),
    ]);
    let delta = |name: &str| object(&[(name, object(&[("delta", long())], &[]))], &[]);
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
            &[("turn_index", natural()), ("timestamp", natural()), ("triggered_by", trigger())],
            &[],
        ),
        kind("MessageStart", &[("message", place())], &[]),
        kind(
            "MessageUpdate",
            &[
                ("step", text()),
                ("attempt", natural()),
                ("content_index", natural()),
                ("delta", any(&[delta("Text"), delta("Thinking"), delta("ToolCallDelta")])),
            ],
            &[],
        ),
        kind("MessageEnd", &[("message", place()), ("tokens", natural())], &[("superseded", flag())]),
        kind(
            "ToolExecutionStart",
            &[call_id.clone(), tool.clone(), ("arguments", data())],
            &[("argumentsText", long())],
        ),
        kind("ToolExecutionUpdate", &[call_id.clone(), tool.clone(), ("partial_result", result())], &[]),
        kind("ProgressMessage", &[call_id.clone(), tool.clone(), ("text", long())], &[]),
        kind(
            "ToolExecutionEnd",
            &[call_id, tool, ("result", result()), ("is_error", flag())],
            &[("duration_ms", natural()), ("child_loop_id", text())],
        ),
        kind("QuestionAsked", &[("question", question())], &[]),
        kind("QuestionAnswered", &[("question_id", text()), ("answer", answer)], &[]),
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
                ("message", any(&[json!({ "type": "null" }), place()])),
                ("usage", reference("usage")),
                ("timestamp", natural()),
                ("tool_results", list(place())),
            ],
            &[],
        ),
        kind(
            "AgentEnd",
            &[
                ("messages", list(place())),
                ("usage", reference("usage")),
                ("ended", ended()),
                ("timestamp", natural()),
            ],
            &[("tool_usage", reference("usage")), ("spent", spending())],
        ),
    ]
}
