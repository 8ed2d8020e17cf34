//! Keeping below a vendor's limits: requests and tokens per minute, for each key.
//!
//! A call waits until it fits into the last sixty seconds, so that no minute ever holds more than was allowed; waiting calls
//! go in the order in which they came. A prompt counts as its tokens are estimated, and once the reply is there as the vendor
//! counted it, written tokens included; prompt tokens that a cache gave are not counted. A call that is larger than the
//! limit of a minute is made when the minute is empty. When the vendor says that there were too many all the same, every
//! call with this key waits as long as it asked.
//!
//! Agents that share a key share one [`RateLimited`].
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

use agent_core::{
    CancellationToken, Completion, EventSink, ModelConfig, ModelRequest, ProviderError, Secret, StreamEvent,
    StreamProvider, Usage,
};
use async_trait::async_trait;
use tokio::time::Instant;

use window::Window;

/// The longest that a vendor's own wish makes others wait. Who asks for more is answered by the calls' own errors.
pub const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Bytes of the system prompt and the tools that count as one token.
const BYTES_PER_TOKEN: usize = 4;

/// What may be used within sixty seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RateLimit {
    /// Calls; `None` for no limit.
    pub requests_per_minute: Option<u32>,
    /// Tokens of prompts and replies; `None` for no limit.
    pub tokens_per_minute: Option<u64>,
}

impl RateLimit {
    /// So many calls a minute; 0 counts as 1.
    #[must_use]
    pub fn requests(per_minute: u32) -> Self {
        Self { requests_per_minute: Some(per_minute.max(1)), tokens_per_minute: None }
    }

    /// So many tokens a minute.
    #[must_use]
    pub fn tokens(per_minute: u64) -> Self {
        Self { requests_per_minute: None, tokens_per_minute: Some(per_minute) }
    }

    /// The same, and so many tokens a minute.
    #[must_use]
    pub fn and_tokens(self, per_minute: u64) -> Self {
        Self { tokens_per_minute: Some(per_minute), ..self }
    }
}

/// A provider that keeps below limits. A clone shares them.
#[derive(Clone)]
pub struct RateLimited {
    provider: Arc<dyn StreamProvider>,
    limits: BTreeMap<String, RateLimit>,
    lanes: Arc<Mutex<Vec<Lane>>>,
}

/// What was used with one key at one provider.
#[derive(Clone)]
struct Lane {
    provider: String,
    key: Option<Secret>,
    window: Arc<Mutex<Window>>,
    /// Held by the call that is next: the others wait for it, in order.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl RateLimited {
    /// The same provider, without limits so far.
    #[must_use]
    pub fn new(provider: Arc<dyn StreamProvider>) -> Self {
        Self { provider, limits: BTreeMap::new(), lanes: Arc::default() }
    }

    /// The same with a limit for each key of the provider of this name: that of
    /// [`ModelConfig::provider`](agent_core::ModelConfig::provider).
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
        // A service meets new keys all day; what an unused one used is forgotten after a minute, and so is the key.
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
    /// Waits until a call of so many tokens fits, and notes it. The number names it in the window.
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
        let number = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ProviderError::Cancelled),
            number = lane.enter(limit.tokens_per_minute.map_or(0, |_| estimate(request))) => number,
        };
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

    fn provider_id_for(&self, model: &ModelConfig) -> String {
        self.provider.provider_id_for(model)
    }

    fn check(&self, model: &ModelConfig) -> Result<(), ProviderError> {
        self.provider.check(model)
    }

    fn body(&self, request: &ModelRequest) -> Option<Vec<u8>> {
        self.provider.body(request)
    }
}

/// Tokens of the prompt, before anybody has counted them.
fn estimate(request: &ModelRequest) -> u64 {
    let tools = request.tools.definitions().iter();
    let told: usize =
        tools.map(|t| t.name.len() + t.description.len() + t.parameters.to_string().len()).sum();
    let bytes = told.saturating_add(request.system_prompt.len());
    request.history.tokens().saturating_add(u64::try_from(bytes / BYTES_PER_TOKEN).unwrap_or(u64::MAX))
}

/// What vendors count against the limit.
fn counted(usage: &Usage) -> u64 {
    usage.input.saturating_add(usage.cache_write).saturating_add(usage.output)
}
