//! The command `looptree`: a coding agent in a terminal and in scripts.
//!
//! The crate is a program. Its library has the entry point [`main`], for programs that add nothing but a name, and
//! [`endpoint`], the checks of `looptree check`. `docs/cli.md` in the repository describes the command.
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     looptree_cli::main()
//! }
//! ```
#![expect(
    clippy::disallowed_methods,
    reason = "a program that talks to the user, measures time, starts a pager, and reads its own environment"
)]

mod acp;
mod answers;
mod approval;
mod args;
mod chat;
mod choose;
mod demo;
pub mod endpoint;
mod exit;
mod lists;
mod man;
mod mcp;
mod money;
mod ollama_server;
mod preview;
mod print;
mod programs;
mod recording;
mod run;
mod sandbox;
mod screen;
mod serve;
mod served;
mod servers;
mod sessions;
mod settings;
mod setup;
mod stdin;
mod stored_keys;
mod text;
mod view;
mod window;
mod work;

use std::process::ExitCode;

/// Runs the command `looptree` with the arguments of this process and returns its exit code.
///
/// It starts a Tokio runtime of its own, so do not call it inside of one.
#[must_use]
pub fn main() -> ExitCode {
    run::main().into()
}
