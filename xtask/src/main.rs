//! The project's own commands. `cargo xtask` without a command lists them.
#![allow(
    clippy::disallowed_methods,
    reason = "this program starts cargo, measures time and reads its own environment"
)]

#[macro_use]
mod output;

#[cfg(feature = "agents")]
mod bench;
mod browser;
mod cargo;
#[cfg(feature = "agents")]
mod catalogue;
mod ci;
#[cfg(feature = "agents")]
mod conformance;
mod crash;
mod docs;
mod durable;
mod features;
#[cfg(feature = "agents")]
mod fuzz;
#[cfg(feature = "agents")]
mod interop;
mod live;
mod mutants;
mod otel;
mod package;
mod postgres;
mod release;
#[cfg(feature = "agents")]
mod requests;
mod requirements;
#[cfg(feature = "agents")]
mod server;
mod size;
mod soak;
mod source;
mod steps;
mod surface;
mod syntax;
mod test_command;
mod tidy;
mod weight;
mod workspace;

use std::process::ExitCode;

use workspace::Workspace;

const HELP: &str = "\
cargo xtask COMMAND

  test                   checks the examples and runs all tests, including documentation examples
  ci [--only A,B | --without A,B]
                         runs the steps of CI: fmt, tidy, surface, docs, requirements, release, clippy, test, doc, features, package, wasm, deny
  tidy [--only RULE[,RULE]] [--count]
                         checks the rules of the source tree; --count prints totals per rule, crate and file
  surface [--check]      writes docs/surface.md, the counts and names of the public API, and checks its limits
  docs [--check | --write]
                         checks the pages (links, code blocks, features, limits, quoted errors) and builds the book and the API
                         documentation; --check only checks, --write writes docs/reference/limits.md
  features               checks each library with no feature, with each feature alone and with all (ci checks the facade only)
  package                packs the crates and compiles users' programs against the packed files (ci compiles one of them)
  release --dry-run [--version X] [--baseline REV] [--profile P] [--only STEP,STEP | --without STEP,STEP]
                         checks, builds and installs what a release would publish, and publishes nothing (not in ci, except the first steps)
  release --order        prints the packages in the order in which they are published
  live PROVIDER [MODEL]  checks a real provider with a key of the environment: text, tools, usage, a wrong key (not in ci)
  requirements [--list]  checks that every row of docs/requirements.md has the tests it claims
  conformance [DIR] [--protocol P] [--json]
                         replays recorded responses through the real providers, whole and split at hostile places
  requests [DIR] [--protocol P]
                         writes the request bodies of a varied run and checks them against the rules of the APIs
  catalogue --from FILE [--as-of DAY] [--write]
                         compares the model catalogue with a file: entries in our format, or the api.json of models.dev
  interop [SUITE] [--only SERVER]
                         runs agents against third-party servers (not in ci: downloads them)
  acp-client             lets an ACP client of npm drive `looptree acp` (not in ci: downloads it)
  mcp-conformance [client|server]
                         runs the official MCP conformance suite against our client and server (not in ci: downloads it)
  serve openai           runs OpenAI's Python SDK against the HTTP service (not in ci: downloads it)
  serve check [--examples N]
                         sends generated requests to the HTTP service by schemathesis (not in ci: downloads it)
  serve load [N]         runs 500 conversations at once, with clients that do not read, and measures the memory of the server
  soak [--minutes N]     runs the coding agent repeatedly on a copy of this project and checks that memory does not grow
  postgres               starts a Postgres server under target/, from this machine or npm, and prints its URL (not in ci)
  otel                   installs and starts Phoenix, and checks the traces that arrive there (not in ci: downloads it)
  crash [--kills N] [--seed S] [--store json|sqlite|postgres]
                         kills agents at random moments, resumes them, and compares them with uninterrupted runs
  faults [--calls N] [--seed S] [--store json|sqlite|postgres] [--postgres]
                         the same with faults at system calls, by strace, or at replies of Postgres, by a proxy (not in ci)
  restate                installs a Restate server below target, for the tests of durable sessions (downloads it)
  browser                installs Chromium and ChromeDriver, for the tests of the viewer (with apt-get, as root)
  view-pictures          writes the pictures of docs/viewer.md
  durable [--kills N] [--server-kills N] [--approvals N] [--scripts N] [--seed S]
                         kills workers and servers of durable sessions, and compares the sessions with the built-in driver
  fuzz [--seconds N] [TARGET...]
                         runs the fuzz targets, a minute each (requires nightly and cargo-fuzz)
  mutants [--seed S] [--drawn N] [--missed] [MODULE...]
                         changes the code in small ways and checks that a test fails (requires cargo-mutants; a module takes minutes)
  weight [SET...]        measures crates, build time and program size for sets of features
  bench                  checks that cost grows with the size of new input only
  bench session | store  measures recording, listing and searching of sessions
  bench context          compares compaction strategies in a long scripted run
  bench memory           checks that the memory of a long recorded run does not grow
  bench travel           checks that operations on a loaded session are linear in its size
  bench ws               measures tool turns over WebSocket and HTTP with simulated latency
  size [--sessions N] [--prompts N] [--retention-days N] [--days N] [--core-hour PRICE] [--gigabyte-month PRICE]
                         computes and simulates what a number of durable sessions needs
  bench durable          measures sessions on a Restate server against the built-in driver
  bench sim [N]          measures simulated runs, and searches for errors that it plants in a copy of agent-core
