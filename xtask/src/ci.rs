//! `cargo xtask ci`: runs every check that a change must pass, and prints a table of the results.

use std::time::Duration;

use anyhow::bail;

use crate::steps::{self, Outcome};
use crate::workspace::Workspace;
use crate::{cargo, docs, features, package, release, requirements, surface, test_command, tidy};

/// The target that agent-core has to compile for without its `system` feature.
const WASM: &str = "wasm32-unknown-unknown";

/// One step: its name and what it does.
struct Step {
    name: &'static str,
    run: fn(&Workspace) -> anyhow::Result<Outcome>,
}

const STEPS: &[Step] = &[
    Step { name: "fmt", run: |w| cargo_step(w, &["fmt", "--all", "--check"], &[]) },
    Step { name: "tidy", run: |w| found(tidy::run(w, &[])?) },
    Step { name: "surface", run: |w| found(surface::run(w, &["--check".to_owned()])?) },
    Step { name: "docs", run: |w| found(docs::run(w, &["--check".to_owned()])?) },
    Step { name: "requirements", run: |w| found(requirements::run(w, &[])?) },
    // Versions and changelog; the rest of the dry run takes too long.
    Step { name: "release", run: |w| found(release::run_for_ci(w)?) },
    Step { name: "clippy", run: clippy },
    Step { name: "test", run: |w| found(test_command::run(w, &[])?) },
    Step { name: "doc", run: doc },
    Step { name: "features", run: |w| found(features::check(w, features::Scope::Facade)?) },
    Step { name: "package", run: |w| found(package::run_for_ci(w)?) },
    Step { name: "wasm", run: wasm },
    Step { name: "deny", run: deny },
];

/// Runs the steps; `false` when one failed.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    let chosen = chosen(arguments)?;
    let mut results = Vec::new();
    for step in STEPS {
        results.push(if chosen.contains(&step.name) {
            steps::play(step.name, || (step.run)(workspace))
        } else {
            (step.name, Outcome::Skipped("not selected".to_owned()), Duration::ZERO)
        });
    }
    say!("\n{}", steps::table(&results));
    Ok(steps::succeeded(&results))
}

/// The names of the steps that are to be run.
fn chosen(arguments: &[String]) -> anyhow::Result<Vec<&'static str>> {
    let all: Vec<&'static str> = STEPS.iter().map(|s| s.name).collect();
    match arguments {
        [] => Ok(all),
        [flag, list] if flag == "--without" || flag == "--only" => steps::chosen(&all, flag, list),
        _ => bail!("`cargo xtask ci` takes `--without STEP,STEP`, `--only STEP,STEP` or nothing"),
    }
}

fn found(good: bool) -> anyhow::Result<Outcome> {
    Ok(if good { Outcome::Passed(String::new()) } else { Outcome::Failed("see above".to_owned()) })
}

fn cargo_step(
    workspace: &Workspace,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> anyhow::Result<Outcome> {
    found(cargo::run(&workspace.root, arguments, environment)?)
}

fn clippy(workspace: &Workspace) -> anyhow::Result<Outcome> {
    let features = features::everything(workspace)?;
    let mut arguments = vec!["clippy", "--locked", "--workspace", "--all-targets"];
    if !features.is_empty() {
        arguments.extend(["--features", &features]);
    }
    arguments.extend(["--", "-D", "warnings"]);
    cargo_step(workspace, &arguments, &[])
}

fn doc(workspace: &Workspace) -> anyhow::Result<Outcome> {
    let features = features::everything(workspace)?;
    let mut arguments = vec!["doc", "--locked", "--workspace", "--no-deps"];
    if !features.is_empty() {
        arguments.extend(["--features", &features]);
    }
    cargo_step(workspace, &arguments, &[("RUSTDOCFLAGS", "-D warnings")])
}

fn wasm(workspace: &Workspace) -> anyhow::Result<Outcome> {
    if !cargo::has_target(WASM) {
        let why = format!("the target {WASM} is not installed (rustup target add {WASM})");
        return Ok(Outcome::Skipped(why));
    }
    let arguments = ["check", "--locked", "-p", "looptree-core", "--no-default-features", "--target", WASM];
    cargo_step(workspace, &arguments, &[])
}

fn deny(workspace: &Workspace) -> anyhow::Result<Outcome> {
    if !cargo::has_subcommand(&workspace.root, "deny") {
        let why = "cargo-deny is not installed; tidy has checked licences, bans and sources";
        return Ok(Outcome::Skipped(why.to_owned()));
    }
    cargo_step(workspace, &["deny", "--offline", "check", "licenses", "bans", "sources"], &[])
}

#[cfg(test)]
mod tests;
