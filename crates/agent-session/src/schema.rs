//! JSON schemas of session files and of the live event stream.
//!
//! `docs/schema/session-v1.json` and `docs/schema/events-v1.json` contain the results of [`session_schema`] and
//! [`event_schema`]. Tests compare the files with the code and validate recorded sessions and live events. A file can
//! contain fields and kinds of events that are not in the schema; they come from a later version and are preserved.
//!
//! ```
//! use agent_core::Timestamp;
//! use agent_core::tool::validate::{ArgumentValidator, SchemaValidator};
//! use agent_session::{Session, session_schema};
//! let session = Session::new("s-1".into(), "agent".into(), Timestamp(1));
//! let file = serde_json::to_value(&session)?;
//! assert!(SchemaValidator.validate(&session_schema(), file).is_ok());
//! # Ok::<(), serde_json::Error>(())
//! ```

mod events;

use serde_json::{Map, Value, json};

use crate::model::SESSION_VERSION;

/// The schema of a session's file in the version that is written.
#[must_use]
pub fn session_schema() -> Value {
    let mut schema = object(
        &[
            ("version", json!({ "const": SESSION_VERSION })),
            ("session_id", text()),
            ("agent_id", text()),
            ("created_at", natural()),
            ("last_active_at", natural()),
            ("formation", formation()),
        ],
        &[
            ("parent_spawn_ref", spawn_ref()),
            ("forked_from", forked_from()),
            ("scope", json!({ "enum": ["ephemeral", "persistent"] })),
            ("journal_records", natural()),
            ("loops", list(reference("loop"))),
        ],
    );
    let definitions = json!({
        "loop": looped(),
        "message": message(),
        "content": content(),
        "usage": usage(),
        "entry": object(&[("tokens", natural()), ("message", place())], &[]),
        "text": packed_text(),
        "event": events::stored(),
    });
    if let Some(map) = schema.as_object_mut() {
        map.shift_insert(0, "$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        map.shift_insert(1, "title".to_owned(), json!("A session of Looptree"));
        map.insert("$defs".to_owned(), definitions);
    }
    schema
}

/// Returns the JSON schema of the live event stream: what [`AgentEvent`](agent_core::AgentEvent) serializes to.
///
/// Later versions can add kinds of events and fields, so a reader has to ignore the ones that it does not know.
#[must_use]
pub fn event_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An event of Looptree",
        "anyOf": events::live().get("anyOf"),
        "$defs": {
            "message": message(),
            "content": content(),
            "usage": usage(),
            "entry": object(&[("tokens", natural()), ("message", reference("message"))], &[]),
            "text": text(),
        },
    })
}

fn object(required: &[(&str, Value)], optional: &[(&str, Value)]) -> Value {
    let fields = required.iter().chain(optional).map(|(k, v)| ((*k).to_owned(), v.clone()));
    let names: Vec<&str> = required.iter().map(|(k, _)| *k).collect();
    json!({ "type": "object", "required": names, "properties": fields.collect::<Map<_, _>>() })
}

