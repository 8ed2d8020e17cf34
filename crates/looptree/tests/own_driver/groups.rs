//! Both drivers make the same group of the same scripts, also if the second one is cut off and another continues.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use agent_core::parallel::{Group, GroupCheckpoint, GroupEnd, GroupPlan};
use agent_core::run::{Checkpoint, Run};
use agent_core::testing::{ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentContext, AgentEvent, AgentLoopConfig, Branch, ErrorKind, Evaluated, Evaluation, EvaluationError,
    EvaluationStrategy, EventReceiver, History, LlmJudgeEvaluation, LoopId, ModelConfig, ParallelError,
    PickFirstEvaluation, TokenEfficientEvaluation, Usage, agent_loop_parallel, event_channel,
};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use tokio_util::sync::CancellationToken;

use crate::driver::block_on;
use crate::group_driver::{GroupDriver, Selection, Store};
use crate::world::World;

/// The page shows the driver that is tested here.
#[test]
fn the_page_contains_the_driver_of_groups() {
    let driver = include_str!("group_driver.rs");
    let page = include_str!("../../../../docs/guides/own-driver.md");
    assert!(page.contains(driver.trim_end()), "docs/guides/own-driver.md differs from group_driver.rs");
}

/// What is left of a driver that was cut off: each document as text, and the delivered events.
#[derive(Default)]
struct Left {
    group: String,
    runs: BTreeMap<LoopId, String>,
    events: Vec<AgentEvent>,
    /// How often something is recorded before nothing reaches the store any more; `None` if it is never cut off.
    until_cut_off: Option<usize>,
    records: usize,
}

impl Left {
    fn is_cut_off(&self) -> bool {
        self.until_cut_off.is_some_and(|last| self.records > last)
    }
}

/// A store that replaces what it records by what the record gives, as a driver in another process would.
#[derive(Default)]
struct Reloading(Mutex<Left>);

impl Reloading {
    /// Counts a record and returns the store, unless nothing reaches it any more.
    fn record(&self, into: impl FnOnce(&mut Left)) {
        let mut left = self.0.lock().unwrap();
        left.records += 1;
        if !left.is_cut_off() {
            into(&mut left);
        }
    }

    fn group(&self) -> Group {
        GroupCheckpoint::from_json(&self.0.lock().unwrap().group).unwrap().into_group()
    }
}

impl Store for Reloading {
    fn record_group(&self, group: &mut Group) {
        let written = serde_json::to_string(&GroupCheckpoint::of(group)).unwrap();
        let other = GroupCheckpoint::from_json(&written).unwrap().into_group();
        assert_eq!(*group, other);
        *group = other;
        self.record(|left| left.group = written);
    }

    fn record_run(&self, run: &mut Run) {
        let written = serde_json::to_string(&Checkpoint::of(run)).unwrap();
        let other = Checkpoint::from_json(&written).unwrap().into_run();
        assert_eq!(*run, other);
        *run = other;
        let loop_id = run.setup().loop_id.clone();
        self.record(|left| drop(left.runs.insert(loop_id, written)));
    }

    fn run(&self, loop_id: &LoopId) -> Option<Run> {
        let left = self.0.lock().unwrap();
        left.runs.get(loop_id).map(|written| Checkpoint::from_json(written).unwrap().into_run())
    }

    fn deliver(&self, event: &AgentEvent) {
        let mut left = self.0.lock().unwrap();
        if !left.is_cut_off() {
            left.events.push(event.clone());
        }
    }
}

/// What a driver made of a script: the events of each loop, the conversations, and the end of the group.
#[derive(Debug, PartialEq)]
struct Made {
    events: BTreeMap<LoopId, Vec<AgentEvent>>,
    histories: Vec<History>,
    selected: Option<usize>,
    reason: Option<String>,
    usage: [Usage; 2],
    draws: Vec<usize>,
}

fn by_loop(events: impl IntoIterator<Item = AgentEvent>) -> BTreeMap<LoopId, Vec<AgentEvent>> {
    let mut loops: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for event in events {
        loops.entry(event.loop_id().clone()).or_default().push(event);
    }
    loops
}

/// The worlds of the branches and of the judge.
struct Script {
    branches: Vec<World>,
    judge: World,
    cancel: CancellationToken,
    /// The branches run one after the other, and each of them can abort the group. Otherwise only the judge can, because
    /// an abort reaches concurrent branches at points that depend on the driver.
    in_turn: bool,
}

