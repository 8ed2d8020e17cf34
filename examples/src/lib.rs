//! Programs that show Looptree at work.
//!
//! `looptree_server` holds the keys for agents elsewhere; `web_service` serves an agent over HTTP; `specialists` shows several agents
//! at work; `live` checks real providers; `looptree_driver` is measured by benchmarks. The command `looptree` is in `crates/looptree-cli`.
