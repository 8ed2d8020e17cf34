//! The service over real sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

mod access;
mod conversations;
mod crash;
mod description;
mod events;
mod fairness;
#[cfg(feature = "files")]
mod files;
mod ledger;
mod many;
mod openai;
mod questions;
mod recovery;
mod repeated;
mod shutdown;
mod support;
mod vanished;
