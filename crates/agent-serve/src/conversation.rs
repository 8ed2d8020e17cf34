//! A conversation in memory: its agent, its run, and the events for its readers.

pub(crate) mod events;
pub(crate) mod replay;
pub(crate) mod requests;

use std::any::Any;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_core::{
    AgentError, AgentEvent, AgentHandle, BasicAgent, Budget, CancellationToken, Environment, EventReceiver,
    RunEnd, RunFailure,
};
use agent_session::{SessionError, SessionRecorder, SessionStore};
use tokio::sync::{oneshot, watch};

use crate::agents::ConversationRef;
use crate::ledger::{Ledger, Mark};
use crate::limits::{Limits, VanishedClient};
use crate::metrics::Metrics;
use events::Ring;
use requests::{Repeated, RequestId, Requests};

/// Whether a run can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Running,
    /// The last event of the run was delivered, and the agent is about to be idle.
    Ending,
    /// The conversation is being released. A request that still has it opens it again.
    Closed,
}

/// Why a run did not start.
#[derive(Debug)]
pub(crate) enum StartError {
    /// The conversation was released meanwhile.
    Closed,
    /// A run is open.
    Busy,
    /// The run was not journaled.
    NotJournaled(String),
    /// It was not journaled in time.
    TooSlow,
    /// What it would spend cannot be recorded.
    NoLedger(SessionError),
    /// Its request has been made before.
    Repeated(Repeated),
    Agent(AgentError),
}

/// A run that has been journaled.
#[derive(Debug)]
pub(crate) struct Started {
    /// The number of the last event before the run.
    pub(crate) after: u64,
    /// The end of the run.
    pub(crate) end: watch::Receiver<Option<RunEnd>>,
}

/// What all conversations of a service share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn SessionStore>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) limits: Limits,
    pub(crate) metrics: Metrics,
    pub(crate) environment: Arc<dyn Environment>,
}

impl Shared {
    /// Runs a task. Without a runtime the task is dropped, and the service cannot work.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Err(error) = self.environment.spawn(Box::pin(task)) {
            tracing::error!(%error, "a task of the service could not be started");
        }
    }
}

/// The parts of a conversation that was made or loaded.
pub(crate) struct Parts {
    pub(crate) of: ConversationRef,
    pub(crate) agent: BasicAgent,
    pub(crate) recorder: SessionRecorder,
    pub(crate) ring: Ring,
    pub(crate) requests: Requests,
    pub(crate) budget: Budget,
    /// What was counted of the conversation before.
    pub(crate) counted: Mark,
    pub(crate) left: CancellationToken,
    #[cfg(feature = "files")]
    pub(crate) workspace: Option<agent_tools::Workspace>,
    pub(crate) companion: Option<Box<dyn Any + Send + Sync>>,
    /// Freed when the conversation is dropped.
    pub(crate) place: Box<dyn Any + Send + Sync>,
}

/// A conversation in memory.
pub(crate) struct Conversation {
    pub(crate) of: ConversationRef,
    pub(crate) events: Ring,
    pub(crate) requests: Requests,
    #[cfg(feature = "files")]
    pub(crate) workspace: Option<agent_tools::Workspace>,
    shared: Arc<Shared>,
    agent: BasicAgent,
    recorder: SessionRecorder,
    budget: Budget,
    /// The spending that the ledger has, or has as the mark of the open run.
    counted: Mutex<Mark>,
    phase: watch::Sender<Phase>,
    readers: AtomicUsize,
    /// Held while a run starts, so that each run has its mark in the ledger.
    starting: tokio::sync::Mutex<()>,
    /// Counts the readers that have come, so that one who comes back is noticed.
    visits: AtomicU64,
    /// When the conversation was used last, in milliseconds of the monotonic clock.
    used: AtomicU64,
    /// Drops the tasks of its runs.
    left: CancellationToken,
    _companion: Option<Box<dyn Any + Send + Sync>>,
    _place: Box<dyn Any + Send + Sync>,
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation")
            .field("of", &self.of)
            .field("phase", &*self.phase.borrow())
            .finish_non_exhaustive()
    }
}

