//! The program of the tutorial `docs/tutorial.md`, unchanged: a coding assistant with approvals, a budget and sessions.
//!
//! `cargo run -p looptree-examples --example tutorial -- anthropic/claude-sonnet-5-5` works in the current folder. It has no
//! script, so it needs a model; `docs/examples.md` lists the names and keys of all providers.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program that talks to the user")]

include!("program.rs");
