//! Time travel: lists the points of a session, rewinds an agent to one, forks a session at one, and compares two.
//!
//! A [`Point`] is a place between two messages. [`TimeTravel::rewind`] sets an agent back to a point in the same session.
//! [`TimeTravel::fork`] creates a new session with the path to a point; the original session is only read.
//!
//! ```
//! use agent_core::testing::ScriptedProvider;
//! use agent_core::{BasicAgent, ModelConfig};
//! use agent_session::{JsonStore, SessionRecorder, TimeTravel};
//!
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path();
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let mut agent = BasicAgent::new(ModelConfig::default())
//!     .with_provider(ScriptedProvider::texts(["Blue.", "Red.", "Green."]));
//! let store = JsonStore::open(dir)?;
//! let recorder = SessionRecorder::attach(&mut agent, store.clone());
//! agent.chat("A colour?").await?;
//! agent.chat("Another?").await?;
//!
//! // Back to the first answer, and on with another prompt.
//! let session = recorder.session(agent.session_id()).ok_or("not recorded")?;
//! let points = session.points();
//! agent.rewind(&session, &points[2])?;
//! agent.chat("One more?").await?;
//! assert_eq!(agent.messages().len(), 4);
//!
//! // The second answer is still there: a fork continues from it.
//! let session = recorder.session(agent.session_id()).ok_or("not recorded")?;
//! let fork = agent.fork(&store, &session, &points[4]).await?;
//! assert_eq!(store.load_session(&fork.session_id)?.history()?, agent.history());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agent;
mod compare;
mod cut;
mod fork;
mod outline;
mod path;

use agent_core::{History, SessionId, Timestamp, TurnId, Usage};

pub use agent::{Arrival, TimeTravel};
pub use compare::{Comparison, Side};
pub use outline::OutlineTurn;
use path::{Paths, Step};

use crate::error::SessionError;
use crate::files::FileState;
use crate::model::{LoopRecord, Point, Session};

impl Session {
    /// Returns the end of the session's [head](Self::head); `None` without a head.
    #[must_use]
    pub fn end_point(&self) -> Option<Point> {
        self.head().map(|r| Point::new(r.loop_id.clone(), r.messages.len()))
    }

    /// Returns the point after a turn; `None` when the turn does not exist.
    #[must_use]
    pub fn point_after_turn(&self, turn: &TurnId) -> Option<Point> {
        let record = self.get_loop(turn.loop_id.as_str())?;
        let at = record.turns.iter().position(|t| t.turn_id == *turn)?;
        Some(Point::new(record.loop_id.clone(), turn_ends(record).nth(at)?))
    }

    /// Returns the point before a turn and its user messages; `None` when the turn does not exist.
    #[must_use]
    pub fn point_before_turn(&self, turn: &TurnId) -> Option<Point> {
        let record = self.get_loop(turn.loop_id.as_str())?;
        let at = record.turns.iter().position(|t| t.turn_id == *turn)?;
        let before = at.checked_sub(1).and_then(|at| turn_ends(record).nth(at));
        Some(Point::new(record.loop_id.clone(), before.unwrap_or(0)))
    }

    /// Returns all points at which the conversation can be cut, loop by loop and in the order of the messages. No point is
    /// between a tool call and its result.
    #[must_use]
    pub fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for record in &self.loops {
            let mut places = cut::settled(record.messages.iter().map(|m| &**m));
            places.dedup();
            points.extend(places.into_iter().map(|place| Point::new(record.loop_id.clone(), place)));
        }
        points
    }

    /// Returns the conversation that the agent had at a point. Messages that a later compaction removed are included.
    ///
    /// # Errors
    /// [`SessionError::NoPoint`] when there is no such point, [`SessionError::Fold`] when the events before it do not make
    /// a conversation.
    pub fn history_at(&self, point: &Point) -> Result<History, SessionError> {
        Paths::of(self).history_at(point)
    }

    /// Returns the known states of files at a point: the states that a [`FileWatch`](crate::FileWatch) recorded on the path
    /// to it, and the earlier states of files that were first used after it.
    ///
    /// # Errors
    /// As [`history_at`](Self::history_at).
    pub fn files_at(&self, point: &Point) -> Result<FileState, SessionError> {
        Ok(files_on(self, &Paths::of(self).path_to(point)?))
    }

    /// Returns the highest loop number of each configuration, from the loop ids (`{session}.{config}.{n}`).
    #[must_use]
    pub fn loop_counters(&self) -> std::collections::BTreeMap<String, u64> {
        let mut counters = std::collections::BTreeMap::new();
        for record in &self.loops {
            let id = record.loop_id.as_str();
            let rest = id.strip_prefix(self.session_id.as_str()).and_then(|r| r.strip_prefix('.'));
            let parts = rest.and_then(|r| r.rsplit_once('.'));
            if let Some((config, n)) = parts.and_then(|(c, n)| Some((c, n.parse::<u64>().ok()?))) {
                let counter = counters.entry(config.to_owned()).or_insert(0);
                *counter = n.max(*counter);
            }
        }
        counters
    }

    /// Returns all turns, in the order in which they were recorded; their positions in the list stay as the session grows.
    ///
    /// # Errors
    /// [`SessionError::Fold`] when the events of a loop do not make a conversation.
    pub fn outline(&self) -> Result<Vec<OutlineTurn>, SessionError> {
        outline::outline(self)
    }

    /// Returns a new session with the loops that lead to this point and nothing else. Loops keep their ids and the id of
    /// their session; messages are shared. A loop that is cut in the middle becomes `Interrupted`. An open run is not
    /// copied, and its calls without a result get one that reports it.
    ///
    /// # Errors
    /// [`SessionError::NoPoint`] when there is no such point, [`SessionError::Fold`] when the events before it do not make
    /// a conversation.
    pub fn forked(
        &self,
        point: &Point,
        id: impl Into<SessionId>,
        now: Timestamp,
    ) -> Result<Self, SessionError> {
        fork::fork(self, point, id.into(), now)
    }

    /// Compares two points of this session.
    ///
    /// # Errors
    /// As [`Comparison::between`].
    pub fn compare(&self, a: &Point, b: &Point) -> Result<Comparison, SessionError> {
        Comparison::between((self, a), (self, b))
    }

    /// Returns the tokens of all turns on the path to a point.
    ///
    /// # Errors
    /// As [`history_at`](Self::history_at).
    pub fn usage_to(&self, point: &Point) -> Result<Usage, SessionError> {
        Ok(compare::usage_on(self, &Paths::of(self).path_to(point)?))
    }
}

/// Returns the known states of files at the end of a path.
fn files_on(session: &Session, path: &[Step]) -> FileState {
    let mut state = session.forked_from.as_ref().map(|f| f.files.clone()).unwrap_or_default();
    for step in path {
        let Some(record) = session.loops.get(step.at) else { continue };
        record.messages.iter().take(step.own).for_each(|m| state.note_after(m));
    }
    for message in session.loops.iter().flat_map(|r| &r.messages) {
        state.note_before(message);
    }
    state
}

/// Returns the number of a loop's messages after each of its turns. A turn without messages has as many as the turns before
/// it.
fn turn_ends(record: &LoopRecord) -> impl Iterator<Item = usize> {
    let all = record.messages.len();
    record.turns.iter().scan(0, move |most, turn| {
        let own = turn.input_messages.iter().chain(&turn.output_message).chain(&turn.tool_results);
        let end = own.max().map_or(*most, |last| last.saturating_add(1).min(all));
        *most = end.max(*most);
        Some(end)
    })
}