/// The events of the built-in driver, as far as they have been read.
struct Heard {
    rx: EventReceiver,
    events: Vec<AgentEvent>,
}

impl Heard {
    /// Reads the events and returns how many branches have ended or wait.
    fn left(&mut self) -> usize {
        self.events.extend(std::iter::from_fn(|| self.rx.try_recv()));
        let is_child = |e: &AgentEvent| e.loop_id().as_str().contains(".sub.");
        self.events.iter().filter(|e| e.is_terminal() && !is_child(e)).count()
    }
}

struct Fails;
struct Elsewhere;

#[async_trait::async_trait]
impl EvaluationStrategy for Fails {
    async fn evaluate(&self, _: Evaluation<'_>) -> Result<Evaluated, EvaluationError> {
        Err(EvaluationError::Failed("no idea".into()))
    }
}

#[async_trait::async_trait]
impl EvaluationStrategy for Elsewhere {
    async fn evaluate(&self, evaluation: Evaluation<'_>) -> Result<Evaluated, EvaluationError> {
        Ok(Evaluated::select(evaluation.outcomes.len()).using(Usage::new(1, 1, 0, 0)))
    }
}

impl Script {
    fn new(rows: &[Vec<u16>], in_turn: bool) -> Self {
        let cancel = CancellationToken::new();
        let world = |row: &Vec<u16>, aborts: bool| {
            let mut world = World::new(row.clone());
            if aborts {
                world.cancel = cancel.clone();
            }
            world
        };
        let (judge, branches) = rows.split_first().unwrap();
        let branches = branches.iter().map(|row| world(row, in_turn)).collect();
        Self { branches, judge: world(judge, true), cancel, in_turn }
    }

    /// The branches. In turn, each begins when those before it have left, as far as the events show it.
    fn branches(&self, heard: &Option<Arc<Mutex<Heard>>>) -> Vec<Branch> {
        let branch = |(n, world): (usize, &World)| {
            let (mut config, heard) = (world.config(), heard.clone());
            if self.in_turn {
                let hooks = std::mem::take(&mut *config.hooks);
                *config.hooks = hooks.before_loop(move |_| {
                    let heard = heard.clone();
                    std::future::poll_fn(move |cx| {
                        if heard.as_ref().is_none_or(|heard| heard.lock().unwrap().left() >= n) {
                            return Poll::Ready(true);
                        }
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    })
                });
            }
            Branch::new(config).with_tools(world.tools())
        };
        self.branches.iter().enumerate().map(branch).collect()
    }

    fn judge(&self) -> LlmJudgeEvaluation {
        let (world, mut config) = (self.judge.clone(), self.judge.config());
        config.services.provider = Arc::new(ScriptedProvider::responding(move |_| {
            world.meddle();
            let text = ["1", "2", "Verdict: 2", "neither", "Response 1 is better."][world.draw(5)];
            let reply = ScriptedReply::text(text).using(Usage::new(20, 2, 0, 0));
            match world.draw(8) {
                5 => reply.failing(ErrorKind::Network, "gone"),
                6 => reply.and_call("c1", "ask", serde_json::json!({})),
                7 => reply.and_panic("lost"),
                _ => reply,
            }
        }));
        LlmJudgeEvaluation::new(config)
    }

    fn draws(&self) -> Vec<usize> {
        let worlds = self.branches.iter().chain([&self.judge]);
        worlds.map(|world| world.row.lock().unwrap().at()).collect()
    }
}

const STRATEGIES: [Option<&dyn EvaluationStrategy>; 7] = [
    None,
    None,
    None,
    Some(&PickFirstEvaluation),
    Some(&TokenEfficientEvaluation),
    Some(&Fails),
    Some(&Elsewhere),
];

fn base() -> AgentContext {
    let mut context = AgentContext::new("Be brief.");
    context.agent_id = Some("agent".into());
    context.session_id = Some("session".into());
    context.loop_id = Some("session.demo.1".into());
    context
}

