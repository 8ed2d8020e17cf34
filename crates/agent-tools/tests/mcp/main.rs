//! Servers that speak the Model Context Protocol, over real processes and sockets. The servers are this same program.
#![cfg(all(feature = "mcp", unix))]
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test is nobody's library"
)]

#[path = "../support/skip.rs"]
mod skip;
mod support;

mod agent;
mod calls;
mod config;
mod elicitation;
#[cfg(feature = "mcp-oauth")]
mod enterprise_login;
mod guide;
mod http;
mod lists;
mod many_tools;
#[cfg(feature = "mcp-oauth")]
mod oauth;
mod process;
mod questions;
mod restart;
mod sandbox;
mod sizes;
mod trust;
