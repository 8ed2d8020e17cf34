//! The suite of model servers.

use super::install::{Installed, Place};
use super::process::Process;
use super::report::Report;
use super::{aimock, litellm, llama, on_runtime};

/// The servers, by the names that `--only` takes.
pub(super) const SERVERS: &[&str] = &[litellm::NAME, aimock::NAME, llama::NAME];

/// Runs the checks of these servers, one server after the other.
pub(super) fn run(place: &Place, servers: &[&'static str], report: &mut Report) -> anyhow::Result<()> {
    on_runtime(async {
        for server in servers {
            let done = match *server {
                litellm::NAME => litellm::run(place, report).await,
                aimock::NAME => aimock::run(place, report).await,
                _ => llama::run(place, report).await,
            };
            // The others can still be asked.
            if let Err(error) = done {
                report.fail(server, &error);
            }
        }
        Ok(())
    })
}

/// The folder of what was installed; `None`, with a line in the report, when it cannot be had here.
pub(super) fn here(server: &str, installed: Installed, report: &mut Report) -> Option<std::path::PathBuf> {
    match installed {
        Installed::Here(folder) => Some(folder),
        Installed::Missing(why) => {
            report.skip(server, &why);
            None
        }
    }
}

/// Runs `checks`, and then ends the server whatever came of them.
pub(super) async fn with(
    server: Process,
    checks: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let done = checks.await;
    server.end().await?;
    done
}
