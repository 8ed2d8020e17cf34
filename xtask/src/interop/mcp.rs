//! The suite of MCP servers: npm's and PyPI's, in pinned versions, each of their tools called through a turn of an agent.
//!
//! The example `mcp_real_servers` of agent-tools defines the calls and the expected results. It prints a line for each check and
//! exits with status 1 if one fails.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::process::Command;

use super::install::Place;
use super::process::Process;
use super::report::Report;
use super::{llm, on_runtime, text};
use crate::cargo;

/// The servers, by the names that `--only` takes and the example knows.
pub(super) const SERVERS: &[&str] = &["everything", "filesystem", "time", "git"];

/// The longest that the checks of one server may take, the building of the example aside.
const PATIENCE: Duration = Duration::from_secs(300);

/// Also in `docs/interop.md`.
const EVERYTHING: &str = "@modelcontextprotocol/server-everything@2026.8.31";
const FILESYSTEM: &str = "@modelcontextprotocol/server-filesystem@2026.8.31";
const TIME: &str = "mcp-server-time==2026.10.19";
const GIT: &str = "mcp-server-git==2026.10.19";

/// Runs the checks of these servers, one server after the other.
pub(super) fn run(place: &Place, servers: &[&'static str], report: &mut Report) -> anyhow::Result<()> {
    on_runtime(async {
        let mut example = None;
        for server in servers {
            if let Err(error) = one(place, server, &mut example, report).await {
                report.fail(server, &error);
            }
        }
        Ok(())
    })
}

async fn one(
    place: &Place,
    server: &'static str,
    example: &mut Option<PathBuf>,
    report: &mut Report,
) -> anyhow::Result<()> {
    let folder_name = format!("mcp-{server}");
    let installed = match server {
        "everything" => place.node(&folder_name, &[EVERYTHING]).await?,
        "filesystem" => place.node(&folder_name, &[FILESYSTEM]).await?,
        "time" => place.python(&folder_name, &[TIME]).await?,
        _ => place.python(&folder_name, &[GIT]).await?,
    };
    let Some(folder) = llm::here(server, installed, report) else { return Ok(()) };
    let program = folder.join(match server {
        "everything" => "node_modules/.bin/mcp-server-everything",
        "filesystem" => "node_modules/.bin/mcp-server-filesystem",
        "time" => "bin/mcp-server-time",
        _ => "bin/mcp-server-git",
    });
    ensure!(program.exists(), "{} was not installed", program.display());
    let example = match example {
        Some(path) => path.clone(),
        None => example.insert(built(place)?).clone(),
    };
    report
        .check(server, "stdio", "every tool, progress, a kill", async {
            let mut command = Command::new(&example);
            command.arg(format!("{server}={}", text(&program)?));
            let (status, printed) =
                Process::start(server, command, &place.log(&folder_name))?.done(PATIENCE).await?;
            let lines: Vec<&str> = printed.lines().collect();
            let wrong = lines.iter().find(|l| l.contains("FAILED") || l.starts_with("failed"));
            let last = wrong.or(lines.last()).copied().unwrap_or_default();
            ensure!(status.success(), "{last}; all of it is in {}", place.log(&folder_name).display());
            Ok(format!("{} checks", lines.len()))
        })
        .await;
    Ok(())
}

/// Builds the example.
fn built(place: &Place) -> anyhow::Result<PathBuf> {
    let root = place.root();
    let arguments =
        ["build", "--quiet", "-p", "looptree-tools", "--features", "mcp", "--example", "mcp_real_servers"];
    ensure!(cargo::run(root, &arguments, &[])?, "the example mcp_real_servers cannot be built");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let program = target.join("debug/examples/mcp_real_servers");
    program.exists().then_some(program).context("the example was built elsewhere; unset CARGO_BUILD_TARGET")
}
