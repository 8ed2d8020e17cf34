//! Adds records to a session without its agent: answers, and results of deferred calls.

use std::sync::Arc;

use agent_core::event::ApprovalView;
use agent_core::journal::{AppliedInput, Durability, JournalEntry};
use agent_core::run::{Input, Queued, Run, RunSetup};
use agent_core::{
    AgentEvent, AgentMessage, ContinuationKind, DeferredCall, Entry, HistoryError, Message, QueueKind,
    SessionId, Timestamp, ToolCallId, ToolResult,
};
use serde_json::Value;

use super::open::{close, open_journal};
use super::session_journal::SessionJournal;
use crate::error::SessionError;
use crate::loaded::LoadedSession;
use crate::model::Session;
use crate::model::recording::Recording;
use crate::store::SessionStore;

/// Applies an input to the open run of a session, journals it, and returns the new session and run.
pub(crate) async fn apply_offline<S: SessionStore + ?Sized>(
    store: &S,
    id: &str,
    now: Timestamp,
    input: &Input,
    seen: Option<&ApprovalView>,
) -> Result<(Session, Run), SessionError> {
    // Checked first, so that a session that does not exist or does not wait is not opened for writing.
    let session_id = SessionId::from(id);
    if store.load_session(id).await?.open_run()?.is_none() {
        return Err(SessionError::NotWaiting { session_id });
    }
    let (mut journal, recording) = open_journal(store, &session_id).await?;
    let answered = answer_open(&mut journal, recording, session_id, now, input, seen).await;
    close(journal).await;
    answered
}

async fn answer_open(
    journal: &mut SessionJournal,
    recording: Option<Recording>,
    session_id: SessionId,
    now: Timestamp,
    input: &Input,
    seen: Option<&ApprovalView>,
) -> Result<(Session, Run), SessionError> {
    let Some(mut recording) = recording else { return Err(SessionError::NotWaiting { session_id }) };
    let loaded = LoadedSession::new(recording.session.clone());
    let Some(mut run) = loaded.open_run()? else { return Err(SessionError::NotWaiting { session_id }) };
    if run.questions().is_empty() {
        return Err(SessionError::NotWaiting { session_id });
    }
    if let Some(seen) = seen {
        let asked = run.questions().into_iter().find(|question| question.id == seen.question_id);
        if asked.and_then(|question| question.approval()).as_ref() != Some(seen) {
            return Err(SessionError::QuestionChanged { session_id });
        }
    }
    apply_and_save(journal, &mut recording, &mut run, now, input.clone(), Vec::new()).await?;
    Ok((recording.session, run))
}

/// Gives a deferred call its result, journals it, and returns the call. An open run receives it when it is resumed.
/// Otherwise a loop without a model call stores it in the conversation.
pub(crate) async fn complete_offline<S: SessionStore + ?Sized>(
    store: &S,
    id: &str,
    now: Timestamp,
    call: &ToolCallId,
    result: ToolResult,
) -> Result<DeferredCall, SessionError> {
    // Checked first, so that a session that does not exist or does not wait is not opened for writing.
    waiting_call(&store.load_session(id).await?, call)?;
    let session_id = SessionId::from(id);
    let (mut journal, recording) = open_journal(store, &session_id).await?;
    let missing = || SessionError::NotFound { id: id.to_owned(), store: store.describe() };
    let completed = match recording {
        Some(recording) => complete_open(&mut journal, recording, &session_id, now, call, result).await,
        None => Err(missing()),
    };
    close(journal).await;
    completed
}

async fn complete_open(
    journal: &mut SessionJournal,
    mut recording: Recording,
    session_id: &SessionId,
    now: Timestamp,
    call: &ToolCallId,
    result: ToolResult,
) -> Result<DeferredCall, SessionError> {
    let loaded = LoadedSession::new(recording.session.clone());
    let call = waiting_call(&loaded, call)?;
    let message = call.clone().completed(result.content.into_inner(), result.is_error, result.details);
    let entry = Entry::from(AgentMessage::from(Message::from(message)));
    if let Some(mut run) = loaded.open_run()? {
        let input = Input::Queue { queued: Queued::new(QueueKind::Steering, entry) };
        apply_and_save(journal, &mut recording, &mut run, now, input, Vec::new()).await?;
        return Ok(call);
    }
    let mut events = Vec::new();
    let setup = setup_of_next(&loaded, session_id);
    let history = loaded.history()?;
    let mut run = Run::start_queued(setup, history, vec![entry], Vec::new(), now, &mut events)
        .map_err(agent_core::AgentError::from)?;
    let reason = "the result of a deferred call was stored without a model call".to_owned();
    let input = Input::Abort { partial: None, interrupted: Some(reason) };
    apply_and_save(journal, &mut recording, &mut run, now, input, events).await?;
    Ok(call)
}

/// Returns the setup of a loop that continues the head and stops before its first turn.
fn setup_of_next(session: &LoadedSession, session_id: &SessionId) -> RunSetup {
    let counters = session.loop_counters();
    let head = session.head();
    let segment = head
        .and_then(|head| head.loop_id.as_str().strip_prefix(session_id.as_str())?.strip_prefix('.'))
        .and_then(|rest| rest.rsplit_once('.'))
        .map_or("offline", |(segment, _)| segment);
    let number = counters.get(segment).copied().unwrap_or_default().saturating_add(1);
    let mut setup = RunSetup::new(format!("{session_id}.{segment}.{number}"));
    setup.session_id = session_id.clone();
    setup.agent_id = session.agent_id.clone();
    setup.parent_loop_id = head.map(|head| head.loop_id.clone());
    setup.continuation = Some(ContinuationKind::Default);
    setup.config = Arc::new(head.map(|head| head.config.clone()).unwrap_or_default());
    setup.gates.before_turn = true;
    setup
}

/// Returns the deferred call with this id.
fn waiting_call(session: &LoadedSession, id: &ToolCallId) -> Result<DeferredCall, SessionError> {
    if let Some(call) = session.deferred()?.into_iter().find(|call| call.tool_call_id == *id) {
        return Ok(call);
    }
    let mut history = session.history()?;
    let call = DeferredCall::new(id.clone(), "", "");
    let rejected = history.push(Message::from(call.completed(Vec::new(), false, Value::Null)).into());
    // A result that only the queue of the open run has.
    let error = rejected.err().unwrap_or_else(|| HistoryError::AlreadyCompleted(id.clone()));
    Err(agent_core::AgentError::from(error).into())
}

/// Applies an input to a run, journals it together with the earlier `events`, and saves the session.
async fn apply_and_save(
    journal: &mut SessionJournal,
    recording: &mut Recording,
    run: &mut Run,
    now: Timestamp,
    input: Input,
    mut events: Vec<AgentEvent>,
) -> Result<(), SessionError> {
    run.apply(now, input.clone(), &mut events).map_err(agent_core::AgentError::from)?;
    let mut inputs = vec![AppliedInput { now, input }];
    // A run that waits for another answer is left suspended.
    if run.is_suspended() && run.apply(now, Input::Suspended, &mut events).is_ok() {
        inputs.push(AppliedInput { now, input: Input::Suspended });
    }
    let entry = JournalEntry::new(run, &inputs, &events, Durability::Flushed);
    if let Some(job) = journal.append(recording, &entry, entry.durability)? {
        job.await?;
    }
    journal.save(recording.session.clone()).await
}
