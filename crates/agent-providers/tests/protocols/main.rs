//! What holds for every protocol alike, each over real loopback HTTP: one table of the eight, and one test a theme.

#![cfg(all(
    feature = "anthropic",
    feature = "openai-chat",
    feature = "openai-responses",
    feature = "azure",
    feature = "google",
    feature = "vertex",
    feature = "bedrock",
    feature = "ollama",
    feature = "remote"
))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    unreachable_pub,
    reason = "a test may fail loudly"
)]

mod abilities;
mod appended_changes;
mod arguments;
mod cache_breaks;
mod caching;
mod computer;
mod contracts;
mod deferred;
mod eight;
mod errors;
mod files;
mod handoff;
mod model_lists;
mod prewarm;
mod programmatic;
mod reading;
mod sendable;
mod server_tool_runs;
mod server_tools;
#[path = "../support/mod.rs"]
mod support;
mod typed_answers;
mod unknown_models;
mod vendor_context;
mod wire_hooks;
