//! The simulation: its settings, the seeds, and the search for the shortest failing script.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use agent_core::{AgentError, AgentHandle, BasicAgent, BoxFuture};
use agent_session::SessionStore;
use agent_session::cassette::CassetteRecorder;
use serde_json::Value;

use crate::failure::{Failure, Report};
use crate::faults::Faults;
use crate::laws::{self, Evidence};
use crate::log::{Execution, Log};
use crate::outcome::{Outcome, Violation};
use crate::process::{Process, Program};
use crate::script::Script;
use crate::shrink;
use crate::source::{Plan, Source};
use crate::tools::Execute;
use crate::world::World;

type Build = dyn Fn(&World) -> BasicAgent + Send + Sync;
type Check = dyn Fn(&Log) -> Option<String> + Send + Sync;
type Open = dyn Fn(&World) -> Arc<dyn SessionStore> + Send + Sync;
type Attach = dyn Fn(&World, &BasicAgent) + Send + Sync;
type Perform = dyn Fn(World, AgentHandle, String) -> BoxFuture<'static, Result<(), AgentError>> + Send + Sync;

/// A run of more processes than this does not end: each kill comes from a step of the script, of which there are fewer.
const MAX_PROCESSES: usize = 1_000;

/// A simulation of an agent: what may happen to it, and what must hold.
///
/// Each seed gives one simulated run, which is the same on every machine. Besides the invariants that are stated here, the
/// laws of Looptree are checked in each run; see the documentation of the crate.
///
/// The model, the clock and the journal of the agent are replaced. Tools, hooks, policies, limits and the budget stay as
/// they are. [`store`](Self::store) records the agent to a session store, and [`program`](Self::program) lets a program do
/// more with a prompt than one run.
pub struct Sim {
    build: Box<Build>,
    plan: Plan,
    seeds: Range<u64>,
    simulated: Simulated,
    store: Option<Box<Open>>,
    attach: Option<Box<Attach>>,
    perform: Option<Box<Perform>>,
    rules: Vec<Rule>,
    shrinks: usize,
}

/// Which tools the simulation executes.
enum Simulated {
    Named(Vec<String>),
    All,
}

struct Rule {
    name: String,
    check: Box<Check>,
}

impl Sim {
    /// Creates a simulation of the agent that `build` returns. `build` is called for each process: once for each run, and
    /// again after each kill.
    ///
    /// By default 100 seeds are run, with up to five replies with tool calls for a prompt, and with all [`Faults`].
    #[must_use]
    pub fn new(build: impl Fn(&World) -> BasicAgent + Send + Sync + 'static) -> Self {
        let plan = Plan {
            faults: Faults::all(),
            prompts: vec!["Begin.".to_owned(), "Go on.".to_owned()],
            turns: 5,
            arguments: BTreeMap::new(),
            has_store: false,
        };
        Self {
            build: Box::new(build),
            plan,
            seeds: 0..100,
            simulated: Simulated::Named(Vec::new()),
            store: None,
            attach: None,
            perform: None,
            rules: Vec::new(),
            shrinks: 2_000,
        }
    }

    /// Sets the seeds to run. Default: `0..100`.
    #[must_use]
    pub fn seeds(mut self, seeds: Range<u64>) -> Self {
        self.seeds = seeds;
        self
    }

