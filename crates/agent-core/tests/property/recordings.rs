//! Whatever happened in a run, its replay is the same run.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_core::{AgentEvent, BasicAgent, Recorder, Recording, Replay, SystemEnvironment};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::agents::{Shared, agent, hooks};
use crate::choices::{Choices, choices};

/// An agent whose settings, hooks and model draw from rows of their own, so that a replay can do without the model's.
fn made(settings: &Choices, verdicts: &Choices, model: Choices) -> BasicAgent {
    let share = |c: Choices| -> Shared { Arc::new(Mutex::new(c)) };
    let mut settings = settings.clone();
    let hooked = settings.once_in(2);
    let agent = agent(&mut settings, &share(model)).with_environment(Arc::new(SystemEnvironment));
    if hooked {
        agent.with_hooks(hooks(&share(verdicts.clone())))
    } else {
        agent.with_hooks(agent_core::Hooks::new())
    }
}

/// The events of a run, or nothing when it hangs: an abort is the caller's, and no part of a replay.
async fn run(agent: &BasicAgent) -> Option<Vec<AgentEvent>> {
    let events = agent.prompt("go").unwrap();
    tokio::time::timeout(Duration::from_secs(3_600), events.collect()).await.ok()
}

async fn law(settings: Choices, verdicts: Choices, model: Choices) -> Option<usize> {
    let recorder = Recorder::new();
    let then = run(&recorder.attach(made(&settings, &verdicts, model))).await?;
    let text = recorder.recording().to_json().unwrap();
    let replay = Replay::new(Recording::from_json(&text).unwrap());
    let now = run(&replay.attach(made(&settings, &verdicts, Choices::new(Vec::new())))).await;
    replay.finish().unwrap_or_else(|divergence| panic!("{divergence}"));
    // What calls beside each other say while they run may come in another order.
    let parts = |events: Vec<AgentEvent>| events.into_iter().partition::<Vec<_>, _>(AgentEvent::is_live);
    let ((live_now, now), (live_then, then)) = (parts(now.unwrap()), parts(then));
    assert_eq!(now, then);
    assert_eq!(live_now.len(), live_then.len());
    Some(recorder.recording().calls.len())
}

/// X2.
#[test]
fn a_replay_is_the_run_that_was_recorded() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.to_string().contains("lost") {
            quiet(info);
        }
    }));
    let config = ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() };
    let counts = Mutex::new((0, 0));
    let rows = (choices(40), choices(60), choices(200));
    let tested = TestRunner::new(config).run(&rows, |(settings, verdicts, model)| {
        if let Some(calls) = runtime.block_on(law(settings, verdicts, model)) {
            let mut counts = counts.lock().unwrap();
            *counts = (counts.0 + 1, counts.1 + calls);
        }
        Ok(())
    });
    if let Err(error) = tested {
        panic!("{error}");
    }
    let (runs, calls) = counts.into_inner().unwrap();
    assert!(runs >= 300 && calls >= 1_000, "the scripts are too tame: {runs} runs, {calls} calls");
}
