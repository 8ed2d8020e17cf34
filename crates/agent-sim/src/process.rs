//! One process of the simulated agent: it continues what the journal has, and talks to the user until the script ends.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use agent_core::compat::SeedSetters as _;
use agent_core::event::NumberedEvent;
use agent_core::journal::Journal;
use agent_core::{
    AgentError, AgentHandle, AgentTool, Answer, BasicAgent, BoxFuture, EventReceiver, ExecutionLimits,
};
use agent_session::cassette::CassetteRecorder;
use agent_session::{RestoreSession as _, Session, SessionError, SessionRecorder, SessionStore};

use crate::journal::SimJournal;
use crate::model::SimModel;
use crate::panics;
use crate::store::SimStore;
use crate::tools::{Execute, SimTool};
use crate::world::World;

/// A run in which nothing happens for this long is aborted, and after the last prompt work in the background has this long.
const STUCK: Duration = Duration::from_secs(24 * 3_600);

/// The id of the simulated agent and of its session.
pub(crate) const ID: &str = "sim";

/// How often and how long a process waits for a session that another writer has.
const OPENS: usize = 10;
const BETWEEN_OPENS: Duration = Duration::from_secs(60);

type Perform = dyn Fn(World, AgentHandle, String) -> BoxFuture<'static, Result<(), AgentError>> + Send + Sync;

type OpenStore = dyn Fn(&World) -> Arc<dyn SessionStore> + Send + Sync;

type Attach = dyn Fn(&World, &BasicAgent) + Send + Sync;

/// What all processes of a simulation have in common.
#[derive(Clone, Copy)]
pub(crate) struct Program<'a> {
    pub(crate) build: &'a (dyn Fn(&World) -> BasicAgent + Send + Sync),
    pub(crate) execute: &'a (dyn Fn(&str) -> Execute + Send + Sync),
    /// Opens the session store, if the simulation has one.
    pub(crate) store: Option<&'a OpenStore>,
    /// Is called with the agent after it was restored.
    pub(crate) attach: Option<&'a Attach>,
    /// Performs a prompt; `None` for a run of the agent.
    pub(crate) perform: Option<&'a Perform>,
}

/// What a process leaves behind.
#[derive(Debug, Default)]
pub(crate) struct Process {
    /// What the user's receivers were given.
    pub(crate) delivered: Vec<Vec<NumberedEvent>>,
    pub(crate) limits: Option<ExecutionLimits>,
    /// The most retries that the policy or a route allows.
    pub(crate) max_retries: u32,
    /// The texts that are queued at the end.
    pub(crate) queued: Vec<String>,
    /// Why the process could not continue.
    pub(crate) problem: Option<String>,
    /// Whether the process was killed.
    pub(crate) killed: bool,
    /// Whether the process ended because a call of the store had failed.
    pub(crate) store_failed: bool,
    /// Whether another process has taken over its session.
    pub(crate) replaced: bool,
}

impl Process {
    /// Returns whether another process continues.
    pub(crate) fn continues(&self) -> bool {
        (self.killed || self.store_failed) && self.problem.is_none()
    }

    /// Returns whether the last stream of the user ends before its last event.
    pub(crate) fn cuts_off(&self) -> bool {
        self.killed || self.store_failed
    }
}

/// Why the work of a process ended.
enum End {
    Done,
    /// Another writer has the session.
    Refused,
    Failed(String),
}

impl From<AgentError> for End {
    fn from(error: AgentError) -> Self {
        Self::Failed(error_text(&error))
    }
}