    /// Sets what the user says. A run draws how many of these prompts it uses, at most three, from the first one on.
    #[must_use]
    pub fn prompts(mut self, prompts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.plan.prompts = prompts.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the most replies with tool calls that are drawn for a prompt. Default: 5.
    #[must_use]
    pub fn turns(mut self, turns: u32) -> Self {
        self.plan.turns = turns;
        self
    }

    /// Sets the kinds of trouble. Default: [`Faults::all`].
    #[must_use]
    pub fn faults(mut self, faults: Faults) -> Self {
        self.plan.faults = faults;
        self
    }

    /// Sets arguments of a tool, of which one is drawn for each valid call. By default they are drawn from the schema.
    #[must_use]
    pub fn arguments(mut self, tool: impl Into<String>, values: impl IntoIterator<Item = Value>) -> Self {
        self.plan.arguments.insert(tool.into(), values.into_iter().collect());
        self
    }

    /// Makes the simulation execute these tools instead of the tools themselves. They return a text and have no effect
    /// besides the entry in the log.
    #[must_use]
    pub fn simulate_tools(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        if let Simulated::Named(named) = &mut self.simulated {
            named.extend(names.into_iter().map(Into::into));
        }
        self
    }

    /// Makes the simulation execute all tools, as [`simulate_tools`](Self::simulate_tools).
    #[must_use]
    pub fn simulate_all_tools(mut self) -> Self {
        self.simulated = Simulated::All;
        self
    }

    /// Records the agent to a session store, with faults at each of its calls, and continues its session from the store after
    /// each kill. `open` is called for each process. What must survive a process belongs into [`World::outside`] or into
    /// files of a folder that no other run uses; everything else of the store ends with its process.
    ///
    /// The store waits on the clock of the simulation, or not at all. A [`Fault::Crash`](crate::Fault::Crash) is a kill.
    #[must_use]
    pub fn store<S: SessionStore + 'static>(
        mut self,
        open: impl Fn(&World) -> S + Send + Sync + 'static,
    ) -> Self {
        self.store = Some(Box::new(move |world| Arc::new(open(world))));
        self.plan.has_store = true;
        self
    }

    /// Sets what each process does with its agent after it was restored and before it continues, for example to attach work in
    /// the background or a listener.
    #[must_use]
    pub fn attach(mut self, attach: impl Fn(&World, &BasicAgent) + Send + Sync + 'static) -> Self {
        self.attach = Some(Box::new(attach));
        self
    }

    /// Sets what the program does with a prompt, for example to explore branches and adopt one. By default the agent runs it.
    /// After a kill that left no open run, the next process performs the same prompt again. An error of the program is a
    /// note in the log, `error of the program`.
    #[must_use]
    pub fn program<F>(
        mut self,
        perform: impl Fn(World, AgentHandle, String) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), AgentError>> + Send + 'static,
    {
        self.perform = Some(Box::new(move |world, agent, prompt| Box::pin(perform(world, agent, prompt))));
        self
    }

    /// States that something never happens. The predicate returns whether the log shows it; it is called with the log of
    /// the whole run, after its end.
    #[must_use]
    pub fn never(
        self,
        name: impl Into<String>,
        happened: impl Fn(&Log) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.rule(name, move |log| happened(log).then(|| "it happened".to_owned()))
    }

    /// States that something holds at the end of each run, when no act is left and every question is answered.
    #[must_use]
    pub fn eventually(
        self,
        name: impl Into<String>,
        holds: impl Fn(&Log) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.rule(name, move |log| (!holds(log)).then(|| "it does not hold at the end".to_owned()))
    }

    /// States that tools have each effect at most once. `key` names the effect of an execution, and returns `None` for
    /// executions that have none.
    ///
    /// A repetition that the user approved, as the run asks for a call that a kill cut off, does not count.
    #[must_use]
    pub fn at_most_once(
        self,
        name: impl Into<String>,
        key: impl Fn(&Execution) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.rule(name, move |log| {
            let mut seen: BTreeMap<String, &Execution> = BTreeMap::new();
            for execution in log.executions() {
                let Some(key) = key(execution) else { continue };
                if let Some(before) = seen.insert(key.clone(), execution) {
                    let again = before.idempotency_key == execution.idempotency_key;
                    if !(again && log.approved(execution)) {
                        let (first, second) = (&before.call_id, &execution.call_id);
                        return Some(format!("`{key}` happened in {first} and again in {second}"));
                    }
                }
            }
            None
        })
    }

    fn rule(
        mut self,
        name: impl Into<String>,
        check: impl Fn(&Log) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.rules.push(Rule { name: name.into(), check: Box::new(check) });
        self
    }

    /// Runs all seeds, one after the other, and stops at the first that violates an invariant or a law.
    ///
    /// # Errors
    /// The failure with the shortest script that was found for it.
    pub fn run(&self) -> Result<Report, Box<Failure>> {
        let mut report = Report::default();
        let plan = Arc::new(self.plan.clone());
        for seed in self.seeds.clone() {
            let outcome = self.play(Source::drawn(seed, Arc::clone(&plan)), None);
            report.count(&outcome);
            if outcome.violation.is_some() {
                return Err(self.failure(seed, outcome));
            }
        }
        Ok(report)
    }