fn built_in(rows: &[Vec<u16>], strategy: usize, in_turn: bool) -> Made {
    let script = Script::new(rows, in_turn);
    let (tx, rx) = event_channel();
    let heard = Arc::new(Mutex::new(Heard { rx, events: Vec::new() }));
    let branches = script.branches(&Some(Arc::clone(&heard)));
    let judge = script.judge();
    let strategy: &dyn EvaluationStrategy = STRATEGIES[strategy].unwrap_or(&judge);
    let cancel = script.cancel.clone();
    let result = block_on(agent_loop_parallel(vec!["go".into()], base(), branches, strategy, tx, cancel));
    let (selected, reason) = match &result {
        Ok(result) => (Some(result.selected_index()), result.decision.reason().map(str::to_owned)),
        Err(ParallelError::Evaluation { source, .. }) => (None, Some(source.to_string())),
        Err(other) => (None, Some(other.to_string())),
    };
    let outcomes: Vec<_> = match &result {
        Ok(result) => result.outcomes().collect(),
        Err(error) => error.outcomes().iter().collect(),
    };
    let histories = outcomes.iter().map(|o| o.context.history.clone()).collect();
    let branches = outcomes.iter().fold(Usage::default(), |sum, o| sum.combine(&o.total_usage()));
    let usage = [branches, result.map(|r| r.usage.evaluation).unwrap_or_default()];
    let mut heard = heard.lock().unwrap();
    heard.left();
    let events = by_loop(std::mem::take(&mut heard.events));
    Made { events, histories, selected, reason, usage, draws: script.draws() }
}

fn made(store: &Reloading, plan: &GroupPlan, draws: Vec<usize>) -> Made {
    let group = store.group();
    let (selected, reason) = match group.ended().unwrap() {
        GroupEnd::Selected { evaluated } => {
            (Some(evaluated.decision.index()), evaluated.decision.reason().map(str::to_owned))
        }
        GroupEnd::Aborted {} => (None, Some(ParallelError::Aborted { outcomes: Vec::new() }.to_string())),
        end => (None, end.reason()),
    };
    let history =
        |l: &agent_core::parallel::GroupLoop| store.run(&l.setup().loop_id).unwrap().history().clone();
    let histories = plan.loops().iter().map(history).collect();
    let usage = group.usage();
    let usage = [usage.branches.combine(&usage.tools), usage.evaluation];
    let events = by_loop(std::mem::take(&mut store.0.lock().unwrap().events));
    Made { events, histories, selected, reason, usage, draws }
}

fn own(rows: &[Vec<u16>], strategy: usize, in_turn: bool) -> Made {
    let script = Script::new(rows, in_turn);
    let plan = GroupPlan::new(&["go".into()], base(), script.branches(&None)).unwrap();
    let judge = script.judge();
    let selection = STRATEGIES[strategy].map_or(Selection::Judge(&judge), Selection::Strategy);
    let store = Reloading::default();
    let driver = GroupDriver { plan: &plan, selection, store: &store, cancel: script.cancel.clone() };
    let mut group = driver.start();
    driver.drive(&mut group).unwrap();
    assert_eq!(group, store.group());
    made(&store, &plan, script.draws())
}

/// The same events of each loop and of the group, the same conversations and the same selection, although the second
/// driver reads the group and the runs from JSON after every input.
#[test]
fn the_drivers_of_groups_agree() {
    let seen = Arc::new([const { AtomicUsize::new(0) }; 7]);
    let count = |n: usize, yes: bool| seen[n].fetch_add(usize::from(yes), Ordering::Relaxed);
    let mut config = ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(2_027);
    }
    std::panic::set_hook(Box::new(|_| {}));
    let row = || prop::collection::vec(any::<u16>(), 8..100);
    let scripts = (prop::collection::vec(row(), 2..=5), 0..STRATEGIES.len(), any::<bool>());
    let outcome = TestRunner::new(config).run(&scripts, |(rows, strategy, in_turn)| {
        let (expected, made) = (built_in(&rows, strategy, in_turn), own(&rows, strategy, in_turn));
        for (loop_id, events) in &expected.events {
            let own = made.events.get(loop_id).map_or(&[][..], Vec::as_slice);
            for (n, (a, b)) in own.iter().zip(events).enumerate() {
                prop_assert_eq!(a, b, "event {} of {}", n, loop_id);
            }
        }
        prop_assert_eq!(&made, &expected);
        let any = |test: fn(&AgentEvent) -> bool| expected.events.values().flatten().any(test);
        count(0, expected.selected.is_some_and(|index| index > 0));
        count(1, expected.reason.as_deref() == Some("the branches were aborted before one was selected"));
        count(2, expected.events.keys().any(|id| id.as_str().ends_with("-judge")));
        count(3, any(|e| matches!(e, AgentEvent::RunSuspended { .. })));
        count(4, expected.reason.as_deref().is_some_and(|reason| reason.contains("no branch produced")));
        count(5, expected.reason.as_deref().is_some_and(|reason| reason.starts_with("the judge")));
        count(6, expected.reason.as_deref().is_some_and(|reason| reason.contains("counted from 0")));
        Ok(())
    });
    let _ = std::panic::take_hook();
    outcome.unwrap();
    // The scripts reach what they are made for.
    for (n, seen) in seen.iter().enumerate() {
        assert!(seen.load(Ordering::Relaxed) >= 10, "case {n} was seen {seen:?} times");
    }
}

