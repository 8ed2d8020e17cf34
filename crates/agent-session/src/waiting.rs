//! Open runs and deferred calls: lists what waits in a store, answers questions, and gives deferred calls their results.
//!
//! A run that asks a question is stored with its state, and its process may end. Any program with access to the store can
//! list and answer the question, days later and without model or tools; the answer is one more record of the session. A
//! process with model and tools continues the run with
//! [`restore_session`](crate::RestoreSession::restore_session) and `resume()`.
//!
//! ```
//! use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
//! use agent_core::{Answer, BasicAgent, ModelConfig, RunEnd, Timestamp};
//! use agent_session::{JsonStore, OpenRuns, RestoreSession, SessionRecorder};
//!
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path();
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let agent = |replies: Vec<ScriptedReply>| {
//!     BasicAgent::new(ModelConfig::default())
//!         .with_provider(ScriptedProvider::new(replies))
//!         .with_tool(ScriptedTool::saying("deploy", "deployed").asking("Deploy to production?"))
//! };
//! // On Friday.
//! let store = JsonStore::open(dir)?;
//! let mut first = agent(vec![ScriptedReply::call("c1", "deploy", serde_json::json!({}))]);
//! let recorder = SessionRecorder::attach(&mut first, store.clone());
//! assert!(matches!(first.prompt("Deploy it.")?.end().await, RunEnd::Suspended(_)));
//! recorder.close().await?;
//!
//! // On Monday, in a program without model and tools.
//! let found = store.unfinished().await?;
//! let waiting = found.waiting();
//! assert_eq!(waiting[0].questions[0].text, "Deploy to production?");
//! let id = &waiting[0].session_id;
//! store.answer(id, waiting[0].questions[0].id.clone(), Answer::Allow, Timestamp(1)).await?;
//!
//! // And where the work is done.
//! let second = agent(vec![ScriptedReply::text("It is out.")]);
//! let (second, recorder) = second.restore_session(store.clone(), id).await?;
//! assert!(matches!(second.resume()?.end().await, RunEnd::Completed(_)));
//! recorder.close().await?;
//! assert_eq!(second.messages().len(), 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use agent_core::event::ApprovalView;
use agent_core::run::Input;
use agent_core::{
    AgentError, AgentId, Answer, DeferredCall, HistoryError, QuestionId, SessionId, Timestamp, ToolCallId,
    ToolResult,
};

use async_trait::async_trait;

use crate::error::SessionError;
use crate::loaded::LoadedSession;
use crate::recorder::{apply_offline, complete_offline};
use crate::store::SessionStore;
pub use crate::unfinished::{MAX_PROMPT_SHOWN, Unfinished, UnfinishedSessions};

/// A deferred call of a stored session that has no result yet.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WaitingCall {
    /// The id of the session.
    pub session_id: SessionId,
    /// The id of the agent.
    pub agent_id: AgentId,
    /// The call, with the handle of its work.
    pub call: DeferredCall,
}

/// The deferred calls of a store that have no result yet.
#[derive(Debug)]
#[non_exhaustive]
pub struct WaitingCalls {
    /// The calls; those of the session that was written last come first.
    pub calls: Vec<WaitingCall>,
    /// Sessions that could not be read, with the error.
    pub unreadable: Vec<(SessionId, SessionError)>,
}

/// Queries and answers for the open runs and the deferred calls of a store. Implemented for every [`SessionStore`].
#[async_trait]
pub trait OpenRuns {
    /// Returns every open run of the store: it waits for an answer, was cut off, or is running. The stores of this crate read
    /// the [summary of each session](SessionStore::list_unfinished); another store loads the sessions that can have one.
    /// Sessions that cannot be read are reported beside the runs.
    ///
    /// # Errors
    /// When the store cannot be listed.
    async fn unfinished(&self) -> Result<UnfinishedSessions, SessionError>;

    /// Answers a question of a waiting run by adding a record to its session, and returns the run's new state.
    /// The run continues where it is resumed.
    ///
    /// # Errors
    /// When there is no such session or question; [`SessionError::NotWaiting`] when no run of it waits;
    /// [`SessionError::Locked`] when a process has the session open for writing, which then has to give the answer; also
    /// when the session cannot be written. It is unchanged then.
    async fn answer(
        &self,
        id: impl AsRef<str> + Send,
        question: impl Into<QuestionId> + Send,
        answer: Answer,
        now: Timestamp,
    ) -> Result<Unfinished, SessionError>;

