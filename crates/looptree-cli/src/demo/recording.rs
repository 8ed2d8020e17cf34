//! The recording: what a model said when it was given the task, in the form of a provider.

use std::time::Duration;

use async_trait::async_trait;
use looptree::message::StopReason;
use looptree::model::ApiProtocol;
use looptree::provider::Completion;
use looptree::provider::EventSink;
use looptree::provider::ModelRequest;
use looptree::provider::StreamEvent;
use looptree::{CancellationToken, ModelConfig, ProviderError, StreamProvider};
use serde_json::{Value, json};

/// The pace at which the recording speaks.
const WORD: Duration = Duration::from_millis(25);

/// Returns a model configuration that is named as a recording.
pub(crate) fn model() -> ModelConfig {
    ModelConfig::new(ApiProtocol::OllamaChat, super::RECORDING, "recording").named("a recording, not a model")
}

/// Speaks the next part for each call of the model: as many replies as are in the conversation have been given.
pub(crate) struct Recording;

struct Part {
    text: &'static str,
    call: Option<(&'static str, Value)>,
}

fn parts() -> Vec<Part> {
    let tests = || Some(("bash", json!({"command": "cargo test --offline --quiet --test stats"})));
    vec![
        Part { text: "I will run the tests first, to see what fails.", call: tests() },
        Part {
            text: "The median of four values is wrong. Where is it computed?",
            call: Some(("search", json!({"pattern": "fn median", "path": "."}))),
        },
        Part { text: "Let me read that file.", call: Some(("read_file", json!({"path": "src/lib.rs"}))) },
        Part {
            text: "For an even number of values the median lies between the middle two, but the function takes the upper one.",
            call: Some((
                "edit_file",
                json!({
                    "path": "src/lib.rs",
                    "old_text": "    Some(sorted[middle])\n",
                    "new_text": "    if sorted.len() % 2 == 0 {\n        Some((sorted[middle - 1] + sorted[middle]) / 2.0)\n    } else {\n        Some(sorted[middle])\n    }\n"
                }),
            )),
        },
        Part { text: "Now the tests again.", call: tests() },
    ]
}

#[async_trait]
impl StreamProvider for Recording {
    fn provider_id(&self) -> &'static str {
        "recording"
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        let given = request.messages().filter(|m| m.role() == "assistant").count();
        let mut parts = parts();
        let part = if given < parts.len() { parts.swap_remove(given) } else { report(request) };
        sink(StreamEvent::Start { response_id: None, model: None });
        sink(StreamEvent::TextStart { index: 0 });
        for word in part.text.split_inclusive(' ') {
            tokio::select! {
                () = tokio::time::sleep(WORD) => {}
                () = cancel.cancelled() => return Err(ProviderError::Cancelled),
            }
            sink(StreamEvent::TextDelta { index: 0, delta: word });
        }
        sink(StreamEvent::BlockEnd { index: 0 });
        let Some((tool, arguments)) = part.call else { return Ok(Completion::new(StopReason::Stop)) };
        let id = format!("recorded_{given}");
        sink(StreamEvent::ToolCallStart { index: 1, id: &id, name: tool });
        sink(StreamEvent::ToolCallDelta { index: 1, delta: &arguments.to_string() });
        sink(StreamEvent::BlockEnd { index: 1 });
        Ok(Completion::new(StopReason::ToolUse))
    }
}

/// The last words follow what the last run of the tests really gave.
fn report(request: &ModelRequest) -> Part {
    let last = request.messages().filter_map(looptree::Message::as_tool_result).last();
    let text = last
        .map(|r| r.content.iter().filter_map(looptree::Content::as_text).collect::<String>())
        .unwrap_or_default();
    let passed = text.contains("test result: ok") && !text.contains("FAILED");
    let text = if passed {
        "Repaired: `median` in src/lib.rs now takes the mean of the middle two values when there is an even number of them. \
         All tests pass; nothing else was changed."
    } else {
        "The change is made, but the tests do not pass here. This recording ends at this point; a model would look further."
    };
    Part { text, call: None }
}
