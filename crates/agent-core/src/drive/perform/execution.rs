//! Executes calls: each in its own task, with its time limit, its updates and its child loop.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::tools::ReadyCall;
use crate::drive::EventSender;
use crate::drive::budget_meter::tool_spending;
use crate::drive::child::Executed;
use crate::drive::config::AgentLoopConfig;
use crate::drive::observers::Observation;
use crate::drive::panics::{contained, panic_text};
use crate::drive::spans;
use crate::environment::{BoxFuture, Environment, TaskHandle};
use crate::event::{AgentEvent, NumberedEvent};
use crate::hooks::{ToolUpdateInfo, Verdict};
use crate::identity::{LoopId, ToolCallId};
use crate::message::ToolCall;
use crate::run::{Input, Run, ToolOutcome};
use crate::tool::{ToolError, ToolResult, ToolSignal, ToolUpdates};

/// Something that executing calls brought about.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallProgress {
    /// An event to deliver: an update or a progress text of a tool. It is not recorded.
    Update(AgentEvent),
    /// An event of a child loop to deliver. The driver of the child has recorded it.
    Child(Box<NumberedEvent>),
    /// A call has ended or waits with its child: apply the input, then call [`Performer::review`](super::Performer::review).
    Ended(Input, ToolCallId),
    /// An abort to apply.
    Apply(Input),
}

/// Calls that are being executed. Dropping it aborts the tasks of the calls that have not ended.
pub struct ToolCalls {
    pub(super) config: Arc<AgentLoopConfig>,
    /// The span to which the calls belong.
    pub(super) span: Span,
    pub(super) cancel: CancellationToken,
    pub(super) waiting: VecDeque<ReadyCall>,
    pub(super) running: FuturesUnordered<BoxFuture<'static, (Input, ToolCallId)>>,
    pub(super) signals: Arc<ToolSignals>,
    /// The end of a call whose signals are not delivered yet.
    pub(super) ended: Option<(Input, ToolCallId)>,
    /// What the observers of the last update receive.
    pub(super) observation: Option<Observation>,
    /// Completes when the calls that ignore the abort are given up.
    pub(super) grace_over: Option<BoxFuture<'static, ()>>,
    /// The number of aborts that were returned.
    pub(super) aborts: u8,
}

impl ToolCalls {
    /// Waits for the next update, end of a call, or abort. Returns `None` when all calls have ended and the run needs
    /// no further abort. After an abort no call starts, and the running calls get the grace period to end.
    pub async fn next(&mut self, run: &Run) -> Option<CallProgress> {
        if let Some(observation) = self.observation.take() {
            observation.notify(&self.config.hooks);
        }
        loop {
            if self.ended.is_some() {
                while let Some(signal) = self.signals.take() {
                    if let Some(update) = self.update(run.loop_id(), signal).await {
                        return Some(update);
                    }
                }
                return self.ended.take().map(|(input, id)| CallProgress::Ended(input, id));
            }
            self.start_waiting();
            let aborting = self.aborts > 0;
            if aborting && self.grace_over.is_none() {
                let grace = self.config.policy.grace;
                self.grace_over = Some(self.config.services.environment.sleep(grace));
            }
            if self.running.is_empty() && (self.waiting.is_empty() || aborting) {
                return self.close(run);
            }
            let over = async {
                match &mut self.grace_over {
                    Some(over) => over.await,
                    None => std::future::pending().await,
                }
            };
            let signals = Arc::clone(&self.signals);
            tokio::select! {
                biased;
                signal = signals.next() => {
                    if let Some(update) = self.update(run.loop_id(), signal).await {
                        return Some(update);
                    }
                }
                // Checked before the results: a result that arrives after an abort is stored, but nothing follows it.
                () = self.cancel.cancelled(), if !aborting => {
                    self.aborts = 1;
                    return Some(CallProgress::Apply(Input::abort(None)));
                }
                Some(ended) = self.running.next() => self.ended = Some(ended),
                () = over => return self.close(run),
            }
        }
    }

