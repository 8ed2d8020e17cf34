//! Budgets as runs keep them: reserved before each call, settled after it, at the limit an end or a question.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

#[path = "../support/runs.rs"]
mod runs;

mod counting;
mod outside;
mod pausing;
mod resuming;
mod room;
mod sharing;
mod stopping;
