//! The step function alone, with a shell that draws what happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent_core::fold::Fold;
use agent_core::journal::AppliedInput;
use agent_core::run::{Checkpoint, Input, Recorded, Run, RunCheckpoint, RunSetup, Step};
use agent_core::testing::assert_well_formed;
use agent_core::{AgentEvent, Entry, History, MessageRef, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::choices::{Choices, choices};
use crate::world;

/// Steps after which a script is aborted.
const MOST_STEPS: usize = 120;

/// How much happened, so that tame scripts are noticed.
#[derive(Default)]
struct Tally {
    counts: [AtomicUsize; 7],
}

impl Tally {
    fn add(&self, kind: usize) {
        self.counts[kind].fetch_add(1, Ordering::Relaxed);
    }
}

const INPUTS: usize = 0;
const REFUSED: usize = 1;
const STRAYS: usize = 2;
const TURNS: usize = 3;
const CALLS: usize = 4;
const SUSPENSIONS: usize = 5;
const COMPACTIONS: usize = 6;

struct Machine<'t> {
    setup: Arc<RunSetup>,
    run: Run,
    fold: Fold,
    events: Vec<AgentEvent>,
    journal: Vec<AppliedInput>,
    now: u64,
    ids: Vec<String>,
    tally: &'t Tally,
    /// How long the history was when it was last looked at.
    looked_at: usize,
    /// Whether everything is written down and read again at each step.
    written: bool,
}

impl<'t> Machine<'t> {
    fn start(c: &mut Choices, tally: &'t Tally, written: bool) -> Option<(Self, Run)> {
        let setup = Arc::new(world::setup(c));
        let history = world::past(c);
        let prompts = (0..1 + c.below(2)).map(|_| world::user(c)).collect();
        let mut events = Vec::new();
        let now = 1_000;
        let run =
            Run::start(Arc::clone(&setup), history.clone(), prompts, Timestamp(now), &mut events).ok()?;
        let mut fold = Fold::new(history);
        for event in &events {
            fold.push(event).unwrap();
        }
        let first = run.clone();
        let journal = Vec::new();
        let ids = Vec::new();
        let machine = Self { setup, run, fold, events, journal, now, ids, tally, looked_at: 0, written };
        Some((machine, first))
    }

    /// What must hold whenever the run stands still.
    fn look(&mut self) {
        let (run, step) = (&self.run, self.run.next());
        assert_eq!(step, run.next(), "asked twice, it says the same");
        if let Step::RunTools { calls, .. } = &step {
            self.ids.extend(calls.iter().map(|call| call.call.id.to_string()));
        }
        let mut light = run.checkpoint();
        if self.written {
            let text = serde_json::to_string(&step).unwrap();
            let read: Step = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
            assert_eq!(read, step, "a step can be written down and read");
            let text = serde_json::to_string(&light).unwrap();
            light = serde_json::from_str::<RunCheckpoint>(&text).unwrap();
        }
        let restored = Run::restore(Arc::clone(&self.setup), light, &self.fold).unwrap();
        assert_eq!(restored, *run, "the light form and the log give the run");
        assert_eq!(self.fold.history(), run.history(), "the log gives the history");
        if run.history().len() != self.looked_at {
            self.looked_at = run.history().len();
            closed(run.history());
        }
    }

    /// Applies an input to the run and to a copy that was written down and read.
    fn apply(&mut self, now: Timestamp, input: Input) -> bool {
        let mut copy = self.run.clone();
        if self.written {
            let text = serde_json::to_string(&Checkpoint::of(&self.run)).unwrap();
            copy = Checkpoint::from_json(&text).unwrap_or_else(|e| panic!("{e}: {text}")).into_run();
            assert_eq!(copy, self.run, "written down and read, it is the same");
            assert_eq!(shared(&copy), shared(&self.run), "and shares the same messages");
        }
        let before = self.run.clone();
        let emitted = before.event_count();
        let (mut said, mut said_by_copy) = (Vec::new(), Vec::new());
        let taken = self.run.apply(now, input.clone(), &mut said);
        let taken_by_copy = copy.apply(now, input.clone(), &mut said_by_copy);
        assert_eq!(taken, taken_by_copy);
        assert_eq!(said, said_by_copy);
        assert_eq!(self.run, copy);
        self.tally.add(INPUTS);
        if taken.is_err() {
            assert_eq!(self.run, before, "a refused input changes nothing");
            assert!(said.is_empty(), "a refused input says nothing");
            self.tally.add(REFUSED);
            return false;
        }
        assert_eq!(self.run.now(), now.max(before.now()), "the time of a run does not go back");
        for event in &said {
            match event {
                AgentEvent::TurnStart { .. } => self.tally.add(TURNS),
                AgentEvent::ToolExecutionEnd(_) => self.tally.add(CALLS),
                AgentEvent::RunSuspended { .. } => self.tally.add(SUSPENSIONS),
                AgentEvent::CompactionEnded(_) => self.tally.add(COMPACTIONS),
                _ => {}
            }
        }
        for event in &said {
            assert!(!event.is_live());
            if self.written {
                let text = serde_json::to_string(event).unwrap();
                let read: AgentEvent = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
                assert_eq!(read, *event, "an event can be written down and read");
            }
            self.fold.push(event).unwrap();
        }
        let numbers: Vec<u64> = self.run.numbered(said.clone()).iter().map(|event| event.number).collect();
        assert_eq!(
            numbers,
            (emitted + 1..=self.run.event_count()).collect::<Vec<_>>(),
            "no number is left out"
        );
        assert_eq!(
            copy.numbered(said.clone()),
            self.run.numbered(said.clone()),
            "a copy gives the same numbers"
        );
        self.events.extend(said);
        assert_eq!(self.run.event_count(), self.events.len() as u64);
        self.journal.push(AppliedInput { now, input });
        self.look();
        true
    }

