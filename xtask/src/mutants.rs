//! `cargo xtask mutants`: changes the code in small ways and checks that a test fails for each change.
//!
//! cargo-mutants lists the changes, and this command draws some of them for each module. It compiles the drawn ones into one
//! build, in which an environment variable selects one of them, and runs the test programs once for each. Those that do
//! not compile in this way are compiled separately, and the ones that do not compile then either are not viable.

mod build;
mod cargo_mutants;
mod draw;
mod rewrite;
mod suite;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::cargo;
use crate::test_command::programs;
use crate::workspace::Workspace;

/// A module whose tests are checked: its package, its folder of sources, and its name below that.
struct Module {
    package: &'static str,
    sources: &'static str,
    name: &'static str,
}

const CORE: (&str, &str) = ("looptree-core", "crates/agent-core/src");
const SESSION: (&str, &str) = ("looptree-session", "crates/agent-session/src");
const TOOLS: (&str, &str) = ("looptree-tools", "crates/agent-tools/src");

const MODULES: &[((&str, &str), &[&str])] = &[
    (CORE, &["run", "drive", "history", "context", "budget"]),
    (SESSION, &["model", "store"]),
    (TOOLS, &["workspace", "sandbox", "bash"]),
];

/// The number of mutants of a module that are drawn.
const DRAWN: usize = 60;

/// The share of the viable mutants of a module that must be caught, in percent.
const MIN_CAUGHT: usize = 90;

/// Options of the command line.
#[derive(Debug)]
struct Options {
    seed: u64,
    drawn: usize,
    /// Whether only those mutants are tested that the last results list as missed.
    missed: bool,
    modules: Vec<String>,
}

/// The results of one module. They are also written to `target/mutants/MODULE.json`.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Results {
    seed: u64,
    /// The number of the mutants of the module.
    all: usize,
    /// The mutants that do not compile, and those in code that is not compiled for this computer.
    unviable: Vec<String>,
    caught: Vec<Caught>,
    missed: Vec<String>,
}

/// A mutant for which a test failed.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Caught {
    mutant: String,
    /// The test program, and its first test that failed.
    by: String,
}

impl Results {
    fn viable(&self) -> usize {
        self.caught.len() + self.missed.len()
    }

    fn add(&mut self, mutant: &str, caught_by: Option<String>) {
        match caught_by {
            Some(by) => self.caught.push(Caught { mutant: mutant.to_owned(), by }),
            None => self.missed.push(mutant.to_owned()),
        }
    }

    fn is_good(&self) -> bool {
        self.caught.len() * 100 >= self.viable() * MIN_CAUGHT
    }
}

/// Tests the mutants. `false` if a module catches too few.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    let options = options(arguments)?;
    if !cargo::has_subcommand(&workspace.root, "mutants") {
        say!("skipped: cargo-mutants is missing (cargo install cargo-mutants)");
        return Ok(true);
    }
    say!("seed {}, at most {} mutants of each module", options.seed, options.drawn);
    let mut table = BTreeMap::new();
    for module in
        modules().filter(|m| options.modules.is_empty() || options.modules.iter().any(|n| n == m.name))
    {
        let results = test(workspace, &module, &options)?;
        for missed in &results.missed {
            say!("missed: {missed}");
        }
        table.insert(module.name, results);
    }
    say!("| module | mutants | drawn | not viable | caught | missed | share |");
    say!("|---|---|---|---|---|---|---|");
    for (name, results) in &table {
        let Results { all, missed, .. } = results;
        let (caught, unviable) = (results.caught.len(), results.unviable.len());
        let share = (caught * 100).checked_div(results.viable()).unwrap_or(100);
        let drawn = results.viable() + unviable;
        say!("| {name} | {all} | {drawn} | {unviable} | {caught} | {} | {share} % |", missed.len());
    }
    Ok(table.values().all(Results::is_good))
}

fn modules() -> impl Iterator<Item = Module> {
    MODULES.iter().flat_map(|((package, sources), names)| {
        names.iter().map(move |name| Module { package, sources, name })
    })
}

