//! Programs that show Looptree at work.
//!
//! `looptree_server` holds the keys for agents elsewhere. The command `looptree` is in `crates/looptree-cli`.

pub mod model_server;
