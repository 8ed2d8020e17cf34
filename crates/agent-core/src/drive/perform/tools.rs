//! Decides about tool calls, and reviews their results.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::Performer;
use super::execution::{ToolCalls, execute};
use crate::budget::{Budget, BudgetLimits};
use crate::drive::EventSender;
use crate::drive::child::{ChildLoop, ReadyChild};
use crate::drive::panics::contained;
use crate::drive::services::RunServices;
use crate::drive::spans;
use crate::drive::tool_decision::{self, Allowed};
use crate::hooks::{HookError, ToolEnded};
use crate::identity::ToolCallId;
use crate::journal::Durability;
use crate::message::{Content, ToolCall};
use crate::run::{CallStage, Input, PendingCall, Run, ToolChange, ToolOutcome, ToolVerdict};
use crate::tool::{AgentTool, ToolContext, ToolResult, ToolUpdates};

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
    pub(super) call: ToolCall,
    pub(super) tool: Arc<dyn AgentTool>,
    pub(super) arguments: Value,
    pub(super) durability: Durability,
    /// The tool's own time limit.
    pub(super) limit: Option<Duration>,
    pub(super) ctx: ToolContext,
    /// Cancelled when the run is aborted. The token of `ctx` is cancelled by a time limit, too.
    pub(super) aborted: CancellationToken,
    /// The child to which the call is delegated.
    pub(super) child: Option<Box<ReadyChild>>,
    /// Receives the events of the child.
    pub(super) events: EventSender,
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

    /// Returns the child loop to which the call is delegated, for a driver that runs it as a session of its own. Returns
    /// the call unchanged if it is not delegated, and the input to apply if the child cannot be configured.
    ///
    /// # Errors
    /// Returns the call if it is not delegated.
    pub fn into_child(mut self) -> Result<Result<ChildLoop, Input>, Box<Self>> {
        let Some(child) = self.child.take() else { return Err(Box::new(self)) };
        Ok(child.configure(&self.ctx).map_err(|error| {
            let outcome = ToolOutcome::new(ToolResult::from(error), None);
            Input::ToolEnded { id: self.call.id, outcome: Box::new(outcome) }
        }))
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
        let Allowed { tool, arguments, verdict, durability, limit, resolved, child } = match decision {
            Err(verdict) => return Some(Decision::Apply(Input::ToolBegan { id, verdict })),
            Ok(allowed) => *allowed,
        };
        // A call that had begun was reserved before.
        let has_begun = matches!(pending.stage, CallStage::Began(_) | CallStage::Answered(_));
        let counts = !pending.forced && !has_begun;
        if let Some(meter) = self.budget.as_mut().filter(|_| counts)
            && let Some(verdict) = meter.reserve_tool_call(&verdict, &*self.config.services.environment).await
        {
            return Some(Decision::Apply(Input::ToolBegan { id, verdict }));
        }
        let (mut ctx, call) = (self.tool_context(run, pending), pending.call.clone());
        ctx.resolved_arguments = resolved;
        let events = EventSender::none();
        let aborted = self.cancel.clone();
        let ready = ReadyCall { call, tool, arguments, durability, limit, ctx, aborted, child, events };
        let ready = Box::new(ready);
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
            resolved_arguments: None,
            environment: self.config.services.environment.clone(),
            services: Some(Arc::new(RunServices {
                provider: Some(self.config.services.provider.clone()),
                journal: self.config.services.journal.clone(),
                budget: self.budget.as_ref().map(|meter| account(&meter.budget)),
                config: Some(Arc::clone(&self.config)),
                tools: self.tools.clone(),
            })),
            trace: None,
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
            // A change that is nested too deeply would overflow the stack when it is copied.
            let next = next.limited();
            next.clone().apply_to(&mut end.result);
            end.is_error = end.result.is_error;
            change = change.then(next);
        }
        Some(Input::ToolReviewed { id: call.id, change: Box::new(change) })
    }
}
