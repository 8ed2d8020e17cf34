//! Simulations of agents that are right, and of agents with an error that must be found.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::sync::Mutex;

use agent_core::testing::ScriptedTool;
use looptree::prelude::*;
use looptree::session::cassette::Replay;
use looptree::sim::{Action, Fault, Faults, Log, Script, Sim, Step, What, World};
use serde_json::json;

fn charge() -> ScriptedTool {
    let schema = json!({
        "type": "object",
        "properties": {"order": {"type": "integer", "minimum": 1, "maximum": 3}},
        "required": ["order"],
    });
    ScriptedTool::saying("charge", "charged").with_schema(schema)
}

fn with(tool: impl Fn() -> ScriptedTool + Send + Sync + 'static) -> Sim {
    Sim::new(move |_| BasicAgent::new(ModelConfig::default()).with_tool(tool()))
}

/// What happened, without the parts that have no text.
fn told(log: &Log) -> Vec<String> {
    log.entries().iter().map(|entry| format!("{} {:?} {:?}", entry.process, entry.time, entry.what)).collect()
}

fn unapproved(log: &Log) -> bool {
    log.executions_of("charge").any(|call| !log.approved(call))
}

#[test]
fn an_agent_that_keeps_its_invariants_passes_and_was_exercised() {
    let sim = with(|| charge().asking("May it?").with_effects(Effects::Once))
        .never("a charge without approval", unapproved)
        .at_most_once("each call", |call| Some(call.idempotency_key.clone()))
        .seeds(0..120);
    let report = sim.run().unwrap();
    assert_eq!(report.runs, 120);
    assert!(report.kills > 15 && report.executions["charge"] > 30, "{report:?}");
    for end in ["completed", "aborted", "error"] {
        assert!(report.ends.get(end).is_some_and(|n| *n > 2), "{end}: {report:?}");
    }
}

#[test]
fn an_execution_without_approval_is_found_shortened_and_repeats() {
    let sim = with(charge).never("a charge without approval", unapproved);
    let failure = sim.run().unwrap_err();
    assert_eq!(failure.rule, "a charge without approval");
    assert!(failure.script.steps.len() <= 2, "{failure}");
    let again = sim.run().unwrap_err();
    assert_eq!((again.seed, &again.script), (failure.seed, &failure.script));
    let text = failure.to_string();
    let json = text.split("r#\"").nth(1).and_then(|rest| rest.split("\"#").next()).unwrap();
    let pasted = Script::from_json(json).unwrap();
    assert_eq!(pasted, failure.script);
    assert_eq!(told(&sim.replay(&pasted).unwrap_err().log), told(&failure.log));
}

/// The tool says that it may be repeated. It must not be: a kill after its effect is needed to show it.
#[test]
fn the_printed_test_is_rust_whatever_the_texts_contain() {
    let post = || {
        let schema = json!({
            "type": "object",
            "properties": {"channel": {"type": "string", "enum": ["#general", "##team"]}},
            "required": ["channel"],
        });
        ScriptedTool::saying("post", "posted").with_schema(schema)
    };
    let sim = with(post).never("a post to the team", |log| {
        log.executions_of("post").any(|call| call.arguments["channel"] == "##team")
    });
    let failure = sim.run().unwrap_err();
    let printed = failure.to_string();
    let literal =
        printed.lines().skip_while(|line| !line.contains("from_json(")).collect::<Vec<_>>().join("\n");
    let literal = literal.split_once("from_json(").unwrap().1;
    // Read as the compiler reads it: up to the quote with as many marks as at the start.
    let marks = literal.chars().skip(1).take_while(|c| *c == '#').count();
    let text = &literal[1 + marks + 1..];
    let end = text.find(&format!("\"{}", "#".repeat(marks))).unwrap();
    assert!(text[end + 1 + marks..].starts_with(").unwrap();"), "{printed}");
    assert_eq!(Script::from_json(&text[..end]).unwrap(), failure.script, "{printed}");
}

