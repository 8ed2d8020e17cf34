//! Older and shorter names for what the agent does, as extension traits.
//!
//! [`SeedVerbs`] has other names for methods of [`AgentHandle`](crate::AgentHandle), and [`SeedSetters`] has one setter
//! for each option of [`BasicAgent`](crate::BasicAgent). Both exist for code that was written against the names in
//! Looptree's first design documents. New code does not need them: the documentation of each method names its
//! replacement.
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

/// Other names of [`MostTokensEvaluation`](crate::evaluation::MostTokensEvaluation) and
/// [`OnlyBranchEvaluation`](crate::evaluation::OnlyBranchEvaluation).
pub use crate::evaluation::{
    MostTokensEvaluation as ElaborateEvaluation, OnlyBranchEvaluation as TransparentEvaluation,
};

/// The former name of [`ModelRequest`](crate::ModelRequest).
#[deprecated(note = "use ModelRequest")]
pub type StreamConfig = crate::provider::ModelRequest;
