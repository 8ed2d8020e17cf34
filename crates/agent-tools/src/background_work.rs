//! Work that continues after the call that started it: commands and sub-agents in the background.
//!
//! A tool that has a [`BackgroundWork`] accepts the argument `background: true`. Its call then ends at once with a
//! [deferred](agent_core::ToolResult::deferred) result, and the end of the work enters the conversation as a message.
//! `read_output` reads what the work has written so far, and the tool [`background`](BackgroundTool) lists and ends work.
//!
//! The work belongs to one agent, to which [`attach`](BackgroundWork::attach) connects it. It ends with the agent: if the
//! agent is dropped, and, by default, if a run of the agent is aborted. Commands also end if the process is killed.
//!
//! ```
//! use agent_core::{BasicAgent, ModelConfig};
//! use agent_tools::{CodingTools, Workspace, background_work::BackgroundWork};
//! let work = BackgroundWork::new().with_max_running(4);
//! let tools = CodingTools::new(Workspace::unconfined()).with_background_work(work.clone()).tools();
//! let agent = BasicAgent::new(ModelConfig::default()).with_tools(tools);
//! work.attach(&agent)?;
//! assert!(work.list().is_empty());
//! # Ok::<(), agent_tools::background_work::BackgroundError>(())
//! ```

mod delivery;
mod job;
mod tool;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_core::agent::WeakAgent;
use agent_core::identity::{DeferredHandle, LoopId, ToolCallId, ToolName};
use agent_core::{AgentTool, CancellationToken, Timestamp};

pub use delivery::OUTCOME_UNKNOWN;
pub use tool::{BackgroundAction, BackgroundArgs, BackgroundTool};

pub(crate) use job::Job;

use crate::{OutputStore, ReadOutputTool};

/// The default maximum number of works that run at once: 16.
pub const MAX_RUNNING: usize = 16;

/// The default of the longest duration of a work: 12 hours.
pub const MAX_DURATION: Duration = Duration::from_secs(12 * 60 * 60);

/// The default maximum of the output that is kept of a work: its first 16 MiB.
pub const MAX_OUTPUT_BYTES: u64 = 16 * 1024 * 1024;

/// The number of works that have ended and are still listed. Older ones are forgotten.
pub const MAX_LISTED: usize = 100;

/// The length of a title in a list, in bytes.
const TITLE_BYTES: usize = 200;

/// What the end of a work does if no run of the agent is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WhenIdle {
    /// Its message waits for the next run. This is the default.
    #[default]
    Wait,
    /// It starts a run with the message. Subscribe to the agent to receive the events of that run.
    Continue,
}

/// What happens to the work if a run of the agent is aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AfterAbort {
    /// All work of the agent ends. This is the default.
    #[default]
    End,
    /// The work continues, and its end waits for the next run.
    Continue,
}

/// The state of a work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkState {
    /// The work has not ended.
    Running,
    /// It ended by itself, also with an exit code other than 0.
    Ended,
    /// It reached its time limit and was ended.
    TimedOut,
    /// The model or the program ended it.
    Killed,
    /// The run or the agent ended, and the work with it.
    Aborted,
    /// It failed in this process, for example by a panic, so that its outcome is unknown.
    Lost,
}

impl WorkState {
    /// Returns the name of the state in snake case, for example `timed_out`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended => "ended",
            Self::TimedOut => "timed_out",
            Self::Killed => "killed",
            Self::Aborted => "aborted",
            Self::Lost => "lost",
        }
    }
}

/// A work in the list of a [`BackgroundWork`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkInfo {
    /// The handle of the work, for example `bg-3f9a01-1`. The deferred call has the same.
    pub id: DeferredHandle,
    /// The tool that started it.
    pub tool: ToolName,
    /// The beginning of the command or the task, at most 200 bytes.
    pub title: String,
    /// The call that started it.
    pub call: ToolCallId,
    /// The loop of that call.
    pub loop_id: LoopId,
    /// The key of its output for `read_output`.
    pub output_key: String,
    /// The time of its start.
    pub started: Timestamp,
    /// The time of its end; `None` while it runs.
    pub ended: Option<Timestamp>,
    /// Whether it runs, and how it ended.
    pub state: WorkState,
}

/// The reason why work cannot start in the background, or cannot be ended. The texts are written for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackgroundError {
    /// No agent is attached, or it was dropped.
    #[error(
        "nothing can run in the background: the program has not attached an agent (`BackgroundWork::attach`); run it in the foreground"
    )]
    NotAttached,
    /// The call belongs to a sub-agent, a branch or another agent, whose conversation the end of the work cannot enter.
    #[error(
        "nothing can run in the background here, because this is not the main agent; run it in the foreground"
    )]
    OtherLoop,
    /// An agent that still exists is attached.
    #[error("this background work belongs to another agent; make a `BackgroundWork` for each agent")]
    AttachedElsewhere,
    /// As many works run as the limit allows.
    #[error("{running} works run in the background, which is the limit; wait until one ends, or end one")]
    Full {
        /// The number of works that run.
        running: usize,
    },
    /// No work has this id.
    #[error("there is no work \"{id}\" in the background")]
    Unknown {
        /// The id as it was given.
        id: String,
    },
    /// The work has ended already.
    #[error("the work \"{id}\" has already ended")]
    Ended {
        /// The id of the work.
        id: String,
    },
}

/// The background work of one agent: its limits, its list, and the store of its output. Clones share the list.
#[derive(Clone)]
pub struct BackgroundWork {
    max_running: usize,
    max_duration: Duration,
    max_output_bytes: u64,
    when_idle: WhenIdle,
    after_abort: AfterAbort,
    store: OutputStore,
    shared: Arc<Shared>,
}

