//! What is left when a run, an agent or a runtime ends: no process, and a result for each call.

use looptree::prelude::*;
use looptree::testing::{ScriptedProvider, ScriptedReply};
use looptree::tools::background_work::{AfterAbort, BackgroundWork, WhenIdle, WorkState};

use crate::support::{FAMILY, Place, UNTIL_GO, ask, ends_of, start, until, within};

#[tokio::test]
async fn an_end_takes_everything_that_the_command_started() {
    let (place, work) = (Place::new(), BackgroundWork::new());
    let model = ScriptedProvider::new([
        start("c1", &FAMILY.replace("sleep 300\n", &format!("{UNTIL_GO}\n"))),
        "I wait.".into(),
        "Ended.".into(),
    ]);
    let agent = place.agent(&work, model);
    ask(&agent, "Start").await;
    until("ready", || place.has("ready")).await;
    assert!(place.processes().len() >= 3, "the shell and the children run");
    place.put("go");
    within(work.wait()).await;
    place.all_gone().await;
    ask(&agent, "And?").await;
    assert!(ends_of(&agent, "c1")[0].contains("Exit code: 0"), "{:?}", ends_of(&agent, "c1"));
}

/// A run is aborted while the command works; by default the command ends, too, and its call has a result.
#[tokio::test]
async fn an_abort_ends_the_work_unless_it_may_continue() {
    for after_abort in [AfterAbort::End, AfterAbort::Continue] {
        let place = Place::new();
        let work = BackgroundWork::new().with_after_abort(after_abort).with_when_idle(WhenIdle::Continue);
        let model = ScriptedProvider::new([
            start("c1", FAMILY),
            ScriptedReply::text("I").and_hang(),
            "It is over.".into(),
        ]);
        let agent = place.agent(&work, model.clone());
        let mut events = agent.prompt("Start").unwrap();
        until("ready", || place.has("ready") && model.requests().len() == 2).await;
        agent.abort();
        assert!(matches!(within(events.end()).await, RunEnd::Aborted));
        if after_abort == AfterAbort::Continue {
            tokio::time::sleep(std::time::Duration::from_millis(400)).await;
            assert_eq!(work.list()[0].state, WorkState::Running);
            assert!(place.processes().len() >= 3);
            work.kill_all();
            within(work.wait()).await;
            until("the end in a run of its own", || ends_of(&agent, "c1").len() == 1).await;
            within(agent.wait_for_idle()).await;
        } else {
            within(work.wait()).await;
            assert_eq!(work.list()[0].state, WorkState::Aborted);
            assert_eq!(model.requests().len(), 2, "an abort starts no run");
            ask(&agent, "What happened?").await;
        }
        place.all_gone().await;
        let ends = ends_of(&agent, "c1");
        assert_eq!(ends.len(), 1, "{ends:?}");
    }
}

/// An abort while the call itself runs: either the work never starts, or it ends.
#[tokio::test]
async fn an_abort_at_any_moment_of_the_start_leaves_nothing() {
    for micros in [0, 300, 1_000, 3_000, 6_000, 10_000, 20_000, 40_000] {
        let (place, work) = (Place::new(), BackgroundWork::new());
        let model = ScriptedProvider::new([start("c1", FAMILY), ScriptedReply::text("I").and_hang()]);
        let agent = place.agent(&work, model);
        let mut events = agent.prompt("Start").unwrap();
        tokio::time::sleep(std::time::Duration::from_micros(micros)).await;
        agent.abort();
        let _ = within(events.end()).await;
        within(work.wait()).await;
        place.all_gone().await;
        assert!(work.list().iter().all(|info| info.state != WorkState::Running));
    }
}

#[tokio::test]
async fn the_work_ends_with_its_agent_although_the_program_still_has_the_list() {
    let (place, work) = (Place::new(), BackgroundWork::new());
    let agent = place.agent(&work, ScriptedProvider::new([start("c1", FAMILY), "I wait.".into()]));
    ask(&agent, "Start").await;
    until("ready", || place.has("ready")).await;
    drop(agent);
    place.all_gone().await;
    within(work.wait()).await;
    assert_eq!(work.list()[0].state, WorkState::Aborted);
    // The list is free for another agent.
    let agent = place.agent(&work, ScriptedProvider::new([start("c2", "echo 1"), "I wait.".into()]));
    ask(&agent, "Start").await;
    within(work.wait()).await;
}

#[test]
fn the_work_ends_with_the_runtime() {
    let (place, work) = (Place::new(), BackgroundWork::new());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let agent = place.agent(&work, ScriptedProvider::new([start("c1", FAMILY), "I wait.".into()]));
    runtime.block_on(async {
        ask(&agent, "Start").await;
        until("ready", || place.has("ready")).await;
    });
    drop(runtime);
    assert_eq!(work.list()[0].state, WorkState::Lost);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(place.all_gone());
    // The call has its result: the next run of the agent gets it.
    assert!(agent.snapshot().queued.len() == 1);
}
