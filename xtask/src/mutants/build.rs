//! Compiles mutants into the test programs of a package.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::cargo_mutants::Mutant;
use super::rewrite::{self, IS_ON, Rewritten};
use super::{Module, tree};
use crate::cargo;
use crate::test_command::programs::{Program, program};
use crate::workspace::Workspace;

/// The environment of a build. Debug information makes a build slower and no test different.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("CARGO_PROFILE_DEV_DEBUG", "0"),
    ("CARGO_PROFILE_TEST_DEBUG", "0"),
    // A mutant can make a variable unused, and this is no reason to refuse it.
    ("CARGO_ENCODED_RUSTFLAGS", "--cap-lints=warn"),
];

/// The test programs of a package, with mutants in them.
pub(super) struct Built {
    pub(super) programs: Vec<Program>,
    /// The numbers of the mutants in them: their indexes in the list of mutants.
    pub(super) numbers: BTreeSet<usize>,
}

/// Compiles these mutants together, so that an environment variable selects one of them. Leaves out those that do not compile in this way.
///
/// # Errors
/// Returns an error if the package does not compile for another reason.
pub(super) fn build(workspace: &Workspace, module: &Module, mutants: &[Mutant]) -> anyhow::Result<Built> {
    let mut numbers: BTreeSet<usize> = (0..mutants.len()).collect();
    loop {
        let files = rewritten(&workspace.root, mutants, &numbers)?;
        numbers = files.values().flat_map(|file| &file.places).map(|place| place.number).collect();
        let mut changed: BTreeMap<String, String> =
            files.iter().map(|(path, file)| (path.clone(), file.text.clone())).collect();
        let library = format!("{}/lib.rs", module.sources);
        let text = changed.remove(&library).map_or_else(|| read(&workspace.root, &library), Ok)?;
        changed.insert(library, text + IS_ON);
        let (success, messages) = compile(workspace, module, &changed)?;
        if success {
            return Ok(Built { programs: messages.iter().filter_map(program).collect(), numbers });
        }
        let mut out = BTreeSet::new();
        for message in errors(&messages) {
            let text = message["message"]["rendered"].as_str().unwrap_or_default();
            let places = lines(&message["message"]);
            let blamed = blamed(&files, &places);
            ensure!(!blamed.is_empty() || places.is_empty(), "not the fault of a mutant: {text}");
            out.extend(blamed);
        }
        ensure!(!out.is_empty(), "{} does not compile", module.package);
        say!("{}: {} mutants do not compile beside the others", module.name, out.len());
        numbers.retain(|number| !out.contains(number));
    }
}

/// Compiles one mutant into the same programs. `false` if it does not compile.
pub(super) fn build_alone(workspace: &Workspace, module: &Module, mutant: &Mutant) -> anyhow::Result<bool> {
    let text = mutant.applied(&read(&workspace.root, &mutant.file)?)?;
    let changed = BTreeMap::from([(mutant.file.clone(), text)]);
    let (success, messages) = compile(workspace, module, &changed)?;
    ensure!(success || errors(&messages).next().is_some(), "cargo cannot compile {}", module.package);
    Ok(success)
}

/// Returns the numbers of those mutants whose code is compiled for this computer.
///
/// # Errors
/// Returns an error if the package does not compile for another reason.
pub(super) fn compiled(
    workspace: &Workspace,
    module: &Module,
    mutants: &[(usize, &Mutant)],
) -> anyhow::Result<BTreeSet<usize>> {
    let mut changed = BTreeMap::new();
    for (path, mutants) in by_file(mutants.iter().copied()) {
        changed.insert(path.to_owned(), rewrite::uncompilable(&read(&workspace.root, path)?, &mutants)?);
    }
    let (success, messages) = compile(workspace, module, &changed)?;
    let number = |message: &Value| {
        let text = message["message"]["message"].as_str()?;
        text.strip_prefix(rewrite::UNCOMPILABLE)?.parse().ok()
    };
    let compiled: BTreeSet<usize> = errors(&messages).filter_map(number).collect();
    ensure!(success || !compiled.is_empty(), "{} does not compile", module.package);
    Ok(compiled)
}

