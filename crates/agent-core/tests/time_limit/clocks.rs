//! Clocks that jump while something of a run is pending.

use std::sync::Arc;
use std::time::Duration;

use agent_core::hooks::Hooks;
use agent_core::provider::ErrorKind;
use agent_core::run::{Input, LoopPolicy, Run, RunSetup};
use agent_core::testing::{Latch, ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentEvent, Answer, BasicAgent, Budget, BudgetLimits, DeferredHandle, Ended, ExecutionLimits, History,
    ModelConfig, RunEnd, Timestamp, ToolResult, Verdict,
};

use super::{MAX, call};

const START: u64 = 1_000_000_000;
const HOUR: i64 = 3_600_000;

/// What happens to the clock: once while something is pending, or a little at each event.
#[derive(Debug, Clone, Copy)]
enum Jump {
    Once(i64),
    Steps(i64),
}

const JUMPS: [Jump; 6] = [
    Jump::Once(-HOUR),
    Jump::Once(HOUR),
    Jump::Once(24 * HOUR),
    // The end of a suspension: the time of day is ahead of the time that has passed.
    Jump::Once(90_000),
    Jump::Steps(-1_000),
    Jump::Steps(7_000),
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Pending {
    ModelCall,
    Tool,
    Approval,
    Deferred,
    Backoff,
}

const PENDING: [Pending; 5] =
    [Pending::ModelCall, Pending::Tool, Pending::Approval, Pending::Deferred, Pending::Backoff];

fn agent(pending: Pending, environment: &ManualEnvironment, latch: &Latch) -> BasicAgent {
    let replies = match pending {
        Pending::ModelCall => [call().and_wait(latch), "done".into(), "unused".into()],
        Pending::Tool | Pending::Approval => [call(), "done".into(), "unused".into()],
        Pending::Deferred => [call(), ScriptedReply::text("later").and_wait(latch), "done".into()],
        Pending::Backoff => {
            [ScriptedReply::new().failing(ErrorKind::Network, "later"), call(), "done".into()]
        }
    };
    let waits = (pending == Pending::Tool).then(|| latch.clone());
    let tool = ScriptedTool::new("work", move |_, _| {
        let waits = waits.clone();
        async move {
            if let Some(latch) = waits {
                latch.wait().await;
            }
            Ok(match pending {
                Pending::Deferred => ToolResult::deferred(DeferredHandle::from("job")),
                _ => ToolResult::text("worked"),
            })
        }
    });
    let hooks = match pending {
        Pending::Approval => Hooks::new().before_tool(|_| async { Verdict::Ask("May it?".into()) }),
        _ => Hooks::new(),
    };
    let environment = Arc::new(environment.clone());
    BasicAgent::new(ModelConfig::default())
        .with_provider(ScriptedProvider::new(replies).allow_empty())
        .with_tool(tool)
        .with_hooks(hooks)
        .with_limits(ExecutionLimits::unlimited().with_max_duration(MAX))
        .with_budget(Budget::new(BudgetLimits::none().with_time(MAX)))
        .configure(|c| c.services.environment = environment)
}

/// Runs a prompt in which each turn works for `turn`, and in which the clock jumps. Returns the end and all events.
async fn over(pending: Pending, jump: Jump, turn: Duration) -> (RunEnd, Vec<AgentEvent>) {
    let (environment, latch) = (ManualEnvironment::at(START), Latch::new());
    let agent = agent(pending, &environment, &latch);
    let (clock, seen) = (environment.clone(), Arc::new(std::sync::Mutex::new(Vec::new())));
    let log = Arc::clone(&seen);
    let listening = agent.subscribe(move |event| {
        if !event.is_live() {
            log.lock().unwrap().push(event.clone());
        }
        if let Jump::Steps(by) = jump {
            clock.jump(by);
        }
        if matches!(event, AgentEvent::TurnStart { .. }) {
            clock.advance(turn);
        }
    });
    let jumps = || {
        if let Jump::Once(by) = jump {
            environment.jump(by);
        }
    };
    let mut end = agent.prompt("Hi").unwrap();
    match pending {
        Pending::ModelCall | Pending::Tool => latch.reached().await,
        Pending::Deferred => {
            latch.reached().await;
            agent.complete("c1", ToolResult::text("at last")).unwrap();
        }
        Pending::Backoff => environment.sleeps_begun(1).await,
        Pending::Approval => {
            let RunEnd::Suspended(questions) = end.end().await else { panic!("no question") };
            // A day of waiting does not count either.
            environment.advance(Duration::from_secs(86_400));
            jumps();
            end = agent.answer(questions[0].id.clone(), Answer::Allow).unwrap();
        }
    }
    if pending != Pending::Approval {
        jumps();
    }
    if pending == Pending::Backoff {
        environment.advance(Duration::from_secs(2));
    }
    latch.open();
    let end = tokio::time::timeout(Duration::from_secs(60), end.end()).await.expect("the run did not end");
    drop(listening);
    let events = seen.lock().unwrap().clone();
    (end, events)
}

/// The times of a run, in the order of its events.
fn times(events: &[AgentEvent]) -> Vec<Timestamp> {
    let time = |event: &AgentEvent| match event {
        AgentEvent::AgentStart(start) => Some(start.timestamp),
        AgentEvent::TurnStart { timestamp, .. } | AgentEvent::TurnEnd { timestamp, .. } => Some(*timestamp),
        AgentEvent::AgentEnd(end) => Some(end.timestamp),
        _ => None,
    };
    events.iter().filter_map(time).collect()
}

/// At most 27 seconds of work are below the limit of 30, and 32 are above, whatever the clock does.
#[tokio::test]
async fn no_jump_of_the_clock_ends_a_run_prolongs_it_or_turns_its_times_around() {
    for pending in PENDING {
        for jump in JUMPS {
            let (end, events) = over(pending, jump, Duration::from_secs(9)).await;
            assert!(matches!(end, RunEnd::Completed(_)), "{pending:?}, {jump:?}: {end:?}");
            let times = times(&events);
            assert!(times.len() >= 6 && times.is_sorted(), "{pending:?}, {jump:?}: {times:?}");
            if let Jump::Once(by) = jump
                && by > 0
            {
                let shown = times.last().unwrap().0;
                assert!(shown >= START.saturating_add_signed(by), "{pending:?}, {jump:?}: {shown}");
            }
            // A deferred result comes in the second of three turns, the others in the first of two.
            let turn = if pending == Pending::Deferred { 11 } else { 16 };
            let (end, _) = over(pending, jump, Duration::from_secs(turn)).await;
            assert!(matches!(end, RunEnd::Stopped(_)), "{pending:?}, {jump:?}: {end:?}");
        }
    }
}

/// A run that a process left a day ago continues with the time that it had left, and shows the time of day.
#[tokio::test]
async fn the_time_between_two_processes_does_not_count() {
    let mut policy = LoopPolicy::default();
    policy.limits = Some(ExecutionLimits::unlimited().with_max_duration(MAX));
    for (worked, completes) in [(9_000, true), (22_000, false)] {
        let mut setup = RunSetup::new("s.demo.1");
        setup.policy = policy.clone().into();
        let mut run =
            Run::start(setup, History::new(), vec!["Hi".into()], Timestamp(START), &mut Vec::new()).unwrap();
        run.apply(Timestamp(START + worked), Input::ReplyStarted, &mut Vec::new()).unwrap();
        let environment = ManualEnvironment::at(START + 86_400_000);
        let latch = Latch::new();
        latch.open();
        let mut agent = agent(Pending::Tool, &environment, &latch);
        let mut snapshot = agent.snapshot();
        snapshot.suspended = Some(Box::new(run));
        agent = agent.restore(snapshot).unwrap();
        let clock = environment.clone();
        let _listening = agent.subscribe(move |event| {
            if matches!(event, AgentEvent::MessageEnd { .. }) {
                clock.advance(Duration::from_secs(10));
            }
        });
        let events = agent.resume().unwrap().collect().await;
        let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!("no end: {events:?}") };
        assert_eq!(end.ended == Ended::Completed, completes, "{worked}: {:?}", end.ended);
        assert!(end.timestamp.0 >= START + 86_400_000, "{worked}: {:?}", end.timestamp);
    }
}
