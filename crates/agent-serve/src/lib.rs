//! An HTTP service for agents: conversations, events that a client can resume, approvals, files, and routes that OpenAI's clients
//! use.
//!
//! A [`Service`] has a session store and one or more agents. A conversation is a session of the store; its agent is made by an
//! [`AgentFactory`] when it is needed and released when it is idle. Everything that was acknowledged to a client is in the store,
//! so the process can be killed at any time and another one continues.
//!
//! ```no_run
//! use agent_core::{BasicAgent, ModelConfig, Secret};
//! use agent_serve::{ConversationRef, Key, Service};
//! use agent_session::JsonStore;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let service = Service::builder(JsonStore::open("sessions")?)
//!     .agent("assistant", |_: &ConversationRef| BasicAgent::new(ModelConfig::ollama("qwen3")))
//!     .key(Key::new("alice", &Secret::new("a-token-of-16-chars-or-more"))?)
//!     .build()?;
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! service.serve(listener, std::future::pending()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Read the modules in this order: [`service`], [`agents`], [`keys`], [`limits`]. The page `docs/serve.md` lists the routes, the
//! limits and the promises with their tests. [`models`] is another server: it holds the keys of model providers for agents elsewhere.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod agents;
mod api;
mod conversation;
mod environment;
pub mod keys;
mod ledger;
pub mod limits;
mod metrics;
#[cfg(feature = "models")]
#[cfg_attr(docsrs, doc(cfg(feature = "models")))]
pub mod models;
mod registry;
pub mod service;
pub mod serving;

#[doc(inline)]
pub use agents::{AgentFactory, BoxError, ConversationRef, ServedAgent};
#[doc(inline)]
pub use keys::{Key, KeyError, owning_key};
#[doc(inline)]
pub use limits::{Limits, VanishedClient};
#[doc(inline)]
pub use service::{Recovery, Service, ServiceBuilder, ServiceError};
