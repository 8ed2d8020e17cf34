//! `cargo xtask bench sim`: the time of a simulated run, and whether simulations find errors that are planted.
//!
//! All errors are planted in one copy of the workspace, which is built once. A variable of the environment selects the error
//! of a run.

mod planted;

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::cargo;
use crate::workspace::Workspace;
use planted::PLANTED;

/// A run may need this many seeds until it finds an error.
const SEEDS: &str = "20000";
/// The shortest script of an error has fewer steps than this.
const MAX_STEPS: u64 = 10;

/// An error: its name, the simulation that searches for it, the file below `crates`, the text that is replaced, and its
/// replacement.
struct Planted {
    name: &'static str,
    scene: &'static str,
    file: &'static str,
    original: &'static str,
    replacement: &'static str,
}

/// The function that selects an error. It is added to the copy only.
const SELECT: &str = r#"
/// Returns whether this error is selected.
#[expect(clippy::disallowed_methods, reason = "an error is selected from outside")]
pub fn planted(number: u32) -> bool {
    static SELECTED: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let selected = || std::env::var("LOOPTREE_PLANTED").ok().and_then(|text| text.parse().ok()).unwrap_or_default();
    *SELECTED.get_or_init(selected) == number
}
"#;

/// Measures simulations and searches for the planted errors. `only` selects one of them by its number.
pub(super) fn sim(workspace: &Workspace, only: Option<&str>) -> anyhow::Result<bool> {
    let root = &workspace.root;
    if only.is_none() {
        let build = ["build", "--release", "--package", "looptree-sim", "--example", "sim_bench"];
        if !cargo::run(root, &build, &[])? {
            return Ok(false);
        }
        let program = super::target(root)?.join("release/examples/sim_bench");
        ensure!(
            Command::new(program).arg("speed").status()?.success(),
            "a simulation without planted errors failed"
        );
    }
    let copy = root.join("target/planted");
    plant(root, &copy)?;
    let target = super::target(root)?;
    let target_text = target.display().to_string();
    let build =
        ["build", "--package", "looptree-sim", "--example", "sim_bench", "--target-dir", &target_text];
    if !cargo::run(&copy, &build, &[])? {
        return Ok(false);
    }
    let program = copy.join("sim_bench");
    std::fs::copy(target.join("debug/examples/sim_bench"), &program)?;
    let (mut found, mut short, mut count) = (0, 0, 0);
    println!("{:>2} {:64} {:>6} {:>6} {:>8}  violates", "", "planted error", "seed", "steps", "repeats");
    for (number, planted) in (1..).zip(PLANTED) {
        if only.is_some_and(|only| only != number.to_string()) {
            continue;
        }
        count += 1;
        let output = Command::new(&program)
            .args(["find", SEEDS, planted.scene])
            .env("LOOPTREE_PLANTED", number.to_string())
            .output()
            .with_context(|| format!("{} could not be started", program.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let report: Value = serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap_or_default();
        let Some(rule) = report["found"].as_str() else {
            println!("{number:>2} {:64} not found", planted.name);
            continue;
        };
        let (seed, steps) = (&report["seed"], report["steps"].as_u64().unwrap_or(u64::MAX));
        let repeats = report["repeats"] == true;
        found += 1;
        short += u32::from(steps < MAX_STEPS && repeats);
        println!("{number:>2} {:64} {seed:>6} {steps:>6} {repeats:>8}  {rule}", planted.name);
    }
    println!(
        "\n{found} of {count} found, {short} of them repeat from their seed and have fewer than {MAX_STEPS} steps"
    );
    Ok(short == count)
}

/// Copies the workspace and plants all errors in the copy.
fn plant(root: &Path, copy: &Path) -> anyhow::Result<()> {
    for folder in ["crates", "examples", "xtask"] {
        copy_folder(&root.join(folder), &copy.join(folder))?;
    }
    for file in ["Cargo.toml", "Cargo.lock", "README.md"] {
        std::fs::copy(root.join(file), copy.join(file))?;
    }
    let crates = copy.join("crates");
    for planted in PLANTED {
        let path = crates.join(planted.file);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        ensure!(
            text.matches(planted.original).count() == 1,
            "`{}`: {} does not have its text once; adapt xtask/src/bench/sim/planted.rs",
            planted.name,
            planted.file
        );
        std::fs::write(&path, text.replacen(planted.original, planted.replacement, 1))?;
    }
    let lib = crates.join("agent-core/src/lib.rs");
    let text = std::fs::read_to_string(&lib)?;
    std::fs::write(&lib, text + SELECT)?;
    Ok(())
}

/// Copies the files of a folder, without what was built in it.
fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "target" {
                copy_folder(&path, &target)?;
            }
        } else {
            std::fs::copy(&path, &target)?;
        }
    }
    Ok(())
}
