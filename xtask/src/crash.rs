//! `cargo xtask crash`: agents killed by SIGKILL at random moments, resumed, and compared with undisturbed ones.
//!
//! The test itself is in agent-session, where every `cargo test` runs a short form of it.

#[cfg(test)]
mod tests;

use anyhow::{Context as _, bail, ensure};

use crate::cargo;
use crate::workspace::Workspace;

/// Kills unless the command line says otherwise.
const KILLS: u32 = 200;

/// The store that the sessions lie in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    Json,
    Sqlite,
    Postgres,
}

impl Store {
    /// Its test.
    const fn test(self) -> &'static str {
        match self {
            Self::Json => "killed_at_any_moment_a_session_resumes_to_the_history_of_an_undisturbed_run",
            Self::Sqlite => {
                "killed_at_any_moment_a_session_in_sqlite_resumes_to_the_history_of_an_undisturbed_run"
            }
            Self::Postgres => {
                "killed_at_any_moment_a_session_on_postgres_resumes_to_the_history_of_an_undisturbed_run"
            }
        }
    }
}

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    kills: u32,
    /// Repeats the choices of a run that said it.
    seed: Option<u64>,
    store: Store,
}

/// Runs the test; `false` when a session was not as it should be.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    let Options { kills, seed, store } = options(arguments)?;
    let (kills, seed) = (kills.to_string(), seed.map(|s| s.to_string()));
    let mut environment = vec![("LOOPTREE_KILLS", kills.as_str())];
    environment.extend(seed.as_deref().map(|seed| ("LOOPTREE_SEED", seed)));
    let mut test = vec!["test", "--package", "looptree-session", "--test", "kills"];
    match store {
        Store::Json => {}
        Store::Sqlite => test.extend(["--features", "sqlite"]),
        Store::Postgres => test.extend(["--features", "postgres"]),
    }
    test.extend(["--", "--exact", store.test(), "--nocapture"]);
    cargo::run(&workspace.root, &test, &environment)
}

fn options(arguments: &[String]) -> anyhow::Result<Options> {
    let mut options = Options { kills: KILLS, seed: None, store: Store::Json };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut number = || -> anyhow::Result<u64> {
            let number = words.next().with_context(|| format!("{word} needs a number"))?;
            number.parse().with_context(|| format!("{number:?} is no number"))
        };
        match word.as_str() {
            "--kills" => {
                options.kills = u32::try_from(number()?).context("that many kills take too long")?;
                ensure!(options.kills > 0, "--kills needs a number above 0");
            }
            "--store" => {
                options.store = match words.next().map(String::as_str) {
                    Some("json") => Store::Json,
                    Some("sqlite") => Store::Sqlite,
                    Some("postgres") => Store::Postgres,
                    _ => bail!("--store is `json`, `sqlite` or `postgres`"),
                };
            }
            "--seed" => options.seed = Some(number()?),
            other => bail!("`cargo xtask crash` does not know `{other}`"),
        }
    }
    Ok(options)
}