/// Two branches that each call a tool, and a judge that calls one and is then refused, so that every kind of record is
/// there. Each reply depends on its request only.
fn branches_of_two() -> (Vec<Branch>, LlmJudgeEvaluation) {
    let clock = ManualEnvironment::skipping(1_000);
    let config = |model: ScriptedProvider| {
        let environment = crate::world::Inline::new(clock.clone());
        AgentLoopConfig::new(Arc::new(model), ModelConfig::default(), Arc::new(environment))
    };
    let branch = |text: &'static str| {
        let model = ScriptedProvider::responding(move |request| match request.messages().count() {
            1 => ScriptedReply::call("c1", "look", serde_json::json!({})),
            _ => ScriptedReply::text(text).using(Usage::new(10, 2, 0, 0)),
        });
        let look: Arc<dyn agent_core::AgentTool> = Arc::new(ScriptedTool::saying("look", "seen"));
        Branch::new(config(model)).with_tools(vec![look])
    };
    let judge = ScriptedProvider::responding(|request| match request.messages().count() {
        1 => ScriptedReply::call("c1", "look", serde_json::json!({})),
        _ => ScriptedReply::text("2").using(Usage::new(30, 1, 0, 0)),
    });
    (vec![branch("five"), branch("four")], LlmJudgeEvaluation::new(config(judge)))
}

/// The recorded events, in order. Updates of a step that is performed again are live and may be repeated.
fn durable(store: &Reloading) -> Vec<AgentEvent> {
    let events = store.0.lock().unwrap().events.clone();
    events.into_iter().filter(|event| !event.is_live()).collect()
}

fn names(events: &[AgentEvent]) -> String {
    let mut text = String::new();
    for event in events {
        let json = serde_json::to_value(event).unwrap();
        let _ = writeln!(text, "{} {}", event.loop_id(), json["type"].as_str().unwrap_or_default());
    }
    text
}

/// After each record everything is dropped but the group and its runs in their serialized form; another driver continues.
#[test]
fn a_group_that_was_cut_off_at_any_step_continues_and_repeats_nothing() {
    let drive = |store: &Reloading| {
        let (branches, judge) = branches_of_two();
        let written = store.0.lock().unwrap().group.clone();
        let prompts = ["2 + 2?".into()];
        let plan = if written.is_empty() {
            GroupPlan::new(&prompts, base(), branches).unwrap()
        } else {
            GroupPlan::resume(store.group().setup().clone(), &prompts, base(), branches).unwrap()
        };
        let (selection, cancel) = (Selection::Judge(&judge), CancellationToken::new());
        let driver = GroupDriver { plan: &plan, selection, store, cancel };
        let mut group = if written.is_empty() { driver.start() } else { store.group() };
        // A driver that was cut off may not find the runs that it could not record.
        let driven = driver.drive(&mut group);
        assert!(driven.is_ok() || store.0.lock().unwrap().is_cut_off(), "{driven:?}");
    };
    let whole = Reloading::default();
    drive(&whole);
    let (expected, records) = (durable(&whole), whole.0.lock().unwrap().records);
    let end = whole.group().ended().cloned();
    assert!(
        matches!(&end, Some(GroupEnd::Selected { evaluated }) if evaluated.decision.index() == 1),
        "{end:?}"
    );
    assert!(records >= 30, "{records}");
    for last in 0..records {
        let store = Reloading::default();
        store.0.lock().unwrap().until_cut_off = Some(last);
        drive(&store);
        store.0.lock().unwrap().until_cut_off = None;
        drive(&store);
        assert_eq!(store.group().ended(), end.as_ref(), "cut off after record {last}");
        assert_eq!(names(&durable(&store)), names(&expected), "cut off after record {last}");
        assert_eq!(store.0.lock().unwrap().runs.len(), 3);
    }
}
