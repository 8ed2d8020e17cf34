//! Client-side rate limits: requests and tokens per minute for each API key.
//!
//! A call waits until it fits into the limit of the last 60 seconds, so no period of 60 seconds exceeds the limit. Waiting calls
//! start in the order in which they arrived. A prompt first counts with its estimated tokens. After the reply, the vendor's
//! count replaces the estimate: uncached prompt tokens, tokens written to a cache and output tokens. A call that is larger
//! than the limit starts when the window is empty. If the vendor still rejects a call and asks for a delay, all calls with
//! this key wait for it, up to [`MAX_PAUSE`].
//!
//! Agents that share an API key must share one [`RateLimited`].
//!
//! ```
//! use std::sync::Arc;
//! use agent_core::{ModelConfig, StreamProvider};
//! use agent_providers::{ProviderRegistry, RateLimit, RateLimited};
//!
//! let limited = RateLimited::new(Arc::new(ProviderRegistry::default()))
//!     .with_limit("anthropic", RateLimit::requests(50).and_tokens(30_000));
//! assert_eq!(limited.provider_id_for(&ModelConfig::anthropic("claude-haiku-4-5", "Haiku", "key")), "anthropic");
//! ```

mod window;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent_core::trace::names;
use agent_core::{
    CancellationToken, Completion, EventSink, ModelConfig, ModelRequest, ProviderError, Secret, StreamEvent,
    StreamProvider, ToolLoading, ToolSearchForm, Usage,
};
use async_trait::async_trait;
use tokio::time::Instant;

use window::Window;

/// The maximum delay that a vendor's `retry-after` causes for other calls. A vendor that asks for more causes rate-limit
/// errors instead.
pub const MAX_PAUSE: Duration = Duration::from_secs(60);

/// The number of bytes of the system prompt and the tools that are estimated as one token.
const BYTES_PER_TOKEN: usize = 4;

/// The limits for any period of 60 seconds. The default has no limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RateLimit {
    /// The maximum number of calls; `None` means no limit.
    pub requests_per_minute: Option<u32>,
    /// The maximum number of prompt and reply tokens; `None` means no limit.
    pub tokens_per_minute: Option<u64>,
}

impl RateLimit {
    /// Returns a limit of `per_minute` calls per minute; 0 is treated as 1.
    #[must_use]
    pub fn requests(per_minute: u32) -> Self {
        Self { requests_per_minute: Some(per_minute.max(1)), tokens_per_minute: None }
    }

    /// Returns a limit of `per_minute` tokens per minute.
    #[must_use]
    pub fn tokens(per_minute: u64) -> Self {
        Self { requests_per_minute: None, tokens_per_minute: Some(per_minute) }
    }

    /// Adds a limit of `per_minute` tokens per minute.
    #[must_use]
    pub fn and_tokens(self, per_minute: u64) -> Self {
        Self { tokens_per_minute: Some(per_minute), ..self }
    }
}

/// A provider that delays calls to another provider so that they stay within rate limits. Clones share the limits.
#[derive(Clone)]
pub struct RateLimited {
    provider: Arc<dyn StreamProvider>,
    limits: BTreeMap<String, RateLimit>,
    lanes: Arc<Mutex<Vec<Lane>>>,
}

/// The usage of one key at one provider.
#[derive(Clone)]
struct Lane {
    provider: String,
    key: Option<Secret>,
    window: Arc<Mutex<Window>>,
    /// The next call holds this lock while it waits, so calls start in the order of their arrival.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl RateLimited {
    /// Returns a provider that calls `provider` and has no limits yet.
    #[must_use]
    pub fn new(provider: Arc<dyn StreamProvider>) -> Self {
        Self { provider, limits: BTreeMap::new(), lanes: Arc::default() }
    }

    /// Sets the limit for a provider, named as in [`ModelConfig::provider`](agent_core::ModelConfig::provider). It applies to
    /// each API key separately and replaces an earlier limit.
    #[must_use]
    pub fn with_limit(mut self, provider: impl Into<String>, limit: RateLimit) -> Self {
        self.limits.insert(provider.into(), limit);
        self
    }

