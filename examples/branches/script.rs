//! Models that follow a script.

use async_trait::async_trait;
use looptree::message::StopReason;
use looptree::provider::Completion;
use looptree::provider::EventSink;
use looptree::provider::ModelRequest;
use looptree::provider::StreamEvent;
use looptree::{CancellationToken, ProviderError, StreamProvider, Usage};

/// Writes its text to the greeting, then reports it.
pub(crate) struct Editor {
    text: &'static str,
}

impl Editor {
    pub(crate) fn new(text: &'static str) -> Self {
        Self { text }
    }
}

#[async_trait]
impl StreamProvider for Editor {
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
        let has_written = request.history.last().is_some_and(|m| m.role() == "toolResult");
        let stop = if has_written {
            say(sink, &format!("The greeting is now: {}", self.text.trim_end()));
            StopReason::Stop
        } else {
            let arguments = serde_json::json!({"path": "greeting.txt", "content": self.text}).to_string();
            sink(StreamEvent::ToolCallStart { index: 0, id: "call_1", name: "write_file" });
            sink(StreamEvent::ToolCallDelta { index: 0, delta: &arguments });
            sink(StreamEvent::BlockEnd { index: 0 });
            StopReason::ToolUse
        };
        sink(StreamEvent::Usage(Usage::new(120, 30, 0, 0)));
        Ok(Completion::new(stop))
    }
}

/// Likes the longest response best.
pub(crate) struct Judge;

#[async_trait]
impl StreamProvider for Judge {
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
        let question = request.history.last().map(looptree::AgentMessage::text).unwrap_or_default();
        let responses = question.split("\n\nResponse ").skip(1);
        let longest = responses.enumerate().max_by_key(|(_, text)| text.len()).map_or(1, |(at, _)| at + 1);
        say(sink, &longest.to_string());
        sink(StreamEvent::Usage(Usage::new(200, 1, 0, 0)));
        Ok(Completion::new(StopReason::Stop))
    }
}

fn say(sink: &mut EventSink<'_>, text: &str) {
    sink(StreamEvent::TextStart { index: 0 });
    sink(StreamEvent::TextDelta { index: 0, delta: text });
    sink(StreamEvent::BlockEnd { index: 0 });
}
