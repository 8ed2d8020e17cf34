//! Tools of HTTP APIs, against servers on loopback.
#![cfg(feature = "openapi")]
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    clippy::redundant_closure_for_method_calls,
    reason = "a test is nobody's library"
)]

#[path = "../../examples/openapi_real_specs/check/mod.rs"]
mod check;

mod agent;
mod answers;
mod bodies;
mod credentials;
mod hostile;
mod laws;
mod reading;
mod schemas;
mod sources;
mod support;
mod wire;
