//! Measures the next request: the provider's report for the last one, plus an estimate for what came after.

use serde::{Deserialize, Serialize};

use super::config::ContextConfig;
use crate::history::{Entry, History};
use crate::message::Usage;

/// Measures the size of the next request. It is part of the run's state and survives a suspension.
///
/// ```
/// use agent_core::{AgentMessage, AssistantMessage, ContextTracker, Entry, History, Message, StopReason, Usage};
/// let mut history = History::new();
/// history.push(AgentMessage::user("hello"))?;
/// let mut tracker = ContextTracker::default();
/// assert_eq!(tracker.current_tokens(&history), history.tokens());
///
/// let reply = Entry::from(AgentMessage::from(Message::from(AssistantMessage::new("p", "m", StopReason::Stop))));
/// tracker.record_usage(&Usage::new(900, 100, 0, 0), &history, &reply);
/// history.push_entry(reply)?;
/// history.push(AgentMessage::user("12345678"))?; // 2 tokens and 4 for the message
/// assert_eq!(tracker.current_tokens(&history), 1_006);
/// # Ok::<(), agent_core::HistoryError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContextTracker {
    #[serde(skip_serializing_if = "Option::is_none")]
    reported: Option<Reported>,
}

/// A provider's count of a request and its reply, and what it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Reported {
    /// The provider's count of prompt, tools, messages and reply.
    tokens: u64,
    /// The number of messages that it covers.
    messages: usize,
    /// The counter's estimate for these messages.
    estimate: u64,
}

impl ContextTracker {
    /// Returns whether there is no count of a provider.
    pub(crate) fn is_empty(&self) -> bool {
        self.reported.is_none()
    }

    /// Records the usage that the provider reported for a request with `history` and its `reply`, which may not be in
    /// the history yet. A usage of zero tokens is ignored. Do not record failed replies, whose usage is incomplete.
    pub fn record_usage(&mut self, usage: &Usage, history: &History, reply: &Entry) {
        let tokens = usage.prompt_tokens().saturating_add(usage.output);
        if tokens > 0 {
            self.reported = Some(Reported {
                tokens,
                messages: history.len() + 1,
                estimate: history.tokens().saturating_add(reply.tokens()),
            });
        }
    }

    /// Returns the tokens of a request with `history`: the reported count plus an estimate for later messages.
    /// Without a report that covers a prefix of `history`, all of it is estimated, excluding the system prompt.
    #[must_use]
    pub fn current_tokens(&self, history: &History) -> u64 {
        match self.covering(history) {
            Some(r) => r.tokens.saturating_add(history.tokens().saturating_sub(r.estimate)),
            None => history.tokens(),
        }
    }

    /// Returns whether a request with `history` exceeds the limit of `config`. A reported count includes the system
    /// prompt and is compared with the whole limit; an estimate is compared with the budget.
    #[must_use]
    pub fn is_over_budget(&self, history: &History, config: &ContextConfig) -> bool {
        let limit = if self.is_reported(history) { config.max_context_tokens } else { config.budget() };
        self.current_tokens(history) > limit
    }

    /// Returns the budget for a compaction in tokens of the counter: the configured one, or less if the provider
    /// counts more than the counter. It is at least an eighth of the configured budget.
    #[must_use]
    pub fn compaction_budget(&self, history: &History, config: &ContextConfig) -> u64 {
        let budget = config.budget();
        let Some(r) = self.covering(history) else { return budget };
        let messages = r.tokens.saturating_sub(config.system_prompt_tokens);
        if messages <= r.estimate {
            return budget;
        }
        let fair = u128::from(budget) * u128::from(r.estimate) / u128::from(messages);
        u64::try_from(fair).unwrap_or(budget).clamp(budget / 8, budget)
    }

    /// Discards the report. Call it when the history changes other than by appending, so that an outdated report does
    /// not trigger another compaction.
    pub fn reset(&mut self) {
        self.reported = None;
    }

    /// Returns whether [`current_tokens`](Self::current_tokens) includes a provider's report, and with it
    /// instructions and tools.
    #[must_use]
    pub fn is_reported(&self, history: &History) -> bool {
        self.covering(history).is_some()
    }

    fn covering(&self, history: &History) -> Option<Reported> {
        self.reported.filter(|r| r.messages <= history.len())
    }
}