impl Program<'_> {
    /// Runs a process to its end or until it is killed, and those that take over its session while it is stopped.
    pub(crate) fn run(self, world: &World, recorder: Option<&CassetteRecorder>) -> Vec<Process> {
        let (mut process, mut others) = (Process::default(), Vec::new());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                process.problem =
                    Some(format!("the runtime of the simulation could not be started: {error}"));
                return vec![process];
            }
        };
        let noted = panics::quietly(|| {
            runtime.block_on(async {
                world.begin();
                let ended = {
                    let mut work = pin!(caught(self.work(world, recorder, &mut process)));
                    loop {
                        tokio::select! {
                            biased;
                            () = world.killed() => break None,
                            () = world.stopped() => {
                                others.append(&mut self.take_over(world));
                                world.proceed();
                            }
                            ended = &mut work => break Some(ended),
                        }
                    }
                };
                process.replaced = world.is_replaced();
                match ended {
                    None => process.killed = true,
                    Some(End::Done) => {}
                    Some(End::Refused) if world.is_taking_over() => {}
                    Some(End::Refused) => {
                        process.problem = Some("another writer keeps the session".to_owned())
                    }
                    Some(End::Failed(error)) => process.problem = Some(error),
                }
                if process.replaced {
                    // The program has the error that it has lost the session.
                    process.problem = None;
                    process.store_failed = false;
                }
                world.end();
            });
            // Everything of the process that still runs is dropped here.
            drop(runtime);
        });
        world.panicked(noted);
        if process.replaced {
            others.insert(0, process);
        } else {
            others.push(process);
        }
        others
    }

    /// Runs the processes that take over the session of one that is stopped. They need a thread, because this one has a runtime.
    fn take_over(self, world: &World) -> Vec<Process> {
        let run = || {
            let mut processes = Vec::new();
            loop {
                processes.append(&mut self.run(&world.next(), None));
                if !processes.last().is_some_and(Process::continues) {
                    return processes;
                }
            }
        };
        std::thread::scope(|scope| scope.spawn(run).join().unwrap_or_default())
    }

    fn agent(
        self,
        world: &World,
        recorder: Option<&CassetteRecorder>,
        process: &mut Process,
    ) -> Result<BasicAgent, String> {
        let mut agent = (self.build)(world);
        let wrap = |inner: Arc<dyn AgentTool>| -> Arc<dyn AgentTool> {
            let execute = (self.execute)(inner.name());
            Arc::new(SimTool { inner, world: world.clone(), execute })
        };
        agent.set_tools(agent.state().tools.into_iter().map(wrap).collect());
        agent.set_config(|config| {
            config.services.provider = Arc::new(SimModel::new(world));
            config.services.environment = world.environment();
            config.services.journal = Some(Arc::new(SimJournal { world: world.clone(), recorder: None }));
            config.routes.iter_mut().for_each(|route| route.provider = None);
            process.limits.clone_from(&config.policy.limits);
            let of_routes = config.routes.iter().filter_map(|route| route.max_retries).max();
            process.max_retries = config.policy.retry.max_retries.max(of_routes.unwrap_or_default());
        });
        let mut snapshot = agent.snapshot();
        snapshot.agent_id = ID.into();
        snapshot.session_id = ID.into();
        snapshot.recorded = false;
        if self.store.is_none() {
            world.state().disk.restore(&mut snapshot).map_err(|error| error_text(&error))?;
        }
        let agent = agent.restore(snapshot).map_err(|error| error_text(&error))?;
        Ok(match recorder {
            Some(recorder) => recorder.attach(agent),
            None => agent,
        })
    }

    /// Restores the agent from its session, or begins one, and compares the store with what it acknowledged.
    async fn restored(
        self,
        world: &World,
        recorder: Option<&CassetteRecorder>,
        process: &mut Process,
        store: Arc<dyn SessionStore>,
    ) -> Result<(BasicAgent, SessionRecorder), End> {
        let faulty = SimStore::new(Arc::clone(&store), world);
        for _ in 0..OPENS {
            let agent = self.agent(world, recorder, process).map_err(End::Failed)?;
            let restored = agent.restore_session(faulty.clone(), ID).await;
            let (mut agent, recorder) = match restored {
                Ok(restored) => restored,
                Err(SessionError::NotFound { .. }) => {
                    let mut agent = self.agent(world, recorder, process).map_err(End::Failed)?;
                    let recorder = SessionRecorder::attach(&mut agent, faulty.clone());
                    (agent, recorder)
                }
                Err(SessionError::Locked { .. }) => {
                    tokio::time::sleep(BETWEEN_OPENS).await;
                    continue;
                }
                // The program tries again, as after a failure of the machine.
                Err(_) if world.take_store_failure() => continue,
                Err(error) => return Err(End::Failed(error_text(&error))),
            };
            world.took_over();
            compare(world, &*store).await.map_err(End::Failed)?;
            let inner = agent.config().services.journal.clone();
            let journal: Arc<dyn Journal> = Arc::new(SimJournal { world: world.clone(), recorder: inner });
            agent.set_journal(Some(journal));
            return Ok((agent, recorder));
        }
        Err(End::Refused)
    }

    async fn work(self, world: &World, recorder: Option<&CassetteRecorder>, process: &mut Process) -> End {
        let Some(open) = self.store else {
            let agent = match self.agent(world, recorder, process) {
                Ok(agent) => agent,
                Err(error) => return End::Failed(error),
            };
            return self.converse(world, &agent, process).await.err().unwrap_or(End::Done);
        };
        let store = open(world);
        let (agent, sessions) = match self.restored(world, recorder, process, Arc::clone(&store)).await {
            Ok(restored) => restored,
            Err(end) => return end,
        };
        let ended = self.converse(world, &agent, process).await;
        // What fails here is found when the next process compares the store.
        let _ = sessions.close().await;
        drop(agent);
        if let Err(end) = ended {
            return end;
        }
        if !process.store_failed
            && !world.is_replaced()
            && let Err(error) = compare(world, &*store).await
        {
            return End::Failed(error);
        }
        End::Done
    }

    /// Talks to the agent until the script ends, or a call of the store has failed.
    async fn converse(self, world: &World, agent: &BasicAgent, process: &mut Process) -> Result<(), End> {
        world.connect(agent.handle());
        if let Some(attach) = self.attach {
            attach(world, agent);
        }
        if agent.state().is_suspended && agent.questions().is_empty() {
            let resumed = agent.resume()?;
            follow(agent, world, resumed, process).await?;
        }
        let mut settled = None;
        loop {
            world.rest().await;
            agent.wait_for_idle().await;
            if world.take_store_failure() {
                process.store_failed = true;
                world.give_up();
                return Ok(());
            }
            if let Some(question) = agent.questions().into_iter().next() {
                let answer = world.answer(&question);
                let denial = Answer::deny("the answer did not fit the question");
                let accepted = match agent.answer(question.id.clone(), answer.clone()) {
                    Ok(events) => Ok((events, answer)),
                    Err(AgentError::Answer(_)) => {
                        agent.answer(question.id.clone(), denial.clone()).map(|events| (events, denial))
                    }
                    Err(error) => Err(error),
                };
                let (events, answer) = accepted?;
                world.answered(question, answer);
                follow(agent, world, events, process).await?;
            } else if let Some(perform) = self.perform {
                let Some(prompt) = world.unfinished().or_else(|| world.prompt()) else { break };
                performed(perform(world.clone(), agent.handle(), prompt), agent, world).await?;
            } else if let Some(prompt) = world.prompt() {
                let events = agent.prompt(prompt)?;
                follow(agent, world, events, process).await?;
            } else if agent.history().deferred().is_empty() || settled == Some(agent.history().len()) {
                break;
            } else {
                // Work in the background ends, and what it reports can begin a run.
                settled = Some(agent.history().len());
                tokio::time::sleep(STUCK).await;
            }
        }
        process.queued = agent.state().queued.iter().map(|queued| queued.entry.message().text()).collect();
        Ok(())
    }
}