    /// Starts waiting calls while there is room for them. No call starts after an abort.
    fn start_waiting(&mut self) {
        let most = self.config.policy.max_concurrent_tools.unwrap_or(usize::MAX).max(1);
        while self.running.len() < most && self.aborts == 0 && !self.cancel.is_cancelled() {
            let Some(mut next) = self.waiting.pop_front() else { break };
            let (signals, call) = (Arc::clone(&self.signals), next.call.clone());
            next.ctx.updates = ToolUpdates::new(move |signal| {
                signals.push(Signal::Tool(Box::new((call.clone(), signal))));
            });
            if next.child.is_some() {
                let signals = Arc::clone(&self.signals);
                let push = move |event| signals.push(Signal::Child(Box::new(event)));
                next.events = EventSender::function(Arc::new(push));
            }
            let id = next.call.id.clone();
            let span = spans::tool_call(&self.span, &next.call, &next.ctx.step_key);
            let execution = execute(Arc::clone(&self.config), next, span.clone());
            self.running.push(Box::pin(async { (execution.await, id) }.instrument(span)));
        }
    }

    /// Gives up the calls that have not ended. The second abort closes calls that never ran or exceeded the grace
    /// period.
    fn close(&mut self, run: &Run) -> Option<CallProgress> {
        self.running.clear();
        self.waiting.clear();
        if !self.cancel.is_cancelled() || run.ended().is_some() || self.aborts >= 2 {
            return None;
        }
        self.aborts += 1;
        Some(CallProgress::Apply(Input::abort(None)))
    }

    /// Returns the event of a signal that a running tool sent, unless a `before_tool_update` hook drops it.
    async fn update(&mut self, loop_id: &LoopId, signal: Signal) -> Option<CallProgress> {
        let (call, signal) = match signal {
            Signal::Child(event) => return Some(CallProgress::Child(event)),
            Signal::Tool(signal) => *signal,
        };
        let loop_id = loop_id.clone();
        let partial = match signal {
            ToolSignal::Progress(text) => {
                let (tool_call_id, tool_name) = (call.id, call.name);
                let event = AgentEvent::ProgressMessage { loop_id, tool_call_id, tool_name, text };
                return Some(CallProgress::Update(event));
            }
            ToolSignal::Update(partial) => partial.limited(),
        };
        let info = ToolUpdateInfo { loop_id: loop_id.clone(), call, partial };
        for hook in &self.config.hooks.tool.before_update {
            let allowed = tokio::select! {
                biased;
                allowed = contained(async { hook(info.clone()).await }) => Some(allowed),
                () = self.cancel.cancelled() => None,
            };
            if !matches!(allowed, Some(Ok(Ok(Verdict::Allow | Verdict::AllowWith(_))))) {
                return None;
            }
        }
        let event = AgentEvent::ToolExecutionUpdate {
            loop_id,
            tool_call_id: info.call.id.clone(),
            tool_name: info.call.name.clone(),
            partial_result: Box::new(info.partial.clone()),
        };
        self.observation = Some(Observation::Update(info));
        Some(CallProgress::Update(event))
    }
}

impl std::fmt::Debug for ToolCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolCalls")
            .field("waiting", &self.waiting.len())
            .field("running", &self.running.len())
            .finish_non_exhaustive()
    }
}

