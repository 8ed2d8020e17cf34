//! `cargo xtask test`: the tests, with one sum at the end.

pub(crate) mod programs;

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use anyhow::{Context as _, bail};

use crate::cargo;
use crate::features;
use crate::workspace::Workspace;

/// The package with the examples.
const EXAMPLES: &str = "looptree-examples";

/// The package that uses Looptree from outside of the workspace.
const EXTEND: &str = "examples/extend/Cargo.toml";

/// What the closing lines of the test programs add up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Totals {
    programs: u64,
    passed: u64,
    failed: u64,
    ignored: u64,
}

/// Runs everything; `false` when a test failed or something does not build.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    if let Some(unknown) = arguments.first() {
        bail!("`cargo xtask test` takes no argument, but got `{unknown}`; use `cargo test` to choose tests");
    }
    // The examples first, with the features a newcomer gets: what the README shows has to compile. The tests below build
    // them with all features.
    if !cargo::run(&workspace.root, &["check", "--locked", "-p", EXAMPLES, "--examples"], &[])? {
        say!("the examples do not compile");
        return Ok(false);
    }
    let features = features::everything(workspace)?;
    let mut all = vec!["test", "--locked", "--workspace"];
    if !features.is_empty() {
        all.extend(["--features", &features]);
    }
    let mut totals = Totals::default();
    // `cargo test` runs one program at a time, and most of them wait for processes and servers.
    let Some(programs) = programs::build(workspace, &all)? else {
        say!("the tests do not compile");
        return Ok(false);
    };
    let mut success = programs::run(&programs, &mut totals)?;
    success &= add_up(workspace, &[&all[..], &["--no-fail-fast", "--doc"]].concat(), &[], &mut totals)?;

    // It has a Cargo.lock of its own, so it needs a `cargo fetch` of its own. It shares the target folder.
    let target = workspace.root.join("target").display().to_string();
    let environment = [("CARGO_TARGET_DIR", target.as_str())];
    let extend = ["--locked", "--manifest-path", EXTEND];
    success &= add_up(workspace, &[&["test"][..], &extend[..]].concat(), &environment, &mut totals)?;
    if !cargo::run(&workspace.root, &[&["run", "--quiet"][..], &extend[..]].concat(), &environment)? {
        say!("{EXTEND}: an extension does not do what its program expects");
        success = false;
    }
    say!("\n{}", totals.sentence());
    if totals.programs == 0 {
        say!("no test program ran to its end");
    }
    Ok(success && totals.programs > 0 && totals.failed == 0)
}

/// Runs `cargo test` with these arguments and adds its results to `totals`. `false` if it failed.
fn add_up(
    workspace: &Workspace,
    arguments: &[&str],
    environment: &[(&str, &str)],
    totals: &mut Totals,
) -> anyhow::Result<bool> {
    cargo::say(arguments, environment);
    let mut child = cargo::command(&workspace.root)
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo test")?;
    let stdout = child.stdout.take().context("cargo test has no output")?;
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.context("cannot read what cargo test prints")?;
        let line = String::from_utf8_lossy(&line);
        say!("{line}");
        totals.add(&line);
    }
    Ok(child.wait().context("cargo test was lost")?.success())
}

impl Totals {
    /// Adds a line such as `test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; ...`; others change nothing.
    fn add(&mut self, line: &str) {
        let Some(rest) = line.trim_start().strip_prefix("test result: ") else { return };
        self.programs += 1;
        for part in rest.split([';', '.']) {
            let mut words = part.split_whitespace();
            let (Some(number), Some(word)) = (words.next(), words.next()) else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match word {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }

    fn sentence(&self) -> String {
        format!(
            "{} passed, {} failed, {} ignored, in {} test programs",
            self.passed, self.failed, self.ignored, self.programs
        )
    }
}

#[cfg(test)]
mod tests;
