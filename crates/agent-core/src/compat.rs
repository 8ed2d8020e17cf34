//! Older and shorter names for what the agent does, as extension traits.
//!
//! The documents from which Looptree was built name some methods differently, or have a method for every option. These
//! traits provide those names for code that uses them. New code does not need them: each method says what it stands for.
//!
//! ```
//! use agent_core::compat::{SeedSetters as _, SeedVerbs as _};
//! use agent_core::testing::ScriptedProvider;
//! use agent_core::{BasicAgent, ModelConfig};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let agent = BasicAgent::new(ModelConfig::default())
//!     .with_provider(ScriptedProvider::texts(["4"]))
//!     .with_temperature(0.0);
//! let (tx, mut events) = agent_core::event_channel();
//! agent.prompt_with_sender("2 + 2?", tx)?;
//! assert_eq!(events.end().await.into_reply()?.text(), "4");
//! assert_eq!(agent.get_context().len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(test)]
mod tests;

mod setters;
mod verbs;

pub use setters::SeedSetters;
pub use verbs::SeedVerbs;

/// The former name of [`ModelRequest`](crate::ModelRequest).
#[deprecated(note = "use ModelRequest")]
pub type StreamConfig = crate::provider::ModelRequest;
