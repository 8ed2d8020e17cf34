//! `cargo xtask interop`: runs agents against third-party servers on loopback.
//!
//! `docs/interop.md` lists the suites and their versions and explains the table. A suite is one line of
//! [`SUITES`]: its name, the servers that it has, and who runs them.

pub(crate) mod acp_client;
mod aimock;
mod checks;
mod install;
mod litellm;
mod llama;
mod llm;
mod mcp;
pub(crate) mod mcp_conformance;
mod net;
mod openapi;
mod process;
mod report;
mod scene;
pub(crate) mod serve;
mod talk;

use std::path::Path;

use anyhow::{Context as _, bail};

use crate::workspace::Workspace;
use install::Place;
use report::Report;

/// A family of servers.
struct Suite {
    name: &'static str,
    servers: &'static [&'static str],
    /// Starts these of its servers, runs their checks, and ends them.
    run: fn(&Place, &[&'static str], &mut Report) -> anyhow::Result<()>,
}

const SUITES: &[Suite] = &[
    Suite { name: "llm", servers: llm::SERVERS, run: llm::run },
    Suite { name: "mcp", servers: mcp::SERVERS, run: mcp::run },
    Suite { name: "openapi", servers: openapi::SERVERS, run: openapi::run },
];

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    suite: &'static str,
    servers: Vec<&'static str>,
}

/// Runs the checks of a suite; `false` when one failed. A server that cannot be had here is left out with a line.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    let options = options(arguments)?;
    let suite = suite(options.suite)?;
    let place = Place::at(&workspace.root);
    let mut report = Report::default();
    let whole = (suite.run)(&place, &options.servers, &mut report);
    say_as_is!("{report}");
    whole?;
    Ok(report.passed())
}

fn suite(name: &str) -> anyhow::Result<&'static Suite> {
    let names = || SUITES.iter().map(|s| s.name).collect::<Vec<_>>().join(", ");
    SUITES.iter().find(|s| s.name == name).with_context(|| {
        format!("there is no suite `{name}`; `cargo xtask interop [SUITE] [--only SERVER]` has {}", names())
    })
}

fn options(arguments: &[String]) -> anyhow::Result<Options> {
    let (mut named, mut only) = (None, None);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--only" => only = Some(words.next().context("--only needs the name of a server")?),
            flag if flag.starts_with('-') => bail!("`cargo xtask interop` does not know `{flag}`"),
            name if named.is_none() => named = Some(suite(name)?),
            more => bail!("`cargo xtask interop` takes one suite, but got `{more}` too"),
        }
    }
    let suite = named.or(SUITES.first()).context("there is no suite")?;
    let servers: Vec<_> =
        suite.servers.iter().copied().filter(|s| only.is_none_or(|wanted| wanted == s)).collect();
    if servers.is_empty() {
        bail!(
            "{} has no server `{}`; it has {}",
            suite.name,
            only.map_or("", |o| o),
            suite.servers.join(", ")
        );
    }
    Ok(Options { suite: suite.name, servers })
}

/// Runs `work` until it is done, or until this program receives a signal to end: then `work` is dropped, and with it every
/// process that it holds.
fn on_runtime<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start tokio")?;
    runtime.block_on(async {
        tokio::select! {
            done = work => done,
            asked = process::asked_to_end() => {
                asked?;
                bail!("asked to end; every server that was started is ended")
            }
        }
    })
}

/// A path as the programs that are started take it.
fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests;