";

/// Lists the commands that run agents, with their functions. Only the feature `agents` compiles the functions.
macro_rules! with_agents {
    ($($name:literal => $run:path,)*) => {
        const WITH_AGENTS: &[&str] = &[$($name),*];

        #[cfg(feature = "agents")]
        fn run_with_agents(workspace: &Workspace, command: &str, rest: &[String]) -> anyhow::Result<bool> {
            match command {
                $($name => $run(workspace, rest),)*
                other => anyhow::bail!("`{other}` runs no agents"),
            }
        }
    };
}

with_agents! {
    "acp-client" => interop::acp_client::run,
    "bench" => bench::run,
    "catalogue" => catalogue::run,
    "conformance" => conformance::run,
    "fuzz" => fuzz::run,
    "interop" => interop::run,
    "mcp-conformance" => interop::mcp_conformance::run,
    "requests" => requests::run,
    "serve" => interop::serve::run,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one command. `false` means that the command ran, found problems and printed them.
fn run(arguments: &[String]) -> anyhow::Result<bool> {
    let Some((command, rest)) = arguments.split_first() else {
        say_as_is!("{HELP}");
        return Ok(true);
    };
    let workspace = Workspace::find()?;
    match command.as_str() {
        "test" => test_command::run(&workspace, rest),
        "ci" => ci::run(&workspace, rest),
        "tidy" => tidy::run(&workspace, rest),
        "requirements" => requirements::run(&workspace, rest),
        "weight" => weight::run(&workspace, rest),
        "crash" => crash::run(&workspace, crash::Harm::Kills, rest),
        "faults" => crash::run(&workspace, crash::Harm::Faults, rest),
        "durable" => durable::run(&workspace, rest),
        "restate" => durable::install(&workspace, rest),
        "browser" => browser::install(&workspace, rest),
        "view-pictures" => browser::pictures(&workspace, rest),
        "mutants" => mutants::run(&workspace, rest),
        "otel" => otel::run(&workspace, rest),
        "features" => features::run(&workspace, rest),
        "package" => package::run(&workspace, rest),
        "live" => live::run(&workspace, rest),
        "postgres" => postgres::run(&workspace, rest),
        "release" => release::run(&workspace, rest),
        "size" => size::run(rest),
        "docs" => docs::run(&workspace, rest),
        "surface" => surface::run(&workspace, rest),
        "soak" => soak::run(&workspace, rest),
        "help" | "--help" | "-h" => {
            say_as_is!("{HELP}");
            Ok(true)
        }
        command if WITH_AGENTS.contains(&command) => run_with_agents(&workspace, command, rest),
        other => anyhow::bail!("there is no command `{other}`\n\n{HELP}"),
    }
}

/// Runs a command in this program compiled with the feature `agents`. `false` when it fails.
#[cfg(not(feature = "agents"))]
fn run_with_agents(_: &Workspace, command: &str, rest: &[String]) -> anyhow::Result<bool> {
    let words =
        ["run", "--quiet", "--locked", "--package", "xtask", "--bin", "xtask", "--features", "agents", "--"];
    // A path among the arguments is relative to the directory of the user.
    let mut cargo = cargo::command(&std::env::current_dir()?);
    Ok(cargo.args(words).arg(command).args(rest).status()?.success())
}
