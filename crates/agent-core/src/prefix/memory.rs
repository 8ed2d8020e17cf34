//! Stores the last request to each model for comparison with the next one.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::cause::{self, Known};
use super::found::{FoundTools, loaded_by_vendor};
use super::{CacheBreak, CacheBreakCause, CacheFigures, Call, bytes};
use crate::identity::Timestamp;
use crate::message::Usage;
use crate::model::{CacheConfig, CacheStrategy, ModelConfig};
use crate::provider::{CacheMiss, ModelRequest, StreamProvider, WireHooks};
use crate::tool::{TOOL_SEARCH, ToolDefinition, ToolDefinitions, ToolLoading, ToolSearchForm};

/// The number of models whose last request is stored. A conversation that alternates between more has lost its caches
/// anyway.
const MAX_MODELS: usize = 4;

/// The last requests of a conversation. A clone is an independent copy.
#[derive(Default)]
pub(crate) struct Prefixes {
    memory: Arc<Mutex<Memory>>,
}

/// Shows the number of stored requests.
impl fmt::Debug for Prefixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prefixes").field("requests", &self.lock().last.len()).finish_non_exhaustive()
    }
}

#[derive(Default, Clone)]
pub(super) struct Memory {
    /// The requests, with the newest at the end.
    last: Vec<Arc<Sent>>,
    compacted: bool,
    pub(super) found: Option<FoundTools>,
}

struct Sent {
    request: Box<ModelRequest>,
    usage: Usage,
    at: Timestamp,
}

/// A break that was found before its request was sent.
pub(crate) struct Found {
    found: CacheBreak,
    last: Usage,
}

impl Prefixes {
    /// Returns another handle to the same requests.
    pub(crate) fn shared(&self) -> Self {
        Self { memory: Arc::clone(&self.memory) }
    }

    /// Forgets the requests, because another conversation begins.
    pub(crate) fn forget(&self) {
        *self.lock() = Memory::default();
    }

    /// Marks the next break as intended, because the history is being compacted.
    pub(crate) fn compacted(&self) {
        self.lock().compacted = true;
    }

    /// Compares a request with the last one to its model.
    pub(crate) fn compare(
        &self,
        request: &ModelRequest,
        provider: &dyn StreamProvider,
        call: Call<'_>,
        hooked: bool,
    ) -> Option<Box<Found>> {
        let (last, newest, compacted) = {
            let mut memory = self.lock();
            let newest = memory.last.last().cloned()?;
            let compacted = std::mem::take(&mut memory.compacted);
            let to_this = |sent: &&Arc<Sent>| is_same_model(&sent.request.model, &request.model);
            (memory.last.iter().rev().find(to_this).cloned(), newest, compacted)
        };
        let Some(last) = last else { return switched(&newest, request, call) };
        if cause::extends(&last.request, request)
            || (request.tools.search() == ToolSearchForm::Vendor
                && cause::extends(&shown(&last.request, &last.request), &shown(request, &last.request)))
        {
            return expired(&last, provider, call);
        }
        explain(&last, request, provider, call, Known { compacted, hooked })
            .or_else(|| expired(&last, provider, call))
    }