#[expect(clippy::needless_pass_by_value, reason = "it reads as the shape that it makes")]
fn list(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn flag() -> Value {
    json!({ "type": "boolean" })
}

fn number() -> Value {
    json!({ "type": "number" })
}

/// A count, a place or a time: milliseconds since 1970-01-01 UTC.
fn natural() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

/// A text, or its position: a JSON pointer into its loop.
fn packed_text() -> Value {
    json!({ "anyOf": [text(), object(&[("$text", text())], &[])] })
}

fn long() -> Value {
    reference("text")
}

/// Anything: data of a tool, of a caller, or of a run's own state.
fn data() -> Value {
    json!({})
}

/// One of several shapes.
fn any(shapes: &[Value]) -> Value {
    json!({ "anyOf": shapes })
}

/// An object of one key, as serde writes a variant.
fn variant(name: &str, inner: Value) -> Value {
    object(&[(name, inner)], &[])
}

fn formation() -> Value {
    any(&[
        variant("Explicit", object(&[("timestamp", natural())], &[])),
        variant("FirstLoop", object(&[("timestamp", natural())], &[])),
        variant(
            "InactivityTimeout",
            object(
                &[("threshold_secs", natural()), ("timestamp", natural())],
                &[("previous_session_id", text())],
            ),
        ),
    ])
}

fn spawn_ref() -> Value {
    object(
        &[
            ("parent_session_id", text()),
            ("parent_loop_id", text()),
            ("tool_call_id", text()),
            ("tool_name", text()),
        ],
        &[],
    )
}

fn forked_from() -> Value {
    let mark = object(&[("len", natural()), ("modified_ms", natural())], &[("hash", text())]);
    let files = json!({ "type": "object", "additionalProperties": any(&[json!({ "type": "null" }), mark]) });
    object(
        &[("session_id", text()), ("loop_id", text())],
        &[("messages", natural()), ("timestamp", natural()), ("files", files)],
    )
}

/// The number of a message of its loop, of another one, one of these before anything of it had arrived, or a message.
fn place() -> Value {
    let other = object(&[("other", natural())], &[]);
    let begins = object(&[("begins", any(&[natural(), other.clone()]))], &[("timestamp", natural())]);
    any(&[natural(), other, begins, reference("message")])
}

fn looped() -> Value {
    let link = object(
        &[
            ("tool_call_id", text()),
            ("tool_name", text()),
            ("child_loop_id", text()),
            ("child_session_id", text()),
        ],
        &[],
    );
    let group = object(
        &[("all_loop_ids", list(text()))],
        &[
            ("selected_loop_id", text()),
            ("selected_config_index", natural()),
            ("selected_after_loops", natural()),
            ("evaluation_usage", reference("usage")),
            ("judge_loop_id", text()),
            ("reason", long()),
            ("is_selected", flag()),
        ],
    );
    let turn_id = object(&[("loopId", text()), ("turnIndex", natural())], &[]);
    let turn = object(
        &[("turn_id", turn_id), ("triggered_by", trigger()), ("started_at", natural())],
        &[
            ("usage", reference("usage")),
            ("input_messages", list(natural())),
            ("output_message", natural()),
            ("tool_results", list(natural())),
            ("ended_at", natural()),
        ],
    );
    object(
        &[
            ("loop_id", text()),
            ("session_id", text()),
            ("agent_id", text()),
            ("started_at", natural()),
            (
                "status",
                json!({ "enum": [
                    "Pending", "Running", "Suspended", "Completed", "Rejected", "Stopped", "Failed", "Aborted",
                    "Interrupted",
                ] }),
            ),
        ],
        &[
            ("parent_loop_id", text()),
            ("continuation_kind", continuation()),
            ("ended_at", natural()),
            ("rejection", text()),
            ("ended", ended()),
            ("config", config()),
            (
                "base",
                object(
                    &[("keep", natural())],
                    &[
                        ("after_loop", text()),
                        (
                            "added",
                            list(object(&[("tokens", natural()), ("message", reference("message"))], &[])),
                        ),
                    ],
                ),
            ),
            ("messages", list(reference("message"))),
            ("other_messages", list(reference("message"))),
            ("turns", list(turn)),
            ("usage", reference("usage")),
            ("metadata", data()),
            ("events", list(object(&[("sequence", natural()), ("event", reference("event"))], &[]))),
            ("children_loop_ids", list(text())),
            ("child_loop_refs", list(link)),
            ("group", member()),
            ("parallel_group", group),
            ("open_run", json!({ "type": "object" })),
        ],
    )
}

fn trigger() -> Value {
    json!({ "enum": ["User", "SubAgent", "Continuation", "Branch"] })
}

/// Why an agent went to a new session.
fn origin() -> Value {
    let silent = object(&[("threshold_secs", natural()), ("previous_session_id", text())], &[]);
    any(&[json!({ "enum": ["explicit"] }), variant("inactivity", silent)])
}

/// The place of a loop in a group.
fn member() -> Value {
    let branch = variant("branch", object(&[("index", natural())], &[]));
    object(&[("group_id", text()), ("role", any(&[json!({ "enum": ["judge"] }), branch]))], &[])
}

fn spending() -> Value {
    let amounts = ["tokens", "money", "time_ms", "model_calls", "tool_calls"].map(|name| (name, natural()));
    object(&[], &amounts)
}

/// The limit of a budget that does not allow a call.
fn refusal() -> Value {
    let limits = json!({ "enum": ["tokens", "money", "time", "model_calls", "tool_calls"] });
    object(
        &[
            ("budget", text()),
            ("level", natural()),
            ("limit", limits),
            ("allowed", natural()),
            ("spent", natural()),
        ],
        &[("reserved", natural()), ("asked", natural())],
    )
}

fn continuation() -> Value {
    let tagged = object(&[("tag", text())], &[]);
    any(&[
        json!({ "enum": ["Initial", "Default", "Compaction"] }),
        variant("Rerun", tagged.clone()),
        variant("Branch", tagged),
    ])
}

fn ended() -> Value {
    let how = |name: &str, rest: &[(&'static str, Value)]| {
        let mut fields = vec![("how", json!({ "const": name }))];
        fields.extend_from_slice(rest);
        object(&fields, &[])
    };
    let mut shapes = vec![how("completed", &[]), how("aborted", &[])];
    for name in ["vetoed", "input_rejected", "turn_vetoed", "limit", "interrupted"] {
        shapes.push(how(name, &[("reason", long())]));
    }
    shapes.push(how("budget", &[("refusal", refusal())]));
    shapes.push(how("error", &[("kind", text()), ("message", long())]));
    any(&shapes)
}

fn config() -> Value {
    let price = |more: &[(&'static str, Value)]| {
        let mut fields = vec![
            ("input", natural()),
            ("output", natural()),
            ("cacheRead", natural()),
            ("cacheWrite", natural()),
        ];
        fields.extend_from_slice(more);
        fields
    };
    let tiers = list(object(&price(&[("above", natural())]), &[]));
    object(
        &[("model", text()), ("provider", text())],
        &[
            ("config_id", text()),
            ("name", text()),
            ("api", text()),
            ("context_window", natural()),
            ("max_tokens", natural()),
            ("thinking_level", text()),
            ("temperature", number()),
            ("prices", object(&price(&[]), &[("tiers", tiers), ("free", flag())])),
        ],
    )
}

fn usage() -> Value {
    object(
        &[("input", natural()), ("output", natural())],
        &[
            ("reasoning", natural()),
            ("cache_read", natural()),
            ("cache_write", natural()),
            ("total_tokens", natural()),
        ],
    )
}

fn message() -> Value {
    let role = |name: &str| ("role", json!({ "const": name }));
    let contents = || ("content", list(reference("content")));
    let turn = || ("turnId", object(&[("loopId", text()), ("turnIndex", natural())], &[]));
    any(&[
        object(&[role("user"), contents()], &[("timestamp", natural()), turn()]),
        object(
            &[
                role("assistant"),
                contents(),
                ("stopReason", json!({ "enum": ["stop", "length", "toolUse", "error", "aborted"] })),
                ("provider", text()),
                ("model", text()),
                ("usage", reference("usage")),
            ],
            &[
                ("api", text()),
                ("responseId", text()),
                ("timestamp", natural()),
                ("errorMessage", long()),
                turn(),
            ],
        ),
        object(
            &[
                role("toolResult"),
                ("toolCallId", text()),
                ("toolName", text()),
                contents(),
                ("isError", flag()),
            ],
            &[
                ("details", data()),
                ("durationMs", natural()),
                ("childLoopId", text()),
                ("timestamp", natural()),
                turn(),
            ],
        ),
        object(&[role("extension"), ("kind", text()), ("data", data())], &[]),
    ])
}

fn content() -> Value {
    let kind = |name: &str| ("type", json!({ "const": name }));
    any(&[
        object(&[kind("text"), ("text", long())], &[("signature", long())]),
        object(&[kind("image"), ("data", long()), ("mimeType", text())], &[]),
        object(&[kind("image"), ("url", long())], &[]),
        object(&[kind("thinking"), ("thinking", long())], &[("signature", long()), ("redacted", flag())]),
        object(
            &[kind("toolCall"), ("id", text()), ("name", text()), ("arguments", data())],
            &[("argumentsText", long()), ("signature", long())],
        ),
        object(&[kind("opaque"), ("kind", text()), ("data", data())], &[]),
    ])
}
