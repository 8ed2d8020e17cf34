//! The models of all roles, following a script. Each request names its role by the id of the model.

use async_trait::async_trait;
use looptree::message::StopReason;
use looptree::provider::{Completion, EventSink, ModelRequest, StreamEvent};
use looptree::{CancellationToken, Message, ProviderError, StreamProvider, Usage};
use serde_json::{Value, json};

pub(crate) struct Script;

/// What a model says: a text, or calls with their ids, tools and arguments.
enum Says {
    Text(String),
    Calls(Vec<(&'static str, &'static str, Value)>),
}

fn answer(request: &ModelRequest) -> Says {
    let last = request.messages().last().map(Message::text).unwrap_or_default();
    let results: Vec<String> =
        request.messages().filter(|m| m.role() == "toolResult").map(Message::text).collect();
    let text = |text: &str| Says::Text(text.to_owned());
    match request.model.id.as_str() {
        "desk" if last.starts_with("Invoice 17") => Says::Calls(vec![
            ("a", "billing", json!({"task": "Refund invoice 17, which was charged twice."})),
            ("b", "shipping", json!({"task": "Find parcel 4."})),
        ]),
        "desk" if last.contains("talk to billing") => {
            Says::Calls(vec![("c", "hand_over", json!({"to": "billing"}))])
        }
        "desk" => Says::Text(results.join(" ")),
        "shipping" if results.is_empty() => Says::Calls(vec![("k", "track", json!({"number": 4}))]),
        "shipping" => Says::Text(last),
        "billing" if last.starts_with("Refund") => Says::Calls(vec![("k", "refund", json!({"number": 17}))]),
        // After the hand-off, billing sees the whole conversation.
        "billing" if last.contains("continues the conversation") => {
            let knows = results.iter().any(|result| result.contains("Invoice 17 was refunded"));
            text(if knows { "Billing here. I see that invoice 17 was refunded." } else { "Billing here." })
        }
        "billing" if last == "Thank you." => text("You are welcome."),
        _ => Says::Text(last),
    }
}

#[async_trait]
impl StreamProvider for Script {
    fn provider_id(&self) -> &'static str {
        "script"
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        _cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        sink(StreamEvent::Start { response_id: None, model: None });
        let stop = match answer(request) {
            Says::Text(text) => {
                sink(StreamEvent::TextStart { index: 0 });
                sink(StreamEvent::TextDelta { index: 0, delta: &text });
                sink(StreamEvent::BlockEnd { index: 0 });
                StopReason::Stop
            }
            Says::Calls(calls) => {
                for (index, (id, name, arguments)) in (0..).zip(&calls) {
                    sink(StreamEvent::ToolCallStart { index, id, name });
                    sink(StreamEvent::ToolCallDelta { index, delta: &arguments.to_string() });
                    sink(StreamEvent::BlockEnd { index });
                }
                StopReason::ToolUse
            }
        };
        sink(StreamEvent::Usage(Usage::new(100, 20, 0, 0)));
        Ok(Completion::new(stop))
    }
}
