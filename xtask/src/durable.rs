//! `cargo xtask restate` installs a Restate server below `target`, and `cargo xtask durable` kills workers and servers.
//!
//! The tests are in agent-restate, where every `cargo test` runs a short form of them if a server is installed.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::cargo;
use crate::workspace::Workspace;

/// The version of the server that the tests run with.
const SERVER: &str = "@restatedev/restate-server@1.7.12";

/// What `durable` does unless the command line says otherwise.
const KILLS: u32 = 1_000;
const SERVER_KILLS: u32 = 100;
const APPROVALS: u32 = 300;
const SCRIPTS: u32 = 100;

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    kills: u32,
    server_kills: u32,
    approvals: u32,
    scripts: u32,
    seed: u32,
}

/// Installs the server. Prints one line and returns `true` also if it is not available.
pub(crate) fn install(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    if !arguments.is_empty() {
        bail!("`cargo xtask restate` takes no arguments");
    }
    let folder = folder(&workspace.root);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]).arg(&folder).arg(SERVER);
    match npm.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => {}
        Ok(status) => {
            say!("skipped: npm could not install {SERVER} ({status})");
            return Ok(true);
        }
        Err(error) => {
            say!("skipped: npm is not available ({error})");
            return Ok(true);
        }
    }
    match server(&folder) {
        Some(path) => say!("installed {}", path.display()),
        None => say!("skipped: {SERVER} has no program for this platform"),
    }
    Ok(true)
}

/// Runs the long form of the tests.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    let options = options(arguments)?;
    if server(&folder(&workspace.root)).is_none() && !install(workspace, &[])? {
        return Ok(false);
    }
    let text = |number: u32| number.to_string();
    let (kills, servers) = (text(options.kills), text(options.server_kills));
    let (approvals, scripts, seed) = (text(options.approvals), text(options.scripts), text(options.seed));
    let environment = [
        ("LOOPTREE_KILLS", kills.as_str()),
        ("LOOPTREE_SERVER_KILLS", servers.as_str()),
        ("LOOPTREE_APPROVALS", approvals.as_str()),
        ("LOOPTREE_SCRIPTS", scripts.as_str()),
        ("LOOPTREE_SEED", seed.as_str()),
    ];
    let test = ["test", "--package", "looptree-restate", "--test", "restate", "--"];
    let names = ["kills::", "approvals::", "same_run::", "branches::", "--nocapture", "--test-threads", "1"];
    let arguments: Vec<&str> = test.into_iter().chain(names).collect();
    cargo::run(&workspace.root, &arguments, &environment)
}

/// Measures sessions against the built-in driver.
#[cfg(feature = "agents")]
pub(crate) fn bench(workspace: &Workspace) -> anyhow::Result<bool> {
    if server(&folder(&workspace.root)).is_none() && !install(workspace, &[])? {
        return Ok(false);
    }
    let test = ["test", "--release", "--package", "looptree-restate", "--test", "restate", "--"];
    let names = ["--exact", "bench::what_a_session_costs", "--ignored", "--nocapture"];
    let arguments: Vec<&str> = test.into_iter().chain(names).collect();
    // Link-time optimization of the tests would take longer than the measurement, and changes little of it.
    let quick = [("CARGO_PROFILE_RELEASE_LTO", "off"), ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")];
    cargo::run(&workspace.root, &arguments, &quick)
}

fn folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join("restate")
}

/// Returns the installed program.
fn server(folder: &Path) -> Option<PathBuf> {
    let platforms = std::fs::read_dir(folder.join("node_modules/@restatedev")).ok()?;
    platforms
        .filter_map(|platform| Some(platform.ok()?.path().join("bin/restate-server")))
        .find(|path| path.is_file())
}

fn options(arguments: &[String]) -> anyhow::Result<Options> {
    let mut options =
        Options { kills: KILLS, server_kills: SERVER_KILLS, approvals: APPROVALS, scripts: SCRIPTS, seed: 1 };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let field = match word.as_str() {
            "--kills" => &mut options.kills,
            "--server-kills" => &mut options.server_kills,
            "--approvals" => &mut options.approvals,
            "--scripts" => &mut options.scripts,
            "--seed" => &mut options.seed,
            other => bail!("`cargo xtask durable` does not know `{other}`"),
        };
        let number = words.next().with_context(|| format!("{word} needs a number"))?;
        *field = number.parse().with_context(|| format!("{number:?} is no number"))?;
    }
    Ok(options)
}
