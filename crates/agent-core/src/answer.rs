//! Typed answers: the schema that a model must follow, and the conversion of its answer into a Rust type.
//!
//! [`AgentHandle::prompt_typed`](crate::AgentHandle::prompt_typed) does all of it. An [`AnswerForm`] is for programs
//! that change the settings or run loops themselves: it provides the [`ResponseFormat`](crate::ResponseFormat) and
//! parses the text of the reply.
//!
//! ```
//! use agent_core::testing::ScriptedProvider;
//! use agent_core::{AnswerForm, BasicAgent, ModelConfig};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
//! struct City {
//!     /// Its name in English.
//!     name: String,
//!     #[schemars(range(min = 1))]
//!     inhabitants: u64,
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! // The first answer lacks a member, so the model receives a correction and answers again.
//! let model = ScriptedProvider::texts([r#"{"name": "Oslo"}"#, r#"{"name": "Oslo", "inhabitants": 717710}"#]);
//! let agent = BasicAgent::new(ModelConfig::default()).with_provider(model);
//! let city: City = agent.prompt_typed("The capital of Norway?").await?;
//! assert_eq!(city, City { name: "Oslo".into(), inhabitants: 717_710 });
//! # Ok::<(), agent_core::AgentError>(())
//! # })?;
//!
//! let form = AnswerForm::<City>::new();
//! assert!(form.read(r#"{"name": "Oslo", "inhabitants": 0}"#).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod form;
mod strict;

#[cfg(test)]
mod tests;

pub use error::{AnswerError, AnswerFault};
pub use form::{ANSWER_RETRIES, AnswerForm};
#[cfg(feature = "partial-answers")]
pub(crate) use form::{fenced, is_wrapped};
