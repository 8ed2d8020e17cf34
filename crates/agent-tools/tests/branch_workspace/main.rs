//! Workspaces for branches: real files, real git.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

mod copies;
mod hostile;
mod project;
mod selecting;
mod taking_over;
mod worktrees;
