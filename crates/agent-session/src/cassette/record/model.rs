//! A provider that records its calls.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use agent_core::CancellationToken;
use async_trait::async_trait;
use futures_util::FutureExt as _;

use super::Shared;
use super::panic_text;
use crate::cassette::form::{RecordedEffect, RecordedModelEnd, provider_name};
use agent_core::{
    Completion, ErrorKind, ErrorRecord, EventSink, ModelRequest, OwnedStreamEvent, ProviderError,
    StreamEvent, StreamProvider,
};
use agent_core::{ModelConfig, ToolSearchForm};

pub(super) struct RecordingProvider {
    pub(super) inner: Arc<dyn StreamProvider>,
    pub(super) shared: Arc<Shared>,
}

/// The part of a reply that has arrived. If the call is dropped before its end, this part is recorded.
struct Arrived<'s> {
    shared: &'s Shared,
    call: usize,
    events: Vec<OwnedStreamEvent>,
}

impl Drop for Arrived<'_> {
    fn drop(&mut self) {
        let arrived = std::mem::take(&mut self.events);
        if let Some(call) = self.shared.lock().cassette.calls.get_mut(self.call)
            && let RecordedEffect::Model { events, .. } = &mut call.effect
        {
            *events = arrived;
        }
    }
}

#[async_trait]
impl StreamProvider for RecordingProvider {
    fn provider_id(&self) -> &str {
        self.inner.provider_id()
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        let call = {
            let mut state = self.shared.lock();
            let request = state.request(request);
            state.begin(RecordedEffect::Model { request, events: Vec::new(), end: None })
        };
        let mut arrived = Arrived { shared: &self.shared, call, events: Vec::new() };
        let mut both = |event: StreamEvent<'_>| {
            arrived.events.push(event.into());
            sink(event);
        };
        let result = AssertUnwindSafe(self.inner.stream(request, &mut both, cancel)).catch_unwind().await;
        drop(arrived);
        let ended = match &result {
            Ok(Ok(completion)) => Some(RecordedModelEnd::Done(completion.clone())),
            Ok(Err(error)) if error.kind() == ErrorKind::Cancelled => None,
            Ok(Err(error)) => Some(RecordedModelEnd::Failed(ErrorRecord::from(error))),
            Err(panic) => Some(RecordedModelEnd::Panicked(panic_text(&**panic))),
        };
        if let Some(ended) = ended {
            self.shared.lock().end(call, |effect| {
                if let RecordedEffect::Model { end, .. } = effect {
                    *end = Some(ended);
                }
            });
        }
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn provider_id_for(&self, model: &ModelConfig) -> String {
        let id = self.inner.provider_id_for(model);
        self.shared.lock().cassette.providers.insert(provider_name(model), id.clone());
        id
    }

    fn tool_search(&self, model: &ModelConfig) -> ToolSearchForm {
        let search = self.inner.tool_search(model);
        if search != ToolSearchForm::default() {
            self.shared.lock().cassette.tool_search.insert(provider_name(model), search);
        }
        search
    }

    fn complete_model(&self, model: &ModelConfig) -> Option<ModelConfig> {
        self.inner.complete_model(model)
    }

    fn check(&self, model: &ModelConfig) -> Result<(), ProviderError> {
        self.inner.check(model)
    }

    /// A replay has no bodies, so both runs detect cache breaks from the parts of the requests.
    fn body(&self, _: &ModelRequest) -> Option<Vec<u8>> {
        None
    }

    /// A replay does not know the lifetime either.
    fn cache_lifetime(&self, _: &ModelRequest) -> Option<Duration> {
        None
    }
}
