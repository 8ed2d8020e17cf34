//! JSON schemas of sessions as JSON documents and of the live event stream.
//!
//! The schemas are the files `session-v1.json` and `events-v1.json` of this module; `docs/schema` links to them. Tests
//! validate recorded sessions and live events against them and compare their members with those of the types. A file
//! can contain fields and kinds of events that are not in the schema: they come from a later version and are preserved.
//!
//! ```
//! use agent_core::Timestamp;
//! use agent_core::tool::validate::{ArgumentValidator, SchemaValidator};
//! use agent_session::{Session, session_schema};
//! let session = Session::new("s-1".into(), "agent".into(), Timestamp(1));
//! let file = serde_json::to_value(&session)?;
//! assert!(SchemaValidator.validate(&session_schema(), file).is_ok());
//! # Ok::<(), serde_json::Error>(())
//! ```

#[cfg(test)]
mod tests;

use serde_json::Value;

/// Returns the JSON schema of what a [`Session`](crate::Session) serializes to, in the version
/// [`SESSION_VERSION`](crate::SESSION_VERSION). Stores write their own form.
#[must_use]
pub fn session_schema() -> Value {
    serde_json::from_str(include_str!("schema/session-v1.json")).unwrap_or_default()
}

/// Returns the JSON schema of the live event stream: what [`AgentEvent`](agent_core::AgentEvent) serializes to.
///
/// Later versions can add kinds of events and fields, so a reader has to ignore the ones that it does not know.
#[must_use]
pub fn event_schema() -> Value {
    serde_json::from_str(include_str!("schema/events-v1.json")).unwrap_or_default()
}
