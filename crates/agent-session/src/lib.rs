//! Sessions: the persistent record of an agent's runs, as a tree of loops.
//!
//! Read the modules in this order: [`model`] (the data types), [`store`] (storage), [`recorder`] (writing), [`loaded`]
//! (reading), [`agent`] (methods that agents gain), [`travel`] (rewinding and forking), [`waiting`] (open runs and their
//! questions), [`files`] (the state of the user's files). Cassettes, which record a run for a strict replay, are in the
//! module `cassette` behind the feature of that name.
//!
//! ```
//! use agent_core::testing::ScriptedProvider;
//! use agent_core::{BasicAgent, ModelConfig};
//! use agent_session::{JsonStore, LoopStatus, SessionRecorder};
//!
//! # let dir = tempfile::tempdir()?;
//! # let sessions = dir.path();
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let mut agent = BasicAgent::new(ModelConfig::default()).with_provider(ScriptedProvider::texts(["Hello."]));
//! let store = JsonStore::open(sessions)?;
//! let recorder = SessionRecorder::attach(&mut agent, store.clone());
//! agent.chat("Hi").await?;
//! recorder.close().await?;
//!
//! let session = store.load_session(&agent.session_id())?;
//! assert_eq!(session.loops[0].status, LoopStatus::Completed);
//! assert_eq!(session.history()?, agent.history());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Other stores
//!
//! [`SessionStore`] is a public trait. The page `docs/guides/own-store.md` states what an implementation must guarantee
//! and has a complete store in memory.
//!
//! # What is written when
//!
//! Each input of a run becomes one line, which is appended to `{session_id}.journal.jsonl` before the run acts on the
//! input. The cost is proportional to the new messages and events. Saving or closing a session writes the file
//! `{session_id}.json`, which contains everything from the journal. A killed process loses at most the line that it was writing.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod agent;
#[cfg(feature = "cassette")]
pub mod cassette;
mod error;
pub mod files;
pub mod loaded;
pub mod markdown;
pub mod model;
#[cfg(feature = "pi")]
pub mod pi;
mod platform;
mod point;
pub mod recorder;
pub mod schema;
pub mod store;
pub mod travel;
mod unfinished;
pub mod waiting;

#[doc(inline)]
pub use agent::{AgentSnapshotFile, RestoreSession, SaveContext, SaveContextTool, from_legacy};
#[cfg(feature = "cassette")]
#[doc(inline)]
pub use cassette::{Cassette, CassetteError, CassetteRecorder, Divergence, Replay, Replayed};
#[doc(inline)]
pub use error::{BoxError, SessionError};
#[doc(inline)]
pub use files::{FileDifference, FileMark, FileState, FileWatch};
#[doc(inline)]
pub use loaded::LoadedSession;
#[doc(inline)]
pub use markdown::to_markdown;
#[doc(inline)]
pub use model::{
    ChildLoopRef, ForkRef, LoopBase, LoopEvent, LoopRecord, LoopStatus, OpenRun, ParallelGroupRecord, Point,
    RecordedEvent, SESSION_VERSION, Session, SessionFormation, SessionScope, SpawnRef, Turn,
};
#[doc(inline)]
pub use platform::sessions_folder;
#[doc(inline)]
pub use recorder::{Flushing, SessionRecorder};
#[doc(inline)]
pub use schema::{event_schema, session_schema};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
#[doc(inline)]
pub use store::MAX_SESSION_BYTES;
#[cfg(feature = "sqlite")]
#[doc(inline)]
pub use store::SqliteStore;
#[doc(inline)]
pub use store::{
    AgentSessions, BlockingSessionStore, BlockingSessionWriter, FoundSession, FoundSessions, JsonStore, Loss,
    MAX_FILE_BYTES, MAX_ID_BYTES, MAX_PAGE, MAX_WRITE_JOBS, Order, PendingWrite, Salvaged, SessionQuery,
    SessionReader, SessionRecord, SessionStore, SessionSummary, SessionWriter, SortBy, TextHit, WriteJob,
};
#[cfg(feature = "postgres")]
#[doc(inline)]
pub use store::{PostgresConfig, PostgresStore};
#[doc(inline)]
pub use travel::{Arrival, Comparison, OutlineTurn, TimeTravel};
#[doc(inline)]
pub use waiting::{OpenRuns, Unfinished, UnfinishedSessions, WaitingCall, WaitingCalls};
