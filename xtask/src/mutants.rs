//! `cargo xtask mutants`: changes the code in small ways and checks that a test fails for each change.
//!
//! cargo-mutants lists and tests the changes. This command draws some of them for each module, so that a run ends in
//! hours and not in days.

mod draw;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::cargo;
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

/// The time limit of the tests of one mutant, in seconds. Tests that exceed it count as failed: a mutant can loop for ever.
const TIMEOUT: &str = "900";

/// Options of the command line.
#[derive(Debug)]
struct Options {
    seed: u64,
    drawn: usize,
    modules: Vec<String>,
}

/// The results of one module.
#[derive(Debug, Default, PartialEq, Eq)]
struct Results {
    all: usize,
    caught: usize,
    unviable: usize,
    missed: Vec<String>,
}

impl Results {
    fn viable(&self) -> usize {
        self.caught + self.missed.len()
    }

    fn is_good(&self) -> bool {
        self.caught * 100 >= self.viable() * MIN_CAUGHT
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
        let results = test(&workspace.root, &module, &options)?;
        for missed in &results.missed {
            say!("missed: {missed}");
        }
        table.insert(module.name, results);
    }
    say!("| module | mutants | drawn | not viable | caught | missed | share |");
    say!("|---|---|---|---|---|---|---|");
    for (name, results) in &table {
        let Results { all, caught, unviable, missed } = results;
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
    let mut options = Options { seed: 1, drawn: DRAWN, modules: Vec::new() };
    let mut words = arguments.iter();
    let number = |word: Option<&String>, flag: &str| -> anyhow::Result<u64> {
        let word = word.with_context(|| format!("{flag} needs a number"))?;
        word.parse().with_context(|| format!("{flag} needs a number, not {word:?}"))
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seed" => options.seed = number(words.next(), "--seed")?,
            "--drawn" => options.drawn = usize::try_from(number(words.next(), "--drawn")?)?,
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

/// Draws mutants of a module and tests them: first with the unit tests, which are fast, and those that survive with all tests
/// of the package.
fn test(root: &Path, module: &Module, options: &Options) -> anyhow::Result<Results> {
    let all = listed(root, module)?;
    let drawn = draw::draw(&all, options.seed, options.drawn);
    say!("{}: {} of {} mutants", module.name, drawn.len(), all.len());
    let folder = root.join("target/mutants").join(module.name);
    let mut results = Results { all: all.len(), ..Results::default() };
    let survived = pass(root, module, &folder.join("unit"), &drawn, &["--lib"], &mut results)?;
    results.missed = pass(root, module, &folder.join("all"), &survived, &["--tests"], &mut results)?;
    Ok(results)
}

/// Returns the names of all mutants of a module.
fn listed(root: &Path, module: &Module) -> anyhow::Result<Vec<String>> {
    let mut arguments = vec!["mutants", "--list", "--json"];
    let files = files(module);
    arguments.extend(files.iter().map(String::as_str));
    let output = cargo::output(root, &arguments)?;
    ensure!(
        output.status.success(),
        "cargo mutants cannot list: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let listed: Vec<Value> =
        serde_json::from_slice(&output.stdout).context("cargo mutants printed no JSON")?;
    let name = |mutant: &Value| mutant["name"].as_str().map(str::to_owned);
    listed.iter().map(|mutant| name(mutant).context("a mutant without a name")).collect()
}

fn files(module: &Module) -> [String; 6] {
    let Module { package, sources, name } = module;
    let flag = |flag: &str| flag.to_owned();
    [
        flag("--package"),
        flag(package),
        flag("--file"),
        format!("{sources}/{name}.rs"),
        flag("--file"),
        format!("{sources}/{name}/**/*.rs"),
    ]
}

/// Tests these mutants with a part of the tests. Adds those that are caught to `results`, and returns those that are not.
fn pass(
    root: &Path,
    module: &Module,
    folder: &Path,
    mutants: &[String],
    tests: &[&str],
    results: &mut Results,
) -> anyhow::Result<Vec<String>> {
    if mutants.is_empty() {
        return Ok(Vec::new());
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let named: Vec<String> = mutants.iter().map(|name| draw::escaped(name)).collect();
    let expression = format!("^({})$", named.join("|"));
    let output = folder.to_str().context("a path that is not UTF-8")?;
    let files = files(module);
    let mut arguments = vec!["mutants", "--all-features", "--cap-lints=true", "--no-shuffle", "--no-times"];
    arguments.extend([
        "--baseline=skip",
        "--timeout",
        TIMEOUT,
        "--build-timeout",
        TIMEOUT,
        "--output",
        output,
    ]);
    arguments.extend(["--test-package", module.package, "--re", &expression]);
    if cargo::has_subcommand(root, "nextest") {
        // The tests of all binaries run beside each other, and the first failure ends them.
        arguments.push("--test-tool=nextest");
    }
    arguments.extend(files.iter().map(String::as_str));
    arguments.push("--");
    arguments.extend(tests);
    // Debug information makes a build slower and no test different.
    let environment =
        [("CARGO_PROFILE_DEV_DEBUG", "0"), ("CARGO_PROFILE_TEST_DEBUG", "0"), ("RUST_BACKTRACE", "0")];
    let mut command = cargo::command(root);
    command.args(&arguments).envs(environment);
    // Each pass copies the sources, but the dependencies are compiled once for all.
    command.env("CARGO_TARGET_DIR", root.join("target/mutants/build"));
    let status = command.status().context("cannot start cargo mutants")?;
    // 0: all were caught, 2: some were not, 3: some exceeded the time limit. Anything else is not a result.
    ensure!(matches!(status.code(), Some(0 | 2 | 3)), "cargo mutants ended with {status}");
    let read = |name: &str| names(&folder.join("mutants.out").join(name));
    results.caught += read("caught.txt")?.len() + read("timeout.txt")?.len();
    results.unviable += read("unviable.txt")?.len();
    read("missed.txt")
}

/// Reads the names of mutants, one on each line.
fn names(file: &PathBuf) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests;
