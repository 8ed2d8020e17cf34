//! `cargo xtask crash`: agents killed by SIGKILL at random moments, resumed, and compared with undisturbed ones.
//! `cargo xtask faults`: the same with faults at system calls and at replies of Postgres.
//!
//! The tests themselves are in agent-session, where every `cargo test` runs a short form of the first one.

#[cfg(test)]
mod tests;

use anyhow::{Context as _, bail, ensure};

use crate::cargo;
use crate::workspace::Workspace;

/// Kills unless the command line says otherwise.
const KILLS: u32 = 200;

/// Runs with a fault unless the command line says otherwise.
const CALLS: u32 = 3_000;

/// What is done to the agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Harm {
    Kills,
    Faults,
}

impl Harm {
    /// The name of the command, the option for its number of runs, its variable, and its usual number.
    const fn numbers(self) -> (&'static str, &'static str, &'static str, u32) {
        match self {
            Self::Kills => ("crash", "--kills", "LOOPTREE_KILLS", KILLS),
            Self::Faults => ("faults", "--calls", "LOOPTREE_CALLS", CALLS),
        }
    }
}

/// The store that the sessions lie in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    Json,
    Sqlite,
    Postgres,
}

impl Store {
    /// Its test.
    const fn test(self, harm: Harm) -> &'static str {
        match (harm, self) {
            (Harm::Kills, Self::Json) => {
                "killed_at_any_moment_a_session_resumes_to_the_history_of_an_undisturbed_run"
            }
            (Harm::Kills, Self::Sqlite) => {
                "killed_at_any_moment_a_session_in_sqlite_resumes_to_the_history_of_an_undisturbed_run"
            }
            (Harm::Kills, Self::Postgres) => {
                "killed_at_any_moment_a_session_on_postgres_resumes_to_the_history_of_an_undisturbed_run"
            }
            (Harm::Faults, Self::Json) => "a_fault_at_a_system_call_loses_nothing_that_was_acknowledged",
            (Harm::Faults, Self::Sqlite) => "a_fault_at_a_system_call_loses_nothing_in_sqlite",
            (Harm::Faults, Self::Postgres) => {
                "a_reply_that_is_swallowed_cut_or_repeated_loses_nothing_on_postgres"
            }
        }
    }
}

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    runs: u32,
    /// Repeats the choices of a run that said it.
    seed: Option<u64>,
    store: Store,
}

/// Runs the test; `false` when a session was not as it should be.
pub(crate) fn run(workspace: &Workspace, harm: Harm, arguments: &[String]) -> anyhow::Result<bool> {
    let Options { runs, seed, store } = options(harm, arguments)?;
    let (runs, seed) = (runs.to_string(), seed.map(|s| s.to_string()));
    let (_, _, variable, _) = harm.numbers();
    let mut environment = vec![(variable, runs.as_str())];
    environment.extend(seed.as_deref().map(|seed| ("LOOPTREE_SEED", seed)));
    let mut test = vec!["test", "--package", "looptree-session", "--test", "kills"];
    match store {
        Store::Json => {}
        Store::Sqlite => test.extend(["--features", "sqlite"]),
        Store::Postgres => test.extend(["--features", "postgres"]),
    }
    test.extend(["--", "--exact", store.test(harm), "--nocapture", "--include-ignored"]);
    cargo::run(&workspace.root, &test, &environment)
}

fn options(harm: Harm, arguments: &[String]) -> anyhow::Result<Options> {
    let (command, of_runs, _, usual) = harm.numbers();
    let mut options = Options { runs: usual, seed: None, store: Store::Json };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut number = || -> anyhow::Result<u64> {
            let number = words.next().with_context(|| format!("{word} needs a number"))?;
            number.parse().with_context(|| format!("{number:?} is no number"))
        };
        match word.as_str() {
            word if word == of_runs => {
                options.runs = u32::try_from(number()?).context("that many runs take too long")?;
                ensure!(options.runs > 0, "{of_runs} needs a number above 0");
            }
            "--store" => {
                options.store = match words.next().map(String::as_str) {
                    Some("json") => Store::Json,
                    Some("sqlite") => Store::Sqlite,
                    Some("postgres") => Store::Postgres,
                    _ => bail!("--store is `json`, `sqlite` or `postgres`"),
                };
            }
            "--postgres" if harm == Harm::Faults => options.store = Store::Postgres,
            "--seed" => options.seed = Some(number()?),
            other => bail!("`cargo xtask {command}` does not know `{other}`"),
        }
    }
    Ok(options)
}
