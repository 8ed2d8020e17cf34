//! Queries of session stores, and their results.

use agent_core::{AgentId, LoopId, SessionId, Timestamp};

use super::SessionSummary;
use super::words;
use crate::error::SessionError;
use crate::model::{LoopStatus, Session};

/// The maximum number of sessions of one page.
pub const MAX_PAGE: usize = 1_000;

/// A query for sessions. All conditions must hold; a query without conditions matches every session. By default it returns
/// the first 50 sessions, the most recently active first.
///
/// ```
/// use agent_session::{Order, SessionQuery, SortBy};
/// let dear = SessionQuery::new()
///     .with_text("linker error")
///     .with_model("claude-sonnet-4-6")
///     .with_min_cost(50_000)
///     .sorted(SortBy::Cost, Order::Descending)
///     .page(0, 20);
/// assert_eq!(dear.limit, 20);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SessionQuery {
    /// Words; each must be the beginning of a word of the same message.
    pub text: Option<String>,
    /// The id of the agent.
    pub agent: Option<AgentId>,
    /// A model that a loop of the session used.
    pub model: Option<String>,
    /// The session was active at this time or later.
    pub active_since: Option<Timestamp>,
    /// The session was created before this time.
    pub begun_before: Option<Timestamp>,
    /// The minimum cost in micro-units of the currency of the prices, inclusive.
    pub min_cost: Option<u64>,
    /// The maximum cost in micro-units, inclusive.
    pub max_cost: Option<u64>,
    /// The status, as in [`SessionSummary::status`].
    pub status: Option<LoopStatus>,
    /// The session whose tool calls started the sub-agent.
    pub parent: Option<SessionId>,
    /// The key by which the result is sorted. Sessions with equal keys are sorted by id.
    pub sort: SortBy,
    /// The direction of the order.
    pub order: Order,
    /// The number of sessions that are skipped.
    pub offset: usize,
    /// The maximum number of sessions of the page; 50 by default, at most [`MAX_PAGE`].
    pub limit: usize,
}

/// The key by which sessions are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SortBy {
    /// The time of the last record.
    #[default]
    LastActive,
    /// The time when the session was created.
    Created,
    /// The cost of the session.
    Cost,
    /// The number of tokens that the session used.
    Tokens,
    /// The id of the session.
    Id,
}

/// The direction of the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Order {
    /// The largest, newest or last first.
    #[default]
    Descending,
    /// The smallest, oldest or first first.
    Ascending,
}

/// A page of the sessions that match a query.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct FoundSessions {
    /// The sessions of this page.
    pub sessions: Vec<FoundSession>,
    /// The number of sessions on all pages.
    pub total: usize,
    /// Sessions that could not be read, with the error. Whether they match is not known.
    pub unreadable: Vec<(SessionId, SessionError)>,
}

/// A session that matches a query.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FoundSession {
    /// The summary of the session.
    pub summary: SessionSummary,
    /// The places where the text was found, at most three; empty for a query without a text.
    pub hits: Vec<TextHit>,
}

/// A message in which a text was found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextHit {
    /// The loop of the message.
    pub loop_id: LoopId,
    /// The position in the loop's messages.
    pub message: usize,
    /// The text around the first word that was found, on one line.
    pub snippet: String,
}

impl FoundSessions {
    /// Makes the requested page of a list that contains all matches: counts, sorts and cuts it.
    #[must_use]
    pub fn page(mut self, query: &SessionQuery) -> Self {
        query.sort(&mut self.sessions);
        self.total = self.sessions.len();
        self.sessions = self.sessions.into_iter().skip(query.offset).take(query.limit()).collect();
        self
    }
}

impl FoundSession {
    /// Creates an entry of a result.
    #[must_use]
    pub fn new(summary: SessionSummary, hits: Vec<TextHit>) -> Self {
        Self { summary, hits }
    }
}

impl TextHit {
    /// Creates a hit in the message at this position of a loop's messages.
    #[must_use]
    pub fn new(loop_id: LoopId, message: usize, snippet: impl Into<String>) -> Self {
        Self { loop_id, message, snippet: snippet.into() }
    }
}

/// The maximum number of hits for each session.
pub(super) const HITS: usize = 3;

impl Default for SessionQuery {
    fn default() -> Self {
        Self {
            text: None,
            agent: None,
            model: None,
            active_since: None,
            begun_before: None,
            min_cost: None,
            max_cost: None,
            status: None,
            parent: None,
            sort: SortBy::default(),
            order: Order::default(),
            offset: 0,
            limit: 50,
        }
    }
}

