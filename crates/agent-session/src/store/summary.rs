//! Summaries of sessions, for lists and searches.

use std::collections::BTreeSet;

use agent_core::{AgentId, AgentMessage, LoopConfigSnapshot, Message, SessionId, Timestamp, Usage};

use serde::{Deserialize, Serialize};

use crate::model::{LoopRecord, LoopStatus, Session};

mod live;
mod waits;

pub(super) use live::LiveSummary;
pub(super) use waits::Waits;

/// The maximum length of a title in characters.
const TITLE: usize = 120;

/// The summary of a session, for lists and searches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionSummary {
    /// The id of the session.
    pub session_id: SessionId,
    /// The id of the agent.
    pub agent_id: AgentId,
    /// The time when the first loop began.
    pub created_at: Timestamp,
    /// The time of the last record.
    pub last_active_at: Timestamp,
    /// The beginning of the first user message on one line, at most 120 characters.
    pub title: Option<String>,
    /// `Suspended` if a loop waits for an answer, `Running` if one is being written, otherwise the status
    /// of the [head](Session::head). `None` without loops.
    pub status: Option<LoopStatus>,
    /// The number of loops.
    pub loops: u64,
    /// The number of the loops' own messages.
    pub messages: u64,
    /// The models that the loops used.
    pub models: BTreeSet<String>,
    /// The tokens of all loops.
    pub usage: Usage,
    /// The cost of the replies in micro-units of the prices' currency, by the prices of each loop's configuration; 0
    /// without prices. Replies of fallback models are not included.
    pub cost_micros: u64,
    /// For the session of a sub-agent, the session whose tool call started it.
    pub parent_session_id: Option<SessionId>,
}

impl SessionSummary {
    /// Summarizes a session. The cost is proportional to the number of messages.
    #[must_use]
    pub fn of(session: &Session) -> Self {
        let mut summary = Self::without_loops(session);
        for record in &session.loops {
            summary.add_loop(record);
        }
        summary.status = status_of_session(session);
        summary
    }

    /// Returns the summary of the session without its loops.
    pub(super) fn without_loops(session: &Session) -> Self {
        Self {
            session_id: session.session_id.clone(),
            agent_id: session.agent_id.clone(),
            created_at: session.created_at,
            last_active_at: session.last_active_at,
            title: None,
            status: None,
            loops: 0,
            messages: 0,
            models: BTreeSet::new(),
            usage: Usage::default(),
            cost_micros: 0,
            parent_session_id: session.parent_spawn_ref.as_ref().map(|r| r.parent_session_id.clone()),
        }
    }

    fn add_loop(&mut self, record: &LoopRecord) {
        self.loops += 1;
        self.usage = self.usage.combine(&record.usage);
        self.add_model(&record.config.model);
        self.messages += record.messages.len() as u64;
        for message in &record.messages {
            self.add_message(message, &record.config);
        }
        for message in &record.other_messages {
            self.add_cost(message, &record.config);
        }
    }

    pub(super) fn add_model(&mut self, model: &str) {
        if !model.is_empty() && !self.models.contains(model) {
            self.models.insert(model.to_owned());
        }
    }

    /// Adds the title and the cost of one of the loop's own messages.
    pub(super) fn add_message(&mut self, message: &AgentMessage, config: &LoopConfigSnapshot) {
        self.add_cost(message, config);
        if self.title.is_none()
            && let Some(Message::User(_)) = message.as_llm()
        {
            self.title = title_of(&message.text());
        }
    }

    /// Adds the cost of a reply. The prices of fallback models are not known here.
    pub(super) fn add_cost(&mut self, message: &AgentMessage, config: &LoopConfigSnapshot) {
        let reply = message.as_llm().and_then(Message::as_assistant);
        if let (Some(reply), Some(prices)) = (reply, &config.prices)
            && reply.model == config.model
        {
            self.cost_micros = self.cost_micros.saturating_add(reply.usage.cost(prices).total);
        }
    }
}

/// Returns the beginning of a text on one line; `None` for an empty text.
pub(super) fn title_of(text: &str) -> Option<String> {
    let mut title = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        if length > 0 {
            title.push(' ');
            length += 1;
        }
        for c in word.chars() {
            if length >= TITLE {
                return Some(title);
            }
            title.push(c);
            length += 1;
        }
    }
    (!title.is_empty()).then_some(title)
}

/// Returns the status of a session.
pub(super) fn status_of_session(session: &Session) -> Option<LoopStatus> {
    status_of(session.loops.iter().map(|r| r.status), session.head().map(|r| r.status))
}

/// Returns the status of a session from its loops, in order, and its head. Without a head, as in a group without a
/// selection, the last loop is used.
pub(super) fn status_of(
    loops: impl Iterator<Item = LoopStatus>,
    head: Option<LoopStatus>,
) -> Option<LoopStatus> {
    let mut all = None;
    for status in loops {
        all = match (all, status) {
            (Some(LoopStatus::Suspended), _) | (_, LoopStatus::Suspended) => Some(LoopStatus::Suspended),
            (Some(LoopStatus::Running), _) | (_, LoopStatus::Running | LoopStatus::Pending) => {
                Some(LoopStatus::Running)
            }
            (_, other) => Some(other),
        };
    }
    match all {
        None | Some(LoopStatus::Suspended | LoopStatus::Running) => all,
        _ => head.or(all),
    }
}
