//! Programs that show Looptree at work.
//!
//! `looptree_server` holds the keys for agents elsewhere; `specialists` shows several agents at work; `looptree_driver` is measured by
//! benchmarks. The command `looptree` is in `crates/looptree-cli`.

pub mod model_server;
