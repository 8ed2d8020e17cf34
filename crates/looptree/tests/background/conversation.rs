//! Starting, reading, listing and ending, and how the ends enter the conversation.

use std::time::Duration;

use looptree::prelude::*;
use looptree::testing::{Latch, ScriptedProvider, ScriptedReply};
use looptree::tools::background_work::{
    BackgroundError, BackgroundWork, MAX_DURATION, MAX_LISTED, MAX_OUTPUT_BYTES, MAX_RUNNING, WhenIdle,
    WorkState,
};
use serde_json::json;

use crate::support::{
    Place, UNTIL_GO, ask, ends_of, in_background, last_request, output, result_of, run, start, until, within,
};

#[tokio::test]
async fn a_command_is_started_read_listed_and_killed() {
    let (place, work) = (Place::new(), BackgroundWork::new());
    let model = ScriptedProvider::new([
        start("c1", "echo started; echo trouble >&2; touch ready; sleep 300"),
        "I wait.".into(),
    ]);
    let agent = place.agent(&work, model.clone());
    assert!(run(&agent, "Start it").await.is_completed());
    let [info] = &work.list()[..] else { panic!("{:?}", work.list()) };
    assert_eq!((info.state, info.tool.as_str(), info.call.as_str()), (WorkState::Running, "bash", "c1"));
    assert_eq!(agent.history().deferred()[0].handle, info.id);
    let first = result_of(&agent, "c1");
    assert!(first.contains(info.id.as_str()) && first.contains(&info.output_key), "{first}");
    until("ready", || place.has("ready")).await;
    let mut shown = String::new();
    while !(shown.contains("started\n") && shown.contains("trouble\n")) {
        tokio::time::sleep(Duration::from_millis(10)).await;
        shown = output(&work, &info.output_key).await;
    }

    model.push(ScriptedReply::call("c2", "read_output", json!({"key": info.output_key, "offset": 8})));
    model.push(ScriptedReply::call("c3", "background", json!({"action": "list"})));
    model.push(ScriptedReply::call("c4", "background", json!({"action": "kill", "id": info.id})));
    model.push(ScriptedReply::call("c5", "background", json!({"action": "kill", "id": "bg-0-9"})));
    model.push("It will end.");
    model.push("It was killed.");
    ask(&agent, "Look at it and end it").await;
    let read = result_of(&agent, "c2");
    // Two streams have no order between them.
    assert!(read.contains("trouble") || read.contains("started"), "{read}");
    assert!(read.contains("more can follow"), "{read}");
    let list = result_of(&agent, "c3");
    assert!(list.contains(&format!("{}: running", info.id)) && list.contains("echo started"), "{list}");
    assert!(result_of(&agent, "c5").contains("no work \"bg-0-9\""));
    within(work.wait()).await;
    place.all_gone().await;
    // It may have ended within the run, or it waits for the next one.
    if ends_of(&agent, "c1").is_empty() {
        ask(&agent, "And?").await;
    }
    let ends = ends_of(&agent, "c1");
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert!(ends[0].contains("failed:") && ends[0].contains("Command was killed"), "{}", ends[0]);
    assert!(ends[0].contains("started\n"), "{}", ends[0]);
    assert_eq!(work.list()[0].state, WorkState::Killed);
    assert_eq!(work.kill(info.id.as_str()), Err(BackgroundError::Ended { id: info.id.to_string() }));
    // The output of a work that has ended stays readable.
    assert!(output(&work, &info.output_key).await.contains("started"));
}

#[tokio::test]
async fn the_end_waits_for_the_next_prompt() {
    let (place, work) = (Place::new(), BackgroundWork::new());
    let model = ScriptedProvider::new([
        start("c1", &format!("{UNTIL_GO}; echo 42 frames; exit 3")),
        "I wait.".into(),
        "It has 42.".into(),
    ]);
    let agent = place.agent(&work, model.clone());
    ask(&agent, "Render").await;
    place.put("go");
    within(work.wait()).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(model.requests().len(), 2, "no run starts by itself");
    ask(&agent, "And?").await;
    let ends = ends_of(&agent, "c1");
    assert_eq!(ends.len(), 1);
    assert!(ends[0].starts_with("Result of the call `bash`") && ends[0].contains("Exit code: 3\n42 frames"));
    assert!(last_request(&model).contains("42 frames"));
    assert!(agent.history().deferred().is_empty());
}