    /// Runs one script, as a failure prints it.
    ///
    /// # Errors
    /// The failure if the script violates an invariant or a law. Its script is not shrunk further.
    pub fn replay(&self, script: &Script) -> Result<Log, Box<Failure>> {
        let outcome = self.play(Source::read(script), None);
        match outcome.violation {
            None => Ok(outcome.log),
            Some(violation) => {
                Err(Box::new(self.failed(script.seed, script.steps.len(), outcome.script, violation)))
            }
        }
    }

    fn failure(&self, seed: u64, outcome: Outcome) -> Box<Failure> {
        let Outcome { script, violation, .. } = outcome;
        let steps = script.steps.len();
        let violation =
            violation.unwrap_or_else(|| Violation { rule: String::new(), message: String::new() });
        let mut left = self.shrinks;
        let shortest = shrink::shortest(script, |candidate| {
            left = left.saturating_sub(1);
            let found = (left > 0).then(|| self.play(Source::read(candidate), None).violation).flatten();
            found.is_some_and(|found| found.rule == violation.rule)
        });
        Box::new(self.failed(seed, steps, shortest, violation))
    }

    /// Runs a failing script once more for its log, and once with a cassette for each process: a recorded tool delegates nothing.
    fn failed(&self, seed: u64, steps: usize, script: Script, violation: Violation) -> Failure {
        let outcome = self.play(Source::read(&script), None);
        let mut recorders = Vec::new();
        self.play(Source::read(&script), Some(&mut recorders));
        let Violation { rule, message } = outcome.violation.unwrap_or(violation);
        let cassettes = recorders.iter().map(CassetteRecorder::cassette).collect();
        Failure { seed, rule, message, script, drawn_steps: steps, log: outcome.log, cassettes }
    }

    /// Runs one script to its end, in as many processes as it kills.
    fn play(&self, source: Source, mut recorders: Option<&mut Vec<CassetteRecorder>>) -> Outcome {
        let mut world = World::new(source, self.store.is_some());
        let execute = |name: &str| match &self.simulated {
            Simulated::All => Execute::Simulated,
            Simulated::Named(names) if names.iter().any(|simulated| simulated == name) => Execute::Simulated,
            Simulated::Named(_) => Execute::Real,
        };
        let program = Program {
            build: &*self.build,
            execute: &execute,
            store: self.store.as_deref(),
            attach: self.attach.as_deref(),
            perform: self.perform.as_deref(),
        };
        let mut processes: Vec<Process> = Vec::new();
        while processes.len() < MAX_PROCESSES {
            let recorder = recorders.as_deref_mut().map(|recorders| {
                recorders.push(CassetteRecorder::new());
                recorders.last().cloned().unwrap_or_default()
            });
            processes.append(&mut program.run(&world, recorder.as_ref()));
            if !processes.last().is_some_and(Process::continues) {
                break;
            }
            world = world.next();
        }
        let mut state = world.state();
        let state = &mut *state;
        let problems = state.writes.as_ref().map_or(&[][..], |writes| &writes.problems);
        let evidence = Evidence {
            log: &state.log,
            disk: &state.disk,
            kills: &state.kills,
            processes: &processes,
            refused: &state.refused,
            of_store: problems,
        };
        let violation = laws::check(&evidence).or_else(|| self.violated(&state.log));
        Outcome {
            script: state.source.script().clone(),
            violation,
            kills: processes.iter().filter(|process| process.killed).count(),
            log: std::mem::take(&mut state.log),
        }
    }

    fn violated(&self, log: &Log) -> Option<Violation> {
        self.rules.iter().find_map(|rule| {
            let message = (rule.check)(log)?;
            Some(Violation { rule: rule.name.clone(), message })
        })
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules: Vec<&str> = self.rules.iter().map(|rule| rule.name.as_str()).collect();
        f.debug_struct("Sim").field("seeds", &self.seeds).field("rules", &rules).finish_non_exhaustive()
    }
}
