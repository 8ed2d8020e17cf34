//! A run whose client waits for its answer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_core::agent::Subscription;
use agent_core::{
    AgentEvent, MessageRef, RunEnd, RunFailure, SessionId, StopCause, StopReason, StreamDelta, Timestamp,
    Usage,
};
use tokio::sync::{Notify, watch};

use super::super::error::ApiError;
use super::ask::{Ask, Options, WithOptions};
use crate::conversation::Conversation;
use crate::conversation::requests::{Repeated, RequestId, numbered};
use crate::keys::Account;
use crate::registry::{Created, OpenError, Wait};
use crate::service::{Lifetime, Service};

/// A piece of the answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    /// A part of the text of the current reply.
    Text(String),
    /// A reply is complete, with its whole text.
    Reply(String),
    /// The parts of the current reply are void, because the call of the model is repeated.
    Void,
    /// A tool begins to run: its name, and the beginning of its arguments.
    Activity(String),
}

/// The maximum number of bytes of a tool's arguments in a piece.
const MAX_ACTIVITY: usize = 120;

/// The text of a run until the client has read it. Parts of the same reply are joined, so it never has more than the replies.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    pieces: VecDeque<Piece>,
    usage: Usage,
}

impl Pieces {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an event of the conversation's own loops.
    fn note(&self, session: &str, event: &AgentEvent) {
        let own = event.loop_id().as_str().strip_prefix(session).is_some_and(|rest| rest.starts_with('.'));
        if !own {
            return;
        }
        let mut state = self.lock();
        match event {
            AgentEvent::MessageUpdate { delta: StreamDelta::Text { text }, .. } => {
                match state.pieces.back_mut() {
                    Some(Piece::Text(last)) => last.push_str(text),
                    _ => state.pieces.push_back(Piece::Text(text.clone())),
                }
            }
            AgentEvent::MessageEnd { message, superseded, .. } => match (text_of(message), superseded) {
                (None, _) => {}
                (Some(_), true) => state.pieces.push_back(Piece::Void),
                (Some(text), false) => state.pieces.push_back(Piece::Reply(text)),
            },
            AgentEvent::ToolExecutionStart { tool_name, args, .. } => {
                let arguments = args.json_text();
                let cut = arguments.floor_char_boundary(MAX_ACTIVITY);
                let more = if cut < arguments.len() { "…" } else { "" };
                let text = format!("{tool_name} {}{more}", arguments.get(..cut).unwrap_or_default());
                state.pieces.push_back(Piece::Activity(text));
            }
            AgentEvent::TurnEnd { usage, .. } => state.usage = state.usage.combine(usage),
            _ => return,
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Returns the tokens of the turns that have ended.
    pub(super) fn usage(&self) -> Usage {
        self.lock().usage
    }
}

/// Returns the text of a reply; `None` for other messages.
fn text_of(message: &MessageRef) -> Option<String> {
    (message.role() == "assistant").then(|| message.text())
}

/// A run. If it is dropped before its end, its client has gone, and the run is aborted.
pub(super) struct Running {
    guard: Guard,
    conversation: Arc<Conversation>,
    pieces: Arc<Pieces>,
    subscription: Option<Subscription>,
    end: watch::Receiver<Option<RunEnd>>,
    after: u64,
    /// When a recorded run began.
    began: Timestamp,
}

/// What is left to do when a request ends, however it ends.
struct Guard {
    service: Service,
    account: Arc<Account>,
    id: SessionId,
    /// The conversation, whose run is aborted.
    conversation: Option<Arc<Conversation>>,
    cleanup: Cleanup,
}

/// What happens to the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cleanup {
    Delete,
    Keep,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(conversation) = self.conversation.take() {
            self.service.inner.shared.metrics.vanished.inc();
            conversation.agent().abort();
        }
        if self.cleanup == Cleanup::Keep {
            return;
        }
        let (service, account, id) = (self.service.clone(), Arc::clone(&self.account), self.id.clone());
        self.service.inner.shared.spawn(async move {
            if let Err(error) = service.delete(&account, &id).await {
                tracing::warn!(session = %id, %error, "a conversation could not be deleted after its answer");
            }
        });
    }
}

/// How a run ended for its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
    /// The agent has finished its answer.
    Complete,
    /// The answer ends early: the model or the run reached a limit.
    Cut,
}

