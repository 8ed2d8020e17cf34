//! Sub-agents in the background.

use std::time::Duration;

use looptree::model::ApiProtocol;
use looptree::prelude::*;
use looptree::testing::{Latch, ScriptedProvider, ScriptedReply};
use looptree::tools::background_work::{BackgroundWork, WorkState};
use looptree::tools::{BashTool, SubAgentTool};
use serde_json::json;

use crate::support::{Place, ask, ends_of, last_request, output, result_of, run, start, until, within};

fn model(id: &str) -> ModelConfig {
    ModelConfig::new(ApiProtocol::AnthropicMessages, "p", id)
}

fn task(id: &str) -> ScriptedReply {
    ScriptedReply::call(id, "helper", json!({"task": "paint", "background": true}))
}

/// A boss that starts one task, and a helper that calls `work` and reports after the latch.
fn world(latch: &Latch, first: ScriptedReply) -> ScriptedProvider {
    let latch = latch.clone();
    ScriptedProvider::responding(move |request| {
        let said = request.messages().count();
        match (request.model.id.as_str(), said) {
            ("boss", 1) => first.clone(),
            ("boss", _) => "I see.".into(),
            (_, 1) => ScriptedReply::text("I begin.").and_call("k", "bash", json!({"command": "echo step"})),
            (_, _) => ScriptedReply::text("painted").and_wait(&latch),
        }
    })
}

fn boss(provider: &ScriptedProvider, work: &BackgroundWork, bash: BashTool) -> BasicAgent {
    let helper =
        SubAgentTool::new("helper", model("small")).with_tool(bash).with_background_work(work.clone());
    let agent = looptree::agent(model("boss"))
        .with_provider(provider.clone())
        .with_tool(helper)
        .with_tools(work.tools());
    work.attach(&agent).unwrap();
    agent
}

#[tokio::test]
async fn a_task_runs_while_the_caller_goes_on_and_its_answer_comes_later() {
    let (place, work, latch) = (Place::new(), BackgroundWork::new(), Latch::new());
    let provider = world(&latch, task("c1"));
    let bash = BashTool::new(Workspace::open(place.path()).unwrap());
    let agent = boss(&provider, &work, bash);
    assert!(run(&agent, "Have it painted").await.is_completed());
    let info = work.list()[0].clone();
    assert_eq!(
        (info.tool.as_str(), info.title.as_str(), info.state),
        ("helper", "paint", WorkState::Running)
    );
    let mut shown = String::new();
    while !shown.contains("calling tool: bash") {
        tokio::time::sleep(Duration::from_millis(10)).await;
        shown = output(&work, &info.output_key).await;
    }
    assert!(shown.starts_with("I begin.\n"), "{shown}");
    latch.open();
    within(work.wait()).await;
    ask(&agent, "And?").await;
    let ends = ends_of(&agent, "c1");
    assert!(ends.len() == 1 && ends[0].ends_with("painted"), "{ends:?}");
    assert!(last_request(&provider).contains("painted"));
}

#[tokio::test]
async fn a_task_is_killed_and_reaches_its_time_limit() {
    for (limit, state, text) in [
        (Duration::from_secs(600), WorkState::Killed, "The task was killed"),
        (Duration::from_secs(1), WorkState::TimedOut, "The task timed out after 1s"),
    ] {
        let (place, latch) = (Place::new(), Latch::new());
        let work = BackgroundWork::new().with_max_duration(limit);
        let provider = world(&latch, task("c1"));
        let agent = boss(&provider, &work, BashTool::new(Workspace::open(place.path()).unwrap()));
        ask(&agent, "Have it painted").await;
        if state == WorkState::Killed {
            work.kill(work.list()[0].id.as_str()).unwrap();
        }
        within(work.wait()).await;
        assert_eq!(work.list()[0].state, state);
        ask(&agent, "And?").await;
        let ends = ends_of(&agent, "c1");
        assert!(ends.len() == 1 && ends[0].contains(text), "{ends:?}");
    }
}

/// The conversation of a sub-agent is over when its task is, so nothing in it could receive a later result.
#[tokio::test]
async fn a_sub_agent_starts_nothing_in_the_background_itself() {
    let (place, work) = (Place::new(), BackgroundWork::new());
    let provider = ScriptedProvider::responding(|request| {
        let said = request.messages().count();
        match (request.model.id.as_str(), said) {
            ("boss", 1) => ScriptedReply::call("c1", "helper", json!({"task": "paint"})),
            ("boss", _) => "I see.".into(),
            (_, 1) => start("k", "touch made"),
            (_, _) => ScriptedReply::text(
                request.messages().last().map(looptree::Message::text).unwrap_or_default(),
            ),
        }
    });
    let bash = BashTool::new(Workspace::open(place.path()).unwrap()).with_background_work(work.clone());
    let agent = boss(&provider, &work, bash);
    ask(&agent, "Have it painted").await;
    assert!(result_of(&agent, "c1").contains("not the main agent"), "{}", result_of(&agent, "c1"));
    assert!(work.list().is_empty() && !place.has("made"));
}

/// A recorded caller: the session of the child is in the store, also if it ends after the run of the caller.
#[tokio::test]
async fn a_task_in_the_background_is_recorded() {
    let (place, work, latch) = (Place::new(), BackgroundWork::new(), Latch::new());
    let provider = world(&latch, task("c1"));
    let mut agent = boss(&provider, &work, BashTool::new(Workspace::open(place.path()).unwrap()));
    let store = JsonStore::open(place.path().join("sessions")).unwrap();
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    ask(&agent, "Have it painted").await;
    until("the second request of the child", || provider.requests().len() >= 4).await;
    latch.open();
    within(work.wait()).await;
    ask(&agent, "And?").await;
    recorder.close().await.unwrap();
    let own = agent.session_id();
    let all = looptree::session::SessionStore::list_session_ids(&store).await.unwrap();
    let child = all.iter().find(|id| id.as_str() != own.as_str()).expect("a session of the child");
    let session = looptree::session::SessionStore::load_session(&store, child.as_str()).await.unwrap();
    assert_eq!(session.loops[0].status, looptree::session::LoopStatus::Completed);
}
