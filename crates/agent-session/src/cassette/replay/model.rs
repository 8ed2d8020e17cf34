//! A provider that repeats recorded replies.

use std::panic::resume_unwind;
use std::sync::Arc;

use agent_core::CancellationToken;
use async_trait::async_trait;

use super::Shared;
use crate::cassette::error::Divergence;
use crate::cassette::form::{RecordedEffect, RecordedModelEnd, provider_name};
use agent_core::{
    Completion, ErrorContext, ErrorKind, EventSink, ModelRequest, OwnedStreamEvent, ProviderError,
    StreamProvider,
};
use agent_core::{ModelConfig, ToolSearchForm};

pub(super) struct ReplayProvider {
    pub(super) shared: Arc<Shared>,
}

#[async_trait]
impl StreamProvider for ReplayProvider {
    fn provider_id(&self) -> &'static str {
        "recording"
    }

    /// Returns the id of the recorded provider.
    fn provider_id_for(&self, model: &ModelConfig) -> String {
        let known = self.shared.cassette.providers.get(&provider_name(model));
        known.unwrap_or(&model.provider).clone()
    }

    /// Returns the recorded way to find tools.
    fn tool_search(&self, model: &ModelConfig) -> ToolSearchForm {
        self.shared.cassette.tool_search.get(&provider_name(model)).copied().unwrap_or_default()
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        let place = self.shared.take_model(request).map_err(|d| refused(request, d))?;
        let Some(call) = self.shared.cassette.calls.get(place) else { return Err(ProviderError::Cancelled) };
        let RecordedEffect::Model { events, end, .. } = &call.effect else {
            return Err(ProviderError::Cancelled);
        };
        events.iter().filter_map(OwnedStreamEvent::borrowed).for_each(&mut *sink);
        match end {
            None => {
                self.shared.await_abort(place, cancel).await.map_err(|d| refused(request, d))?;
                Err(ProviderError::Cancelled)
            }
            Some(end) => {
                self.shared.await_turn(call).await.map_err(|d| refused(request, d))?;
                self.shared.ended(call);
                match end {
                    RecordedModelEnd::Done(completion) => Ok(completion.clone()),
                    RecordedModelEnd::Failed(error) => Err(error.clone().into()),
                    RecordedModelEnd::Panicked(text) => resume_unwind(Box::new(text.clone())),
                }
            }
        }
    }
}

fn refused(request: &ModelRequest, divergence: Divergence) -> ProviderError {
    let context = ErrorContext::new(divergence.to_string())
        .with_target(&request.model.provider, &request.model.id)
        .with_source(divergence);
    ProviderError::new(ErrorKind::Other, context)
}
