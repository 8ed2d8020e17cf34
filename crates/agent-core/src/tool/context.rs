//! What a tool knows of the call that it answers (REQ-009).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use super::ToolResult;
use crate::budget::Budget;
use crate::environment::Environment;
use crate::identity::{LoopId, StepKey, ToolCallId, ToolName};
use crate::journal::Journal;
use crate::provider::StreamProvider;

/// The call, its cancellation, and the way to say something while it runs.
///
/// It holds no way into the event stream, only a gate that closes with the call: what a tool says after its end
/// is dropped (B-104).
#[derive(Clone)]
#[non_exhaustive]
pub struct ToolContext {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool.
    pub tool_name: ToolName,
    /// The loop that the call belongs to.
    pub loop_id: LoopId,
    /// A name of the call that is the same after a crash and a resume: an idempotency key (X6).
    pub step_key: StepKey,
    /// Cancelled when the run is aborted or the call takes too long.
    pub cancel: CancellationToken,
    /// Partial results and progress.
    pub updates: ToolUpdates,
    /// The provider of the run, for tools that ask a model.
    pub provider: Option<Arc<dyn StreamProvider>>,
    /// Where the run is written down, for tools that run a loop of their own: it belongs to the same record.
    pub journal: Option<Arc<dyn Journal>>,
    /// Time, sleep and tasks.
    pub environment: Arc<dyn Environment>,
    /// What the call may spend of the run's budget, for tools that ask a model: an account of its own, below the run's. A tool
    /// that calls a model by itself does so through [`Budget::meter`]; one that runs a loop gives it to that.
    pub budget: Option<Budget>,
}

impl ToolContext {
    /// A context for calling a tool by hand, in a test or a program without a loop.
    #[must_use]
    pub fn detached(tool: impl Into<ToolName>, environment: Arc<dyn Environment>) -> Self {
        let tool_call_id = ToolCallId::from("call_0");
        Self {
            tool_name: tool.into(),
            loop_id: LoopId::from("detached"),
            step_key: StepKey::from(format!("tool-0-{tool_call_id}")),
            tool_call_id,
            cancel: CancellationToken::new(),
            updates: ToolUpdates::none(),
            provider: None,
            journal: None,
            environment,
            budget: None,
        }
    }

    /// Shows a partial result (REQ-142). Never waits.
    pub fn on_update(&self, partial: ToolResult) {
        self.updates.send(ToolSignal::Update(partial));
    }

    /// Says how far it is (REQ-143). Never waits.
    pub fn on_progress(&self, text: impl Into<String>) {
        self.updates.send(ToolSignal::Progress(text.into()));
    }

    /// An error when the run was aborted, for tools to check before each step.
    ///
    /// # Errors
    /// [`ToolError::Cancelled`](super::ToolError::Cancelled).
    pub fn check_cancelled(&self) -> Result<(), super::ToolError> {
        if self.cancel.is_cancelled() { Err(super::ToolError::Cancelled) } else { Ok(()) }
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("tool_call_id", &self.tool_call_id)
            .field("tool_name", &self.tool_name)
            .field("step_key", &self.step_key)
            .finish_non_exhaustive()
    }
}

/// What a tool says while it runs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ToolSignal {
    /// The result so far.
    Update(ToolResult),
    /// How far it is.
    Progress(String),
}

type Receiver = dyn Fn(ToolSignal) + Send;

/// The gate for [`ToolSignal`]s; open while the call runs.
#[derive(Clone)]
pub struct ToolUpdates {
    gate: Option<Arc<Mutex<Option<Box<Receiver>>>>>,
}

impl ToolUpdates {
    /// A gate that passes what it gets to `receiver`, until it is closed.
    #[must_use]
    pub fn new(receiver: impl Fn(ToolSignal) + Send + 'static) -> Self {
        Self { gate: Some(Arc::new(Mutex::new(Some(Box::new(receiver))))) }
    }

    /// A gate that drops everything.
    #[must_use]
    pub fn none() -> Self {
        Self { gate: None }
    }

    /// Passes a signal on, or drops it when the gate is closed.
    pub fn send(&self, signal: ToolSignal) {
        if let Some(gate) = &self.gate
            && let Some(receiver) = &*gate.lock().unwrap_or_else(PoisonError::into_inner)
        {
            receiver(signal);
        }
    }

    /// Closes the gate, for every clone.
    pub fn close(&self) {
        if let Some(gate) = &self.gate {
            *gate.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

impl fmt::Debug for ToolUpdates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToolUpdates")
    }
}
