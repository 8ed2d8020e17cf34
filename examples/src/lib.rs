//! Programs that show Looptree at work.
//!
//! `cargo run --example coding_assistant` is the one to start with; `looptree_driver` is measured by benchmarks.