/// Where the answer of a run is kept.
pub(super) struct Seat<'a> {
    pub(super) service: &'a Service,
    pub(super) account: &'a Arc<Account>,
    pub(super) lifetime: Lifetime,
    /// The id of the request, if it has a key. Its conversation is kept, so that the request can be repeated.
    pub(super) request: Option<RequestId>,
}

impl Seat<'_> {
    /// Begins a new conversation with an agent and starts its run. A repeated request gets the recorded run.
    pub(super) async fn begin(&self, agent: &str, ask: Ask) -> Result<Running, ApiError> {
        let request = self.request.as_ref();
        let lifetime = if request.is_some() { Lifetime::Kept } else { self.lifetime };
        if request.is_none() {
            super::super::conversations::check_budget(self.service, self.account)?;
        }
        let (of, created) = self.service.create(self.account, Some(agent), lifetime, request).await?;
        if created == Created::Before {
            return self
                .go_on(&of.id, ask, |conversation| match conversation.events.last() {
                    0 => Ok(()),
                    _ => Err(Repeated::Differs.into()),
                })
                .await;
        }
        // A conversation whose run does not start is of no use to its client, which does not know its id.
        let cleanup = if request.is_some() { Cleanup::Keep } else { Cleanup::Delete };
        let guard = self.guard(&of.id, cleanup);
        super::super::conversations::check_budget(self.service, self.account)?;
        let conversation = self.open(&of.id, &ask.options).await?;
        let kept = if lifetime == Lifetime::Kept { Cleanup::Keep } else { Cleanup::Delete };
        let mut running = self.start(guard, conversation, ask).await?;
        running.guard.cleanup = kept;
        Ok(running)
    }

    /// Continues a stored conversation. A repeated request gets the recorded run.
    pub(super) async fn go_on(
        &self,
        id: &SessionId,
        ask: Ask,
        check: impl FnOnce(&Conversation) -> Result<(), ApiError>,
    ) -> Result<Running, ApiError> {
        // Checked before the conversation of another key is released.
        let conversation = self.service.open(self.account, id).await?;
        if let Some(request) = &self.request
            && let Some(after) = conversation.requests.find(request)?
        {
            return self.recorded(conversation, after).await;
        }
        drop(conversation);
        super::super::conversations::check_budget(self.service, self.account)?;
        // The settings of an earlier request end with the agent that had them.
        self.service.inner.registry.release(id).await;
        let conversation = self.open(id, &ask.options).await?;
        check(&conversation)?;
        self.start(self.guard(id, Cleanup::Keep), conversation, ask).await
    }

    /// Returns the run that began after an event of a stored conversation, and the name of its agent. `None` if there is no such
    /// run.
    pub(super) async fn find_run(&self, id: &SessionId, after: u64) -> Result<Option<Running>, ApiError> {
        let conversation = self.service.open(self.account, id).await?;
        let session = self.service.session(self.account, id).await?;
        let begins = numbered(&session).any(|(before, number, _)| before == after && number == after + 1);
        if begins { self.recorded(conversation, after).await.map(Some) } else { Ok(None) }
    }

    /// Returns a run that has ended, or waits, as it was recorded.
    async fn recorded(&self, conversation: Arc<Conversation>, after: u64) -> Result<Running, ApiError> {
        let id = conversation.of.id.clone();
        if conversation.is_running() {
            return Err(ApiError::from(Repeated::InProgress).in_conversation(id.as_str()));
        }
        let session = self.service.session(self.account, &id).await?;
        let pieces = Arc::new(Pieces::default());
        let mut end = None;
        for (_, _, event) in numbered(&session).filter(|(_, number, _)| *number > after) {
            pieces.note(id.as_str(), event);
            end = RunEnd::of(event);
            if end.is_some() {
                break;
            }
        }
        let interrupted = || RunEnd::Failed(RunFailure::Interrupted { reason: String::new() });
        let end = watch::channel(Some(end.unwrap_or_else(interrupted))).1;
        let guard = self.guard(&id, Cleanup::Keep);
        let starts = numbered(&session).filter(|(_, number, _)| *number > after);
        let began = starts.into_iter().find_map(|(_, _, event)| match event {
            AgentEvent::AgentStart(start) => Some(start.timestamp),
            _ => None,
        });
        let began = began.unwrap_or_default();
        Ok(Running { guard, conversation, pieces, subscription: None, end, after, began })
    }

    fn guard(&self, id: &SessionId, cleanup: Cleanup) -> Guard {
        let (service, account) = (self.service.clone(), Arc::clone(self.account));
        Guard { service, account, id: id.clone(), conversation: None, cleanup }
    }

    async fn open(&self, id: &SessionId, options: &Options) -> Result<Arc<Conversation>, OpenError> {
        let (of, factory) = self.service.resolve(self.account, id)?;
        let factory = WithOptions { factory: &*factory, options };
        self.service.inner.registry.open(&of, self.account, &factory, Wait::No).await
    }

    async fn start(
        &self,
        guard: Guard,
        conversation: Arc<Conversation>,
        ask: Ask,
    ) -> Result<Running, ApiError> {
        let agent = conversation.agent();
        if !ask.history.is_empty() {
            agent.replace_messages(ask.history).map_err(|error| ApiError::bad_request(error.to_string()))?;
        }
        let Some(mut prompt) = ask.prompt else { return Err(ApiError::bad_request("there is no prompt")) };
        if let Some(request) = &self.request {
            request.mark(&mut prompt);
        }
        let pieces = Arc::new(Pieces::default());
        let (noted, session) = (Arc::clone(&pieces), conversation.of.id.clone());
        let subscription = agent.subscribe(move |event| noted.note(session.as_str(), event));
        let mut running = Running {
            conversation: Arc::clone(&conversation),
            pieces,
            subscription: Some(subscription),
            end: watch::channel(None).1,
            after: 0,
            began: Timestamp::default(),
            guard,
        };
        // A client that repeats its request wants the answer later.
        let guarded = self.request.is_none().then(|| Arc::clone(&conversation));
        // From here on the run can have begun. Another run of the conversation is not this request's to abort.
        let started = conversation
            .start(self.request.as_ref(), |agent| {
                let started = agent.prompt(prompt);
                running.guard.conversation = guarded.filter(|_| started.is_ok());
                started
            })
            .await;
        let started = started?;
        (running.end, running.after) = (started.end, started.after);
        Ok(running)
    }
}

