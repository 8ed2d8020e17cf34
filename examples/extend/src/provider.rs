//! A provider with a protocol of its own.

use async_trait::async_trait;
use looptree::message::{AgentMessage, StopReason, Usage};
use looptree::model::{ApiProtocol, InvalidProtocolName};
use looptree::provider::{Completion, EventSink, ModelRequest, StreamEvent};
use looptree::{CancellationToken, ErrorKind, ModelConfig, ProviderError, StreamProvider};

/// The name of the protocol. Records contain it as `custom:toy`.
pub const PROTOCOL: &str = "toy";

/// Returns the protocol that [`Toy`] serves.
pub fn protocol() -> Result<ApiProtocol, InvalidProtocolName> {
    ApiProtocol::custom(PROTOCOL)
}

/// Returns a model of the protocol.
pub fn model(id: &str) -> Result<ModelConfig, InvalidProtocolName> {
    ModelConfig::custom(PROTOCOL, "acme", id)
}

/// Answers with the last message in capital letters, word by word. It needs no network.
#[derive(Debug)]
pub struct Toy;

#[async_trait]
impl StreamProvider for Toy {
    fn provider_id(&self) -> &str {
        PROTOCOL
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        self.check(&request.model)?;
        let question = request.history.last().map(AgentMessage::text).unwrap_or_default();
        sink(StreamEvent::Start { response_id: None, model: None });
        sink(StreamEvent::TextStart { index: 0 });
        for word in question.to_uppercase().split_inclusive(' ') {
            if cancel.is_cancelled() {
                return Err(ProviderError::Cancelled);
            }
            sink(StreamEvent::TextDelta { index: 0, delta: word });
        }
        sink(StreamEvent::BlockEnd { index: 0 });
        let mut usage = Usage::default();
        usage.input = question.len() as u64;
        usage.output = question.len() as u64;
        sink(StreamEvent::Usage(usage));
        Ok(Completion::new(StopReason::Stop))
    }

    fn check(&self, model: &ModelConfig) -> Result<(), ProviderError> {
        if model.id.starts_with("toy-") {
            return Ok(());
        }
        Err(ProviderError::new(ErrorKind::ModelNotFound, format!("there is no model {:?}", model.id)))
    }
}
