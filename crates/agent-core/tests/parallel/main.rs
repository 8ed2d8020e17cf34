//! Parallel loops: what comes back of them, what they say, and which one is selected.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

#[path = "../support/runs.rs"]
mod runs;

mod cancelling;
mod events;
mod exploring;
mod group;
mod judging;
mod laws;
mod outcomes;
mod spending;
mod window;
