//! Tasks of a run that is recorded or replayed are the environment's beneath.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_core::{AgentError, BoxFuture, Environment, NoRuntime, SystemEnvironment, TaskHandle, Timestamp};

use super::*;

/// Counts what is spawned, and may say that it runs nothing.
#[derive(Debug)]
struct Counting {
    runs_tasks: bool,
    spawned: AtomicUsize,
}

impl Counting {
    fn new(runs_tasks: bool) -> Arc<Self> {
        Arc::new(Self { runs_tasks, spawned: AtomicUsize::new(0) })
    }
}

impl Environment for Counting {
    fn now(&self) -> Timestamp {
        SystemEnvironment.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        SystemEnvironment.sleep(duration)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) -> Result<TaskHandle, NoRuntime> {
        self.spawned.fetch_add(1, Ordering::SeqCst);
        SystemEnvironment.spawn(task)
    }

    fn can_spawn(&self) -> bool {
        self.runs_tasks
    }

    fn random_id(&self) -> String {
        SystemEnvironment.random_id()
    }
}

fn agent(environment: &Arc<Counting>) -> BasicAgent {
    BasicAgent::new(ModelConfig::default())
        .with_environment(Arc::clone(environment) as Arc<dyn Environment>)
        .with_provider(ScriptedProvider::new(["ok"]))
}

#[tokio::test]
async fn a_run_that_is_recorded_or_replayed_is_one_task() {
    let environment = Counting::new(true);
    let recorder = CassetteRecorder::new();
    run(&recorder.attach(agent(&environment)), "Hi").await;
    assert_eq!(environment.spawned.load(Ordering::SeqCst), 1);

    let environment = Counting::new(true);
    let replay = Replay::new(reread(&recorder));
    run(&replay.attach(agent(&environment)), "Hi").await;
    assert_eq!(environment.spawned.load(Ordering::SeqCst), 1);
    assert_eq!(replay.finish().unwrap().model_calls, 1);
}

#[tokio::test]
async fn where_nothing_runs_tasks_neither_a_recorder_nor_a_replay_begins() {
    let environment = Counting::new(false);
    let recorder = CassetteRecorder::new();
    let recorded = recorder.attach(agent(&environment));
    assert!(matches!(recorded.prompt("Hi"), Err(AgentError::NoRuntime(_))));
    let replayed = Replay::new(reread(&recorder)).attach(agent(&environment));
    assert!(matches!(replayed.prompt("Hi"), Err(AgentError::NoRuntime(_))));
    assert_eq!(environment.spawned.load(Ordering::SeqCst), 0);
    assert!(recorded.messages().is_empty() && replayed.messages().is_empty());
}
