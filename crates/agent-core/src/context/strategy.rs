//! Compaction strategies: the trait, its context and its results.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::compact::{CompactionError, compact_history_within};
use super::config::ContextConfig;
use crate::event::CompactionReason;
use crate::history::{Entry, History, MessageRef, Repair, Splice, Unit};
use crate::message::{AgentMessage, Usage};
use crate::message::{HeuristicTokenCounter, TokenCounter};
use crate::model::ModelConfig;
use crate::provider::StreamProvider;

/// Shortens a conversation that is too long. A strategy may call the run's model. If it fails, [`DefaultCompaction`]
/// replaces it. Its result is repaired where a call lacks its result.
#[async_trait]
pub trait CompactionStrategy: Send + Sync {
    /// Returns the replacement of `history`, which should have at most [`CompactionContext::budget`] tokens.
    ///
    /// # Errors
    /// Returns an error if the history cannot be shortened; the default cascade is used then.
    async fn compact(
        &self,
        history: &History,
        config: &ContextConfig,
        cx: &CompactionContext,
    ) -> Result<CompactionOutcome, CompactionError>;
}

impl fmt::Debug for dyn CompactionStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompactionStrategy")
    }
}

/// The context of a compaction: budget, counter, and access to the run's model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CompactionContext {
    /// The counter of the run.
    pub counter: Arc<dyn TokenCounter>,
    /// The maximum tokens of the result: [`ContextConfig::budget`], or less if the provider counts more tokens than
    /// the counter.
    pub budget: u64,
    /// The reason of the compaction.
    pub reason: CompactionReason,
    /// The provider of the run, for strategies that call a model.
    pub provider: Option<Arc<dyn StreamProvider>>,
    /// The model of the run.
    pub model: Option<Arc<ModelConfig>>,
    /// Cancelled when the run is aborted.
    pub cancel: CancellationToken,
}

impl CompactionContext {
    /// Creates a context with a budget, the default counter and no provider.
    #[must_use]
    pub fn new(budget: u64) -> Self {
        Self {
            counter: Arc::new(HeuristicTokenCounter),
            budget,
            reason: CompactionReason::Budget,
            provider: None,
            model: None,
            cancel: CancellationToken::new(),
        }
    }

    /// Sets the token counter.
    #[must_use]
    pub fn with_counter(mut self, counter: Arc<dyn TokenCounter>) -> Self {
        self.counter = counter;
        self
    }

    /// Sets the reason of the compaction.
    #[must_use]
    pub fn with_reason(mut self, reason: CompactionReason) -> Self {
        self.reason = reason;
        self
    }

    /// Sets the provider and the model to call.
    #[must_use]
    pub fn with_provider(mut self, provider: Arc<dyn StreamProvider>, model: Arc<ModelConfig>) -> Self {
        self.provider = Some(provider);
        self.model = Some(model);
        self
    }

    /// Sets the cancellation token of the run.
    #[must_use]
    pub fn with_cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }
}

/// The result of a compaction strategy.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CompactionOutcome {
    /// The new conversation, or the changes to it.
    pub change: CompactionChange,
    /// The tokens that the strategy itself used; they are counted separately.
    pub usage: Usage,
}

/// The new conversation as a whole, or the changes to it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum CompactionChange {
    /// The ranges to replace. An empty list leaves the conversation unchanged.
    Splices(Vec<Splice>),
    /// The whole conversation. Unchanged messages should be the same objects as before.
    Messages(Vec<MessageRef>),
}

impl CompactionOutcome {
    /// Creates a result that replaces these ranges.
    #[must_use]
    pub fn splices(splices: Vec<Splice>) -> Self {
        Self { change: CompactionChange::Splices(splices), usage: Usage::default() }
    }

    /// Creates a result with this list as the new conversation.
    #[must_use]
    pub fn messages(messages: impl IntoIterator<Item = impl Into<MessageRef>>) -> Self {
        let messages = messages.into_iter().map(Into::into).collect();
        Self { change: CompactionChange::Messages(messages), usage: Usage::default() }
    }

    /// Sets the tokens that the strategy itself used.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Returns the splices for `history`, and the repairs that a whole list needed.
    ///
    /// # Errors
    /// Returns [`CompactionError::Splice`] if the splices do not fit the history.
    pub fn into_splices(self, history: &History) -> Result<(Vec<Splice>, Vec<Repair>), CompactionError> {
        match self.change {
            CompactionChange::Splices(splices) => {
                history.spliced(&splices)?;
                Ok((splices, Vec::new()))
            }
            CompactionChange::Messages(messages) => Ok(splices_between(history, messages)),
        }
    }
}

/// The default strategy: the cascade of [`compact_history`](super::compact_history).
#[derive(Debug, Clone, Copy, Default)]
pub struct DefaultCompaction;