#[tokio::test]
async fn the_end_starts_a_run_if_the_program_wants_it() {
    let place = Place::new();
    let work = BackgroundWork::new().with_when_idle(WhenIdle::Continue);
    let commands = (1..=5).fold(ScriptedReply::new(), |reply, n| {
        reply.and_call(&format!("c{n}"), "bash", in_background(&format!("{UNTIL_GO}; echo frame-{n}")))
    });
    let model = ScriptedProvider::responding(move |request| match request.messages().count() {
        1 => commands.clone(),
        _ => "I see.".into(),
    });
    let agent = place.agent(&work, model.clone());
    ask(&agent, "Render").await;
    assert_eq!(model.requests().len(), 2);
    place.put("go");
    within(work.wait()).await;
    until("all ends", || (1..=5).all(|n| ends_of(&agent, &format!("c{n}")).len() == 1)).await;
    within(agent.wait_for_idle()).await;
    assert!(agent.snapshot().queued.is_empty());
    for n in 1..=5 {
        let ends = ends_of(&agent, &format!("c{n}"));
        assert!(ends.len() == 1 && ends[0].contains(&format!("frame-{n}")), "{ends:?}");
    }
}

/// Steering and the end arrive while the model answers; each enters once, and no call is skipped for the end.
#[tokio::test]
async fn the_end_enters_an_open_run_beside_steering() {
    let (place, work, latch) = (Place::new(), BackgroundWork::new(), Latch::new());
    let model = ScriptedProvider::new([
        start("c1", &format!("{UNTIL_GO}; echo 42 frames")),
        ScriptedReply::text("I wait.").and_wait(&latch),
        "Both.".into(),
        "Done.".into(),
    ]);
    let agent = place.agent(&work, model.clone());
    let mut events = agent.prompt("Render").unwrap();
    until("the second request", || model.requests().len() == 2).await;
    agent.steer(looptree::AgentMessage::user("Hurry up"));
    place.put("go");
    within(work.wait()).await;
    latch.open();
    assert!(within(events.end()).await.is_completed());
    let ends = ends_of(&agent, "c1");
    assert!(ends.len() == 1 && ends[0].contains("42 frames"), "{ends:?}");
    let shown = last_request(&model);
    assert_eq!((shown.matches("Hurry up").count(), shown.matches("42 frames").count()), (1, 1), "{shown}");
}

#[tokio::test]
async fn a_hundred_commands_run_at_once_and_each_end_arrives_once() {
    let place = Place::new();
    let work = BackgroundWork::new().with_max_running(100);
    let commands = (0..101).fold(ScriptedReply::new(), |reply, n| {
        reply.and_call(&format!("c{n}"), "bash", in_background(&format!("{UNTIL_GO}; echo $(({n} * 1000))")))
    });
    let model = ScriptedProvider::new([commands, "I wait.".into(), "All ended.".into()]);
    let agent = place.agent(&work, model.clone());
    ask(&agent, "Start them").await;
    let running = work.list().iter().filter(|info| info.state == WorkState::Running).count();
    assert_eq!(running, 100);
    let refused: Vec<String> = (0..101)
        .map(|n| format!("c{n}"))
        .filter(|id| result_of(&agent, id).contains("which is the limit"))
        .collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    place.put("go");
    within(work.wait()).await;
    ask(&agent, "And?").await;
    for n in (0..101).filter(|n| format!("c{n}") != refused[0]) {
        let ends = ends_of(&agent, &format!("c{n}"));
        assert!(
            ends.len() == 1 && ends[0].ends_with(&format!("Exit code: 0\n{}\n", n * 1000)),
            "{n}: {ends:?}"
        );
    }
    place.all_gone().await;
}

/// A compaction removes the exchange of the call; the result still arrives, once.
#[tokio::test]
async fn a_compaction_while_a_command_runs_does_not_lose_its_end() {
    let (place, work) = (Place::new(), BackgroundWork::new());
    let noise = "seq 1 4000";
    let model = ScriptedProvider::responding(move |request| {
        let said = request.messages().filter(|m| m.role() == "assistant").count();
        let ended = request.messages().any(|m| m.role() == "user" && m.text().contains("forty-two"));
        match request.messages().last().map(looptree::Message::text).unwrap_or_default() {
            text if text == "Render" => start("c1", &format!("{UNTIL_GO}; printf forty-; echo two")),
            text if text == "Next" || ended => "Well.".into(),
            _ if said > 200 => "Enough.".into(),
            _ => ScriptedReply::call(
                &format!("n{}", request.messages().count()),
                "bash",
                json!({"command": noise}),
            ),
        }
    });
    let agent = place.agent(&work, model.clone());
    let mut agent = agent.with_limits(looptree::ExecutionLimits::unlimited().with_max_turns(12));
    agent.set_model(ModelConfig::default().with_limits(8_192, 2_048));
    let events = within(agent.prompt("Render").unwrap().collect()).await;
    let compacted = events.iter().filter(|e| matches!(e, AgentEvent::CompactionEnded(_))).count();
    assert!(compacted > 0, "nothing was compacted");
    assert_eq!(agent.history().deferred().len(), 1);
    place.put("go");
    within(work.wait()).await;
    ask(&agent, "Next").await;
    let ends = ends_of(&agent, "c1");
    assert_eq!(ends.iter().filter(|end| end.contains("forty-two")).count(), 1, "{ends:?}");
    assert!(agent.history().deferred().is_empty());
}

