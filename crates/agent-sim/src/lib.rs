//! Deterministic simulation testing of agents.
//!
//! A simulation runs an agent in a world that is drawn from a seed: a model that replies, calls tools with valid and invalid
//! arguments, fails, pauses and is cut off; tools that fail, hang and are slow; messages, aborts and approvals at random
//! moments; kills of the process at any step, after which another process continues from the journal; calls of your session
//! store that fail or whose reply is lost; a process that is stopped while another one takes over its session; and a clock
//! that jumps. The test states invariants. A run that violates one is shortened to a script of few steps, which is plain data.
//!
//! ```
//! use agent_core::{BasicAgent, Effects, ModelConfig, ToolContext, tool_fn};
//! use agent_sim::Sim;
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Deploy {
//!     version: u32,
//! }
//!
//! let sim = Sim::new(|_world| {
//!     let deploy = tool_fn("deploy", "Deploys a version.", |args: Deploy, _: ToolContext| async move {
//!         Ok(format!("version {} is live", args.version))
//!     });
//!     BasicAgent::new(ModelConfig::default()).with_tool(deploy)
//! })
//! .never("a deployment without approval", |log| log.executions_of("deploy").any(|call| !log.approved(call)));
//!
//! // The agent does not ask, so a short script shows it.
//! let failure = sim.run().unwrap_err();
//! assert!(failure.script.steps.len() <= 2, "{failure}");
//! assert!(sim.replay(&failure.script).is_err());
//! # let _ = Effects::Once;
//! ```
//!
//! Besides the invariants of the test, each run is checked against laws of Looptree: every start of an event has its end, a
//! model receives only valid conversations, usage is the sum of the replies, no message is lost, a call that must run once is
//! not repeated without an approval, and others. A violated law is an error in Looptree.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod arguments;
mod clock;
mod disk;
mod failure;
mod faults;
mod journal;
mod laws;
mod log;
mod model;
mod outcome;
mod panics;
mod process;
mod random;
mod script;
mod shrink;
mod sim;
mod source;
mod store;
mod tools;
mod world;
mod writes;

pub use failure::{Failure, Report};
pub use faults::{Fault, Faults};
pub use log::{Execution, Log, LogEntry, What};
pub use script::{Act, Action, Call, Reply, ReplyEnd, Script, ScriptError, Step, StoreFault, ToolFault};
pub use sim::Sim;
pub use world::World;
