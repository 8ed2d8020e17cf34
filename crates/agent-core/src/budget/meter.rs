//! A provider wrapper that reserves and charges its calls in a budget.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::{Ask, Budget, Spending};
use crate::environment::Environment;
use crate::message::Usage;
use crate::model::ModelConfig;
use crate::provider::{
    Completion, ErrorContext, ErrorKind, EventSink, ModelRequest, ProviderError, StreamEvent, StreamProvider,
};
use crate::tool::ToolSearchForm;

/// A provider whose calls are reserved and charged in a budget, for code that calls a model outside of a run: a
/// judge, a compaction, or a tool. A call that the budget denies fails with [`ErrorKind::Quota`], and nothing is
/// sent.
///
/// Do not give it to a run that has the same budget, because its calls would be counted twice.
#[derive(Debug, Clone)]
pub struct MeteredProvider {
    budget: Budget,
    inner: Arc<dyn StreamProvider>,
    environment: Arc<dyn Environment>,
}

impl MeteredProvider {
    pub(super) fn new(
        budget: Budget,
        inner: Arc<dyn StreamProvider>,
        environment: Arc<dyn Environment>,
    ) -> Self {
        Self { budget, inner, environment }
    }
}

/// Estimates the tokens of a prompt: messages, tools and instructions.
pub(crate) fn prompt_estimate(request: &ModelRequest) -> u64 {
    request.history.tokens().saturating_add(head_estimate(&request.system_prompt, &request.tools))
}

/// Estimates the tokens of tools and instructions.
pub(crate) fn head_estimate(system_prompt: &str, tools: &crate::tool::ToolDefinitions) -> u64 {
    tools.tokens().saturating_add(crate::message::estimate_tokens(system_prompt))
}

/// Returns the usage to charge, and whether it is an estimate: the reported usage, or an estimate if the provider
/// answered without reporting any. `output` is the number of tokens that arrived.
pub(crate) fn settled_usage(reported: Usage, answered: bool, prompt: u64, output: u64) -> (Usage, bool) {
    if reported.is_zero() && answered { (Usage::new(prompt, output, 0, 0), true) } else { (reported, false) }
}

#[async_trait]
impl StreamProvider for MeteredProvider {
    fn provider_id(&self) -> &str {
        self.inner.provider_id()
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        let model = &request.model;
        let refused = |text: String| {
            let context = ErrorContext::new(text).with_target(&model.provider, &model.id);
            ProviderError::new(ErrorKind::Quota, context)
        };
        self.budget.check(model).map_err(|error| refused(error.to_string()))?;
        let prompt = prompt_estimate(request);
        let limit = request.options.max_tokens.or(model.max_tokens);
        let ask = Ask::limited_by(prompt, limit, &model.cost);
        let reservation = tokio::select! {
            biased;
            reserved = self.budget.reserve(&ask, &*self.environment) => {
                reserved.map_err(|error| refused(error.to_string()))?
            }
            () = cancel.cancelled() => return Err(ProviderError::Cancelled),
        };
        let bounded;
        let request = match reservation.output() {
            None => request,
            Some(output) => {
                let mut lower = request.clone();
                lower.options.max_tokens = Some(u32::try_from(output).unwrap_or(u32::MAX));
                bounded = lower;
                &bounded
            }
        };
        // If this future is dropped, `CallUsage` charges what is known by then.
        let mut call = CallUsage {
            reservation: Some(reservation),
            request,
            usage: Usage::default(),
            answered: false,
            failed: false,
            prompt,
            arrived: 0,
        };
        let counting = &mut |event: StreamEvent<'_>| {
            call.take(&event);
            sink(event);
        };
        let ended = self.inner.stream(request, counting, cancel).await;
        call.failed = ended.as_ref().is_err_and(|error| !matches!(error, ProviderError::Cancelled));
        ended
    }

    fn provider_id_for(&self, model: &ModelConfig) -> String {
        self.inner.provider_id_for(model)
    }

    fn tool_search(&self, model: &ModelConfig) -> ToolSearchForm {
        self.inner.tool_search(model)
    }

    fn complete_model(&self, model: &ModelConfig) -> Option<ModelConfig> {
        self.inner.complete_model(model)
    }

    fn check(&self, model: &ModelConfig) -> Result<(), ProviderError> {
        self.inner.check(model)
    }

    fn body(&self, request: &ModelRequest) -> Option<Vec<u8>> {
        self.inner.body(request)
    }

    fn cache_lifetime(&self, request: &ModelRequest) -> Option<Duration> {
        self.inner.cache_lifetime(request)
    }
}

/// The usage of a call in progress.
struct CallUsage<'r> {
    reservation: Option<super::Reservation>,
    request: &'r ModelRequest,
    usage: Usage,
    answered: bool,
    /// Whether the call ended with an error. Of one that was aborted, the provider may have begun to work on the prompt.
    failed: bool,
    prompt: u64,
    /// The size of the answer so far, in bytes.
    arrived: u64,
}

impl CallUsage<'_> {
    fn take(&mut self, event: &StreamEvent<'_>) {
        match event {
            StreamEvent::Start { .. } => self.answered = true,
            StreamEvent::Usage(usage) => self.usage = *usage,
            StreamEvent::TextDelta { delta, .. }
            | StreamEvent::ThinkingDelta { delta, .. }
            | StreamEvent::ToolCallDelta { delta, .. } => {
                self.answered = true;
                self.arrived = self.arrived.saturating_add(delta.len() as u64);
            }
            _ => {}
        }
    }
}

impl Drop for CallUsage<'_> {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            let output = self.arrived.div_ceil(4);
            let is_billed = self.answered || !self.failed;
            let (usage, _) = settled_usage(self.usage, is_billed, self.prompt, output);
            reservation.settle(Spending::of_call(&usage, &self.request.model.cost));
        }
    }
}
