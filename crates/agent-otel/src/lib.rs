//! Telemetry of agents by OpenTelemetry: traces and metrics over OTLP, trace contexts, and exports of recorded sessions.
//!
//! The spans exist without this crate: `looptree-core` creates them with the crate `tracing`, and
//! [`names`](agent_core::trace::names) has all their names. This crate exports them, derives metrics from them, and passes their
//! identities to tools, MCP servers and model servers. Text of conversations is sent only if [`Content::Included`] is set.
//!
//! ```no_run
//! use agent_core::{BasicAgent, ModelConfig};
//! use agent_otel::{Telemetry, WithTelemetry as _};
//!
//! # fn main() -> Result<(), agent_otel::OtelError> {
//! let telemetry = Telemetry::to("http://localhost:4318").with_service_name("my-agent").install()?;
//! let agent = BasicAgent::new(ModelConfig::default()).with_telemetry(telemetry.connection());
//! // ... run the agent ...
//! telemetry.shutdown()?;
//! # drop(agent);
//! # Ok(())
//! # }
//! ```
//!
//! `docs/guides/telemetry.md` describes what is sent, and how to reach Jaeger, Phoenix and Langfuse.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod agent;
mod connection;
mod content;
mod error;
mod exporter;
mod metrics;
mod sender;
#[cfg(feature = "session")]
pub mod session;
mod telemetry;

pub use agent::WithTelemetry;
pub use content::{Content, MAX_CONTENT_BYTES, MAX_TEXT_BYTES};
pub use error::OtelError;
pub use telemetry::{Installed, Metrics, Telemetry};
