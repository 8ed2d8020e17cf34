//! Running the calls of one group.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::decide::{Allowed, Decision};
use super::halt::Halt;
use super::ledger::Written;
use super::services::RunServices;
use super::shell::{Shell, contained, panic_text};
use super::signals::Signals;
use crate::budget::Budget;
use crate::environment::{BoxFuture, Environment, TaskHandle};
use crate::event::AgentEvent;
use crate::hooks::{HookError, ToolEnded, ToolUpdateInfo, Verdict};
use crate::identity::{LoopId, ToolCallId};
use crate::message::{Content, ToolCall};
use crate::run::{CallStage, Input, PendingCall, ToolChange, ToolOutcome, ToolVerdict};
use crate::tool::{AgentTool, ToolContext, ToolError, ToolResult, ToolSignal, ToolUpdates};

/// A call that may run.
struct Ready {
    call: ToolCall,
    tool: Arc<dyn AgentTool>,
    arguments: Value,
    /// The tool's own limit.
    limit: Option<Duration>,
    ctx: ToolContext,
}

/// A call that ended.
struct Ended {
    call: ToolCall,
    updates: ToolUpdates,
    result: Result<ToolResult, ToolError>,
    duration_ms: u64,
    budget: Option<Budget>,
}

impl Shell {
    /// Verdicts for all calls in their order, then the calls that run, side by side.
    pub(super) async fn run_tools(&mut self, calls: Vec<PendingCall>) -> Result<(), Halt> {
        let signals = Arc::new(Signals::default());
        let mut ready = VecDeque::new();
        for pending in calls {
            if pending.stage == CallStage::Ended {
                self.review(pending.call).await?;
                continue;
            }
            // An earlier verdict of this group may have closed it: steering, or an abort.
            if self.cancel.is_cancelled() || !self.may_begin(&pending.call.id) {
                break;
            }
            let cancel = self.cancel.clone();
            let decided = tokio::select! {
                biased;
                decision = contained(self.decide(&pending)) => Some(decision.unwrap_or_else(|panic| {
                    Decision::Not(ToolVerdict::deny(format!("The tool panicked before it ran: {panic}")))
                })),
                () = cancel.cancelled() => None,
            };
            // A verdict that comes with an abort does not count (B-058).
            let Some(decision) = decided.filter(|_| !cancel.is_cancelled()) else { break };
            match decision {
                Decision::Not(verdict) => {
                    self.apply(Input::ToolBegan { id: pending.call.id, verdict }).await?
                }
                Decision::Run(allowed) => {
                    let Allowed { tool, arguments, verdict, durability, limit } = *allowed;
                    let id = pending.call.id.clone();
                    if let Some(verdict) = self.refuse_tool_call(&verdict, pending.forced) {
                        self.apply(Input::ToolBegan { id, verdict }).await?;
                        continue;
                    }
                    self.apply_soon(Input::ToolBegan { id, verdict }, durability).await?;
                    let ctx = self.tool_context(&pending, &signals);
                    ready.push_back(Ready { call: pending.call, tool, arguments, limit, ctx });
                }
            }
        }
        let written = self.settle().await?;
        self.execute(ready, &signals, written).await
    }

    fn may_begin(&self, id: &ToolCallId) -> bool {
        self.run().is_some_and(|run| run.may_begin(id))
    }

    fn tool_context(&self, pending: &PendingCall, signals: &Arc<Signals>) -> ToolContext {
        let (signals, call) = (Arc::clone(signals), pending.call.clone());
        let updates = ToolUpdates::new(move |signal| signals.push(call.clone(), signal));
        ToolContext {
            tool_name: pending.call.name.clone(),
            tool_call_id: pending.call.id.clone(),
            loop_id: self.run().map_or_else(|| LoopId::from(""), |run| run.loop_id().clone()),
            step_key: pending.key.clone(),
            cancel: self.cancel.child_token(),
            updates,
            environment: self.config.environment.clone(),
            services: Some(Arc::new(RunServices {
                provider: Some(self.config.provider.clone()),
                journal: self.config.journal.clone(),
                budget: self.till.as_ref().map(|till| till.share_for(&pending.call)),
            })),
        }
    }

