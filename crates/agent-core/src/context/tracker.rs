//! How long the next request is: what the provider said of the last one, and an estimate of what came after (REQ-136).

use serde::{Deserialize, Serialize};

use super::config::ContextConfig;
use crate::history::{Entry, History};
use crate::message::Usage;

/// How long the next request is. It is part of the run's state and survives a pause.
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
    /// What the provider counted: prompt, tools, messages and reply.
    tokens: u64,
    /// The messages that it covers.
    messages: usize,
    /// What we count for them.
    estimate: u64,
}

impl ContextTracker {
    /// Takes what the provider said of a request with `history` that was answered by `reply`, which need not have
    /// entered the history yet. A usage of zero tokens says nothing. Failed replies are not to be recorded: their
    /// usage is that of a part.
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

    /// The tokens of a request with `history`: what was reported and an estimate of what came after. While nothing
    /// is reported, or when `history` is shorter than what it was reported of, all is estimated, and the system
    /// prompt is not in it.
    #[must_use]
    pub fn current_tokens(&self, history: &History) -> u64 {
        match self.covering(history) {
            Some(r) => r.tokens.saturating_add(history.tokens().saturating_sub(r.estimate)),
            None => history.tokens(),
        }
    }

    /// Whether a request with `history` is longer than `config` allows. A reported count holds the system prompt,
    /// and is compared with the whole; an estimate does not, and is compared with the budget.
    #[must_use]
    pub fn is_over_budget(&self, history: &History, config: &ContextConfig) -> bool {
        self.current_tokens(history) > self.limit(history, config)
    }

    /// The budget for a compaction, in the tokens that we count: the configuration's, or less where the provider
    /// counts more than we do. At least an eighth of the configuration's, whatever a provider says.
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

    /// Forgets what was reported. To be called when the history was changed otherwise than by appending: a report
    /// of what is gone must not set off another compaction (B-184).
    pub fn reset(&mut self) {
        self.reported = None;
    }

    fn limit(&self, history: &History, config: &ContextConfig) -> u64 {
        match self.covering(history) {
            Some(_) => config.max_context_tokens,
            None => config.budget(),
        }
    }

    /// Whether what a provider reported is in [`current_tokens`](Self::current_tokens): then instructions and tools are, too.
    #[must_use]
    pub fn is_reported(&self, history: &History) -> bool {
        self.covering(history).is_some()
    }

    fn covering(&self, history: &History) -> Option<Reported> {
        self.reported.filter(|r| r.messages <= history.len())
    }
}
