//! Tools for testing agents: a scripted model, a manual clock, and assertions about events.
//!
//! [`ScriptedProvider`] is strict: it rejects requests that a real API would reject, so that a test cannot pass with
//! an invalid history.
//!
//! ```
//! use agent_core::testing::{ScriptedProvider, ScriptedReply, assert_well_formed, transcript};
//! use agent_core::{BasicAgent, ModelConfig};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let model = ScriptedProvider::new([ScriptedReply::text("Hello.").in_pieces_of(3)]);
//! let agent = BasicAgent::new(ModelConfig::default()).with_provider(model.clone());
//! let events = agent.prompt("Hi")?.collect().await;
//! assert_well_formed(&events);
//! assert_eq!(transcript(&events), "agent_start turn_start user assistant(Hello.) turn_end agent_end(completed)");
//! assert_eq!(model.requests().len(), 1);
//! # Ok::<(), agent_core::AgentError>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod assertions;
mod clock;
mod provider;
mod reply;
mod strict;
mod tool;

pub use assertions::{assert_well_formed, transcript};
pub use clock::ManualEnvironment;
pub use provider::ScriptedProvider;
pub use reply::{Latch, ScriptedReply};
pub use tool::ScriptedTool;

/// Another name of [`ScriptedProvider`].
pub type MockProvider = ScriptedProvider;
