//! How the strict server answers a message that steers a reply.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// How the server goes on after a message that steers a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steered {
    /// Ends the reply, and begins the next one with the message.
    Early,
    /// Lets the reply end by itself, and begins the next one with the message.
    AtItsEnd,
    /// Refuses the message, and lets the reply end.
    Refused,
    /// Accepts the message, ends the reply, and then returns the message.
    Returned,
    /// Accepts the message; the reply ends with a call whose output has to come first.
    Pending,
    /// Ends the connection after the reply, before the next one begins.
    Cut,
    /// Ends the reply before it has an item.
    AtOnce,
}

/// A reply that has begun.
pub struct OpenReply {
    /// All events of the reply if it is not steered.
    pub events: Vec<Value>,
    /// The conversation before it.
    pub whole: Vec<Value>,
    pub how: Steered,
}

pub struct Answer {
    pub events: Vec<Value>,
    /// The conversation with the message, if the server has applied it.
    pub whole: Vec<Value>,
    pub problem: Option<String>,
    pub cut: bool,
}

impl OpenReply {
    pub fn steered(self, body: &Value, number: usize, known: &mut BTreeMap<String, Vec<Value>>) -> Answer {
        let Self { events, whole, how } = self;
        let id = events[0]["response"]["id"].as_str().unwrap().to_owned();
        let lane = events[0].get("stream_id").cloned();
        let mark = |mut event: Value| {
            if let Some(lane) = &lane {
                event["stream_id"] = lane.clone();
            }
            event
        };
        let item = events[1]["item"].clone();
        let steer = json!({"id": "steer_1", "previous_response_id": id});
        let accepted = mark(json!({"type": "response.steer.accepted", "steer": steer}));
        let failed = |code: &str| {
            mark(
                json!({"type": "response.steer.failed", "error": {"type": "invalid_request_error", "code": code,
                "message": "no"}, "steer": {"input": body["input"], "previous_response_id": id}}),
            )
        };
        let problem = problem(body, &id);
        let usage = json!({"input_tokens": whole.len(), "output_tokens": 1, "total_tokens": whole.len() + 1});
        let incomplete = |output: Value| {
            mark(
                json!({"type": "response.incomplete", "response": {"id": id, "status": "incomplete", "output": output,
                "incomplete_details": {"reason": "steered"}, "usage": usage}}),
            )
        };
        let before = match how {
            Steered::AtOnce => vec![],
            _ => vec![item.clone()],
        };
        known.insert(id.clone(), whole.iter().cloned().chain(before.clone()).collect());
        let next: Vec<Value> = whole
            .iter()
            .cloned()
            .chain(before)
            .chain(body["input"].as_array().unwrap().iter().cloned())
            .collect();
        let successor = || {
            let id = format!("resp_{number}");
            let item = json!({"type": "message", "id": format!("msg_{number}"), "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": format!("text {number}"), "annotations": []}]});
            let usage =
                json!({"input_tokens": next.len(), "output_tokens": 1, "total_tokens": next.len() + 1});
            let all = [
                json!({"type": "response.created", "response": {"id": id, "model": "gpt-5.5"}}),
                json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
                json!({"type": "response.completed", "response": {"id": id, "status": "completed", "output": [item],
                    "usage": usage}}),
            ];
            (id, item, all.map(mark))
        };
        let own = || [events[1].clone(), events[2].clone()];
        let mut out = vec![];
        match how {
            Steered::Early | Steered::AtItsEnd | Steered::AtOnce => {
                let (id, item, all) = successor();
                known.insert(id, next.iter().cloned().chain([item.clone()]).collect());
                out.push(accepted);
                match how {
                    Steered::Early => out.extend([events[1].clone(), incomplete(json!([events[1]["item"]]))]),
                    Steered::AtOnce => out.push(incomplete(json!([]))),
                    _ => out.extend(own()),
                }
                out.extend(all);
            }
            Steered::Refused => {
                out.push(failed("steering_not_supported"));
                out.extend(own());
            }
            Steered::Returned => {
                out.extend([accepted, events[1].clone(), incomplete(json!([item]))]);
                out.push(failed("successor_creation_failed"));
            }
            Steered::Pending => {
                out.push(accepted);
                out.extend(own());
                let required =
                    json!([{"type": "function_call_output", "call_id": item["call_id"], "name": "look"}]);
                out.push(mark(json!({"type": "response.steer.pending", "steer": steer,
                    "reason": "waiting_for_required_input", "required_input": required})));
            }
            Steered::Cut => {
                out.extend([accepted, events[1].clone(), incomplete(json!([item]))]);
            }
        }
        let applied = matches!(how, Steered::Early | Steered::AtItsEnd | Steered::AtOnce);
        Answer { events: out, whole: if applied { next } else { vec![] }, problem, cut: how == Steered::Cut }
    }
}

/// Returns what is wrong with a message that steers a reply.
fn problem(body: &Value, id: &str) -> Option<String> {
    let members: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
    if members != ["type", "previous_response_id", "input"] || body["previous_response_id"] != id {
        return Some(format!("not a message that steers {id}: {body}"));
    }
    let input = body["input"].as_array().filter(|input| !input.is_empty());
    let fits = |item: &Value| {
        let only =
            item.as_object().unwrap().keys().all(|key| ["type", "role", "content"].contains(&key.as_str()));
        only && item["role"] == "user" && item.get("type").is_none_or(|kind| kind == "message")
    };
    (!input.is_some_and(|input| input.iter().all(fits))).then(|| format!("not messages of the user: {body}"))
}
