//! Who shortens the conversation (REQ-023, D11).

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::compact::{CompactionError, compact_history_within};
use super::config::ContextConfig;
use super::splices::splices_between;
use crate::event::CompactionReason;
use crate::history::{History, MessageRef, Repair, Splice};
use crate::message::{AgentMessage, Usage};
use crate::message::{HeuristicTokenCounter, TokenCounter};
use crate::model::ModelConfig;
use crate::provider::StreamProvider;

/// Shortens a conversation that is too long. It may ask the run's model, and may fail: then
/// [`DefaultCompaction`] does it. What it gives is closed (B-136..B-138) but never filled up again.
#[async_trait]
pub trait CompactionStrategy: Send + Sync {
    /// What comes in the place of `history`, which should be at most [`CompactionContext::budget`] tokens.
    ///
    /// # Errors
    /// When it cannot be shortened; the default cascade is used then.
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

/// What a strategy has to work with.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CompactionContext {
    /// What counts the tokens.
    pub counter: Arc<dyn TokenCounter>,
    /// The most tokens of the result: [`ContextConfig::budget`], or less when the provider counts more than we do.
    pub budget: u64,
    /// Why it is called.
    pub reason: CompactionReason,
    /// The provider of the run, for strategies that ask a model.
    pub provider: Option<Arc<dyn StreamProvider>>,
    /// The model of the run.
    pub model: Option<Arc<ModelConfig>>,
    /// Cancelled when the run is aborted.
    pub cancel: CancellationToken,
}

impl CompactionContext {
    /// A context with a budget, the default counter and no provider.
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

    /// The same with another counter.
    #[must_use]
    pub fn with_counter(mut self, counter: Arc<dyn TokenCounter>) -> Self {
        self.counter = counter;
        self
    }

    /// The same, called for another reason.
    #[must_use]
    pub fn with_reason(mut self, reason: CompactionReason) -> Self {
        self.reason = reason;
        self
    }

    /// The same with a provider and the model to ask.
    #[must_use]
    pub fn with_provider(mut self, provider: Arc<dyn StreamProvider>, model: Arc<ModelConfig>) -> Self {
        self.provider = Some(provider);
        self.model = Some(model);
        self
    }

    /// The same with the run's cancellation.
    #[must_use]
    pub fn with_cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }
}

/// What a strategy made of a conversation.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CompactionOutcome {
    /// The new conversation.
    pub change: CompactionChange,
    /// Tokens that the strategy used itself; they are counted in a bucket of their own.
    pub usage: Usage,
}

/// A new conversation, as a whole or as what changed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum CompactionChange {
    /// What changed. None means that the conversation stays as it is.
    Splices(Vec<Splice>),
    /// All of it. Messages of the old conversation are best passed on as the same objects.
    Messages(Vec<MessageRef>),
}

impl CompactionOutcome {
    /// These ranges are replaced.
    #[must_use]
    pub fn splices(splices: Vec<Splice>) -> Self {
        Self { change: CompactionChange::Splices(splices), usage: Usage::default() }
    }

    /// The conversation is now this list.
    #[must_use]
    pub fn messages(messages: impl IntoIterator<Item = impl Into<MessageRef>>) -> Self {
        let messages = messages.into_iter().map(Into::into).collect();
        Self { change: CompactionChange::Messages(messages), usage: Usage::default() }
    }

    /// The same, after a model was asked for it.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// What has to be replaced in `history`, and what had to be changed to close a whole list.
    ///
    /// # Errors
    /// [`CompactionError::Splice`] when splices do not fit the history.
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

/// The cascade of [`compact_history`](super::compact_history).
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

/// A plain function as a strategy: the REQ's form.
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
    /// A strategy that calls `shorten`.
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

/// The objects of `history` in the place of equal messages at both ends of `new`.
fn reshared(history: &History, new: Vec<AgentMessage>) -> Vec<MessageRef> {
    let old: Vec<&MessageRef> = history.entries().map(crate::history::Entry::shared).collect();
    let head = old.iter().zip(&new).take_while(|(a, b)| ****a == **b).count();
    let most = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| ****a == **b).count();
    let (new_len, old_len) = (new.len(), old.len());
    new.into_iter()
        .enumerate()
        .map(|(at, message)| {
            let same = if at < head {
                old.get(at)
            } else if at >= new_len - tail {
                old.get(old_len - (new_len - at))
            } else {
                None
            };
            same.map_or_else(|| MessageRef::new(message), |same| MessageRef::clone(same))
        })
        .collect()
}
