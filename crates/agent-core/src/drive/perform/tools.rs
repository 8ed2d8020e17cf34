//! Executes tool calls: decides about each, runs the allowed ones in their own tasks, and reviews their results.

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
use tracing::{Instrument, Span};

use super::Performer;
use crate::budget::{Budget, BudgetLimits};
use crate::drive::budget_meter::tool_spending;
use crate::drive::config::AgentLoopConfig;
use crate::drive::observers::Observation;
use crate::drive::panics::{contained, panic_text};
use crate::drive::services::RunServices;
use crate::drive::spans;
use crate::drive::tool_decision::{self, Allowed};
use crate::environment::{BoxFuture, Environment, TaskHandle};
use crate::event::AgentEvent;
use crate::hooks::{HookError, ToolEnded, ToolUpdateInfo, Verdict};
use crate::identity::{LoopId, ToolCallId};
use crate::journal::Durability;
use crate::message::{Content, ToolCall};
use crate::run::{CallStage, Input, PendingCall, Run, ToolChange, ToolOutcome, ToolVerdict};
use crate::tool::{AgentTool, ToolContext, ToolError, ToolResult, ToolSignal, ToolUpdates};

/// The decision about a tool call.
#[derive(Debug)]
#[non_exhaustive]
pub enum Decision {
    /// The call runs: apply and record the input, then execute the call with [`Performer::call`].
    Execute(Input, Box<ReadyCall>),
    /// The call does not start now: apply the input.
    Apply(Input),
}

/// A call whose start is decided. Execute it only after its `ToolBegan` was applied and recorded.
pub struct ReadyCall {
    call: ToolCall,
    tool: Arc<dyn AgentTool>,
    arguments: Value,
    durability: Durability,
    /// The tool's own time limit.
    limit: Option<Duration>,
    ctx: ToolContext,
}

impl ReadyCall {
    /// Returns the id of the call.
    #[must_use]
    pub fn id(&self) -> &ToolCallId {
        &self.call.id
    }

    /// Returns how durable the record of the call's start must be before the call is executed:
    /// `Flushed` for a tool whose effects must happen only once.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.durability
    }
}

impl std::fmt::Debug for ReadyCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadyCall")
            .field("id", &self.call.id)
            .field("tool", &self.call.name)
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

impl Performer {
    /// Decides whether a call of [`Step::RunTools`](crate::run::Step) runs: checks the tool, the arguments, the hooks,
    /// the tool's question and the budget. `None` if no call may start any more, because the run is being aborted or a
    /// queued message skips the call. A call of a resumed run that has ended is [reviewed](Self::review) instead.
    pub async fn decide(&mut self, run: &Run, pending: &PendingCall) -> Option<Decision> {
        if pending.stage == CallStage::Ended {
            return self.review(run, &pending.call.id).await.map(Decision::Apply);
        }
        if self.cancel.is_cancelled() || !run.may_begin(&pending.call.id) {
            return None;
        }
        let decision = tokio::select! {
            biased;
            decision = contained(tool_decision::decide(&self.config, &self.tools, run, pending)) => {
                decision.unwrap_or_else(|panic| {
                    Err(ToolVerdict::deny(format!("The tool panicked before it ran: {panic}")))
                })
            }
            () = self.cancel.cancelled() => return None,
        };
        // An abort takes precedence over a decision that arrives with it.
        if self.cancel.is_cancelled() {
            return None;
        }
        let id = pending.call.id.clone();
        let Allowed { tool, arguments, verdict, durability, limit } = match decision {
            Err(verdict) => return Some(Decision::Apply(Input::ToolBegan { id, verdict })),
            Ok(allowed) => *allowed,
        };
        let now = self.config.services.environment.now();
        let meter = self.budget.as_mut().filter(|_| !pending.forced);
        if let Some(verdict) = meter.and_then(|meter| meter.reserve_tool_call(&verdict, now)) {
            return Some(Decision::Apply(Input::ToolBegan { id, verdict }));
        }
        let (ctx, call) = (self.tool_context(run, pending), pending.call.clone());
        let ready = Box::new(ReadyCall { call, tool, arguments, durability, limit, ctx });
        Some(Decision::Execute(Input::ToolBegan { id, verdict }, ready))
    }

    fn tool_context(&self, run: &Run, pending: &PendingCall) -> ToolContext {
        let account = |budget: &Budget| budget.child(pending.call.name.as_str(), BudgetLimits::none());
        ToolContext {
            tool_name: pending.call.name.clone(),
            tool_call_id: pending.call.id.clone(),
            loop_id: run.loop_id().clone(),
            step_key: pending.key.clone(),
            cancel: self.cancel.child_token(),
            updates: ToolUpdates::none(),
            environment: self.config.services.environment.clone(),
            services: Some(Arc::new(RunServices {
                provider: Some(self.config.services.provider.clone()),
                journal: self.config.services.journal.clone(),
                budget: self.budget.as_ref().map(|meter| account(&meter.budget)),
            })),
        }
    }