/// Performs a prompt with the program under test. A program to which nothing happens any more is aborted.
async fn performed(
    program: BoxFuture<'static, Result<(), AgentError>>,
    agent: &BasicAgent,
    world: &World,
) -> Result<(), End> {
    let mut program = pin!(program);
    for attempt in 0..2 {
        if let Ok(ended) = tokio::time::timeout(STUCK, &mut program).await {
            if let Err(error) = ended {
                world.note("error of the program", error_text(&error));
            }
            if !world.has_store_failure() {
                world.finished();
            }
            return Ok(());
        }
        if attempt == 0 {
            world.stuck();
            agent.abort();
        }
    }
    Err(End::Failed("the program did not end after an abort".to_owned()))
}

/// Receives the events of a run until it ends or waits. A run in which nothing happens any more is aborted.
async fn follow(
    agent: &BasicAgent,
    world: &World,
    mut events: EventReceiver,
    process: &mut Process,
) -> Result<(), End> {
    process.delivered.push(Vec::new());
    for attempt in 0..2 {
        let ended = tokio::time::timeout(STUCK, async {
            while let Some(event) = events.recv_numbered().await {
                if let Some(received) = process.delivered.last_mut() {
                    received.push(event);
                }
            }
            agent.wait_for_idle().await;
        });
        if ended.await.is_ok() {
            world.finished();
            return Ok(());
        }
        if attempt == 0 {
            world.stuck();
            agent.abort();
        }
    }
    Err(End::Failed("a run did not end after an abort".to_owned()))
}

/// Compares the sessions of the store with what it acknowledged.
async fn compare(world: &World, store: &dyn SessionStore) -> Result<(), String> {
    let mut sessions: Vec<Session> = Vec::new();
    for id in world.sessions() {
        match store.load_session(id.as_str()).await {
            Ok(session) => sessions.push(session.into_session()),
            Err(SessionError::NotFound { .. }) => {}
            Err(error) => return Err(error_text(&error)),
        }
    }
    world.compare(&sessions);
    Ok(())
}

/// Lets a panic of the program under test end its process.
async fn caught(work: impl Future<Output = End>) -> End {
    let mut work = pin!(work);
    poll_fn(|cx| {
        catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))).unwrap_or_else(|_| {
            std::task::Poll::Ready(End::Failed("the program under test panicked".to_owned()))
        })
    })
    .await
}

/// Returns an error with its causes.
fn error_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
