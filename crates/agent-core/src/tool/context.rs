//! The context of a tool call: its identity, its cancellation, and what the run offers to the tool.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::ToolResult;
use crate::environment::Environment;
use crate::identity::{LoopId, StepKey, ToolCallId, ToolName};
use crate::trace::TraceContext;

/// Services that a run offers to its tools, such as its model provider, its journal and its budget.
///
/// This module knows nothing about the services. The code that runs tools implements the trait and adds typed
/// accessors to [`ToolContext`]; for a tool that the loop calls, these are `provider()`, `journal()` and `budget()`.
pub trait ToolServices: Any + fmt::Debug + Send + Sync {}

/// The context of one tool call.
///
/// It identifies the call, carries its cancellation token, and lets the tool report progress. It gives no access to
/// the event stream: updates sent after the call has ended are dropped.
#[derive(Clone)]
#[non_exhaustive]
pub struct ToolContext {
    /// The id of the call, as the model sent it.
    pub tool_call_id: ToolCallId,
    /// The name of the tool.
    pub tool_name: ToolName,
    /// The loop that the call belongs to.
    pub loop_id: LoopId,
    /// A key that identifies the call in its loop and stays the same after a crash and a resume.
    /// [`idempotency_key`](Self::idempotency_key) is unique in all loops.
    pub step_key: StepKey,
    /// Cancelled when the run is aborted or the call exceeds its time limit.
    pub cancel: CancellationToken,
    /// Receives partial results and progress messages.
    pub updates: ToolUpdates,
    /// The arguments about which the hooks or an approver decided, with paths as the tool
    /// [resolved](super::AgentTool::resolved_arguments) them then. A tool refuses a path that leads elsewhere by now. `None`
    /// without hooks and approvals.
    pub resolved_arguments: Option<Box<Value>>,
    /// Provides time, sleep, tasks and random ids.
    pub environment: Arc<dyn Environment>,
    /// The services of the run that makes the call; `None` outside of a run.
    pub services: Option<Arc<dyn ToolServices>>,
    /// The trace context of the call, for requests that the tool sends. `None` without a connected tracing system.
    pub trace: Option<Box<TraceContext>>,
}

impl ToolContext {
    /// Creates a context without a run, for calling a tool directly in a test or a program. It has no services, and
    /// its updates are dropped.
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
            resolved_arguments: None,
            environment,
            services: None,
            trace: None,
        }
    }

    /// Returns a key that no other call of any loop has, and that stays the same when the call is executed again after a
    /// crash. Pass it to services that accept an idempotency key.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        format!("{}/{}", self.loop_id, self.step_key)
    }

    /// Returns the services of the run if they have the type `S`.
    #[must_use]
    pub fn services<S: ToolServices>(&self) -> Option<&S> {
        let services: &dyn Any = &**self.services.as_ref()?;
        services.downcast_ref()
    }

    /// Emits a partial result as a `ToolExecutionUpdate`. Never waits.
    pub fn on_update(&self, partial: ToolResult) {
        self.updates.send(ToolSignal::Update(partial));
    }

    /// Emits a progress text as a `ProgressMessage`. Never waits.
    pub fn on_progress(&self, text: impl Into<String>) {
        self.updates.send(ToolSignal::Progress(text.into()));
    }

    /// Returns an error if the call has been cancelled. Long-running tools call it before each step.
    ///
    /// # Errors
    /// Returns [`ToolError::Cancelled`](super::ToolError::Cancelled) if the call has been cancelled.
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

/// A message that a tool sends while it runs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ToolSignal {
    /// The partial result so far. Each update replaces the one before.
    Update(ToolResult),
    /// A progress text for the user.
    Progress(String),
}

type Receiver = dyn Fn(ToolSignal) + Send;

/// The sender of a tool's [`ToolSignal`]s. It is open while the call runs and closed for all clones when the call
/// ends.
#[derive(Clone)]
pub struct ToolUpdates {
    gate: Option<Arc<Mutex<Option<Box<Receiver>>>>>,
}

impl ToolUpdates {
    /// Creates a sender that passes each signal to `receiver` until it is closed.
    #[must_use]
    pub fn new(receiver: impl Fn(ToolSignal) + Send + 'static) -> Self {
        Self { gate: Some(Arc::new(Mutex::new(Some(Box::new(receiver))))) }
    }

    /// Creates a sender that drops all signals.
    #[must_use]
    pub fn none() -> Self {
        Self { gate: None }
    }

    /// Sends a signal. Drops it if the sender is closed.
    pub fn send(&self, signal: ToolSignal) {
        if let Some(gate) = &self.gate
            && let Some(receiver) = &*gate.lock().unwrap_or_else(PoisonError::into_inner)
        {
            receiver(signal);
        }
    }

    /// Closes the sender and all its clones.
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