#[test]
fn an_effect_that_a_kill_repeats_is_found_although_it_takes_a_kill_between_two_steps() {
    let sim = with(|| charge().with_effects(Effects::Idempotent))
        .at_most_once("each call", |call| Some(call.idempotency_key.clone()))
        .seeds(0..2_000);
    let failure = sim.run().unwrap_err();
    let kill =
        |step: &Step| matches!(step, Step::Act(act) if matches!(act.what, Action::Kill | Action::Crash));
    assert!(failure.script.steps.iter().any(kill), "{failure}");
    assert!(failure.script.steps.len() <= 4, "{failure}");
    assert_eq!(failure.cassettes.len(), 2, "one for each process");
    assert!(with(|| charge().with_effects(Effects::Once)).replay(&failure.script).is_ok());
}

#[test]
fn what_holds_only_at_the_end_is_checked_at_the_end() {
    let sim = with(charge)
        .faults(Faults::none())
        .eventually("a charge", |log| log.executions_of("charge").next().is_some())
        .seeds(0..500);
    let failure = sim.run().unwrap_err();
    assert_eq!(failure.rule, "a charge", "some run calls no tool");
}

#[test]
fn a_seed_gives_the_same_run_and_its_script_gives_it_again() {
    let sim = || with(|| charge().asking("May it?"));
    for seed in 0..10 {
        let never = || sim().never("the end", |_| true);
        let failure = never().seeds(seed..seed + 1).run().unwrap_err();
        let again = never().seeds(seed..seed + 1).run().unwrap_err();
        assert_eq!((told(&failure.log), &failure.script), (told(&again.log), &again.script));
    }
    // The rule is violated by the run of the seed, and after that only by runs with the same log.
    for seed in 0..3 {
        let first: &'static std::sync::OnceLock<Vec<String>> = Box::leak(Box::default());
        let sim = sim()
            .seeds(seed..seed + 1)
            .never("the same run", |log| *first.get_or_init(|| told(log)) == told(log));
        let failure = sim.run().unwrap_err();
        let same = sim.replay(&failure.script).unwrap_err();
        assert_eq!((same.rule.as_str(), &told(&same.log)), ("the same run", first.get().unwrap()));
    }
}

#[test]
fn without_faults_nothing_is_killed_denied_or_cut_off() {
    let sim = with(|| charge().asking("May it?")).faults(Faults::none()).seeds(0..100);
    let sim = sim.never("trouble", |log| {
        log.entries().iter().any(|entry| match &entry.what {
            What::Acted(_) | What::Stuck => true,
            What::Answered { answer, .. } => !matches!(answer, Answer::Allow),
            _ => false,
        })
    });
    let report = sim.run().unwrap();
    assert_eq!((report.kills, report.ends.len()), (0, 1), "{report:?}");
    let killing = with(charge).faults(Faults::none().with(Fault::Kill)).seeds(0..100).run().unwrap();
    assert!(killing.kills > 10, "{killing:?}");
}

/// State of the outside world survives kills, and the memory of the process does not.
#[test]
fn the_outside_world_survives_kills_and_the_process_does_not() {
    #[derive(Default)]
    struct Starts(Mutex<u32>);
    let sim = Sim::new(|world: &World| {
        let starts = world.outside::<Starts>();
        let mut starts = starts.0.lock().unwrap();
        assert_eq!(*starts, world.process());
        *starts += 1;
        world.note("start", *starts);
        BasicAgent::new(ModelConfig::default()).with_tool(charge())
    });
    let report = sim
        .never("a process that is not counted", |log| {
            let processes = log.entries().iter().filter(|entry| matches!(entry.what, What::Started)).count();
            log.notes("start").last().and_then(serde_json::Value::as_u64) != Some(processes as u64)
        })
        .seeds(0..100)
        .run()
        .unwrap();
    assert!(report.kills > 10, "{report:?}");
}