fn by_file<'a>(
    mutants: impl Iterator<Item = (usize, &'a Mutant)>,
) -> BTreeMap<&'a str, Vec<(usize, &'a Mutant)>> {
    let mut files: BTreeMap<&str, Vec<(usize, &Mutant)>> = BTreeMap::new();
    for (number, mutant) in mutants {
        files.entry(&mutant.file).or_default().push((number, mutant));
    }
    files
}

fn errors(messages: &[Value]) -> impl Iterator<Item = &Value> {
    messages.iter().filter(|message| message["message"]["level"] == "error")
}

fn read(root: &Path, path: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))
}

/// Rewrites the files that contain these mutants.
fn rewritten(
    root: &Path,
    mutants: &[Mutant],
    numbers: &BTreeSet<usize>,
) -> anyhow::Result<BTreeMap<String, Rewritten>> {
    let rewrite = |(path, mutants): (&str, Vec<_>)| {
        let file = rewrite::rewrite(&read(root, path)?, &mutants)
            .with_context(|| format!("cannot rewrite {path}"))?;
        Ok((path.to_owned(), file))
    };
    let mutants = mutants.iter().enumerate().filter(|(number, _)| numbers.contains(number));
    by_file(mutants).into_iter().map(rewrite).collect()
}

/// Compiles the test programs with these changed files. Returns whether that succeeded, and the messages of cargo.
fn compile(
    workspace: &Workspace,
    module: &Module,
    changed: &BTreeMap<String, String>,
) -> anyhow::Result<(bool, Vec<Value>)> {
    let folder = workspace.root.join("target/mutants/tree");
    tree::copy(workspace, &folder, changed)?;
    let arguments =
        ["test", "--locked", "--package", module.package, "--all-features", "--tests", "--no-run"];
    let output = cargo::command(&folder)
        .args(arguments)
        .args(["--quiet", "--message-format", "json"])
        .envs(ENVIRONMENT.iter().copied())
        .env("CARGO_TARGET_DIR", workspace.root.join("target/mutants/build"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo test")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok((output.status.success(), text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()))
}

/// Returns the files and lines of an error of the compiler, also those in which a macro is used.
fn lines(message: &Value) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for mut span in message["spans"].as_array().into_iter().flatten() {
        while let (Some(file), Some(line)) = (span["file_name"].as_str(), span["line_start"].as_u64()) {
            found.push((file.to_owned(), usize::try_from(line).unwrap_or_default()));
            span = &span["expansion"]["span"];
        }
    }
    found
}

/// Returns the mutants whose copies contain one of these lines. Without any, the error is one of an original, and all
/// mutants of the innermost unit around it are returned, or of its file.
fn blamed(files: &BTreeMap<String, Rewritten>, lines: &[(String, usize)]) -> BTreeSet<usize> {
    let near: Vec<_> = lines
        .iter()
        .filter_map(|(file, line)| Some((line, files.get(file)?)))
        .flat_map(|(line, file)| file.places.iter().map(move |place| (line, place)))
        .collect();
    let numbers = |found: Vec<&(&usize, &rewrite::Place)>| found.iter().map(|(_, p)| p.number).collect();
    let copies: BTreeSet<usize> = numbers(near.iter().filter(|(line, p)| p.copy.contains(line)).collect());
    if !copies.is_empty() {
        return copies;
    }
    let around = near.iter().filter(|(line, place)| place.unit.contains(line));
    match around.clone().map(|(_, place)| place.unit.len()).min() {
        Some(least) => numbers(around.filter(|(_, place)| place.unit.len() == least).collect()),
        None => numbers(near.iter().collect()),
    }
}

#[cfg(test)]
mod tests;
