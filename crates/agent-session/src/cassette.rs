//! Cassettes: a run with its model calls, tool calls, clock and ids in one file, and its strict replay.
//!
//! A [`CassetteRecorder`] wraps the provider, the tools and the environment of an agent and records every call and its
//! result. The [`Cassette`] is one JSON document. A [`Replay`] answers from it without network, processes or files, and
//! the replayed run has the same events, times and ids. A replay is strict: at the first call that differs from the
//! recorded one the run ends with a [`Divergence`], which names the place and shows both sides. A cassette of a run with
//! a real model is therefore a regression test of the program around the model.
//!
//! A cassette holds the requests, replies, tool arguments and tool results of the run, so it can contain secrets that
//! occur in the conversation, as a session can. It contains no API keys and no headers.
//!
//! ```
//! use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
//! use agent_core::{BasicAgent, ModelConfig};
//! use agent_session::cassette::{Cassette, CassetteRecorder, Replay};
//!
//! # let dir = tempfile::tempdir()?;
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let model = ScriptedProvider::new([
//!     ScriptedReply::call("call_1", "clock", serde_json::json!({})),
//!     ScriptedReply::text("It is noon."),
//! ]);
//! let recorder = CassetteRecorder::new();
//! let agent = BasicAgent::new(ModelConfig::default()).with_provider(model).with_tool(ScriptedTool::saying("clock", "12:00"));
//! let then = recorder.attach(agent).prompt("What time is it?")?.collect().await;
//! let file = dir.path().join("time.json");
//! recorder.cassette().save(&file)?;
//!
//! // In another process, without a model and without a tool:
//! let replay = Replay::new(Cassette::load(&file)?);
//! let agent = BasicAgent::new(ModelConfig::default()).with_tools(replay.tools());
//! let now = replay.attach(agent).prompt("What time is it?")?.collect().await;
//! assert_eq!(now, then);
//! assert_eq!(replay.finish()?.model_calls, 2);
//!
//! // A different question is a divergence.
//! let replay = Replay::new(Cassette::load(&file)?);
//! let agent = BasicAgent::new(ModelConfig::default()).with_tools(replay.tools());
//! replay.attach(agent).prompt("What day is it?")?.collect().await;
//! let text = replay.finish().unwrap_err().to_string();
//! assert!(text.contains("- What time is it?\n+ What day is it?"), "{text}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod diff;
mod error;
mod file;
mod form;
mod record;
mod replay;
mod request;

pub use error::{CassetteError, Divergence};
pub use form::{
    CASSETTE_VERSION, Cassette, MAX_CASSETTE_BYTES, RecordedCall, RecordedClock, RecordedEffect,
    RecordedModelEnd, RecordedRequest, RecordedSignal, RecordedSleep, RecordedTool, RecordedToolEnd,
    RecordedView,
};
pub use record::CassetteRecorder;
pub use replay::{Replay, Replayed};
