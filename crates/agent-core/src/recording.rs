//! A run on record: what it asked of models, tools, clock and chance, and what it got; and the replay of it.
//!
//! A [`Recorder`] stands between an agent and the world and writes down what passes. The [`Recording`] is one JSON
//! document. A [`Replay`] answers from it: no network, no process, no file, and the same events, times and ids. It is
//! strict: where the agent asks something else than it asked then, the first [`Divergence`] says where, with both sides,
//! and the run ends with it. So a recording of a run with a real model is a test of the program around the model.
//!
//! What is recorded is what the model sees and says, and what tools are given and give: secrets in a conversation are in
//! the file, as they are in a session; keys and headers are not.
//!
//! ```
//! use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
//! use agent_core::{BasicAgent, ModelConfig, Recorder, Recording, Replay};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let model = ScriptedProvider::new([
//!     ScriptedReply::call("call_1", "clock", serde_json::json!({})),
//!     ScriptedReply::text("It is noon."),
//! ]);
//! let recorder = Recorder::new();
//! let agent = BasicAgent::new(ModelConfig::default()).with_provider(model).with_tool(ScriptedTool::saying("clock", "12:00"));
//! let then = recorder.attach(agent).prompt("What time is it?")?.collect().await;
//! let file = recorder.recording().to_json()?;
//!
//! // Later, elsewhere: no model and no tool.
//! let replay = Replay::new(Recording::from_json(&file)?);
//! let agent = BasicAgent::new(ModelConfig::default()).with_tools(replay.tools());
//! let now = replay.attach(agent).prompt("What time is it?")?.collect().await;
//! assert_eq!(now, then);
//! assert_eq!(replay.finish()?.model_calls, 2);
//!
//! // Another question is another run.
//! let replay = Replay::new(Recording::from_json(&file)?);
//! let agent = BasicAgent::new(ModelConfig::default()).with_tools(replay.tools());
//! replay.attach(agent).prompt("What day is it?")?.collect().await;
//! let text = replay.finish().unwrap_err().to_string();
//! assert!(text.contains("- What time is it?\n+ What day is it?"), "{text}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod asked;
mod diff;
mod error;
mod form;
mod record;
mod replay;

pub use error::{Divergence, RecordingError};
pub use form::{
    MAX_RECORDING_BYTES, RECORDING_VERSION, RecordedCall, RecordedClock, RecordedEffect, RecordedModelEnd,
    RecordedRequest, RecordedSignal, RecordedSleep, RecordedTool, RecordedToolEnd, RecordedView, Recording,
};
pub use record::Recorder;
pub use replay::{Replay, Replayed};
