//! `cargo xtask soak`: the coding agent over and over on a copy of this project, and whether something grows.
//!
//! The example `soak` does the work; `docs/soak.md` describes it and its criteria.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};

use crate::cargo;
use crate::workspace::Workspace;

/// How long it runs unless the command line says otherwise, in minutes.
const MINUTES: f64 = 1.0;

/// Runs it; `false` when something grew.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    let minutes = minutes(arguments)?;
    let arguments = ["build", "--quiet", "-p", "looptree-examples", "--example", "soak"];
    ensure!(cargo::run(&workspace.root, &arguments, &[])?, "the example soak cannot be built");
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.root.join("target"), Into::into);
    let program = target.join("debug/examples/soak");
    let folder = workspace.root.join("target/soak");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot clear {}", folder.display()))?;
    }
    let (repository, scratch) = (folder.join("repository"), folder.join("scratch"));
    std::fs::create_dir_all(&scratch).with_context(|| format!("cannot make {}", scratch.display()))?;
    let copied = copy(&workspace.root, &repository)?;
    // What is shown of paths in results and processes has no symlinks in it.
    let (repository, scratch) = (repository.canonicalize()?, scratch.canonicalize()?);
    say!("{copied} files of this project in {}; {minutes} minutes", repository.display());
    let mut command = Command::new(program);
    command.arg(&repository).arg(&scratch).arg(format!("{:.0}", minutes * 60.0));
    // glibc gives each new thread of the runtime's pool an arena, which keeps freed memory. With one arena the memory of the
    // process shows what the program holds.
    command.env("MALLOC_ARENA_MAX", "1").env("TMPDIR", &scratch).stdin(Stdio::null());
    Ok(command.status().context("cannot start the example soak")?.success())
}

fn minutes(arguments: &[String]) -> anyhow::Result<f64> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => Ok(MINUTES),
        ["--minutes", number] => {
            let minutes: f64 =
                number.parse().with_context(|| format!("`{number}` is no number of minutes"))?;
            ensure!((0.1..=1_440.0).contains(&minutes), "from 0.1 to 1440 minutes, not {number}");
            Ok(minutes)
        }
        _ => bail!("`cargo xtask soak [--minutes N]` does not know `{}`", arguments.join(" ")),
    }
}

/// The files that git knows, and how many they are.
fn copy(root: &Path, to: &Path) -> anyhow::Result<usize> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output();
    let listed = listed.context("cannot start git")?;
    ensure!(listed.status.success(), "git cannot list the files of {}", root.display());
    let mut count = 0;
    for name in String::from_utf8_lossy(&listed.stdout).split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (root.join(name), to.join(name));
        if !from.is_file() {
            continue;
        }
        let folder = to.parent().context("a file has a folder")?;
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        std::fs::copy(&from, &to).with_context(|| format!("cannot copy {name}"))?;
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests;
