//! The forms of a call.

use async_trait::async_trait;
use serde_json::json;
use tokio::sync::mpsc::unbounded_channel;
use tokio_util::sync::CancellationToken;

use crate::history::History;
use crate::message::{AgentMessage, StopReason, Usage};
use crate::model::{ApiProtocol, ModelConfig, ResponseFormat, ThinkingLevel, ToolChoice};
use crate::provider::{
    Completion, ErrorKind, EventSink, ModelRequest, OwnedStreamEvent, ProviderError, StreamEvent,
    StreamProvider, complete, stream_to,
};

/// Says "Hello" in two pieces, and then ends as it is told to.
struct Fixed {
    fails: bool,
}

#[async_trait]
impl StreamProvider for Fixed {
    fn provider_id(&self) -> &str {
        "fixed"
    }

    async fn stream(
        &self,
        _: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        if cancel.is_cancelled() {
            return Err(ProviderError::Cancelled);
        }
        sink(StreamEvent::Start { response_id: Some("r1"), model: None });
        sink(StreamEvent::TextDelta { index: 0, delta: "Hel" });
        sink(StreamEvent::TextDelta { index: 0, delta: "lo" });
        sink(StreamEvent::Usage(Usage::new(3, 1, 0, 0)));
        if self.fails {
            Err(ProviderError::classify(503, "gone"))
        } else {
            Ok(Completion::new(StopReason::Stop))
        }
    }
}

fn request() -> ModelRequest {
    let (history, _) =
        History::repaired([AgentMessage::extension("note", json!("secret")), AgentMessage::user("hi")]);
    ModelRequest::new(ModelConfig::anthropic("claude", "Claude", "k"), history)
}

/// REQ-020.
#[tokio::test]
async fn a_call_gives_the_complete_message() {
    let message = complete(&Fixed { fails: false }, &request(), &CancellationToken::new()).await.unwrap();
    assert_eq!((message.text().as_str(), message.stop_reason), ("Hello", StopReason::Stop));
    assert_eq!((message.provider.as_str(), message.model.as_str()), ("anthropic", "claude"));
    assert_eq!((message.api, message.usage.total_tokens), (Some(ApiProtocol::AnthropicMessages), 4));
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    let error = complete(&Fixed { fails: false }, &request(), &cancelled).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

/// REQ-020.
#[tokio::test]
async fn a_sender_gets_every_event_and_exactly_one_last_one() {
    for fails in [false, true] {
        let (tx, mut rx) = unbounded_channel();
        let end = stream_to(&Fixed { fails }, &request(), &tx, &CancellationToken::new()).await;
        assert_eq!(end.is_err(), fails);
        drop(tx);
        let mut events = Vec::new();
        while let Some(event) = rx.recv().await {
            events.push(event);
        }
        let is_last = |e: &OwnedStreamEvent| {
            matches!(e, OwnedStreamEvent::Done { .. } | OwnedStreamEvent::Error { .. })
        };
        assert_eq!(events.iter().filter(|e| is_last(e)).count(), 1);
        assert!(is_last(events.last().unwrap()));
        assert_eq!(events[1], OwnedStreamEvent::TextDelta { index: 0, delta: "Hel".into() });
        match events.last().unwrap() {
            OwnedStreamEvent::Error { message } => assert!(fails && message.contains("503"), "{message}"),
            other => assert!(matches!(other, OwnedStreamEvent::Done { .. }) && !fails),
        }
        let json = serde_json::to_string(&events).unwrap();
        assert_eq!(serde_json::from_str::<Vec<OwnedStreamEvent>>(&json).unwrap(), events);
    }
}

#[tokio::test]
async fn a_receiver_that_is_gone_does_not_end_the_call() {
    let (tx, rx) = unbounded_channel();
    drop(rx);
    let message =
        stream_to(&Fixed { fails: false }, &request(), &tx, &CancellationToken::new()).await.unwrap();
    assert_eq!(message.text(), "Hello");
}

#[test]
fn every_borrowed_event_has_an_owned_form_of_the_same_name() {
    let data = json!({"a": 1});
    for (event, expect) in [
        (StreamEvent::TextStart { index: 1 }, json!({"type": "text_start", "index": 1})),
        (
            StreamEvent::TextSignature { index: 1, delta: "s" },
            json!({"type": "text_signature", "index": 1, "signature": "s"}),
        ),
        (StreamEvent::ThinkingStart { index: 1 }, json!({"type": "thinking_start", "index": 1})),
        (
            StreamEvent::ThinkingDelta { index: 1, delta: "d" },
            json!({"type": "thinking_delta", "index": 1, "text": "d"}),
        ),
        (
            StreamEvent::ThinkingSignature { index: 1, delta: "d" },
            json!({"type": "thinking_signature", "index": 1, "signature": "d"}),
        ),
        (
            StreamEvent::RedactedThinking { index: 1, data: "d" },
            json!({"type": "redacted_thinking", "index": 1, "data": "d"}),
        ),
        (
            StreamEvent::ToolCallStart { index: 1, id: "i", name: "n" },
            json!({"type": "tool_call_start", "index": 1, "id": "i", "name": "n"}),
        ),
        (
            StreamEvent::ToolCallDelta { index: 1, delta: "d" },
            json!({"type": "tool_call_delta", "index": 1, "text": "d"}),
        ),
        (
            StreamEvent::ToolCallSignature { index: 1, delta: "d" },
            json!({"type": "tool_call_signature", "index": 1, "signature": "d"}),
        ),
        (
            StreamEvent::Opaque { index: 1, kind: "k", data: &data },
            json!({"type": "opaque", "index": 1, "kind": "k", "data": {"a": 1}}),
        ),
        (StreamEvent::BlockEnd { index: 1 }, json!({"type": "block_end", "index": 1})),
        (
            StreamEvent::Fallback { from: "WebSocket", to: "HTTP", reason: "r" },
            json!({"type": "fallback", "from": "WebSocket", "to": "HTTP", "reason": "r"}),
        ),
        (StreamEvent::Unrecognised { name: "n" }, json!({"type": "unrecognised", "name": "n"})),
    ] {
        assert_eq!(serde_json::to_value(OwnedStreamEvent::from(event)).unwrap(), expect);
    }
}

/// B-020.
#[test]
fn a_request_shows_no_notes_to_the_model() {
    let request = request();
    assert_eq!(request.messages().map(crate::message::Message::text).collect::<Vec<_>>(), ["hi"]);
    assert_eq!(request.history.len(), 2);
}

/// REQ-015.
#[test]
fn a_new_request_asks_for_nothing_but_an_answer() {
    let request = request();
    assert_eq!(
        (request.options.max_tokens, request.options.temperature, request.session_id),
        (None, None, None)
    );
    assert!(request.api_key.is_none() && request.options.request_hook.is_none());
    assert!(request.system_prompt.is_empty() && request.tools.is_empty());
    assert!(request.options.stop_sequences.is_empty() && request.options.headers.is_empty());
    assert_eq!(request.options.thinking_level, ThinkingLevel::Off);
    assert_eq!(request.options.tool_choice, ToolChoice::Auto);
    assert_eq!(request.options.response_format, ResponseFormat::Text);
}

#[test]
fn a_provider_that_says_nothing_else_serves_every_model_and_finds_no_fault() {
    let model = ModelConfig::default();
    let provider: &dyn StreamProvider = &Fixed { fails: false };
    assert_eq!(provider.provider_id_for(&model), "fixed");
    assert!(provider.check(&model).is_ok());
    assert_eq!(format!("{provider:?}"), "StreamProvider(\"fixed\")");
}
