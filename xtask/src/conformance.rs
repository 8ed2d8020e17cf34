//! `cargo xtask conformance`: recorded responses, served over HTTP on loopback, through the real providers.
//!
//! `docs/conformance.md` describes what is compared and where our model differs from the vendors'; the module `rules` holds all
//! of these differences.

mod citations;
mod compare;
mod cuts;
mod frames;
mod manifest;
mod play;
mod report;
mod rules;

use std::path::PathBuf;

use anyhow::{Context as _, bail};

use crate::server;
use crate::workspace::Workspace;
use manifest::{Case, Expected, Manifest};
use play::Found;
use report::{Failure, ProtocolReport, Report};

/// The project's own set.
pub(crate) const OWN_SET: &str = "crates/agent-providers/conformance";

/// How many deliveries with pauses run beside each other.
const AT_ONCE: usize = 32;

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    directory: Option<PathBuf>,
    protocol: Option<String>,
    json: bool,
}

/// Runs the cases; `false` when one failed or has no provider.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    let options = options(arguments)?;
    // A path on the command line is meant from where the person stands.
    let directory = options.directory.clone().unwrap_or_else(|| workspace.root.join(OWN_SET));
    let report = judge(&directory, options.protocol.as_deref())?;
    if options.json {
        say!("{}", report.to_json());
    } else {
        say_as_is!("{report}");
    }
    Ok(report.passed())
}

fn options(arguments: &[String]) -> anyhow::Result<Options> {
    let mut options = Options::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => options.json = true,
            "--protocol" => options.protocol = Some(words.next().context("--protocol needs a name")?.clone()),
            flag if flag.starts_with('-') => bail!("`cargo xtask conformance` does not know `{flag}`"),
            directory if options.directory.is_none() => options.directory = Some(PathBuf::from(directory)),
            more => bail!("`cargo xtask conformance` takes one folder, but got `{more}` too"),
        }
    }
    Ok(options)
}

fn judge(directory: &std::path::Path, protocol: Option<&str>) -> anyhow::Result<Report> {
    let manifest = Manifest::read(directory)?;
    let mut names = manifest.protocols();
    if let Some(wanted) = protocol {
        if !names.iter().any(|n| n == wanted) {
            bail!("{} has no case of `{wanted}`; it has {}", directory.display(), names.join(", "));
        }
        names.retain(|n| n == wanted);
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start tokio")?;
    runtime.block_on(async {
        let server = server::Server::start().await?;
        let mut report = Report::default();
        for name in names {
            report.protocols.push(protocol_report(&server, &manifest, &name).await?);
        }
        Ok(report)
    })
}

async fn protocol_report(
    server: &server::Server,
    manifest: &Manifest,
    name: &str,
) -> anyhow::Result<ProtocolReport> {
    let mut report = ProtocolReport::new(name);
    if name == frames::FOLDER {
        return frames::report(manifest);
    }
    let cases: Vec<&Case> = manifest.cases.iter().filter(|c| c.protocol == name).collect();
    let Some(api) = play::api_of(name).filter(|api| play::has_provider(*api)) else {
        report.without_provider = cases.len();
        return Ok(report);
    };
    for cases in cases.chunks(AT_ONCE) {
        // The deliveries with pauses wait most of the time, so they run beside each other and the others.
        let mut paused = Vec::new();
        for case in cases {
            let cut = cuts::paused(&manifest.body(case)?);
            paused.push(cut.map(|cut| (cut.name, play::begin(server, api, case, cut))));
        }
        for (case, paused) in cases.iter().zip(paused) {
            let expected: Expected = manifest.expected(case)?;
            let (wanted, fired) = rules::wanted(name, &expected);
            let body = manifest.body(case)?;
            let failure = |found: &Found, delivery| {
                let difference = compare::first_difference(&wanted, found)
                    .or_else(|| citations::difference(name, &body, found))?;
                Some(Failure { case: case.case.clone(), delivery, difference })
            };
            let (mut first, mut contradiction) = (None, None);
            for cut in cuts::all(&body) {
                let delivery = cut.name;
                let found = play::play(server, api, case, cut).await;
                contradiction = rules::contradiction(&expected, &found.usage);
                first = failure(&found, delivery);
                if first.is_some() {
                    break;
                }
            }
            let lost = if first.is_none() { cuts::lost(&body) } else { Vec::new() };
            for cut in lost {
                let delivery = cut.name;
                let found = play::play(server, api, case, cut).await;
                let difference = compare::difference_of_lost(&found);
                first =
                    difference.map(|difference| Failure { case: case.case.clone(), delivery, difference });
                if first.is_some() {
                    break;
                }
            }
            if let Some((delivery, paused)) = paused {
                let found = paused.await.context("a delivery with pauses panicked")?;
                first = first.or_else(|| failure(&found, delivery));
            }
            report.add(first, &fired);
            if let Some(how) = contradiction {
                report.contradicts(&case.case, how);
            }
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests;
