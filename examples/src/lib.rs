//! Programs that show Looptree at work.
//!
//! `cargo run --example coding_assistant` is the one to start with. `looptree_server` holds the keys for agents elsewhere;
//! `endpoint_check` finds out how a server speaks; `specialists` shows several agents at work; `looptree_driver` is measured by benchmarks.

pub mod endpoint_check;
pub mod model_server;