impl SessionQuery {
    /// Creates a query for all sessions: the first 50, the most recently active first.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Matches only sessions with a message in which each of these words begins a word.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Matches only sessions of this agent.
    #[must_use]
    pub fn with_agent(mut self, agent: impl Into<AgentId>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// Matches only sessions with a loop of this model.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Matches only sessions that were active at this time or later.
    #[must_use]
    pub fn active_since(mut self, time: Timestamp) -> Self {
        self.active_since = Some(time);
        self
    }

    /// Matches only sessions that were created before this time.
    #[must_use]
    pub fn begun_before(mut self, time: Timestamp) -> Self {
        self.begun_before = Some(time);
        self
    }

    /// Matches only sessions that cost at least this, in micro-units.
    #[must_use]
    pub fn with_min_cost(mut self, cost: u64) -> Self {
        self.min_cost = Some(cost);
        self
    }

    /// Matches only sessions that cost at most this, in micro-units.
    #[must_use]
    pub fn with_max_cost(mut self, cost: u64) -> Self {
        self.max_cost = Some(cost);
        self
    }

    /// Matches only sessions with this status. [`Suspended`](LoopStatus::Suspended) sessions wait for an answer.
    #[must_use]
    pub fn with_status(mut self, status: LoopStatus) -> Self {
        self.status = Some(status);
        self
    }

    /// Matches only sessions of sub-agents that tool calls of this session started.
    #[must_use]
    pub fn with_parent(mut self, parent: impl Into<SessionId>) -> Self {
        self.parent = Some(parent.into());
        self
    }

    /// Sorts the result by this key.
    #[must_use]
    pub fn sorted(mut self, by: SortBy, order: Order) -> Self {
        self.sort = by;
        self.order = order;
        self
    }

    /// Selects a page: skips `offset` sessions and returns at most `limit`.
    #[must_use]
    pub fn page(mut self, offset: usize, limit: usize) -> Self {
        self.offset = offset;
        self.limit = limit;
        self
    }

    /// Returns the session as an entry of the result, with its text hits, or `None` when it does not match. For stores
    /// that have no index of their own.
    ///
    /// # Errors
    /// [`SessionError::InvalidQuery`] when the text of the query contains neither a letter nor a digit.
    pub fn matches(&self, session: &Session) -> Result<Option<FoundSession>, SessionError> {
        let asked = self.words()?;
        let summary = SessionSummary::of(session);
        if !self.fits(&summary) {
            return Ok(None);
        }
        let hits = hits(texts_of(session), &asked);
        Ok((asked.is_empty() || !hits.is_empty()).then_some(FoundSession { summary, hits }))
    }

    /// Returns the words of the query's text.
    pub(super) fn words(&self) -> Result<Vec<String>, SessionError> {
        let Some(text) = &self.text else { return Ok(Vec::new()) };
        let list = words::asked(text);
        if list.is_empty() {
            return Err(SessionError::InvalidQuery { reason: "its text holds neither a letter nor a digit" });
        }
        Ok(list)
    }

    pub(super) fn limit(&self) -> usize {
        self.limit.min(MAX_PAGE)
    }

    /// Returns whether a session meets all conditions except the text.
    pub(super) fn fits(&self, s: &SessionSummary) -> bool {
        self.agent.as_ref().is_none_or(|a| s.agent_id == *a)
            && self.model.as_ref().is_none_or(|m| s.models.contains(m))
            && self.active_since.is_none_or(|t| s.last_active_at >= t)
            && self.begun_before.is_none_or(|t| s.created_at < t)
            && self.min_cost.is_none_or(|c| s.cost_micros >= c)
            && self.max_cost.is_none_or(|c| s.cost_micros <= c)
            && self.status.is_none_or(|status| s.status == Some(status))
            && self.parent.as_ref().is_none_or(|p| s.parent_session_id.as_ref() == Some(p))
    }

    /// Sorts a list by the key and order of the query.
    pub(super) fn sort(&self, list: &mut [FoundSession]) {
        list.sort_by(|a, b| {
            let (a, b) = (&a.summary, &b.summary);
            let by = match self.sort {
                SortBy::LastActive => a.last_active_at.cmp(&b.last_active_at),
                SortBy::Created => a.created_at.cmp(&b.created_at),
                SortBy::Cost => a.cost_micros.cmp(&b.cost_micros),
                SortBy::Tokens => a.usage.total_tokens.cmp(&b.usage.total_tokens),
                SortBy::Id => a.session_id.cmp(&b.session_id),
            };
            let by = match self.order {
                Order::Ascending => by,
                Order::Descending => by.reverse(),
            };
            by.then_with(|| a.session_id.cmp(&b.session_id))
        });
    }
}

/// Returns the texts in which a session is searched, each with its loop and its place in the loop's messages.
pub(super) fn texts_of(session: &Session) -> impl Iterator<Item = (&LoopId, usize, String)> {
    session.loops.iter().flat_map(|record| {
        let texts = record.messages.iter().map(|message| message.text()).enumerate();
        texts.map(|(place, text)| (&record.loop_id, place, text))
    })
}

/// Returns the places of the words in these texts, at most [`HITS`]; none without words.
pub(super) fn hits<'a>(
    texts: impl Iterator<Item = (&'a LoopId, usize, String)>,
    asked: &[String],
) -> Vec<TextHit> {
    if asked.is_empty() {
        return Vec::new();
    }
    let found = texts.filter_map(|(loop_id, message, text)| {
        let at = words::find(&text, asked)?;
        Some(TextHit { loop_id: loop_id.clone(), message, snippet: words::snippet(&text, at) })
    });
    found.take(HITS).collect()
}
