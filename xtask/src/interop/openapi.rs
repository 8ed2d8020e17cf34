//! The suite of third-party OpenAPI descriptions, from packages of npm in pinned versions: every operation is
//! called against a server made from its description.
//!
//! The example `openapi_real_specs` of agent-tools defines the calls and the expected results. It prints a line for each
//! description and exits with status 1 if one fails.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::process::Command;

use super::install::Place;
use super::process::Process;
use super::report::Report;
use super::{llm, on_runtime, text};
use crate::cargo;

/// The packages, by the names that `--only` takes.
pub(super) const SERVERS: &[&str] = &["readme", "github"];

/// The longest that the checks of one package may take, the building of the example aside.
const PATIENCE: Duration = Duration::from_secs(300);

/// Petstores and one description for each corner of the specification, in 3.0 and 3.1, JSON and YAML. Also in
/// `docs/interop.md`.
const README: &str = "@readme/oas-examples@8.2.2";

/// The whole API of GitHub. Also in `docs/interop.md`.
const GITHUB: &str = "@octokit/openapi@23.0.2";

/// Runs the checks of these packages, one after the other.
pub(super) fn run(place: &Place, packages: &[&'static str], report: &mut Report) -> anyhow::Result<()> {
    on_runtime(async {
        let mut example = None;
        for package in packages {
            if let Err(error) = one(place, package, &mut example, report).await {
                report.fail(package, &error);
            }
        }
        Ok(())
    })
}

async fn one(
    place: &Place,
    package: &'static str,
    example: &mut Option<PathBuf>,
    report: &mut Report,
) -> anyhow::Result<()> {
    let folder_name = format!("openapi-{package}");
    let (wanted, files): (_, &[&str]) = match package {
        "readme" => (README, &["@readme/oas-examples/3.0", "@readme/oas-examples/3.1"]),
        _ => (GITHUB, &["@octokit/openapi/generated/api.github.com.json"]),
    };
    let installed = place.node(&folder_name, &[wanted]).await?;
    let Some(folder) = llm::here(package, installed, report) else { return Ok(()) };
    let modules = folder.join("node_modules");
    let example = match example {
        Some(path) => path.clone(),
        None => example.insert(built(place)?).clone(),
    };
    report
        .check(package, "http", "every operation of its descriptions", async {
            let mut command = Command::new(&example);
            for file in files {
                let path = modules.join(file);
                ensure!(path.exists(), "{} was not installed", path.display());
                command.arg(text(&path)?);
            }
            let log = place.log(&folder_name);
            let (status, printed) = Process::start(package, command, &log)?.done(PATIENCE).await?;
            let lines: Vec<&str> = printed.lines().filter(|line| !line.trim().is_empty()).collect();
            let wrong = lines.iter().find(|line| line.contains("FAILED"));
            let last = wrong.or(lines.last()).copied().unwrap_or_default();
            ensure!(status.success(), "{last}; all of it is in {}", log.display());
            ensure!(lines.len() > 1, "it has no descriptions");
            Ok(last.to_owned())
        })
        .await;
    Ok(())
}

/// Builds the example.
fn built(place: &Place) -> anyhow::Result<PathBuf> {
    let root = place.root();
    let arguments = [
        "build",
        "--quiet",
        "-p",
        "looptree-tools",
        "--features",
        "openapi",
        "--example",
        "openapi_real_specs",
    ];
    ensure!(cargo::run(root, &arguments, &[])?, "the example openapi_real_specs cannot be built");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let program = target.join("debug/examples/openapi_real_specs");
    program.exists().then_some(program).context("the example was built elsewhere; unset CARGO_BUILD_TARGET")
}