    /// Stores a request that was made at a time and answered.
    pub(crate) fn remember(&self, mut request: Box<ModelRequest>, usage: Usage, at: Timestamp) {
        // The caller's closures are not needed to encode it again.
        if request.options.request_hook.is_some() || request.options.wire_hooks.is_set() {
            request.options.request_hook = None;
            request.options.wire_hooks = WireHooks::default();
        }
        request.steering = None;
        let mut memory = self.lock();
        memory.last.retain(|sent| !is_same_model(&sent.request.model, &request.model));
        if memory.last.len() >= MAX_MODELS {
            memory.last.remove(0);
        }
        memory.last.push(Arc::new(Sent { request, usage, at }));
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Found {
    /// Returns the break with what the provider reported; `None` if it shows that an expired entry was still there.
    pub(crate) fn reported(mut self, usage: &Usage, vendor: Option<CacheMiss>) -> Option<CacheBreak> {
        if matches!(self.found.cause, CacheBreakCause::Expired { .. }) {
            let readable = stored(&self.last).min(usage.prompt_tokens());
            let missed = readable.saturating_sub(usage.cache_read);
            if missed == 0 || usage.is_zero() {
                return None;
            }
            self.found.rebilled_tokens = missed;
        }
        Some(CacheBreak { reported: CacheFigures::of(&self.last, usage), vendor, ..self.found })
    }
}

fn is_same_model(a: &ModelConfig, b: &ModelConfig) -> bool {
    (a.api, &a.id, &a.provider, &a.base_url) == (b.api, &b.id, &b.provider, &b.base_url)
}

/// Returns the break of a conversation that continues with a model that has not received it.
fn switched(last: &Sent, request: &ModelRequest, call: Call<'_>) -> Option<Box<Found>> {
    let rebilled_tokens = cause::common(&last.request.history, &request.history);
    let (from, to) = (last.request.model.id.clone(), request.model.id.clone());
    let found = CacheBreak::new(call, "model", CacheBreakCause::ModelSwitched { from, to }, rebilled_tokens);
    // The usage of the other model does not describe the cache of this one.
    (rebilled_tokens > 0).then(|| Box::new(Found { found, last: Usage::default() }))
}

/// Returns the tokens that are in the cache after a request with this usage.
fn stored(usage: &Usage) -> u64 {
    usage.cache_read.saturating_add(usage.cache_write)
}

/// Returns the break of a conversation whose cached prefix was not used for longer than the vendor keeps it.
fn expired(last: &Sent, provider: &dyn StreamProvider, call: Call<'_>) -> Option<Box<Found>> {
    let tokens = stored(&last.usage);
    if tokens == 0 {
        return None;
    }
    let lifetime = provider.cache_lifetime(&last.request)?;
    let idle = Duration::from_millis(call.now.0.saturating_sub(last.at.0));
    if idle <= lifetime {
        return None;
    }
    let cause =
        CacheBreakCause::Expired { lifetime_seconds: lifetime.as_secs(), idle_seconds: idle.as_secs() };
    Some(Box::new(Found { found: CacheBreak::new(call, "cache", cause, tokens), last: last.usage }))
}

fn explain(
    last: &Sent,
    request: &ModelRequest,
    provider: &dyn StreamProvider,
    call: Call<'_>,
    known: Known,
) -> Option<Box<Found>> {
    let (old, new) = (shown(&last.request, &last.request), shown(request, &last.request));
    let difference = cause::difference(&old, &new, known);
    let bodies = body(provider, &old, request).zip(body(provider, &new, request));
    let (field, byte, message, rebilled_tokens) = match bodies {
        Some((old, new)) => {
            let parted = bytes::first_difference(&old, &new)?;
            let tokens = tokens(parted.rebilled, parted.prompt, &last.usage);
            (parted.field, Some(parted.byte), parted.message, tokens)
        }
        None => {
            let found = difference.as_ref()?;
            (found.field.clone(), None, found.message, found.rebilled)
        }
    };
    if rebilled_tokens == 0 {
        return None;
    }
    let cause = difference.map_or(CacheBreakCause::Unknown, |d| d.cause);
    let mut found = CacheBreak { byte, message, ..CacheBreak::new(call, &field, cause, rebilled_tokens) };
    found.intended |= loads_found_tools(&found.cause, request);
    Some(Box::new(Found { found, last: last.usage }))
}

/// Returns a request without the definitions that its vendor does not show to the model: a cached prefix does not contain
/// them. `last` is the request whose prefix is compared.
fn shown<'r>(request: &'r ModelRequest, last: &ModelRequest) -> Cow<'r, ModelRequest> {
    if request.tools.search() != ToolSearchForm::Vendor {
        return Cow::Borrowed(request);
    }
    let loaded = loaded_by_vendor(&last.history);
    let is_shown =
        |tool: &&ToolDefinition| tool.loading == ToolLoading::Always || loaded.contains(tool.name.as_str());
    let tools: ToolDefinitions = request.tools.definitions().iter().filter(is_shown).cloned().collect();
    Cow::Owned(ModelRequest { tools: tools.with_search(ToolSearchForm::Vendor), ..request.clone() })
}

/// Returns whether the only change is that tools were listed which the model has found or called.
fn loads_found_tools(cause: &CacheBreakCause, request: &ModelRequest) -> bool {
    let CacheBreakCause::Tools { added, removed, changed, reordered: false } = cause else { return false };
    let searches = request.tools.definitions().iter().any(|tool| tool.name == TOOL_SEARCH);
    searches && !added.iter().any(|name| name == TOOL_SEARCH) && removed.is_empty() && changed.is_empty()
}

/// Encodes the body of a request without cache markers, with the key of the current call.
fn body(provider: &dyn StreamProvider, request: &ModelRequest, call: &ModelRequest) -> Option<Vec<u8>> {
    let mut plain = request.clone();
    let config = call.options.cache_config;
    plain.options.cache_config = CacheConfig { strategy: CacheStrategy::Disabled, ..config };
    plain.api_key.clone_from(&call.api_key);
    provider.body(&plain)
}

/// Estimates the tokens of a part of a prompt: its share of the reported tokens, else a quarter of its bytes.
fn tokens(bytes: u64, prompt: u64, last: &Usage) -> u64 {
    let counted = last.prompt_tokens();
    if counted == 0 || prompt == 0 {
        return bytes.div_ceil(4);
    }
    let exact = u128::from(bytes) * u128::from(counted) / u128::from(prompt);
    u64::try_from(exact).unwrap_or(u64::MAX).min(counted)
}

impl Clone for Prefixes {
    fn clone(&self) -> Self {
        let memory = self.lock().clone();
        Self { memory: Arc::new(Mutex::new(memory)) }
    }
}