    fn lane(&self, request: &ModelRequest, limit: RateLimit) -> Lane {
        let (provider, key) = (&request.model.provider, request.key());
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.iter().find(|l| l.provider == *provider && l.key.as_ref() == key) {
            return lane.clone();
        }
        // A service sees new keys all day, so lanes that have been unused for a minute are dropped with their keys.
        let now = Instant::now();
        lanes.retain(|l| Arc::strong_count(&l.window) > 1 || !l.window().is_empty(now));
        let lane = Lane {
            provider: provider.clone(),
            key: key.cloned(),
            window: Arc::new(Mutex::new(Window::new(limit))),
            turn: Arc::default(),
        };
        lanes.push(lane.clone());
        lane
    }
}

impl Lane {
    /// Waits until a call of `tokens` tokens fits, adds it to the window and returns its number there.
    async fn enter(&self, tokens: u64) -> u64 {
        let _turn = self.turn.lock().await;
        loop {
            let now = Instant::now();
            let free = match self.window().enter(now, tokens) {
                Ok(number) => return number,
                Err(free) => free,
            };
            tracing::debug!(
                provider = %self.provider,
                wait_ms = u64::try_from((free - now).as_millis()).unwrap_or(u64::MAX),
                "the call waits for room within the minute"
            );
            tokio::time::sleep_until(free).await;
        }
    }

    fn window(&self) -> std::sync::MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for RateLimited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimited")
            .field("provider", &self.provider)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl StreamProvider for RateLimited {
    fn provider_id(&self) -> &str {
        self.provider.provider_id()
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        let Some(limit) = self.limits.get(&request.model.provider) else {
            return self.provider.stream(request, sink, cancel).await;
        };
        let lane = self.lane(request, *limit);
        let arrived = Instant::now();
        let number = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ProviderError::Cancelled),
            number = lane.enter(limit.tokens_per_minute.map_or(0, |_| estimate(request))) => number,
        };
        // The current span is that of the model call.
        tracing::Span::current().record(names::QUEUE, arrived.elapsed().as_secs_f64());
        let mut used = None;
        let mut counting = |event: StreamEvent<'_>| {
            if let StreamEvent::Usage(usage) = event {
                used = Some(usage);
            }
            sink(event);
        };
        let end = self.provider.stream(request, &mut counting, cancel).await;
        let mut window = lane.window();
        if let Some(usage) = used {
            window.correct(number, counted(&usage));
        }
        if let Err(ProviderError::RateLimited(context)) = &end
            && let Some(wait) = context.retry_after
        {
            window.pause(Instant::now() + wait.min(MAX_PAUSE));
        }
        end
    }

    fn complete_model(&self, model: &ModelConfig) -> Option<ModelConfig> {
        self.provider.complete_model(model)
    }

    fn tool_search(&self, model: &ModelConfig) -> ToolSearchForm {
        self.provider.tool_search(model)
    }

    fn provider_id_for(&self, model: &ModelConfig) -> String {
        self.provider.provider_id_for(model)
    }

    fn check(&self, model: &ModelConfig) -> Result<(), ProviderError> {
        self.provider.check(model)
    }

    fn body(&self, request: &ModelRequest) -> Option<Vec<u8>> {
        self.provider.body(request)
    }

    fn cache_lifetime(&self, request: &ModelRequest) -> Option<Duration> {
        self.provider.cache_lifetime(request)
    }
}

/// Estimates the tokens of the prompt.
fn estimate(request: &ModelRequest) -> u64 {
    let tools = request.tools.definitions().iter().filter(|tool| tool.loading == ToolLoading::Always);
    let told: usize =
        tools.map(|t| t.name.len() + t.description.len() + t.parameters.to_string().len()).sum();
    let bytes = told.saturating_add(request.system_prompt.len());
    request.history.tokens().saturating_add(u64::try_from(bytes / BYTES_PER_TOKEN).unwrap_or(u64::MAX))
}

/// Returns the tokens that vendors count against a limit.
fn counted(usage: &Usage) -> u64 {
    usage.input.saturating_add(usage.cache_write).saturating_add(usage.output)
}