    /// The clock goes on, and once in a while it is set back.
    fn tick(&mut self, c: &mut Choices) -> Timestamp {
        self.now = if c.once_in(12) { self.now.saturating_sub(40) } else { self.now + c.below(30) as u64 };
        Timestamp(self.now)
    }

    fn drive(&mut self, c: &mut Choices) {
        self.look();
        for _ in 0..MOST_STEPS {
            if self.run.ended().is_some() {
                return;
            }
            if !c.is_used_up() && c.once_in(4) {
                let input = world::any_input(c, self.run.history(), &self.ids);
                let now = self.tick(c);
                if self.apply(now, input) {
                    self.tally.add(STRAYS);
                }
                continue;
            }
            let now = self.tick(c);
            let input = if c.once_in(60) { world::abort(c) } else { world::fitting(c, &self.run.next()) };
            self.apply(now, input);
        }
        for _ in 0..2 {
            if self.run.ended().is_none() {
                let now = self.tick(c);
                assert!(self.apply(now, Input::abort(None)), "an abort is always taken");
            }
        }
    }

    fn at_the_end(&mut self, mut first: Run) {
        assert!(self.run.ended().is_some(), "two aborts end every run");
        assert!(matches!(self.run.next(), Step::Done(_)));
        assert_well_formed(&self.events);
        let ends = self.events.iter().filter(|e| matches!(e, AgentEvent::AgentEnd(_))).count();
        assert_eq!(ends, 1);
        // Nothing is taken after the end.
        assert!(!self.apply(Timestamp(self.now + 1), Input::abort(None)));
        // The journal gives the same again.
        let mut journal = self.journal.clone();
        if self.written {
            let text = serde_json::to_string(&Recorded::new(self.run.now(), journal)).unwrap();
            journal = Recorded::from_json(&text).unwrap_or_else(|e| panic!("{e}: {text}")).inputs;
            assert_eq!(journal, self.journal);
        }
        let mut said = Vec::new();
        Recorded::new(self.run.now(), journal).replay(&mut first, &mut said).unwrap();
        assert_eq!(first, self.run, "the journal gives the same state");
        assert!(self.events.ends_with(&said), "the journal gives the same events");
        let all = self.run.numbered(self.events.clone());
        assert!(all.ends_with(&first.numbered(said)), "the journal gives the same numbers");
        assert!(all.iter().zip(1..).all(|(event, number)| event.number == number));
    }
}

/// The positions of the run's messages in its history; the open reply is after the last one.
fn shared(run: &Run) -> Vec<Option<usize>> {
    let held: Vec<_> = run.history().entries().map(Entry::shared).chain(run.open_reply()).collect();
    let place = |new: &MessageRef| held.iter().rposition(|held| MessageRef::same(held, new));
    run.new_messages().in_memory().iter().map(place).collect()
}

#[track_caller]
fn closed(history: &History) {
    let list: Vec<Entry> = history.entries().cloned().collect();
    let (again, repairs) = History::repaired(list);
    assert!(repairs.is_empty(), "{repairs:?}");
    assert_eq!(again, *history);
}

fn check(cases: u32, written: bool, least: [usize; 7]) {
    let tally = Tally::default();
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let tested = TestRunner::new(config).run(&choices(400), |mut c| {
        if let Some((mut machine, first)) = Machine::start(&mut c, &tally, written) {
            machine.drive(&mut c);
            machine.at_the_end(first);
        }
        Ok(())
    });
    if let Err(error) = tested {
        panic!("{error}");
    }
    let kinds = ["inputs", "refused", "strays taken", "turns", "calls", "suspensions", "compactions"];
    for ((kind, count), least) in kinds.iter().zip(&tally.counts).zip(least) {
        let count = count.load(Ordering::Relaxed);
        println!("{count} {kind}");
        assert!(count >= least, "the scripts are too tame: only {count} {kind}");
    }
}

/// B-190.
#[test]
fn every_run_written_down_and_read_at_every_step_goes_on_the_same_and_its_journal_replays() {
    check(300, true, [1_500, 300, 150, 200, 200, 20, 30]);
}

/// B-006, B-016.
#[test]
fn every_run_ends_once_stays_closed_refuses_whole_and_is_given_back_by_its_log() {
    check(4_000, false, [25_000, 5_000, 2_000, 3_000, 3_000, 300, 500]);
}
