//! Open runs as entries of a list.

use agent_core::run::Run;
use agent_core::{AgentId, AgentMessage, Entry, LoopId, Message, MessageRef, Question, SessionId, Timestamp};

use crate::error::SessionError;
use crate::loaded::LoadedSession;
use crate::model::{LoopBase, LoopRecord, LoopStatus, Session};

/// The maximum length of [`Unfinished::prompt`] in bytes.
pub const MAX_PROMPT_SHOWN: usize = 200;

/// An open run, as an entry of a list.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Unfinished {
    /// The id of the session.
    pub session_id: SessionId,
    /// The id of the agent.
    pub agent_id: AgentId,
    /// The id of the loop.
    pub loop_id: LoopId,
    /// `Suspended` if the run waits for an answer, `Running` if a process is writing it, and `Interrupted` if it was cut
    /// off or was answered and not resumed.
    pub status: LoopStatus,
    /// The time of the last record, since which the run has been waiting.
    pub since: Timestamp,
    /// The beginning of the last user message, at most [`MAX_PROMPT_SHOWN`] bytes.
    pub prompt: String,
    /// The model of the run.
    pub model: String,
    /// The questions that the user must answer; empty if `resume()` is sufficient.
    pub questions: Vec<Question>,
}

/// The open runs of a store, newest first: those of the sessions whose [head](crate::Session::head) is not over.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct UnfinishedSessions {
    /// The open runs, newest first.
    pub runs: Vec<Unfinished>,
    /// Sessions that could not be read, or whose open run could not be read, with the error.
    pub unreadable: Vec<(SessionId, SessionError)>,
}

impl UnfinishedSessions {
    /// Adds the open run of a session, or the error of a session that cannot be read. A session that was deleted meanwhile is
    /// skipped.
    pub(crate) fn add(&mut self, id: SessionId, loaded: Result<LoadedSession, SessionError>) {
        match loaded.and_then(|session| session.unfinished()) {
            Ok(run) => self.runs.extend(run),
            Err(SessionError::NotFound { .. }) => {}
            Err(error) => self.unreadable.push((id, error)),
        }
    }

    /// Returns the runs that wait for an answer.
    #[must_use]
    pub fn waiting(&self) -> Vec<&Unfinished> {
        self.runs.iter().filter(|run| !run.questions.is_empty()).collect()
    }
}

impl Unfinished {
    /// Describes the open run of a loop.
    pub(crate) fn of(session: &Session, record: &LoopRecord, run: &Run) -> Self {
        let prompt = last_prompt(&record.messages).or_else(|| prompt_of_base(record.base.as_ref()));
        Self {
            session_id: session.session_id.clone(),
            agent_id: session.agent_id.clone(),
            loop_id: record.loop_id.clone(),
            status: record.status,
            since: session.last_active_at,
            prompt: prompt.unwrap_or_default(),
            model: record.config.model.clone(),
            questions: run.questions(),
        }
    }
}

impl LoadedSession {
    /// Returns the open run of the [head](crate::Session::head) as an entry of a list; `None` when it is over, or when it is
    /// the child of a tool call, which waits with its caller.
    ///
    /// # Errors
    /// As [`open_run`](Self::open_run).
    pub fn unfinished(&self) -> Result<Option<Unfinished>, SessionError> {
        let (Some(run), Some(record)) = (self.open_run()?, self.head()) else { return Ok(None) };
        Ok(is_shown(&run).then(|| Unfinished::of(self, record, &run)))
    }
}

/// Returns whether a run is an entry of its own. The child of a tool call waits with its caller, which shows its questions and
/// takes the answers.
pub(crate) fn is_shown(run: &Run) -> bool {
    run.setup().depth == 0
}

/// Returns the beginning of the last user message among these; `None` if there is none.
pub(crate) fn last_prompt(messages: &[MessageRef]) -> Option<String> {
    messages.iter().rev().find_map(|message| beginning(message))
}

/// Returns the beginning of the last user message before a loop, as far as it is stored with the loop.
pub(crate) fn prompt_of_base(base: Option<&LoopBase>) -> Option<String> {
    base?.added.iter().rev().map(Entry::message).find_map(beginning)
}

fn beginning(message: &AgentMessage) -> Option<String> {
    let message = message.as_llm().filter(|message| matches!(message, Message::User(_)))?;
    let text = message.text();
    let end = text.floor_char_boundary(MAX_PROMPT_SHOWN);
    Some(text.get(..end).unwrap_or_default().to_owned())
}