    /// Runs the calls, at most so many at once, and takes each end in as it comes. After an abort they are given their
    /// time to end.
    async fn execute(
        &mut self,
        mut waiting: VecDeque<Ready>,
        signals: &Signals,
        _: Written,
    ) -> Result<(), Halt> {
        let most = self.config.max_concurrent_tools.unwrap_or(usize::MAX).max(1);
        let env = Arc::clone(&self.config.environment);
        let (limit, grace) = (self.config.tool_timeout, self.config.grace);
        let mut running = FuturesUnordered::new();
        let cancel = self.cancel.clone();
        let mut grace_over: Option<BoxFuture<'static, ()>> = None;
        loop {
            // An abort that came with a verdict: nothing begins after it (B-057).
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
                (call, signal) = signals.next() => self.show(call, signal).await?,
                // Before the ends: what ends after an abort is kept, and nothing follows it (B-061).
                () = cancel.cancelled(), if !aborting => {
                    self.apply(Input::abort(None)).await?;
                    grace_over = Some(env.sleep(grace));
                }
                Some(ended) = running.next() => self.take_in(ended, signals).await?,
                () = over => break,
            }
        }
        drop(running);
        if self.cancel.is_cancelled() && self.run().is_some_and(|r| r.ended().is_none()) {
            if grace_over.is_none() {
                self.apply(Input::abort(None)).await?;
            }
            // Calls that have been said to begin and never ran, or did not end in time.
            if self.run().is_some_and(|r| r.ended().is_none()) {
                self.apply(Input::abort(None)).await?;
            }
        }
        Ok(())
    }

    async fn take_in(&mut self, ended: Ended, signals: &Signals) -> Result<(), Halt> {
        ended.updates.close();
        while let Some((call, signal)) = signals.take() {
            self.show(call, signal).await?;
        }
        self.check_mail().await?;
        let result = ended.result.unwrap_or_else(ToolResult::from);
        let tokens = result.content.iter().map(|c| self.config.token_counter.count_content(c)).sum::<u64>()
            + self.config.token_counter.count_text(ended.call.name.as_str())
            + 8;
        let spent = ended.budget.and_then(|share| self.spent_by_tool(&share, &result));
        let mut outcome = Box::new(ToolOutcome::new(result, Some(ended.duration_ms)).counted(tokens));
        outcome.spent = spent;
        self.apply(Input::ToolEnded { id: ended.call.id.clone(), outcome }).await?;
        self.review(ended.call).await
    }

    /// Asks the hook that may change a result.
    async fn review(&mut self, call: ToolCall) -> Result<(), Halt> {
        let Some(end) = self.run().and_then(|r| r.result_up_for_review(&call.id)) else { return Ok(()) };
        let change = match &self.config.hooks.tool.after {
            None => ToolChange::none(),
            Some(hook) => {
                let asked =
                    contained(async { hook(ToolEnded { call: call.clone(), end: Box::new(end) }).await });
                asked
                    .await
                    .unwrap_or_else(|panic| Err(HookError::new(format!("it panicked: {panic}"))))
                    .unwrap_or_else(|error| {
                        let text = format!("after_tool_execution failed: {error}");
                        ToolChange { is_error: Some(true), ..ToolChange::content(vec![Content::text(text)]) }
                    })
            }
        };
        self.apply(Input::ToolReviewed { id: call.id, change: Box::new(change) }).await
    }

    /// Passes on what a tool says while it runs.
    async fn show(&mut self, call: ToolCall, signal: ToolSignal) -> Result<(), Halt> {
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
        if let Some(hook) = &self.config.hooks.tool.before_update {
            let go = contained(async { hook(info.clone()).await }).await;
            if !matches!(go, Ok(Ok(Verdict::Allow | Verdict::AllowWith(_)))) {
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
        self.observe_update(info);
        Ok(())
    }
}

/// Runs a call in a task of its own, so that a tool that blocks stops neither the others nor an abort.
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

/// A call's task; it is ended when nobody waits for it any more.
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