impl Running {
    pub(super) fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    pub(super) fn usage(&self) -> Usage {
        self.pieces.usage()
    }

    /// Returns when a recorded run began.
    pub(super) fn start_time(&self) -> Timestamp {
        self.began
    }

    /// Returns the number of the last event before the run.
    pub(super) fn after(&self) -> u64 {
        self.after
    }

    /// Returns the next piece; `None` when the run has ended and all pieces were returned.
    pub(super) async fn next(&mut self) -> Option<Piece> {
        loop {
            let has_ended = self.end.borrow().is_some();
            if let Some(piece) = self.pieces.lock().pieces.pop_front() {
                return Some(piece);
            }
            if has_ended {
                return None;
            }
            tokio::select! {
                () = self.pieces.changed.notified() => {}
                changed = self.end.changed() => if changed.is_err() { return None },
            }
        }
    }

    /// Returns how the run ended, and cleans up. Call it after the last piece.
    pub(super) async fn finish(mut self) -> Result<Finish, ApiError> {
        let end = match self.end.wait_for(Option::is_some).await {
            Ok(end) => end.clone(),
            Err(_) => None,
        };
        self.guard.conversation = None;
        let id = self.conversation.of.id.clone();
        let end = end.ok_or_else(|| ApiError::internal(&"a run ended without an end"))?;
        let result = match &end {
            RunEnd::Completed(reply) => {
                let is_cut = reply.message().is_some_and(|reply| reply.stop_reason == StopReason::Length);
                Ok(if is_cut { Finish::Cut } else { Finish::Complete })
            }
            RunEnd::Stopped(StopCause::Limit { .. }) => Ok(Finish::Cut),
            end => Err(ApiError::of_end(end, id.as_str())),
        };
        if matches!(end, RunEnd::Suspended(_)) {
            self.guard.cleanup = Cleanup::Keep;
        }
        result
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(subscription) = self.subscription.take() {
            subscription.unsubscribe();
        }
    }
}

/// Separates the texts of several replies of a run.
pub(super) const BETWEEN_REPLIES: &str = "\n\n";
