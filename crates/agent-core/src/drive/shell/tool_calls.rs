//! Executes the tool calls of one group.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::Value;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use super::Shell;
use crate::budget::{Budget, BudgetLimits};
use crate::drive::budget_meter::tool_spending;
use crate::drive::interrupt::Interrupt;
use crate::drive::journaling::Journaled;
use crate::drive::observers::Observation;
use crate::drive::panics::{contained, panic_text};
use crate::drive::services::RunServices;
use crate::drive::tool_decision::{Allowed, Decision, decide};
use crate::environment::{BoxFuture, Environment, TaskHandle};
use crate::event::AgentEvent;
use crate::hooks::{HookError, ToolEnded, ToolUpdateInfo, Verdict};
use crate::identity::{LoopId, ToolCallId};
use crate::message::{Content, ToolCall};
use crate::run::{CallStage, Input, PendingCall, ToolChange, ToolOutcome, ToolVerdict};
use crate::tool::{AgentTool, ToolContext, ToolError, ToolResult, ToolSignal, ToolUpdates};

/// A call that is ready to run.
struct Ready {
    call: ToolCall,
    tool: Arc<dyn AgentTool>,
    arguments: Value,
    /// The tool's own time limit.
    limit: Option<Duration>,
    ctx: ToolContext,
}

/// A call that has ended.
struct Ended {
    call: ToolCall,
    updates: ToolUpdates,
    result: Result<ToolResult, ToolError>,
    duration_ms: u64,
    budget: Option<Budget>,
}

impl Shell {
    /// Decides about all calls in their order, then executes the allowed ones concurrently.
    pub(in crate::drive) async fn run_tools(&mut self, calls: Vec<PendingCall>) -> Result<(), Interrupt> {
        let signals = Arc::new(ToolSignals::default());
        let mut ready = VecDeque::new();
        for pending in calls {
            if pending.stage == CallStage::Ended {
                self.review(pending.call).await?;
                continue;
            }
            // Steering or an abort during an earlier decision may have closed this call.
            if self.cancel.is_cancelled() || !self.may_begin(&pending.call.id) {
                break;
            }
            let cancel = self.cancel.clone();
            let decided = tokio::select! {
                biased;
                decision = contained(decide(&self.config, &self.tools, self.run(), &pending)) => Some(decision.unwrap_or_else(|panic| {
                    Decision::Not(ToolVerdict::deny(format!("The tool panicked before it ran: {panic}")))
                })),
                () = cancel.cancelled() => None,
            };
            // An abort takes precedence over a decision that arrives with it.
            let Some(decision) = decided.filter(|_| !cancel.is_cancelled()) else { break };
            match decision {
                Decision::Not(verdict) => {
                    self.apply(Input::ToolBegan { id: pending.call.id, verdict }).await?
                }
                Decision::Run(allowed) => {
                    let Allowed { tool, arguments, verdict, durability, limit } = *allowed;
                    let id = pending.call.id.clone();
                    let now = self.now();
                    let meter = self.budget.as_mut().filter(|_| !pending.forced);
                    if let Some(verdict) = meter.and_then(|meter| meter.reserve_tool_call(&verdict, now)) {
                        self.apply(Input::ToolBegan { id, verdict }).await?;
                        continue;
                    }
                    self.apply_deferred(Input::ToolBegan { id, verdict }, durability).await?;
                    let ctx = self.tool_context(&pending, &signals);
                    ready.push_back(Ready { call: pending.call, tool, arguments, limit, ctx });
                }
            }
        }
        let journaled = self.settle().await?;
        self.execute(ready, &signals, journaled).await
    }

    fn may_begin(&self, id: &ToolCallId) -> bool {
        self.run().is_some_and(|run| run.may_begin(id))
    }

    fn tool_context(&self, pending: &PendingCall, signals: &Arc<ToolSignals>) -> ToolContext {
        let (signals, call) = (Arc::clone(signals), pending.call.clone());
        let updates = ToolUpdates::new(move |signal| signals.push(call.clone(), signal));
        ToolContext {
            tool_name: pending.call.name.clone(),
            tool_call_id: pending.call.id.clone(),
            loop_id: self.run().map_or_else(|| LoopId::from(""), |run| run.loop_id().clone()),
            step_key: pending.key.clone(),
            cancel: self.cancel.child_token(),
            updates,
            environment: self.config.services.environment.clone(),
            services: Some(Arc::new(RunServices {
                provider: Some(self.config.services.provider.clone()),
                journal: self.config.services.journal.clone(),
                budget: self
                    .budget
                    .as_ref()
                    .map(|meter| meter.budget.child(pending.call.name.as_str(), BudgetLimits::none())),
            })),
        }
    }

