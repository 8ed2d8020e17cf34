//! Sessions: what agents did, as a tree of loops that survives the process.
//!
//! Read the modules in this order: [`model`] (what a session is), [`store`] (where it lies), [`recorder`] (how it gets
//! there), [`loaded`] (how an agent goes on from it), [`agent`] (methods that agents gain by it), [`travel`] (going back, forks),
//! [`waiting`] (answers from elsewhere), [`files`] (what the files were).
//!
//! ```
//! use agent_core::testing::ScriptedProvider;
//! use agent_core::{BasicAgent, ModelConfig};
//! use agent_session::{JsonStore, LoopStatus, SessionRecorder};
//!
//! # let dir = tempfile::tempdir()?;
//! # let sessions = dir.path();
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let agent = BasicAgent::new(ModelConfig::default()).with_provider(ScriptedProvider::texts(["Hello."]));
//! let store = JsonStore::open(sessions)?;
//! let recorder = SessionRecorder::attach(&agent, store.clone());
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
//! # What is written when
//!
//! Each input of a run is one line, appended to `{session_id}.journal.jsonl` before anything is done about it; its cost is
//! that of what is new. The readable file `{session_id}.json` is written when a session is saved or closed, and takes the
//! journal in. A killed process loses at most the line that it was writing.

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
mod point;
pub mod recorder;
pub mod schema;
pub mod store;
pub mod travel;
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
pub use recorder::{Flushing, SessionRecorder};
#[doc(inline)]
pub use schema::{event_schema, session_schema};
#[doc(inline)]
pub use store::{
    AgentSessions, BlockingSessionStore, BlockingSessionWriter, FoundSession, FoundSessions, JsonStore, Loss,
    MAX_FILE_BYTES, MAX_ID_BYTES, MAX_PAGE, Order, PendingWrite, Salvaged, SessionQuery, SessionRecord,
    SessionStore, SessionSummary, SessionWriter, SortBy, TextHit, WriteJob,
};
#[cfg(feature = "sqlite")]
#[doc(inline)]
pub use store::{MAX_SESSION_BYTES, SqliteStore};
#[doc(inline)]
pub use travel::{Arrival, Comparison, OutlineTurn, TimeTravel};
#[doc(inline)]
pub use waiting::{OpenRuns, Unfinished, UnfinishedSessions};

/// The page about sessions, whose example must compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/concepts/sessions.md")]
struct SessionsPage;

/// The page about checkpoints, whose examples must run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/concepts/checkpoints.md")]
struct CheckpointsPage;