#[tokio::test]
async fn the_limits_hold() {
    let place = Place::new();
    let work = BackgroundWork::new()
        .with_max_running(1)
        .with_max_duration(Duration::from_secs(1))
        .with_max_output_bytes(100_000);
    let model = ScriptedProvider::new([
        start("c1", "seq 1 100000; sleep 300"),
        start("c2", "echo second"),
        ScriptedReply::call("c3", "bash", json!({"command": "true", "background": true, "timeout": 2})),
        "I wait.".into(),
        "It timed out.".into(),
    ]);
    let agent = place.agent(&work, model.clone());
    ask(&agent, "Start").await;
    assert!(result_of(&agent, "c2").contains("1 works run in the background"), "{}", result_of(&agent, "c2"));
    assert!(result_of(&agent, "c3").contains("between 1 and 1 seconds"), "{}", result_of(&agent, "c3"));
    within(work.wait()).await;
    ask(&agent, "And?").await;
    let ends = ends_of(&agent, "c1");
    assert!(ends.len() == 1 && ends[0].contains("Command timed out after 1s"), "{ends:?}");
    assert!(ends[0].contains("the last 16384 of 588895 bytes") && ends[0].contains("\n100000\n"), "{ends:?}");
    let key = &work.list()[0].output_key;
    let page = work.output_store().read(key, -10, 100).await.unwrap();
    assert_eq!((page.output().kept_bytes(), page.output().produced_bytes()), (100_000, 588_895));
    place.all_gone().await;
    assert_eq!(MAX_RUNNING, 16);
}

#[tokio::test]
async fn nothing_starts_without_an_attached_agent_or_without_permission_of_the_program() {
    let (place, work) = (Place::new(), BackgroundWork::new());
    let model = ScriptedProvider::new([start("c1", "echo 1"), "No.".into()]);
    let agent = place.unattached(&work, model);
    ask(&agent, "Start").await;
    assert!(result_of(&agent, "c1").contains("has not attached an agent"), "{}", result_of(&agent, "c1"));

    let other = place.agent(&work, ScriptedProvider::new([start("c1", "echo 1"), "No.".into()]));
    assert_eq!(work.attach(&agent), Err(BackgroundError::AttachedElsewhere));
    assert_eq!(work.attach(&other), Ok(vec![]));
    let plain = looptree::tools::BashTool::new(Workspace::open(place.path()).unwrap());
    assert!(AgentTool::parameters_schema(&plain).pointer("/properties/background").is_none());
    let agent = looptree::agent(ModelConfig::default())
        .with_provider(ScriptedProvider::new([start("c1", "echo 1"), "No.".into()]))
        .with_tool(plain);
    ask(&agent, "Start").await;
    let refused = result_of(&agent, "c1");
    assert!(refused.contains("background"), "{refused}");
    assert!(work.list().is_empty());
}

#[test]
fn the_guide_states_the_limits_of_the_code() {
    let page = include_str!("../../../../docs/guides/background.md");
    for (name, value) in [
        ("MAX_RUNNING", format!("| {MAX_RUNNING};")),
        ("MAX_DURATION", format!("| {} hours;", MAX_DURATION.as_secs() / 3600)),
        ("MAX_OUTPUT_BYTES", format!("its first {} MiB;", MAX_OUTPUT_BYTES / (1024 * 1024))),
        ("MAX_LISTED", format!("| {MAX_LISTED} |")),
    ] {
        let rows: Vec<&str> = page.lines().filter(|line| line.contains(&format!("`{name}`"))).collect();
        assert!(matches!(rows[..], [row] if row.contains(&value)), "{name} is not {value:?}: {rows:?}");
    }
}