/// Executes a call in its own task, so that a blocking tool delays neither other calls nor an abort. Returns the end
/// of the call.
pub(super) async fn execute(config: Arc<AgentLoopConfig>, ready: ReadyCall, span: Span) -> Input {
    let ReadyCall { call, tool, arguments, limit, mut ctx, aborted, child, events, .. } = ready;
    let services = &config.services;
    spans::connect_tool(services, &span, &mut ctx, &arguments);
    let budget = ctx.budget().cloned();
    let updates = ctx.updates.clone();
    let limit = limit.or(config.policy.tool_timeout);
    let begun = services.environment.monotonic_ms();
    let cancel = ctx.cancel.clone();
    let task = async move {
        match child {
            // The abort came after the task was spawned and before it was scheduled.
            None if aborted.is_cancelled() => Executed::Ended(Err(ToolError::Cancelled)),
            None => Executed::Ended(tool.execute(arguments, ctx).await),
            Some(child) => match child.configure(&ctx) {
                // Boxed, because the task of every call would otherwise reserve memory for a child.
                Ok(child) => Box::pin(child.drive(events)).await,
                Err(error) => Executed::Ended(Err(error)),
            },
        }
    };
    let executed = run_task(&*services.environment, task, cancel, limit, config.policy.grace).await;
    let duration_ms = services.environment.monotonic_ms().saturating_sub(begun);
    updates.close();
    let result = match executed {
        Executed::Ended(result) => result.unwrap_or_else(ToolResult::from).limited(),
        Executed::Suspended(mut child) => {
            let spent = budget.map(|account| account.spent().without_time());
            child.spent = spent.filter(|spent| !spent.is_zero()).map(Box::new);
            return Input::ChildSuspended { id: call.id, child };
        }
    };
    spans::record_tool(services, &span, &result);
    let counter = &services.token_counter;
    let tokens = result.content.iter().map(|c| counter.count_content(c)).sum::<u64>()
        + counter.count_text(call.name.as_str())
        + 8;
    let spent = budget.and_then(|account| tool_spending(&account, &result, &config.model.cost));
    let mut outcome = Box::new(ToolOutcome::new(result, Some(duration_ms)).counted(tokens));
    outcome.spent = spent;
    Input::ToolEnded { id: call.id, outcome }
}

/// Runs a tool in a task of its own, at most for `limit` and then for `grace`.
async fn run_task(
    env: &dyn Environment,
    task: impl Future<Output = Executed> + Send + 'static,
    cancel: CancellationToken,
    limit: Option<Duration>,
    grace: Duration,
) -> Executed {
    let failed = |text: String| Executed::Ended(Err(ToolError::Failed(text)));
    let (tx, rx) = oneshot::channel();
    let task = async move {
        let executed = AssertUnwindSafe(task).catch_unwind().await;
        let executed =
            executed.unwrap_or_else(|panic| failed(format!("The tool panicked: {}", panic_text(&*panic))));
        let _ = tx.send(executed);
    };
    let handle = match env.spawn(Box::pin(task.in_current_span())) {
        Ok(handle) => handle,
        Err(error) => return Executed::Ended(Err(ToolError::failed(error))),
    };
    let _guard = Spawned { handle: Some(handle), cancel: cancel.clone() };
    let mut rx = pin!(rx);
    let timed_out = async {
        match limit {
            Some(limit) => {
                env.sleep(limit).await;
                limit
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        executed = &mut rx => executed.unwrap_or_else(|_| failed("The tool's task was lost".into())),
        limit = timed_out => {
            cancel.cancel();
            tokio::select! {
                biased;
                _ = &mut rx => {}
                () = env.sleep(grace) => {}
            }
            Executed::Ended(Err(ToolError::Timeout(limit)))
        }
    }
}

/// The task of a call. Dropping it aborts the task.
struct Spawned {
    handle: Option<TaskHandle>,
    cancel: CancellationToken,
}

impl Drop for Spawned {
    fn drop(&mut self) {
        self.cancel.cancel();
        if let Some(handle) = self.handle.take() {
            handle.abort();
        }
    }
}

/// A signal of a running call.
enum Signal {
    Tool(Box<(ToolCall, ToolSignal)>),
    Child(Box<NumberedEvent>),
}

/// Queues the signals of concurrently running tools in the order in which they were sent. Allocates nothing until a
/// tool sends a signal.
#[derive(Default)]
pub(super) struct ToolSignals {
    queue: Mutex<VecDeque<Signal>>,
    ready: Notify,
}

impl ToolSignals {
    /// Adds a signal and wakes the driver.
    fn push(&self, signal: Signal) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(signal);
        self.ready.notify_one();
    }

    /// Removes and returns the next signal, if there is one.
    fn take(&self) -> Option<Signal> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Waits for the next signal.
    async fn next(&self) -> Signal {
        loop {
            if let Some(signal) = self.take() {
                return signal;
            }
            self.ready.notified().await;
        }
    }
}