    /// Answers a question about a call, as [`answer`](Self::answer) does, if the call is exactly the one that `seen` shows.
    /// A program that shows a question and answers it later uses this method, so that no other call is approved.
    ///
    /// # Errors
    /// [`SessionError::QuestionChanged`] when the session does not ask what `seen` shows; otherwise as
    /// [`answer`](Self::answer). The session is unchanged then.
    async fn answer_approval(
        &self,
        id: impl AsRef<str> + Send,
        seen: &ApprovalView,
        answer: Answer,
        now: Timestamp,
    ) -> Result<Unfinished, SessionError>;

    /// Returns the deferred calls of all sessions that have no result yet. Loads the
    /// [sessions that can have one](SessionStore::list_deferring_session_ids).
    ///
    /// # Errors
    /// When the store cannot be listed.
    async fn deferred(&self) -> Result<WaitingCalls, SessionError>;

    /// Gives a deferred call its result by adding a record to its session, and returns the call.
    ///
    /// An open run passes the result to the model when it is resumed. If no run is open, the result is stored as the last
    /// message of the conversation, and `continue_run()` of a restored agent continues from it.
    ///
    /// # Errors
    /// [`SessionError::Agent`] with the [`HistoryError`] when the session has no such call, or
    /// the call is not deferred, or has its result; otherwise as [`answer`](Self::answer). The session is unchanged then.
    async fn complete(
        &self,
        id: impl AsRef<str> + Send,
        call: impl Into<ToolCallId> + Send,
        result: ToolResult,
        now: Timestamp,
    ) -> Result<DeferredCall, SessionError>;
}

#[async_trait]
impl<S: SessionStore + ?Sized> OpenRuns for S {
    async fn unfinished(&self) -> Result<UnfinishedSessions, SessionError> {
        self.list_unfinished().await
    }

    async fn answer(
        &self,
        id: impl AsRef<str> + Send,
        question: impl Into<QuestionId> + Send,
        answer: Answer,
        now: Timestamp,
    ) -> Result<Unfinished, SessionError> {
        let input = Input::Answer { question_id: question.into(), answer };
        answer_offline(self, id.as_ref(), &input, None, now).await
    }

    async fn answer_approval(
        &self,
        id: impl AsRef<str> + Send,
        seen: &ApprovalView,
        answer: Answer,
        now: Timestamp,
    ) -> Result<Unfinished, SessionError> {
        let input = Input::Answer { question_id: seen.question_id.clone(), answer };
        answer_offline(self, id.as_ref(), &input, Some(seen), now).await
    }

    async fn deferred(&self) -> Result<WaitingCalls, SessionError> {
        let mut waiting = WaitingCalls { calls: Vec::new(), unreadable: Vec::new() };
        for id in self.list_deferring_session_ids().await? {
            match self.load_session(id.as_str()).await.and_then(|session| waiting_calls(&session)) {
                Ok(calls) => waiting.calls.extend(calls),
                // It was deleted meanwhile.
                Err(SessionError::NotFound { .. }) => {}
                Err(error) => waiting.unreadable.push((id, error)),
            }
        }
        Ok(waiting)
    }

    async fn complete(
        &self,
        id: impl AsRef<str> + Send,
        call: impl Into<ToolCallId> + Send,
        result: ToolResult,
        now: Timestamp,
    ) -> Result<DeferredCall, SessionError> {
        let (id, call) = (id.as_ref().to_owned(), call.into());
        if result.deferred.is_some() {
            return Err(AgentError::from(HistoryError::DeferredAgain(call)).into());
        }
        complete_offline(self, &id, now, &call, result).await
    }
}

async fn answer_offline<S: SessionStore + ?Sized>(
    store: &S,
    id: &str,
    input: &Input,
    seen: Option<&ApprovalView>,
    now: Timestamp,
) -> Result<Unfinished, SessionError> {
    let (session, run) = apply_offline(store, id, now, input, seen).await?;
    let mut session = LoadedSession::new(session);
    session.mark_interrupted();
    match session.head() {
        Some(record) => Ok(Unfinished::of(&session, record, &run)),
        None => Err(SessionError::NotWaiting { session_id: session.session_id.clone() }),
    }
}

fn waiting_calls(session: &LoadedSession) -> Result<Vec<WaitingCall>, SessionError> {
    let waiting = |call| WaitingCall {
        session_id: session.session_id.clone(),
        agent_id: session.agent_id.clone(),
        call,
    };
    Ok(session.deferred()?.into_iter().map(waiting).collect())
}