/// What the clones and the running works share.
#[derive(Default)]
struct Shared {
    inner: Mutex<Inner>,
    /// Notified when a work has ended and its message was queued.
    ended: tokio::sync::Notify,
}

#[derive(Default)]
struct Inner {
    /// The part of the ids that differs from process to process.
    tag: Option<String>,
    last: u64,
    works: BTreeMap<u64, Work>,
    /// The agent to which the work belongs.
    attached: Option<WeakAgent>,
}

/// A work in the list.
struct Work {
    info: WorkInfo,
    cancel: CancellationToken,
    /// Why it was cancelled.
    cause: Option<WorkState>,
    /// Whether its message was queued, or cannot be.
    delivered: bool,
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the running works that `selects` accepts.
    fn cancel(&self, cause: WorkState, selects: impl Fn(&WorkInfo) -> bool) {
        let mut tokens = Vec::new();
        for work in self.inner().works.values_mut() {
            if work.info.state == WorkState::Running && selects(&work.info) {
                work.cause.get_or_insert(cause);
                tokens.push(work.cancel.clone());
            }
        }
        // Outside of the lock, because it wakes the tasks.
        tokens.iter().for_each(CancellationToken::cancel);
    }
}

impl BackgroundWork {
    /// Creates a list without work, with the default limits and a new store for output.
    #[must_use]
    pub fn new() -> Self {
        Self {
            max_running: MAX_RUNNING,
            max_duration: MAX_DURATION,
            max_output_bytes: MAX_OUTPUT_BYTES,
            when_idle: WhenIdle::default(),
            after_abort: AfterAbort::default(),
            store: OutputStore::new(),
            shared: Arc::default(),
        }
    }

    /// Sets the maximum number of works that run at once, at least 1. Default: [`MAX_RUNNING`]. A call beyond it fails.
    #[must_use]
    pub fn with_max_running(mut self, works: usize) -> Self {
        self.max_running = works.max(1);
        self
    }

    /// Sets the longest duration of a work, and the default of a command without a `timeout`. Default: [`MAX_DURATION`].
    #[must_use]
    pub fn with_max_duration(mut self, duration: Duration) -> Self {
        self.max_duration = duration;
        self
    }

    /// Sets the number of bytes that are kept of the beginning of each output. Default: [`MAX_OUTPUT_BYTES`]. The bounds of
    /// the store apply, too.
    #[must_use]
    pub fn with_max_output_bytes(mut self, bytes: u64) -> Self {
        self.max_output_bytes = bytes;
        self
    }

    /// Sets what the end of a work does if no run is open. Default: its message waits for the next run.
    #[must_use]
    pub fn with_when_idle(mut self, when_idle: WhenIdle) -> Self {
        self.when_idle = when_idle;
        self
    }

    /// Sets what the abort of a run does to the work of its agent. Default: the work ends.
    #[must_use]
    pub fn with_after_abort(mut self, after_abort: AfterAbort) -> Self {
        self.after_abort = after_abort;
        self
    }

    /// Sets the store of the output, which must be the store of the agent's `read_output`. Default: a new one.
    #[must_use]
    pub fn with_output_store(mut self, store: OutputStore) -> Self {
        self.store = store;
        self
    }

    /// Returns the store of the output.
    #[must_use]
    pub fn output_store(&self) -> &OutputStore {
        &self.store
    }

    /// Returns the tools `background` and `read_output`. [`CodingTools`](crate::CodingTools) includes both.
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<dyn AgentTool>> {
        vec![Arc::new(BackgroundTool::new(self.clone())), Arc::new(ReadOutputTool::new(self.store.clone()))]
    }

    /// Returns the works that run and the last [`MAX_LISTED`] that ended, in the order of their starts.
    #[must_use]
    pub fn list(&self) -> Vec<WorkInfo> {
        self.shared.inner().works.values().map(|work| work.info.clone()).collect()
    }

    /// Ends a work. Returns at once; its processes get SIGTERM and 100 ms, then they are killed. Its message follows.
    ///
    /// # Errors
    /// Returns [`BackgroundError::Unknown`] and [`BackgroundError::Ended`].
    pub fn kill(&self, id: &str) -> Result<(), BackgroundError> {
        let state =
            self.shared.inner().works.values().find(|w| w.info.id.as_str() == id).map(|w| w.info.state);
        match state {
            None => Err(BackgroundError::Unknown { id: crate::text::head(id, 64).to_owned() }),
            Some(WorkState::Running) => {
                self.shared.cancel(WorkState::Killed, |info| info.id.as_str() == id);
                Ok(())
            }
            Some(_) => Err(BackgroundError::Ended { id: id.to_owned() }),
        }
    }

    /// Ends all works. Returns at once, like [`kill`](Self::kill); [`wait`](Self::wait) waits for the ends.
    pub fn kill_all(&self) {
        self.shared.cancel(WorkState::Killed, |_| true);
    }

    /// Waits until no work runs and the message of each was queued.
    pub async fn wait(&self) {
        loop {
            let ended = self.shared.ended.notified();
            if self.shared.inner().works.values().all(|work| work.delivered) {
                return;
            }
            ended.await;
        }
    }

    pub(crate) fn max_duration(&self) -> Duration {
        self.max_duration
    }
}

impl Default for BackgroundWork {
    fn default() -> Self {
        Self::new()
    }
}

/// Shows the limits and the number of works.
impl fmt::Debug for BackgroundWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundWork")
            .field("max_running", &self.max_running)
            .field("max_duration", &self.max_duration)
            .field("max_output_bytes", &self.max_output_bytes)
            .field("when_idle", &self.when_idle)
            .field("after_abort", &self.after_abort)
            .field("works", &self.shared.inner().works.len())
            .finish_non_exhaustive()
    }
}
