//! What a simulation returns: figures of the runs, or a failure with its shortest script.

use std::collections::BTreeMap;
use std::fmt;

use agent_core::AgentEvent;
use agent_session::cassette::Cassette;

use crate::log::{Log, What};
use crate::outcome::Outcome;
use crate::script::Script;

/// Figures of the simulated runs, from which a test sees whether they exercised the agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Report {
    /// The number of simulated runs, one for each seed.
    pub runs: usize,
    /// The model calls of all runs.
    pub model_calls: usize,
    /// The executions of tools by name.
    pub executions: BTreeMap<String, usize>,
    /// The number of questions that were answered.
    pub answers: usize,
    /// The kills and crashes after which another process continued.
    pub kills: usize,
    /// The ends of runs by name: `completed`, `aborted`, `limit` and so on.
    pub ends: BTreeMap<String, usize>,
}

impl Report {
    pub(crate) fn count(&mut self, outcome: &Outcome) {
        self.runs += 1;
        self.kills += outcome.kills;
        for execution in outcome.log.executions() {
            *self.executions.entry(execution.tool.clone()).or_default() += 1;
        }
        for entry in outcome.log.entries() {
            match &entry.what {
                What::ModelCalled(_) => self.model_calls += 1,
                What::Answered { .. } => self.answers += 1,
                What::Recorded(event) => {
                    if let AgentEvent::AgentEnd(end) = &event.event {
                        *self.ends.entry(end.ended.name().to_owned()).or_default() += 1;
                    }
                }
                _ => {}
            }
        }
    }
}

/// An invariant or a law that a simulated run violated, with the shortest script that was found for it.
///
/// Both `Display` and `Debug` show the script as a test that can be pasted, and what happened in it, so that `unwrap` in a
/// test prints it.
#[derive(Clone)]
#[non_exhaustive]
pub struct Failure {
    /// The seed whose run failed.
    pub seed: u64,
    /// The name of the invariant, or of a law of Looptree: these begin with `law: `.
    pub rule: String,
    /// What was found in the run.
    pub message: String,
    /// The shortest script that was found. [`Sim::replay`](crate::Sim::replay) runs it.
    pub script: Script,
    /// The number of steps of the script that the seed gave, before it was shrunk.
    pub drawn_steps: usize,
    /// The log of the shortest script.
    pub log: Log,
    /// What the agent exchanged with the model and its tools in the shortest script, for each process.
    pub cassettes: Vec<Cassette>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seed, steps) = (self.seed, self.script.steps.len());
        writeln!(f, "seed {seed} violates `{}`: {}", self.rule, self.message)?;
        writeln!(f, "the shortest script has {steps} of {} steps:\n", self.drawn_steps)?;
        writeln!(f, "#[test]\nfn seed_{seed}() {{")?;
        writeln!(f, "    // Returns the simulation that found the failure.")?;
        writeln!(f, "    let sim = simulation();")?;
        let script = self.script.to_string();
        let hashes = "#".repeat(hashes(&script));
        writeln!(f, "    let script = Script::from_json(r{hashes}\"{script}\"{hashes}).unwrap();")?;
        writeln!(f, "    sim.replay(&script).unwrap();\n}}\n")?;
        write!(f, "what happens in it:\n{}", self.log)
    }
}

/// Returns the number of `#` that delimit a raw string with this text.
fn hashes(text: &str) -> usize {
    let after_quote = text.split('"').skip(1);
    let longest = after_quote.map(|part| part.bytes().take_while(|byte| *byte == b'#').count()).max();
    longest.unwrap_or_default() + 1
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Failure {}
