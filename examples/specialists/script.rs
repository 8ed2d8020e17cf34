//! The script of all roles. Each request names its role by its system prompt.

use looptree::provider::ModelRequest;
use looptree::testing::{ScriptedProvider, ScriptedReply};
use looptree::{Message, Usage};
use serde_json::json;

/// Returns the provider of all roles.
pub(crate) fn provider() -> ScriptedProvider {
    ScriptedProvider::responding(|request| reply(request).using(Usage::new(100, 20, 0, 0)))
}

fn reply(request: &ModelRequest) -> ScriptedReply {
    let last = request.messages().last().map(Message::text).unwrap_or_default();
    let results: Vec<String> =
        request.messages().filter(|m| m.role() == "toolResult").map(Message::text).collect();
    let prompt = request.system_prompt.as_ref();
    match ["desk", "billing", "shipping"].into_iter().find(|role| prompt.contains(role)).unwrap_or_default() {
        "desk" if last.starts_with("Invoice 17") => ScriptedReply::new()
            .and_call("a", "billing", json!({"task": "Refund invoice 17, which was charged twice."}))
            .and_call("b", "shipping", json!({"task": "Find parcel 4."})),
        "desk" if last.contains("talk to billing") => {
            ScriptedReply::call("c", "hand_over", json!({"to": "billing"}))
        }
        "desk" => ScriptedReply::text(results.join(" ")),
        "shipping" if results.is_empty() => ScriptedReply::call("k", "track", json!({"number": 4})),
        "shipping" => ScriptedReply::text(last),
        "billing" if last.starts_with("Refund") => ScriptedReply::call("k", "refund", json!({"number": 17})),
        // After the hand-off, billing sees the whole conversation.
        "billing" if last.contains("continues the conversation") => {
            let knows = results.iter().any(|result| result.contains("Invoice 17 was refunded"));
            ScriptedReply::text(if knows {
                "Billing here. I see that invoice 17 was refunded."
            } else {
                "Billing here."
            })
        }
        "billing" if last == "Thank you." => ScriptedReply::text("You are welcome."),
        _ => ScriptedReply::text(last),
    }
}