fn options(arguments: &[String]) -> anyhow::Result<Options> {
    let mut options = Options { seed: 1, drawn: DRAWN, missed: false, modules: Vec::new() };
    let mut words = arguments.iter();
    let number = |word: Option<&String>, flag: &str| -> anyhow::Result<u64> {
        let word = word.with_context(|| format!("{flag} needs a number"))?;
        word.parse().with_context(|| format!("{flag} needs a number, not {word:?}"))
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seed" => options.seed = number(words.next(), "--seed")?,
            "--drawn" => options.drawn = usize::try_from(number(words.next(), "--drawn")?)?,
            "--missed" => options.missed = true,
            flag if flag.starts_with('-') => bail!("`cargo xtask mutants` does not know `{flag}`"),
            name => {
                let names: Vec<_> = modules().map(|m| m.name).collect();
                ensure!(names.contains(&name), "there is no module `{name}`; there are {}", names.join(", "));
                options.modules.push(name.to_owned());
            }
        }
    }
    Ok(options)
}

/// Draws mutants of a module, tests them and writes the results.
fn test(workspace: &Workspace, module: &Module, options: &Options) -> anyhow::Result<Results> {
    let root = &workspace.root;
    let all = cargo_mutants::listed(root, module)?;
    let file = root.join("target/mutants").join(format!("{}.json", module.name));
    let mut drawn = draw::draw(&all, options.seed, options.drawn);
    let mut results = Results { seed: options.seed, all: all.len(), ..Results::default() };
    if options.missed {
        results = read(&file)?;
        drawn = all.iter().filter(|mutant| results.missed.contains(&mutant.name)).cloned().collect();
        ensure!(
            drawn.len() == results.missed.len(),
            "the code has changed since: run `cargo xtask mutants {}`",
            module.name
        );
        results.missed.clear();
    }
    say!("{}: {} of {} mutants", module.name, drawn.len(), all.len());
    let start = Instant::now();
    let built = build::build(workspace, module, &drawn)?;
    let count = built.numbers.len();
    say!("{}: {count} compiled together in {} s", module.name, start.elapsed().as_secs());
    let suite = suite::Suite::measured(built.programs, format!("{}::", module.name), built.numbers.clone())?;
    let (count, time) = suite.size();
    say!("{}: {count} test programs, which take {} s without a mutant", module.name, time.as_secs());
    let (together, alone): (Vec<_>, Vec<_>) =
        drawn.iter().enumerate().partition(|(number, _)| built.numbers.contains(number));
    let catches = |(number, mutant): &(usize, &cargo_mutants::Mutant)| {
        let start = Instant::now();
        let by = suite.catches(*number)?;
        let result = by.as_ref().map_or("missed".to_owned(), |by| format!("caught by {by}"));
        say!("{} ({:.0} s): {result}", mutant.name, start.elapsed().as_secs_f64());
        Ok(by)
    };
    let tested = programs::beside(&together, catches)?;
    // Code that no program executes may be for another operating system, where no test of this computer can notice it.
    let unreached: Vec<_> = together.iter().copied().filter(|(number, _)| !suite.reaches(*number)).collect();
    let compiled = match unreached.is_empty() {
        true => BTreeSet::new(),
        false => build::compiled(workspace, module, &unreached)?,
    };
    for ((number, mutant), by) in together.iter().zip(tested) {
        if suite.reaches(*number) || compiled.contains(number) {
            results.add(&mutant.name, by);
        } else {
            say!("{}: not compiled for this computer", mutant.name);
            results.unviable.push(mutant.name.clone());
        }
    }
    for numbered in &alone {
        let (_, mutant) = numbered;
        if build::build_alone(workspace, module, mutant)? {
            results.add(&mutant.name, catches(numbered)?);
        } else {
            results.unviable.push(mutant.name.clone());
        }
    }
    let text = serde_json::to_string_pretty(&results).context("results that are not JSON")?;
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    say!("{}: tested in {} s, see {}", module.name, start.elapsed().as_secs(), file.display());
    Ok(results)
}

fn read(file: &Path) -> anyhow::Result<Results> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} has no results", file.display()))
}

#[cfg(test)]
mod tests;
