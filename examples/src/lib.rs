//! Programs that show Looptree at work.
//!
//! `cargo run --example coding_assistant` is the one to start with. `looptree_server` holds the keys for agents elsewhere;
//! `looptree_driver` is measured by benchmarks.

pub mod model_server;