    /// Executes the calls, at most `max_concurrent_tools` at once, and applies each result as it arrives. After an
    /// abort the running calls get a grace period to end. Requires the proof that the start of each call is
    /// journaled.
    async fn execute(
        &mut self,
        mut waiting: VecDeque<Ready>,
        signals: &ToolSignals,
        _: Journaled,
    ) -> Result<(), Interrupt> {
        let most = self.config.policy.max_concurrent_tools.unwrap_or(usize::MAX).max(1);
        let env = Arc::clone(&self.config.services.environment);
        let (limit, grace) = (self.config.policy.tool_timeout, self.config.policy.grace);
        let mut running = FuturesUnordered::new();
        let cancel = self.cancel.clone();
        let mut grace_over: Option<BoxFuture<'static, ()>> = None;
        loop {
            // No call starts after an abort.
            while running.len() < most && grace_over.is_none() && !cancel.is_cancelled() {
                let Some(next) = waiting.pop_front() else { break };
                running.push(run_one(Arc::clone(&env), next, limit, grace));
            }
            if running.is_empty() && (waiting.is_empty() || grace_over.is_some()) {
                break;
            }
            let aborting = grace_over.is_some();
            let over = async {
                match &mut grace_over {
                    Some(over) => over.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                (call, signal) = signals.next() => self.emit_signal(call, signal).await?,
                // Checked before the results: a result that arrives after an abort is stored, but nothing follows it.
                () = cancel.cancelled(), if !aborting => {
                    self.apply(Input::abort(None)).await?;
                    grace_over = Some(env.sleep(grace));
                }
                Some(ended) = running.next() => self.apply_result(ended, signals).await?,
                () = over => break,
            }
        }
        drop(running);
        if self.cancel.is_cancelled() && self.run().is_some_and(|r| r.ended().is_none()) {
            if grace_over.is_none() {
                self.apply(Input::abort(None)).await?;
            }
            // The second abort closes calls that never ran or exceeded the grace period.
            if self.run().is_some_and(|r| r.ended().is_none()) {
                self.apply(Input::abort(None)).await?;
            }
        }
        Ok(())
    }

    /// Applies the result of a call, after the signals that it sent and the messages that were queued.
    async fn apply_result(&mut self, ended: Ended, signals: &ToolSignals) -> Result<(), Interrupt> {
        ended.updates.close();
        while let Some((call, signal)) = signals.take() {
            self.emit_signal(call, signal).await?;
        }
        self.check_mail().await?;
        let result = ended.result.unwrap_or_else(ToolResult::from);
        let tokens =
            result.content.iter().map(|c| self.config.services.token_counter.count_content(c)).sum::<u64>()
                + self.config.services.token_counter.count_text(ended.call.name.as_str())
                + 8;
        let prices = &self.config.model.cost;
        let spent = ended.budget.and_then(|account| tool_spending(&account, &result, prices));
        let mut outcome = Box::new(ToolOutcome::new(result, Some(ended.duration_ms)).counted(tokens));
        outcome.spent = spent;
        self.apply(Input::ToolEnded { id: ended.call.id.clone(), outcome }).await?;
        self.review(ended.call).await
    }

    /// Calls the `after_tool` hooks, which may change the result. An abort ends them, and the result remains as it is.
    async fn review(&mut self, call: ToolCall) -> Result<(), Interrupt> {
        let Some(end) = self.run().and_then(|r| r.result_up_for_review(&call.id)) else { return Ok(()) };
        let (mut end, mut change) = (Box::new(end), ToolChange::none());
        for hook in &self.config.hooks.tool.after {
            let info = ToolEnded { call: call.clone(), end: end.clone() };
            let reviewed = tokio::select! {
                biased;
                reviewed = contained(async { hook(info).await }) => reviewed,
                () = self.cancel.cancelled() => return Ok(()),
            };
            let next = reviewed
                .unwrap_or_else(|panic| Err(HookError::new(format!("it panicked: {panic}"))))
                .unwrap_or_else(|error| {
                    let text = format!("after_tool_execution failed: {error}");
                    ToolChange { is_error: Some(true), ..ToolChange::content(vec![Content::text(text)]) }
                });
            next.clone().apply_to(&mut end.result);
            end.is_error = end.result.is_error;
            change = change.then(next);
        }
        self.apply(Input::ToolReviewed { id: call.id, change: Box::new(change) }).await
    }

    /// Emits a signal that a running tool sent.
    async fn emit_signal(&mut self, call: ToolCall, signal: ToolSignal) -> Result<(), Interrupt> {
        let Some(loop_id) = self.run().map(|r| r.loop_id().clone()) else { return Ok(()) };
        let partial = match signal {
            ToolSignal::Progress(text) => {
                let (tool_call_id, tool_name) = (call.id, call.name);
                return self
                    .emit(AgentEvent::ProgressMessage { loop_id, tool_call_id, tool_name, text })
                    .await;
            }
            ToolSignal::Update(partial) => partial,
        };
        let info = ToolUpdateInfo { loop_id: loop_id.clone(), call, partial };
        for hook in &self.config.hooks.tool.before_update {
            let allowed = tokio::select! {
                biased;
                allowed = contained(async { hook(info.clone()).await }) => Some(allowed),
                () = self.cancel.cancelled() => None,
            };
            if !matches!(allowed, Some(Ok(Ok(Verdict::Allow | Verdict::AllowWith(_))))) {
                return Ok(());
            }
        }
        self.emit(AgentEvent::ToolExecutionUpdate {
            loop_id,
            tool_call_id: info.call.id.clone(),
            tool_name: info.call.name.clone(),
            partial_result: Box::new(info.partial.clone()),
        })
        .await?;
        Observation::Update(info).notify(&self.config.hooks);
        Ok(())
    }
}

/// Executes a call in its own task, so that a blocking tool delays neither other calls nor an abort.
async fn run_one(env: Arc<dyn Environment>, ready: Ready, limit: Option<Duration>, grace: Duration) -> Ended {
    let Ready { call, tool, arguments, limit: own, ctx } = ready;
    let budget = ctx.budget().cloned();
    let (updates, cancel) = (ctx.updates.clone(), ctx.cancel.clone());
    let limit = own.or(limit);
    let (tx, rx) = oneshot::channel();
    let begun = env.monotonic_ms();
    let task = async move {
        let result = AssertUnwindSafe(tool.execute(arguments, ctx)).catch_unwind().await;
        let result = result.unwrap_or_else(|panic| {
            Err(ToolError::Failed(format!("The tool panicked: {}", panic_text(&*panic))))
        });
        let _ = tx.send(result);
    };
    let result = match env.spawn(Box::pin(task)) {
        Err(error) => Err(ToolError::failed(error)),
        Ok(handle) => {
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
                result = &mut rx => result.unwrap_or_else(|_| Err(ToolError::Failed("The tool's task was lost".into()))),
                limit = timed_out => {
                    cancel.cancel();
                    tokio::select! {
                        biased;
                        _ = &mut rx => {}
                        () = env.sleep(grace) => {}
                    }
                    Err(ToolError::Timeout(limit))
                }
            }
        }
    };
    Ended { call, updates, result, duration_ms: env.monotonic_ms().saturating_sub(begun), budget }
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

/// Queues the signals of concurrently running tools in the order in which they were sent. Allocates nothing until a
/// tool sends a signal.
#[derive(Default)]
pub(super) struct ToolSignals {
    queue: Mutex<VecDeque<(ToolCall, ToolSignal)>>,
    ready: Notify,
}

impl ToolSignals {
    /// Adds a signal and wakes the driver.
    pub(super) fn push(&self, call: ToolCall, signal: ToolSignal) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back((call, signal));
        self.ready.notify_one();
    }

    /// Removes and returns the next signal, if there is one.
    pub(super) fn take(&self) -> Option<(ToolCall, ToolSignal)> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Waits for the next signal.
    pub(super) async fn next(&self) -> (ToolCall, ToolSignal) {
        loop {
            if let Some(signal) = self.take() {
                return signal;
            }
            self.ready.notified().await;
        }
    }
}