impl Conversation {
    pub(crate) fn new(shared: Arc<Shared>, parts: Parts) -> Self {
        shared.metrics.open_conversations.inc();
        Self {
            used: AtomicU64::new(shared.environment.monotonic_ms()),
            shared,
            of: parts.of,
            agent: parts.agent,
            recorder: parts.recorder,
            budget: parts.budget,
            counted: Mutex::new(parts.counted),
            events: parts.ring,
            requests: parts.requests,
            phase: watch::channel(Phase::Idle).0,
            readers: AtomicUsize::new(0),
            starting: tokio::sync::Mutex::default(),
            visits: AtomicU64::new(0),
            left: parts.left,
            #[cfg(feature = "files")]
            workspace: parts.workspace,
            _companion: parts.companion,
            _place: parts.place,
        }
    }

    /// Returns the agent. Runs are started with [`start`](Self::start).
    pub(crate) fn agent(&self) -> AgentHandle {
        self.agent.handle()
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Running | Phase::Ending)
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.phase.borrow() == Phase::Closed
    }

    /// Returns how long the conversation has been idle; `None` while it works or is read.
    pub(crate) fn idle_for(&self) -> Option<Duration> {
        let is_used = self.readers.load(Ordering::Acquire) > 0 || self.starting.try_lock().is_err();
        let is_idle = *self.phase.borrow() == Phase::Idle && !is_used;
        let now = self.shared.environment.monotonic_ms();
        is_idle.then(|| Duration::from_millis(now.saturating_sub(self.used.load(Ordering::Relaxed))))
    }

    pub(crate) fn touch(&self) {
        self.used.store(self.shared.environment.monotonic_ms(), Ordering::Relaxed);
    }

    /// Starts a run and waits until its first event was journaled. A request with an id starts one run.
    pub(crate) async fn start(
        self: &Arc<Self>,
        request: Option<&RequestId>,
        start: impl FnOnce(&AgentHandle) -> Result<EventReceiver, AgentError> + Send,
    ) -> Result<Started, StartError> {
        self.touch();
        let claim = request.map(|request| self.requests.claim(request)).transpose();
        let mut claim = claim.map_err(StartError::Repeated)?;
        let starting = self.starting.lock().await;
        let mut phase = self.phase.subscribe();
        // The sender is part of `self`, so waiting does not fail.
        let _ = phase.wait_for(|phase| *phase != Phase::Ending).await;
        if *phase.borrow() == Phase::Running {
            return Err(StartError::Busy);
        }
        let mark = self.counted().clone();
        let marked = self.shared.ledger.begin(&self.of.key, &self.of.id, mark).await;
        marked.map_err(StartError::NoLedger)?;
        let mut started = Err(StartError::Closed);
        let mut after = 0;
        self.phase.send_if_modified(|phase| {
            started = match *phase {
                Phase::Closed => Err(StartError::Closed),
                Phase::Running | Phase::Ending => Err(StartError::Busy),
                Phase::Idle => {
                    after = self.events.last();
                    start(&self.agent).map_err(StartError::Agent)
                }
            };
            if started.is_ok() {
                *phase = Phase::Running;
            }
            started.is_ok()
        });
        let receiver = started?;
        drop(starting);
        let (journaled, first) = oneshot::channel();
        let (ended, end) = watch::channel(None);
        let this = Arc::clone(self);
        self.shared.spawn(async move { this.follow(receiver, journaled, ended).await });
        let first = tokio::time::timeout(self.shared.limits.start_time, first).await;
        if let Some(claim) = &mut claim {
            match first {
                Ok(Ok(Ok(()))) => claim.began(after),
                Ok(_) => {}
                Err(_) => claim.unknown(),
            }
        }
        match first {
            Ok(Ok(Ok(()))) => Ok(Started { after, end }),
            Ok(Ok(Err(reason))) => Err(StartError::NotJournaled(reason)),
            Ok(Err(_)) => Err(StartError::NotJournaled("its events ended".to_owned())),
            Err(_) => Err(StartError::TooSlow),
        }
    }

    /// Passes the events of a run to the readers, and notes its end.
    async fn follow(
        self: Arc<Self>,
        mut receiver: EventReceiver,
        journaled: oneshot::Sender<Result<(), String>>,
        ended: watch::Sender<Option<RunEnd>>,
    ) {
        let metrics = &self.shared.metrics;
        metrics.open_runs.inc();
        let mut journaled = Some(journaled);
        let mut own_end = None;
        while let Some(event) = receiver.recv_numbered().await {
            if let Some(journaled) = journaled.take() {
                let _ = journaled.send(refused(&event.event));
            }
            metrics.event(&event);
            if self.left.is_cancelled() {
                // The run is left as it was journaled, and these events are not.
                continue;
            }
            if event.depth == 0
                && let Some(end) = RunEnd::of(&event.event)
            {
                own_end = Some(end);
                // Before the client learns that the run is over.
                self.settle(Some(&event.event)).await;
                // Before the event, so that a client that prompts again after it waits for the agent.
                self.phase.send_replace(Phase::Ending);
            }
            self.events.push(&event);
        }
        self.phase.send_if_modified(|phase| {
            let runs = *phase == Phase::Running;
            if runs {
                *phase = Phase::Ending;
            }
            runs
        });
        self.agent.wait_for_idle().await;
        self.settle(None).await;
        metrics.open_runs.dec();
        let end = match own_end {
            Some(end) => end,
            None => receiver.end().await,
        };
        metrics.ended(&end);
        if matches!(end, RunEnd::Failed(RunFailure::Interrupted { .. })) && !self.left.is_cancelled() {
            // Its closing events were not journaled.
            let behind = Arc::clone(&self);
            let _ = tokio::task::spawn_blocking(move || behind.resync()).await;
        }
        self.touch();
        self.phase.send_if_modified(|phase| {
            let ends = *phase == Phase::Ending;
            if ends {
                *phase = Phase::Idle;
            }
            ends
        });
        ended.send_replace(Some(end));
    }

    fn counted(&self) -> MutexGuard<'_, Mark> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records what the conversation has spent since the last time. `end` is the last event of a run.
    async fn settle(&self, end: Option<&AgentEvent>) {
        let spent = self.budget.spent().without_time();
        // Runs of the key that work at the same time are counted once, so its account has the time.
        let accounts = self.budget.snapshot(self.shared.environment.now()).accounts;
        let time_ms = accounts.last().map_or(0, |key| key.spent.time_ms);
        let more = {
            let mut counted = self.counted();
            let more = spent.minus(&counted.account);
            counted.account = spent;
            if let Some(end) = end {
                let of_loop = match end {
                    AgentEvent::AgentEnd(end) => end.spent.as_deref().copied().unwrap_or_default(),
                    end if counted.last_loop.as_ref() == Some(end.loop_id()) => {
                        counted.loop_spent.plus(&more)
                    }
                    _ => more,
                };
                (counted.last_loop, counted.loop_spent) = (Some(end.loop_id().clone()), of_loop);
            }
            more
        };
        if let Err(error) = self.shared.ledger.settle(&self.of.key, &self.of.id, more, time_ms).await {
            tracing::error!(session = %self.of.id, %error, "what a run has spent could not be written yet");
        }
    }

    /// Aborts the run, also one that waits for an answer, and waits until it has ended.
    pub(crate) async fn abort(self: &Arc<Self>) {
        self.touch();
        let this = Arc::clone(self);
        let (done, ended) = oneshot::channel::<()>();
        // In a task, so that it is completed if the client goes away.
        self.shared.spawn(async move {
            let mut phase = this.phase.subscribe();
            // A run that has just suspended is aborted as such.
            let _ = phase.wait_for(|phase| *phase != Phase::Ending).await;
            this.agent.abort();
            this.agent.wait_for_idle().await;
            this.wait_for_end().await;
            // The last events of a run that waited have no receiver; readers get them from the session.
            let behind = Arc::clone(&this);
            let _ = tokio::task::spawn_blocking(move || behind.resync()).await;
            drop(done);
        });
        let _ = ended.await;
    }

    /// Compares the buffer with the session, which can have events that were not delivered.
    fn resync(&self) {
        match self.recorder.read_session(self.of.id.as_str()) {
            Ok(Some(session)) => {
                let (last, current) = replay::count(&session);
                if last != self.events.last() {
                    self.events.resync(last, current);
                }
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(session = %self.of.id, %error, "the session could not be read back"),
        }
    }

    /// Waits until no run is open.
    pub(crate) async fn wait_for_end(&self) {
        let mut phase = self.phase.subscribe();
        let _ = phase.wait_for(|phase| matches!(phase, Phase::Idle | Phase::Closed)).await;
    }

    /// Lets no further run start. Returns whether none is open.
    pub(crate) fn shut(&self) -> bool {
        let mut is_shut = false;
        self.phase.send_if_modified(|phase| {
            is_shut = matches!(phase, Phase::Idle | Phase::Closed);
            if is_shut {
                *phase = Phase::Closed;
            }
            is_shut
        });
        is_shut
    }

    /// Saves and closes the session. A run that is still open is left as it was journaled, and can be resumed.
    pub(crate) async fn close(&self) {
        self.left.cancel();
        self.phase.send_replace(Phase::Closed);
        self.agent.wait_for_idle().await;
        self.settle(None).await;
        self.events.close();
        if let Err(error) = self.recorder.close().await {
            tracing::error!(session = %self.of.id, %error, "the session could not be saved; its journal has it");
        }
    }

    /// Adds a reader of the events; `None` if there are too many.
    pub(crate) fn reader(self: &Arc<Self>) -> Option<Reader> {
        let most = self.shared.limits.readers;
        let add = |readers: usize| (readers < most).then_some(readers + 1);
        self.readers.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).ok()?;
        self.visits.fetch_add(1, Ordering::AcqRel);
        self.shared.metrics.readers.inc();
        Some(Reader { conversation: Arc::clone(self) })
    }

    fn reader_left(self: &Arc<Self>) {
        self.shared.metrics.readers.dec();
        self.touch();
        let was_last = self.readers.fetch_sub(1, Ordering::AcqRel) == 1;
        let VanishedClient::Stop { after } = self.shared.limits.vanished else { return };
        if !was_last || !self.is_running() {
            return;
        }
        let (this, visits) = (Arc::clone(self), self.visits.load(Ordering::Acquire));
        let sleep = self.shared.environment.sleep(after);
        self.shared.spawn(async move {
            sleep.await;
            if this.visits.load(Ordering::Acquire) == visits && this.is_running() {
                this.shared.metrics.vanished.inc();
                this.agent.abort();
            }
        });
    }
}

/// Returns why a run whose first event is this one was not recorded.
fn refused(event: &AgentEvent) -> Result<(), String> {
    match event {
        AgentEvent::AgentEnd(end) => match &end.ended {
            agent_core::Ended::Interrupted { reason } => Err(reason.clone()),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.shared.metrics.open_conversations.dec();
        self.left.cancel();
    }
}

/// A reader of the events of a conversation.
#[derive(Debug)]
pub(crate) struct Reader {
    conversation: Arc<Conversation>,
}

impl Reader {
    pub(crate) fn conversation(&self) -> &Arc<Conversation> {
        &self.conversation
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.conversation.reader_left();
    }
}