    /// Executes a call and returns its `ToolEnded`. The call ends with an error result if it panics or exceeds its
    /// time limit. Its updates are dropped; [`calls`](Self::calls) delivers them.
    pub fn call(&self, ready: ReadyCall) -> impl Future<Output = Input> + Send + 'static {
        let span = spans::tool_call(&spans::current(self.spans.as_deref()), &ready.call, &ready.ctx.step_key);
        execute(Arc::clone(&self.config), ready, span.clone()).instrument(span)
    }

    /// Executes calls concurrently, at most `max_concurrent_tools` at once.
    #[must_use]
    pub fn calls(&self, ready: impl IntoIterator<Item = ReadyCall>) -> ToolCalls {
        ToolCalls {
            config: Arc::clone(&self.config),
            span: spans::current(self.spans.as_deref()),
            cancel: self.cancel.clone(),
            waiting: ready.into_iter().collect(),
            running: FuturesUnordered::new(),
            signals: Arc::default(),
            ended: None,
            observation: None,
            grace_over: None,
            aborts: 0,
        }
    }

    /// Calls the `after_tool` hooks, which may change the result of a call that has ended. Call it after `ToolEnded` was
    /// applied. `None` if there is nothing to review; an abort ends the hooks, and the result remains as it is.
    pub async fn review(&self, run: &Run, id: &ToolCallId) -> Option<Input> {
        let end = run.result_up_for_review(id)?;
        let reply = run.open_reply()?.as_llm()?.as_assistant()?;
        let call = reply.tool_calls().find(|call| call.id == *id)?.clone();
        let (mut end, mut change) = (Box::new(end), ToolChange::none());
        for hook in &self.config.hooks.tool.after {
            let info = ToolEnded { call: call.clone(), end: end.clone() };
            let reviewed = tokio::select! {
                biased;
                reviewed = contained(async { hook(info).await }) => reviewed,
                () = self.cancel.cancelled() => return None,
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
        Some(Input::ToolReviewed { id: call.id, change: Box::new(change) })
    }
}

/// Something that executing calls brought about.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallProgress {
    /// An event to deliver: an update or a progress text of a tool. It is not recorded.
    Update(AgentEvent),
    /// A call has ended: apply the input, then call [`Performer::review`].
    Ended(Input, ToolCallId),
    /// An abort to apply.
    Apply(Input),
}

/// Calls that are being executed. Dropping it aborts the tasks of the calls that have not ended.
pub struct ToolCalls {
    config: Arc<AgentLoopConfig>,
    /// The span to which the calls belong.
    span: Span,
    cancel: CancellationToken,
    waiting: VecDeque<ReadyCall>,
    running: FuturesUnordered<BoxFuture<'static, (Input, ToolCallId)>>,
    signals: Arc<ToolSignals>,
    /// The end of a call whose signals are not delivered yet.
    ended: Option<(Input, ToolCallId)>,
    /// What the observers of the last update receive.
    observation: Option<Observation>,
    /// Completes when the calls that ignore the abort are given up.
    grace_over: Option<BoxFuture<'static, ()>>,
    /// The number of aborts that were returned.
    aborts: u8,
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
                while let Some((call, signal)) = self.signals.take() {
                    if let Some(update) = self.update(run.loop_id(), call, signal).await {
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
                (call, signal) = signals.next() => {
                    if let Some(update) = self.update(run.loop_id(), call, signal).await {
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
            next.ctx.updates = ToolUpdates::new(move |signal| signals.push(call.clone(), signal));
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
    async fn update(&mut self, loop_id: &LoopId, call: ToolCall, signal: ToolSignal) -> Option<CallProgress> {
        let loop_id = loop_id.clone();
        let partial = match signal {
            ToolSignal::Progress(text) => {
                let (tool_call_id, tool_name) = (call.id, call.name);
                let event = AgentEvent::ProgressMessage { loop_id, tool_call_id, tool_name, text };
                return Some(CallProgress::Update(event));
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
async fn execute(config: Arc<AgentLoopConfig>, ready: ReadyCall, span: Span) -> Input {
    let ReadyCall { call, tool, arguments, limit, ctx, .. } = ready;
    let services = &config.services;
    let budget = ctx.budget().cloned();
    let updates = ctx.updates.clone();
    let limit = limit.or(config.policy.tool_timeout);
    let begun = services.environment.monotonic_ms();
    let result = run_task(&*services.environment, tool, arguments, ctx, limit, config.policy.grace).await;
    let duration_ms = services.environment.monotonic_ms().saturating_sub(begun);
    updates.close();
    let result = result.unwrap_or_else(ToolResult::from);
    if result.is_error {
        spans::record_tool_error(&span);
    }
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
    tool: Arc<dyn AgentTool>,
    arguments: Value,
    ctx: ToolContext,
    limit: Option<Duration>,
    grace: Duration,
) -> Result<ToolResult, ToolError> {
    let cancel = ctx.cancel.clone();
    let (tx, rx) = oneshot::channel();
    let task = async move {
        let result = AssertUnwindSafe(tool.execute(arguments, ctx)).catch_unwind().await;
        let result = result.unwrap_or_else(|panic| {
            Err(ToolError::Failed(format!("The tool panicked: {}", panic_text(&*panic))))
        });
        let _ = tx.send(result);
    };
    let handle = env.spawn(Box::pin(task.in_current_span())).map_err(ToolError::failed)?;
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
struct ToolSignals {
    queue: Mutex<VecDeque<(ToolCall, ToolSignal)>>,
    ready: Notify,
}

impl ToolSignals {
    /// Adds a signal and wakes the driver.
    fn push(&self, call: ToolCall, signal: ToolSignal) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back((call, signal));
        self.ready.notify_one();
    }

    /// Removes and returns the next signal, if there is one.
    fn take(&self) -> Option<(ToolCall, ToolSignal)> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Waits for the next signal.
    async fn next(&self) -> (ToolCall, ToolSignal) {
        loop {
            if let Some(signal) = self.take() {
                return signal;
            }
            self.ready.notified().await;
        }
    }
}