#[async_trait]
impl CompactionStrategy for DefaultCompaction {
    async fn compact(
        &self,
        history: &History,
        config: &ContextConfig,
        cx: &CompactionContext,
    ) -> Result<CompactionOutcome, CompactionError> {
        compact_history_within(history, config, cx.budget, &*cx.counter).map(CompactionOutcome::splices)
    }
}

/// A strategy from a plain function.
///
/// ```
/// use agent_core::{AgentMessage, ContextConfig, SyncCompaction};
/// let newest_only = SyncCompaction::new(|mut messages: Vec<AgentMessage>, config: &ContextConfig| {
///     messages.split_off(messages.len().saturating_sub(config.keep_recent))
/// });
/// # let _: &dyn agent_core::CompactionStrategy = &newest_only;
/// ```
#[derive(Clone, Copy)]
pub struct SyncCompaction<F>(F);

impl<F> SyncCompaction<F>
where
    F: Fn(Vec<AgentMessage>, &ContextConfig) -> Vec<AgentMessage> + Send + Sync,
{
    /// Creates a strategy that calls `shorten`.
    pub fn new(shorten: F) -> Self {
        Self(shorten)
    }
}

impl<F> fmt::Debug for SyncCompaction<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SyncCompaction")
    }
}

#[async_trait]
impl<F> CompactionStrategy for SyncCompaction<F>
where
    F: Fn(Vec<AgentMessage>, &ContextConfig) -> Vec<AgentMessage> + Send + Sync,
{
    async fn compact(
        &self,
        history: &History,
        config: &ContextConfig,
        _cx: &CompactionContext,
    ) -> Result<CompactionOutcome, CompactionError> {
        let new = (self.0)(history.to_vec(), config);
        Ok(CompactionOutcome::messages(reshared(history, new)))
    }
}

/// Replaces the messages at both ends of `new` by the equal objects of `history`.
fn reshared(history: &History, new: Vec<AgentMessage>) -> Vec<MessageRef> {
    let old: Vec<&MessageRef> = history.entries().map(crate::history::Entry::shared).collect();
    let head = old.iter().zip(&new).take_while(|(a, b)| ****a == **b).count();
    let most = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| ****a == **b).count();
    let (middle, end) = (new.len() - head - tail, old.len() - tail);
    let shared = |from: usize, count: usize| old.iter().skip(from).take(count).map(|m| MessageRef::clone(m));
    let changed = new.into_iter().skip(head).take(middle).map(MessageRef::new);
    shared(0, head).chain(changed).chain(shared(end, tail)).collect()
}

/// Returns the splices that turn `old` into `new`, and the repairs that were needed to close `new`. Messages that are
/// the same objects in both keep their place and their encoded forms. An empty `new` stays empty.
///
/// ```
/// use agent_core::{AgentMessage, History, MessageRef, splices_between};
/// let mut old = History::new();
/// for text in ["a", "b", "c", "d"] {
///     old.push(AgentMessage::user(text))?;
/// }
/// let mut new: Vec<MessageRef> = old.entries().map(|e| e.shared().clone()).collect();
/// new.splice(1..3, [MessageRef::from("b and c")]);
/// let (splices, repairs) = splices_between(&old, new);
/// assert_eq!((splices[0].from, splices[0].to, splices[0].messages.len()), (1, 3, 1));
/// assert!(splices.len() == 1 && repairs.is_empty());
/// # Ok::<(), agent_core::HistoryError>(())
/// ```
#[must_use]
pub fn splices_between(old: &History, new: Vec<MessageRef>) -> (Vec<Splice>, Vec<Repair>) {
    let (new, repairs) = old.rebuilt(new);
    // The start and the end of each unit of the old list, by object.
    let mut places: BTreeMap<*const Unit, (usize, usize)> = BTreeMap::new();
    let mut end = 0;
    for unit in old.units() {
        let from = end;
        end += unit.entries().len();
        places.insert(Arc::as_ptr(unit), (from, end));
    }
    let mut out = Vec::new();
    let mut pending: Vec<Entry> = Vec::new();
    let mut at = 0;
    for unit in new.units() {
        match places.get(&Arc::as_ptr(unit)) {
            Some(&(from, to)) if from >= at => {
                flush(&mut out, at, from, &mut pending);
                at = to;
            }
            _ => pending.extend(unit.entries().iter().cloned()),
        }
    }
    flush(&mut out, at, end, &mut pending);
    (out, repairs)
}

fn flush(out: &mut Vec<Splice>, from: usize, to: usize, pending: &mut Vec<Entry>) {
    if from < to || !pending.is_empty() {
        out.push(Splice { from, to, messages: std::mem::take(pending) });
    }
}
