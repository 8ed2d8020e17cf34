//! One process of the simulated agent: it continues what the journal has, and talks to the user until the script ends.

use std::sync::Arc;
use std::time::Duration;

use agent_core::event::NumberedEvent;
use agent_core::{AgentError, AgentTool, Answer, BasicAgent, EventReceiver, ExecutionLimits};
use agent_session::cassette::CassetteRecorder;

use crate::journal::SimJournal;
use crate::model::SimModel;
use crate::tools::{Execute, SimTool};
use crate::world::World;

/// A run in which nothing happens for this long is aborted.
const STUCK: Duration = Duration::from_secs(24 * 3_600);

/// What all processes of a simulation have in common.
pub(crate) struct Program<'a> {
    pub(crate) build: &'a (dyn Fn(&World) -> BasicAgent + Send + Sync),
    pub(crate) execute: &'a (dyn Fn(&str) -> Execute + Send + Sync),
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
    /// Whether another process continues.
    pub(crate) killed: bool,
}

impl Program<'_> {
    /// Runs a process to its end or until it is killed.
    pub(crate) fn run(&self, world: &World, recorder: Option<&CassetteRecorder>) -> Process {
        let mut process = Process::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                process.problem =
                    Some(format!("the runtime of the simulation could not be started: {error}"));
                return process;
            }
        };
        runtime.block_on(async {
            world.begin();
            let ended = {
                let work = self.work(world, recorder, &mut process);
                tokio::select! {
                    biased;
                    () = world.killed() => None,
                    ended = work => Some(ended),
                }
            };
            match ended {
                None => process.killed = true,
                Some(Ok(())) => {}
                Some(Err(error)) => process.problem = Some(error),
            }
            world.end();
        });
        // Everything of the process that still runs is dropped here.
        drop(runtime);
        process
    }

    fn agent(
        &self,
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
            config.services.journal = Some(Arc::new(SimJournal(world.clone())));
            config.routes.iter_mut().for_each(|route| route.provider = None);
            process.limits.clone_from(&config.policy.limits);
            let of_routes = config.routes.iter().filter_map(|route| route.max_retries).max();
            process.max_retries = config.policy.retry.max_retries.max(of_routes.unwrap_or_default());
        });
        let mut snapshot = agent.snapshot();
        snapshot.agent_id = "sim".into();
        snapshot.session_id = "sim".into();
        snapshot.recorded = false;
        world.state().disk.restore(&mut snapshot).map_err(|error| error_text(&error))?;
        let agent = agent.restore(snapshot).map_err(|error| error_text(&error))?;
        Ok(match recorder {
            Some(recorder) => recorder.attach(agent),
            None => agent,
        })
    }

    async fn work(
        &self,
        world: &World,
        recorder: Option<&CassetteRecorder>,
        process: &mut Process,
    ) -> Result<(), String> {
        let agent = self.agent(world, recorder, process)?;
        world.connect(agent.handle());
        if agent.state().is_suspended && agent.questions().is_empty() {
            let resumed = agent.resume().map_err(|error| error_text(&error))?;
            follow(&agent, world, resumed, process).await?;
        }
        loop {
            if !world.rest() {
                // The kill has been reported, and this future is dropped.
                std::future::pending::<()>().await;
            }
            agent.wait_for_idle().await;
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
                let (events, answer) = accepted.map_err(|error| error_text(&error))?;
                world.answered(question, answer);
                follow(&agent, world, events, process).await?;
            } else if let Some(prompt) = world.prompt() {
                let events = agent.prompt(prompt).map_err(|error| error_text(&error))?;
                follow(&agent, world, events, process).await?;
            } else {
                break;
            }
        }
        process.queued = agent.state().queued.iter().map(|queued| queued.entry.message().text()).collect();
        Ok(())
    }
}

/// Receives the events of a run until it ends or waits. A run in which nothing happens any more is aborted.
async fn follow(
    agent: &BasicAgent,
    world: &World,
    mut events: EventReceiver,
    process: &mut Process,
) -> Result<(), String> {
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
            return Ok(());
        }
        if attempt == 0 {
            world.stuck();
            agent.abort();
        }
    }
    Err("a run did not end after an abort".to_owned())
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
