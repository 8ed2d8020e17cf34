//! Runs agents on [Restate](https://restate.dev): sessions that survive their workers and the server, approvals that wait
//! without a process, and calls of tools that run once.
//!
//! A worker [`serve`]s a [`DurableAgent`]. A [`Client`] prompts its sessions from any process. The loop is the one of
//! `agent_core`: [`Performer`](agent_core::drive::Performer) performs each step, and the engine records its inputs, never
//! the whole run. A worker that takes over applies the recorded inputs and continues with the next step.
//!
//! ```no_run
//! use agent_core::{Answer, ModelConfig};
//! use agent_restate::{Client, DurableAgent};
//!
//! fn coder() -> DurableAgent {
//!     DurableAgent::new("coder").model(ModelConfig::default()).system_prompt("You are a careful engineer.")
//! }
//!
//! # async fn worker() -> Result<(), Box<dyn std::error::Error>> {
//! agent_restate::serve(coder(), "0.0.0.0:9080".parse()?).await?;
//! # Ok(())
//! # }
//! # async fn client() -> Result<(), Box<dyn std::error::Error>> {
//! let session = Client::connect("http://localhost:8080")?.session("coder", "user-42");
//! let turn = session.prompt("Deploy it").idempotency_key("deploy-7").send().await?;
//! for question in session.questions().await? {
//!     session.answer(question.id, Answer::Allow).await?;
//! }
//! println!("{:?}", turn.wait().await?);
//! # Ok(())
//! # }
//! ```
//!
//! # What runs once
//!
//! A step that was recorded is never performed again. A step that was cut off is performed again: the model is called
//! again, and tools with the effects `ReadOnly` and `Idempotent` run again. The start of a call with the effects `Once` is
//! recorded first; if its end is not recorded, the run asks before it executes the call again. Events are numbered, and a
//! repeated step emits the same numbers.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod agent;
mod client;
mod driver;
mod error;
mod explore;
mod group;
mod handlers;
mod mailbox;
mod record;
mod running;
mod serve;
mod session;
mod state;

pub use agent::{DurableAgent, LiveEvent};
pub use client::{Client, Events, Prompt, Session, SessionEvent, Turn, TurnEnd};
pub use error::{ClientError, Refusal, ServeError};
pub use record::{BranchResult, BranchesEnd, FORM, LoopEnd};
pub use serve::{serve, serve_until};