#[test]
fn tools_can_be_simulated_so_that_they_have_no_effect() {
    let panics = || ScriptedTool::new("charge", |_, _| async { panic!("it was executed") });
    let sim = with(panics).simulate_all_tools().faults(Faults::none());
    assert!(sim.run().unwrap().executions["charge"] > 10);
}

/// A task in the background ends while a question waits or is answered, after an abort, or with its process.
#[cfg(feature = "tools")]
#[test]
#[ignore = "seed 2: the events of a sub-agent in the background do not fold to its conversation, which is not explained yet"]
fn each_task_in_the_background_has_a_result_at_the_end() {
    use looptree::identity::ToolCallId;
    use looptree::message::Message;
    use looptree::tools::SubAgentTool;
    use looptree::tools::background_work::{BackgroundWork, WhenIdle};

    #[derive(Default)]
    struct Work(Mutex<Option<BackgroundWork>>);
    let sim = Sim::new(|world: &World| {
        let work = BackgroundWork::new().with_when_idle(WhenIdle::Continue);
        *world.outside::<Work>().0.lock().unwrap() = Some(work.clone());
        let helper = SubAgentTool::new("helper", ModelConfig::default())
            .with_tool(charge())
            .with_background_work(work);
        BasicAgent::new(ModelConfig::default())
            .with_tool(helper)
            .with_tool(ScriptedTool::saying("deploy", "live").asking("May it?"))
    })
    .attach(|world, agent| {
        drop(world.outside::<Work>().0.lock().unwrap().as_ref().unwrap().attach(agent).unwrap());
    })
    .arguments("helper", [json!({"task": "paint", "background": true})])
    .eventually("a result of each task", |log| {
        let deferred = |event: &AgentEvent| match event {
            AgentEvent::ToolExecutionEnd(end) if end.result.deferred.is_some() => {
                Some(end.tool_call_id.clone())
            }
            _ => None,
        };
        let has_result = |id: &ToolCallId| {
            log.events().any(|event| match event {
                AgentEvent::MessageEnd { message, .. } => match message.as_llm() {
                    Some(Message::User(user)) => {
                        user.deferred.as_ref().is_some_and(|call| call.tool_call_id == *id)
                    }
                    _ => false,
                },
                _ => false,
            })
        };
        log.events().filter_map(deferred).all(|id| has_result(&id))
    })
    .seeds(0..400);
    let report = sim.run().unwrap();
    assert!(report.executions["helper"] > 20 && report.kills > 20 && report.answers > 20, "{report:?}");
}

#[test]
fn panics_are_entries_of_the_log() {
    let panics = || ScriptedTool::new("charge", |_, _| async { panic!("it broke") });
    let sim = with(panics)
        .faults(Faults::none())
        .never("a call", |log| log.executions_of("charge").next().is_some());
    let failure = sim.run().unwrap_err();
    assert!(failure.to_string().contains("it broke"), "{failure}");
    let builds = Sim::new(|_| panic!("no agent")).run().unwrap_err();
    assert!(builds.message.contains("panicked") && builds.to_string().contains("no agent"), "{builds}");
}

/// The cassette of a failure without kills replays without the simulation.
#[tokio::test]
async fn the_cassette_of_a_failure_replays() {
    let failure = tokio::task::spawn_blocking(|| {
        let never = |log: &Log| log.executions_of("charge").count() > 1;
        with(charge).faults(Faults::none()).never("two charges", never).run().unwrap_err()
    });
    let failure = failure.await.unwrap();
    let replay = Replay::new(failure.cassettes[0].clone());
    let agent = BasicAgent::new(ModelConfig::default()).with_tools(replay.tools());
    let agent = replay.attach(agent);
    for step in &failure.script.steps {
        if let Step::Prompt(text) = step {
            agent.prompt(text.as_str()).unwrap().collect().await;
        }
    }
    replay.finish().unwrap();
}
