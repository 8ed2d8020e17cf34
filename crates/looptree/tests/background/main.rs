//! Commands and sub-agents in the background, with real processes.
#![cfg(all(target_os = "linux", feature = "tools", feature = "session", feature = "testing"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]
#![allow(clippy::print_stderr, reason = "what a machine cannot show is said in a line")]
#![allow(
    clippy::disallowed_methods,
    reason = "the child of some tests is this test itself, on files of this test"
)]

mod conversation;
mod deaths;
mod kill;
mod permission;
#[path = "../../../agent-tools/tests/support/skip.rs"]
mod skip;
mod support;
mod tasks;
