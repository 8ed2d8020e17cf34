//! The simulated model.

use std::sync::Arc;
use std::time::Duration;

use agent_core::environment::Environment;
use agent_core::provider::{
    Completion, ErrorContext, ErrorKind, EventSink, ModelRequest, ProviderError, StreamEvent, StreamProvider,
};
use agent_core::{CancellationToken, StopReason, Usage};
use async_trait::async_trait;

use crate::script::{Reply, ReplyEnd};
use crate::world::World;

/// A provider that replies as the script says.
pub(crate) struct SimModel {
    world: World,
    environment: Arc<dyn Environment>,
}

impl SimModel {
    pub(crate) fn new(world: &World) -> Self {
        Self { world: world.clone(), environment: world.environment() }
    }

    fn error(kind: ErrorKind, request: &ModelRequest) -> ProviderError {
        let context = ErrorContext::new("a simulated failure").with_target("sim", &request.model.id);
        ProviderError::new(kind, context)
    }

    /// Passes a piece of the reply on, and lets a moment pass. Returns an error if the call was cancelled.
    async fn send(
        &self,
        event: StreamEvent<'_>,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<(), ProviderError> {
        if cancel.is_cancelled() {
            return Err(ProviderError::Cancelled);
        }
        sink(event);
        self.world.moment().await;
        tokio::task::yield_now().await;
        Ok(())
    }
}

#[async_trait]
impl StreamProvider for SimModel {
    fn provider_id(&self) -> &'static str {
        "sim"
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        self.world.called(&request.history);
        self.world.moment().await;
        let (Reply { text, calls, end, delay_ms, tokens }, ids) = self.world.reply(request);
        if delay_ms > 0 {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(ProviderError::Cancelled),
                () = self.environment.sleep(Duration::from_millis(delay_ms)) => {}
            }
        }
        if let ReplyEnd::Fails(kind) = end
            && text.is_empty()
            && calls.is_empty()
        {
            return Err(Self::error(kind, request));
        }
        sink(StreamEvent::Start { response_id: None, model: None });
        let mut index = 0;
        if !text.is_empty() {
            let half = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
            let (first, second) = text.split_at(half);
            sink(StreamEvent::TextStart { index });
            self.send(StreamEvent::TextDelta { index, delta: first }, sink, cancel).await?;
            self.send(StreamEvent::TextDelta { index, delta: second }, sink, cancel).await?;
            sink(StreamEvent::BlockEnd { index });
            index += 1;
        }
        for (call, id) in calls.iter().zip(&ids) {
            sink(StreamEvent::ToolCallStart { index, id: id.as_str(), name: &call.tool });
            self.send(StreamEvent::ToolCallDelta { index, delta: &call.arguments }, sink, cancel).await?;
            sink(StreamEvent::BlockEnd { index });
            index += 1;
        }
        sink(StreamEvent::Usage(Usage::new(tokens.0, tokens.1, 0, 0)));
        self.world.moment().await;
        if cancel.is_cancelled() {
            return Err(ProviderError::Cancelled);
        }
        match end {
            ReplyEnd::Complete if calls.is_empty() => Ok(Completion::new(StopReason::Stop)),
            ReplyEnd::Complete => Ok(Completion::new(StopReason::ToolUse)),
            ReplyEnd::Length => Ok(Completion::new(StopReason::Length)),
            ReplyEnd::Paused => Ok(Completion::new(StopReason::Paused)),
            ReplyEnd::Fails(kind) => Err(Self::error(kind, request)),
            ReplyEnd::Hangs => {
                cancel.cancelled().await;
                Err(ProviderError::Cancelled)
            }
        }
    }
}
