//! The agents of a process that serves several sessions at the same time, for an editor or another agent.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use looptree::budget::AtLimit;
use looptree::compat::SeedVerbs as _;
use looptree::identity::SessionId;
use looptree::prelude::*;
use looptree::tools::bash::CommandSlots;
use looptree::{CancellationToken, Message, Question};
use tokio::sync::OwnedMutexGuard;

use crate::approval::Approver;
use crate::args::Flags;
use crate::choose;
use crate::screen::Screen;
use crate::servers::{Connect, EditorServers};
use crate::settings::{Broken, Consent, Settings, directory, serving_consent};
use crate::setup::{Setup, SetupOptions, sessions_of};
use crate::work::{Meter, Watched};

/// The time that a run has to end by itself when the process ends.
const GRACE: Duration = Duration::from_secs(3);

/// The agents of a process, by their sessions. A front end keeps a `T` for each.
pub(crate) struct Host<T> {
    flags: Flags,
    consent: Consent,
    /// Where messages for the user of the process go: the standard error.
    pub(crate) screen: Screen,
    open: Mutex<BTreeMap<String, Arc<Served<T>>>>,
}

/// One agent and what its front end keeps about it.
pub(crate) struct Served<T> {
    pub(crate) setup: Setup,
    pub(crate) state: T,
    /// Held by the run that works.
    busy: Arc<tokio::sync::Mutex<Phase>>,
    /// Ends the run that works.
    stop: Mutex<CancellationToken>,
    /// Tokens and cost since the session was opened.
    meter: Mutex<Meter>,
    /// When the last run began.
    used: Mutex<Instant>,
}

/// Whether runs can begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    /// The session is being closed. Who still has it must open it again.
    Closed,
}

/// The place of one run; the next one can begin when it is dropped.
pub(crate) struct Turn {
    pub(crate) stop: CancellationToken,
    _busy: OwnedMutexGuard<Phase>,
}

/// What the caller of a run sees and decides.
pub(crate) trait Front: Send {
    /// Receives the events of the run in their order.
    fn event(&mut self, event: &AgentEvent);
    /// Answers a question; `None` leaves it in the session, and the run waits.
    fn ask(&mut self, question: &Question) -> impl Future<Output = Option<Answer>> + Send;
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Host<T> {
    pub(crate) fn new(flags: Flags, screen: Screen) -> Result<Self> {
        let consent = serving_consent(&flags)?;
        Ok(Self { flags, consent, screen, open: Mutex::default() })
    }

    /// Reads the settings for a directory. A broken file of a project is a warning.
    fn settings(&self, root: &Path) -> Result<Settings> {
        let settings = Settings::load(&self.flags, root, &self.consent, Broken::SkipsProject)?;
        for warning in &settings.warnings {
            self.screen.error_line(format!("warning: {warning}"));
        }
        Ok(settings)
    }

    /// Returns the directory in which the process was started.
    pub(crate) fn directory(&self) -> Result<PathBuf> {
        directory(&self.flags)
    }

    /// Opens the store with the sessions of a directory.
    pub(crate) fn store(&self, root: &Path) -> Result<JsonStore> {
        Ok(JsonStore::open(sessions_of(&self.settings(root)?, root)?)?)
    }

    /// Builds an agent for a directory; it continues `session`, if there is one.
    pub(crate) async fn open(
        &self,
        root: &Path,
        session: Option<String>,
        servers: EditorServers,
        state: T,
    ) -> Result<Arc<Served<T>>> {
        let settings = self.settings(root)?;
        let chosen = choose::choose(&settings).await?.into_model()?;
        let options = SetupOptions {
            settings: &settings,
            root,
            approver: Approver::Present,
            at_limit: AtLimit::Stop,
            session,
            record: None,
            task: None,
            screen: &self.screen,
            instructions: None,
            slots: CommandSlots::of_process(),
        };
        let setup = Setup::make(chosen, Connect::Own(servers), options).await?;
        let id = setup.agent.session_id();
        for note in setup.notes.iter().chain(&setup.servers.failures()) {
            self.screen.line(format!("session {id}: {note}"));
        }
        let served = Arc::new(Served {
            setup,
            state,
            busy: Arc::default(),
            stop: Mutex::default(),
            meter: Mutex::default(),
            used: Mutex::new(Instant::now()),
        });
        locked(&self.open).insert(id.as_str().to_owned(), Arc::clone(&served));
        Ok(served)
    }

    /// Returns the agent of a session that is open.
    pub(crate) fn get(&self, session: &str) -> Option<Arc<Served<T>>> {
        locked(&self.open).get(session).cloned()
    }

    /// Returns the ids of the open sessions.
    pub(crate) fn ids(&self) -> Vec<SessionId> {
        locked(&self.open).keys().map(|id| SessionId::from(id.as_str())).collect()
    }

    /// Ends the run of a session and closes it. Returns whether it was open.
    pub(crate) async fn close(&self, session: &str) -> Result<bool> {
        let Some(served) = locked(&self.open).remove(session) else { return Ok(false) };
        served.close().await?;
        Ok(true)
    }

    /// Closes the sessions that have been idle for the longest time, until at most `most` are open or all of them work.
    pub(crate) async fn close_idle(&self, most: usize) {
        loop {
            let idle = {
                let open = locked(&self.open);
                if open.len() <= most {
                    return;
                }
                let idle = open.iter().filter(|(_, served)| served.busy.try_lock().is_ok());
                let oldest = idle.min_by_key(|(_, served)| *locked(&served.used));
                // A run that began meanwhile keeps its session.
                oldest.filter(|(_, served)| served.shut()).map(|(id, _)| id.clone())
            };
            let Some(id) = idle else { return };
            if let Err(error) = self.close(&id).await {
                self.screen.error_line(format!("session {id}: {}", crate::text::chain(&error)));
            }
        }
    }

    /// Ends all runs and closes all sessions.
    pub(crate) async fn close_all(&self) {
        let all = std::mem::take(&mut *locked(&self.open));
        for served in all.values() {
            served.cancel();
        }
        // At the same time: a server that does not end by itself takes some seconds.
        let closing = all.iter().map(|(id, served)| async move {
            if let Err(error) = served.close().await {
                self.screen.error_line(format!("session {id}: {}", crate::text::chain(&error)));
            }
        });
        futures_util::future::join_all(closing).await;
    }
}

impl<T> Served<T> {
    /// Takes the place of the run; `None` while another one works, and after the session was closed.
    pub(crate) fn begin(&self) -> Option<Turn> {
        let busy = Arc::clone(&self.busy).try_lock_owned().ok().filter(|phase| **phase == Phase::Open)?;
        let stop = CancellationToken::new();
        *locked(&self.stop) = stop.clone();
        *locked(&self.used) = Instant::now();
        Some(Turn { stop, _busy: busy })
    }

