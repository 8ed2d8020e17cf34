//! The project's own commands. `cargo xtask` without a command lists them.
#![allow(
    clippy::disallowed_methods,
    reason = "this program starts cargo, measures time and reads its own environment"
)]

#[macro_use]
mod output;

mod bench;
mod cargo;
mod catalogue;
mod ci;
mod conformance;
mod crash;
mod features;
mod fuzz;
mod interop;
mod package;
mod requests;
mod requirements;
mod server;
mod soak;
mod source;
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

  test                   every test of the workspace, documentation examples included, and the examples' build
  ci [--only A,B | --without A,B]
                         fmt, tidy, surface, requirements, clippy, test, doc, features, package, conformance, wasm, deny
  tidy [--only RULE[,RULE]] [--count]
                         the rules that a tool can check; with --count the number of findings per rule, crate and file
  surface [--check]      writes docs/surface.md, the counts and names of the public API, and checks its limits
  package                packs the crates and compiles users' programs against the packed files
  requirements [--list]  that every row of docs/requirements.md has the tests it claims
  conformance [DIR] [--protocol P] [--json]
                         recorded responses through the real providers, whole and cut at hostile places
  requests [DIR] [--protocol P]
                         the bodies that the providers send in a varied run, as files, held against the APIs' rules
  catalogue FILE [--as-of DAY] [--write]
                         what a file knows better of the models: entries of our form, or the api.json of models.dev
  interop [SUITE] [--only SERVER]
                         whole agent runs against servers that nobody here wrote (not in ci: it fetches them)
  mcp-conformance        the official conformance suite of MCP judges our client (not in ci: it is fetched)
  soak [--minutes N]     the coding agent over and over on a copy of this project: nothing may grow (a minute)
  crash [--kills N] [--seed S] [--store json|sqlite]
                         agents killed at random moments, resumed, and compared with undisturbed ones
  fuzz [--seconds N] [TARGET...]
                         the fuzz targets, a minute each (with nightly and cargo-fuzz)
  weight [SET...]        crates, build time and program size of sets of features
  bench                  that cost grows with what is new, counted in allocations and instructions
  bench session | store  what recording a session costs; lists and searches over 10,000 sessions
";

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

/// Runs one command. `false` means that it ran and found something wrong, and has said what.
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
        "catalogue" => catalogue::run(&workspace, rest),
        "bench" => bench::run(&workspace, rest),
        "conformance" => conformance::run(&workspace, rest),
        "crash" => crash::run(&workspace, rest),
        "fuzz" => fuzz::run(&workspace, rest),
        "interop" => interop::run(&workspace, rest),
        "package" => package::run(&workspace, rest),
        "surface" => surface::run(&workspace, rest),
        "soak" => soak::run(&workspace, rest),
        "mcp-conformance" => interop::mcp_conformance::run(&workspace, rest),
        "requests" => requests::run(&workspace, rest),
        "help" | "--help" | "-h" => {
            say_as_is!("{HELP}");
            Ok(true)
        }
        other => anyhow::bail!("there is no command `{other}`\n\n{HELP}"),
    }
}
