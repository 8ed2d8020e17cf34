//! `cargo xtask serve`: clients of other projects against the HTTP service, and its load.
//!
//! The service is the example `scripted_service` of agent-serve, whose agents need no model.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::install::{Installed, Place};
use super::process::{Process, last_lines};
use super::{on_runtime, text};
use crate::cargo;
use crate::workspace::Workspace;

/// Also in `docs/interop.md`.
const SDK: &str = "openai==3.57.0";
/// Also in `docs/interop.md`.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// The key of the scripted service.
const KEY: &str = "the-key-of-the-scripted-service";

/// How long a client may take.
const PATIENCE: Duration = Duration::from_secs(1_200);

/// Runs what the arguments name; `false` when it failed.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["openai"] => openai(workspace),
        ["check"] => check(workspace, "40"),
        ["check", "--examples", number] => check(workspace, number),
        ["load"] => load(workspace, "500"),
        ["load", "--greedy"] => greedy(workspace, "200"),
        ["load", "--greedy", number] => greedy(workspace, number),
        ["load", number] => load(workspace, number),
        _ => bail!("`cargo xtask serve` takes openai, check [--examples N], load [N] or load --greedy [N]"),
    }
}

/// Runs many conversations at once, with clients that vanish and readers that do not read.
fn load(workspace: &Workspace, number: &str) -> anyhow::Result<bool> {
    measured(workspace, "many::every", ("LOOPTREE_SERVE_CONVERSATIONS", number))
}

/// Measures the prompts of a key without and with a client that opens everything it can. Their p99 at most doubles.
fn greedy(workspace: &Workspace, number: &str) -> anyhow::Result<bool> {
    measured(workspace, "many::another", ("LOOPTREE_SERVE_GREEDY", number))
}

/// Runs a test of the service in its large form.
fn measured(workspace: &Workspace, name: &str, size: (&str, &str)) -> anyhow::Result<bool> {
    let _: u32 = size.1.parse().with_context(|| format!("{:?} is not a number", size.1))?;
    let test = ["test", "--package", "looptree-serve", "--all-features", "--test", "service", "--"];
    let names = [name, "--nocapture", "--test-threads", "1"];
    let arguments: Vec<&str> = test.into_iter().chain(names).collect();
    cargo::run(&workspace.root, &arguments, &[size])
}

fn openai(workspace: &Workspace) -> anyhow::Result<bool> {
    with_service(workspace, "serve-openai", SDK, async |place, python, address| {
        let mut command = place.command("serve-openai", &python.join("bin/python"))?;
        command.arg(place.file("serve_openai.py")).args([address, KEY]);
        finished(place, "serve-openai", command).await
    })
}

fn check(workspace: &Workspace, examples: &str) -> anyhow::Result<bool> {
    let _: u32 = examples.parse().context("the number of examples is not a number")?;
    with_service(workspace, "serve-check", SCHEMATHESIS, async |place, python, address| {
        let mut command = place.command("serve-check", &python.join("bin/st"))?;
        command.args(["run", &format!("{address}/openapi.json"), "--max-examples", examples]);
        command.args(["--header", &format!("Authorization: Bearer {KEY}"), "--seed", "1", "--workers", "2"]);
        // A stream of events does not end by itself, and the viewer answers 501 where it is not built.
        command.args(["--checks", "not_a_server_error", "--request-timeout", "30"]);
        command.args(["--exclude-path-regex", "/(events|view)$", "--generation-database", "none"]);
        finished(place, "serve-check", command).await
    })
}

/// Runs a client and shows the end of what it prints.
async fn finished(
    place: &Place,
    name: &'static str,
    command: tokio::process::Command,
) -> anyhow::Result<bool> {
    let (status, printed) = Process::start(name, command, &place.log(name))?.done(PATIENCE).await?;
    say!("{}", last_lines(&printed));
    Ok(status.success())
}

/// Starts the scripted service, installs a package of PyPI, and runs a client with both.
fn with_service(
    workspace: &Workspace,
    name: &'static str,
    package: &str,
    client: impl AsyncFnOnce(&Place, PathBuf, &str) -> anyhow::Result<bool>,
) -> anyhow::Result<bool> {
    let place = Place::at(&workspace.root);
    let program = built(&workspace.root)?;
    on_runtime(async {
        let python = match place.python(name, &[package]).await? {
            Installed::Here(folder) => folder,
            Installed::Missing(reason) => {
                say!("skipped: {name}: {reason}");
                return Ok(true);
            }
        };
        let sessions = place.scratch(name, "sessions")?;
        if sessions.exists() {
            std::fs::remove_dir_all(&sessions)
                .with_context(|| format!("cannot empty {}", sessions.display()))?;
        }
        let mut command = place.command(name, &program)?;
        command.arg(text(&sessions)?).stdout(std::process::Stdio::piped()).kill_on_drop(true);
        let mut service = command.spawn().context("the service does not start")?;
        let output = service.stdout.take().context("the service has no output")?;
        let mut first = String::new();
        BufReader::new(output).read_line(&mut first).await?;
        let address = first.trim().strip_prefix("listening on ").context("the service printed no address")?;
        let result = client(&place, python, address).await;
        ensure!(service.try_wait()?.is_none(), "the service has ended");
        service.kill().await?;
        result
    })
}

/// Builds the scripted service.
fn built(root: &Path) -> anyhow::Result<PathBuf> {
    let build = ["build", "--package", "looptree-serve", "--all-features", "--example", "scripted_service"];
    ensure!(cargo::run(root, &build, &[])?, "the scripted service does not build");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("debug/examples/scripted_service"))
}