    /// Lets no further run begin. Returns whether none works.
    fn shut(&self) -> bool {
        self.busy.try_lock().is_ok_and(|mut phase| {
            *phase = Phase::Closed;
            true
        })
    }

    /// Ends the run that works, if there is one.
    pub(crate) fn cancel(&self) {
        locked(&self.stop).cancel();
    }

    /// Tokens and cost since the session was opened.
    pub(crate) fn meter(&self) -> Meter {
        locked(&self.meter).clone()
    }

    async fn close(&self) -> Result<()> {
        self.cancel();
        let agent = self.setup.agent.handle();
        // A question that waits stays in the session.
        if agent.is_streaming() {
            agent.abort();
        }
        // A run that does not end in time is journaled as far as it came.
        let _ = tokio::time::timeout(GRACE, agent.wait_for_idle()).await;
        if let Ok(mut phase) = tokio::time::timeout(GRACE, self.busy.lock()).await {
            *phase = Phase::Closed;
        }
        let saved = self.setup.recorder.close().await.context("the session could not be saved");
        self.setup.servers.close().await;
        saved?;
        Ok(())
    }

    /// Continues the open run of the session, then works on a prompt. The questions go to `front`.
    pub(crate) async fn work(
        &self,
        prompt: Option<Message>,
        turn: &Turn,
        front: &mut impl Front,
    ) -> Result<Watched> {
        let agent = self.setup.agent.handle();
        let mut last = None;
        if agent.is_suspended() {
            let watched = self.follow(agent.resume()?, turn, front).await?;
            if turn.stop.is_cancelled() {
                return Ok(watched);
            }
            if !watched.questions.is_empty() {
                if prompt.is_some() {
                    bail!(
                        "the session waits for the answer to a question, so the message was not sent; answer it first"
                    );
                }
                return Ok(watched);
            }
            last = Some(watched);
        }
        match prompt {
            Some(prompt) => self.follow(agent.prompt(prompt)?, turn, front).await,
            None => last.context("the session waits for no answer and has no open run"),
        }
    }

    /// Answers the question that waits, and continues the run.
    pub(crate) async fn answer(
        &self,
        question: &Question,
        answer: Answer,
        turn: &Turn,
        front: &mut impl Front,
    ) -> Result<Watched> {
        let events = self.setup.agent.answer(question.id.clone(), answer)?;
        self.follow(events, turn, front).await
    }

    /// Follows a run until it ends or waits.
    async fn follow(
        &self,
        mut events: looptree::EventReceiver,
        turn: &Turn,
        front: &mut impl Front,
    ) -> Result<Watched> {
        let agent = self.setup.agent.handle();
        loop {
            let watched = self.stream(events, turn, front).await;
            let Some(question) = watched.questions.first() else { return Ok(watched) };
            let answer = tokio::select! {
                biased;
                () = turn.stop.cancelled() => Some(Answer::deny("The user interrupted the run.")),
                answer = front.ask(question) => answer,
            };
            let Some(answer) = answer else { return Ok(watched) };
            events = agent.answer(question.id.clone(), answer)?;
            if turn.stop.is_cancelled() {
                agent.abort();
            }
        }
    }

    async fn stream(
        &self,
        mut events: looptree::EventReceiver,
        turn: &Turn,
        front: &mut impl Front,
    ) -> Watched {
        let agent = self.setup.agent.handle();
        let model = agent.config().model;
        let mut watched = Watched::default();
        loop {
            let event = tokio::select! {
                event = events.recv_numbered() => event,
                () = turn.stop.cancelled(), if !watched.interrupted => {
                    watched.interrupted = true;
                    agent.abort();
                    continue;
                }
            };
            let Some(event) = event else { return watched };
            if event.depth > 0 {
                continue;
            }
            locked(&self.meter).note(&event.event, &model);
            front.event(&event.event);
            watched.note(event.into_event());
        }
    }
}

/// Completes when a signal ends the process.
pub(crate) async fn told_to_end() {
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = crate::work::told_to_end() => {}
    }
}

#[cfg(test)]
pub(crate) mod tests;
