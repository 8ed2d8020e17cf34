//! Child loops: the loops to which tools delegate their calls.
//!
//! A tool that returns a [`ChildRun`] from [`AgentTool::delegate`](crate::AgentTool::delegate) is not executed. The
//! driver runs the child instead, and the result of the call is made from the child's end. The ids of the child derive from
//! the loop and the step of the call, so that every process finds the same child. A child that asks a question suspends its
//! call, and the run with it; a child that was cut off continues where its record ends.
//!
//! The built-in driver runs children itself. An engine that runs each child as a session of its own takes the
//! [`ChildLoop`] out of the call with [`ReadyCall::into_child`](super::perform::ReadyCall::into_child), drives it like any
//! run, and passes the [report](ChildLoop::report) to the parent.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::EventSender;
use super::config::{AgentContext, AgentLoopConfig, Spawned};
use super::inherit::Inheritance;
use super::member::{Driven, GroupLoop};
use super::perform::Performer;
use super::services::RunServices;
use crate::budget::{AccountState, BudgetSnapshot, Spending};
use crate::environment::BoxFuture;
use crate::event::{Ended, SpawningCall};
use crate::identity::{AgentId, LoopId, SessionId, stable_hash};
use crate::journal::{JournalError, RecordedLoop};
use crate::message::AgentMessage;
use crate::run::{
    CallStage, ChildAnswer, ChildEnd, Input, PendingCall, Run, RunSetup, SuspendedChild, ToolOutcome,
    child_prefix,
};
use crate::tool::{ChildRun, ToolContext, ToolError, ToolResult};

/// The configuration of a child loop, and the conversion of its end into the result of the call.
#[async_trait]
pub trait Delegation: Send + Sync {
    /// Returns the configuration of the child's loop. `ctx` gives the provider, the journal and the budget account of the
    /// call.
    ///
    /// # Errors
    /// Returns the reason for which the child cannot start. It becomes the result of the call.
    fn configuration(&self, ctx: &ToolContext) -> Result<AgentLoopConfig, ToolError>;

    /// Returns the result of the call for this end of the child.
    ///
    /// # Errors
    /// Returns the reason for which the call failed.
    async fn result(&self, end: &ChildEnd) -> Result<ToolResult, ToolError>;

    /// Returns whether the child inherits the tool gates and the sandbox of its caller. It does by default. In any case, the
    /// budget of the caller is charged unless the configuration has another one.
    fn inheritance(&self) -> Inheritance {
        Inheritance::Restricted
    }
}

/// The plan of a [`ChildRun`].
struct Plan(Arc<dyn Delegation>);

impl ChildRun {
    /// Creates a child with these prompts, an empty system prompt and no tools.
    #[must_use]
    pub fn new(prompts: Vec<AgentMessage>, delegation: impl Delegation + 'static) -> Self {
        Self::with_plan(prompts, Plan(Arc::new(delegation)))
    }

    /// Passes the result of the call through `map`, for a tool that wraps another one.
    #[must_use]
    pub fn map_result(
        self,
        map: impl Fn(ToolResult) -> BoxFuture<'static, ToolResult> + Send + Sync + 'static,
    ) -> Self {
        match self.plan::<Plan>().map(|plan| Arc::clone(&plan.0)) {
            Some(inner) => self.replan(Plan(Arc::new(Mapped { inner, map }))),
            None => self,
        }
    }
}

/// A delegation whose result is mapped.
struct Mapped<F> {
    inner: Arc<dyn Delegation>,
    map: F,
}

#[async_trait]
impl<F> Delegation for Mapped<F>
where
    F: Fn(ToolResult) -> BoxFuture<'static, ToolResult> + Send + Sync,
{
    fn configuration(&self, ctx: &ToolContext) -> Result<AgentLoopConfig, ToolError> {
        self.inner.configuration(ctx)
    }

    async fn result(&self, end: &ChildEnd) -> Result<ToolResult, ToolError> {
        Ok((self.map)(self.inner.result(end).await?).await)
    }

    fn inheritance(&self) -> Inheritance {
        self.inner.inheritance()
    }
}

/// The state from which a child is driven.
#[derive(Debug)]
#[non_exhaustive]
pub enum ChildStart {
    /// The child has not started.
    New,
    /// The child was suspended or cut off. Apply the first answer and drive the child. If it waits again and the question
    /// of the next answer is still open, apply that one, too.
    Resume(Box<Run>, Vec<ChildAnswer>),
    /// The child has ended, and the call has not: apply [`ChildLoop::report_end`].
    Ended(Box<ChildEnd>),
}

/// The child of a call whose start is decided, before it is configured.
pub(super) struct ReadyChild {
    child: ChildRun,
    ids: ChildIds,
    spawned: Spawned,
    start: ChildStart,
    /// What the parent's run has counted of the spending of the call.
    counted: Spending,
    /// The longest grace period of the child.
    grace: Duration,
}

/// The ids of a child.
struct ChildIds {
    session: SessionId,
    of_loop: LoopId,
    agent: AgentId,
    parent: LoopId,
}

impl ChildIds {
    fn of(run: &Run, pending: &PendingCall) -> Self {
        let tag = stable_hash(&[run.loop_id().as_str(), pending.key.as_str()]);
        let session = SessionId::from(format!("child-{tag:016x}"));
        Self {
            of_loop: LoopId::from(format!("{session}.sub.1")),
            agent: AgentId::from(format!("agent-{tag:016x}")),
            parent: run.loop_id().clone(),
            session,
        }
    }
}

impl ReadyChild {
    /// Prepares the child of a call. Returns `None` for a call that was interrupted if nothing has recorded the child,
    /// so that it is not known whether it started.
    pub(super) async fn find(
        child: ChildRun,
        run: &Run,
        pending: &PendingCall,
        config: &AgentLoopConfig,
    ) -> Result<Option<Box<Self>>, JournalError> {
        let journal = config.services.journal.as_deref();
        let ids = ChildIds::of(run, pending);
        let start = match (&pending.stage, &pending.child) {
            (CallStage::Answered(_), Some(waiting)) if waiting.run.is_some() => {
                waiting.run.clone().map(|run| {
                    let answers = waiting.answers_for(&run);
                    ChildStart::Resume(run, answers)
                })
            }
            (CallStage::Began(_) | CallStage::Answered(_), waiting) => {
                let recorded = match journal {
                    Some(journal) => journal.recorded_loop(&ids.session, &ids.of_loop).await?,
                    None => RecordedLoop::Unknown,
                };
                match recorded {
                    RecordedLoop::Unknown => None,
                    RecordedLoop::Absent => Some(ChildStart::New),
                    RecordedLoop::Ended(end) => Some(ChildStart::Ended(end)),
                    RecordedLoop::Open(child) => {
                        let answers = waiting.as_ref().map(|waiting| waiting.answers_for(&child));
                        Some(ChildStart::Resume(child, answers.unwrap_or_default()))
                    }
                }
            }
            _ => Some(ChildStart::New),
        };
        Ok(start.map(|start| Box::new(Self { start, ..*Self::anew(child, run, pending, config) })))
    }

    /// Prepares the child of a call to start from its beginning.
    pub(super) fn anew(
        child: ChildRun,
        run: &Run,
        pending: &PendingCall,
        config: &AgentLoopConfig,
    ) -> Box<Self> {
        let spawned = Spawned {
            depth: run.setup().depth.saturating_add(1),
            question_prefix: child_prefix(&run.setup().question_prefix, &pending.call.id),
            by: Box::new(SpawningCall::new(pending.call.id.clone(), pending.call.name.clone())),
        };
        // The child ends first, so that its end is recorded and delivered within the grace period of its parent.
        let grace = config.policy.grace.saturating_sub(config.policy.grace / 4);
        let counted = pending.child.as_ref().map(|child| child.spent).unwrap_or_default();
        Box::new(Self {
            child,
            ids: ChildIds::of(run, pending),
            spawned,
            start: ChildStart::New,
            counted,
            grace,
        })
    }

    /// Configures the child.
    pub(super) fn configure(self, ctx: &ToolContext) -> Result<ChildLoop, ToolError> {
        let Self { child, ids, spawned, start, counted, grace } = self;
        let Some(Plan(delegation)) = child.plan::<Plan>() else {
            return Err(ToolError::failed("the child has no delegation"));
        };
        let (delegation, mut config) = (Arc::clone(delegation), delegation.configuration(ctx)?);
        config.policy.grace = config.policy.grace.min(grace);
        if config.services.budget.is_none() {
            config.services.budget = ctx.budget().cloned();
        }
        if let Some(caller) = ctx.services::<RunServices>().and_then(|services| services.config.as_ref()) {
            config.services.inherit_telemetry(&caller.services);
        }
        let mut tools = child.tools;
        if delegation.inheritance() == Inheritance::Restricted {
            config.inherit(ctx);
            tools = tools.confined_by(ctx);
        }
        let mut context = AgentContext::new(child.system_prompt).with_shared_tools(tools);
        context.parent_loop_id = Some(child.parent_loop_id.unwrap_or(ids.parent));
        context.session_id = Some(ids.session);
        context.loop_id = Some(ids.of_loop);
        context.agent_id = Some(ids.agent);
        context.spawned = Some(Box::new(spawned));
        let (prompts, config) = (child.prompts, Arc::new(config));
        Ok(ChildLoop { context, config, prompts, start, counted, delegation, ctx: ctx.clone() })
    }
}

/// The child loop of a tool call, ready to be driven.
#[non_exhaustive]
pub struct ChildLoop {
    /// The system prompt, the tools and the ids of the child.
    pub context: AgentContext,
    /// The configuration of the child.
    pub config: Arc<AgentLoopConfig>,
    /// The prompts of a child that starts.
    pub prompts: Vec<AgentMessage>,
    /// The state from which the child is driven.
    pub start: ChildStart,
    counted: Spending,
    delegation: Arc<dyn Delegation>,
    ctx: ToolContext,
}

/// How the execution of a call left it.
pub(super) enum Executed {
    Ended(Result<ToolResult, ToolError>),
    Suspended(Box<SuspendedChild>),
}

impl ChildLoop {
    /// Returns the performer of the child, which an abort of the parent or the time limit of the call cancels.
    #[must_use]
    pub fn performer(&self) -> Performer {
        Performer::for_context(&self.context, Arc::clone(&self.config))
            .with_cancel(self.ctx.cancel.child_token())
    }

    /// Returns the setup of a child that starts.
    #[must_use]
    pub fn setup(&self) -> RunSetup {
        self.context.setup(&self.config)
    }

    /// Returns the input for the parent's run: `ToolEnded` if the child has ended, and `ChildSuspended`, with the run of
    /// the child, if it waits for answers. `None` if it can continue.
    pub async fn report(&self, child: &Run) -> Option<Input> {
        if let Some(end) = ChildEnd::of(child) {
            return Some(self.report_end(&end).await);
        }
        let mut suspended = self.suspended(child)?;
        suspended.run = Some(Box::new(child.clone()));
        suspended.spent = child.spent().filter(|spent| !spent.is_zero()).map(Box::new);
        Some(Input::ChildSuspended { id: self.ctx.tool_call_id.clone(), child: suspended })
    }

    /// Returns the `ToolEnded` for the parent's run, for a child that [had ended](ChildStart::Ended).
    pub async fn report_end(&self, end: &ChildEnd) -> Input {
        let result = self.result(end).await.unwrap_or_else(ToolResult::from);
        let mut outcome = Box::new(ToolOutcome::new(result, None));
        outcome.spent = end.spent.filter(|spent| !spent.is_zero()).map(Box::new);
        Input::ToolEnded { id: self.ctx.tool_call_id.clone(), outcome }
    }

    /// Describes a child that waits for answers. Without a journal, the description has the run.
    fn suspended(&self, child: &Run) -> Option<Box<SuspendedChild>> {
        let mut suspended = child.is_suspended().then(|| Box::new(SuspendedChild::new(child)))?;
        if self.config.services.journal.is_none() {
            suspended.run = Some(Box::new(child.clone()));
        }
        Some(suspended)
    }

    /// Charges to the account of the call what a child that has ended before spent, as far as the run has not counted it.
    fn charge(&self, end: &ChildEnd) {
        let (Some(account), Some(spent)) = (self.ctx.budget(), &end.spent) else { return };
        let counted = AccountState { spent: self.counted, ..AccountState::default() };
        account.restore(&BudgetSnapshot { accounts: vec![counted] });
        account.charge(spent.minus(&self.counted));
    }

    async fn result(&self, end: &ChildEnd) -> Result<ToolResult, ToolError> {
        if end.ended == Ended::Aborted {
            return Err(ToolError::Cancelled);
        }
        self.delegation.result(end).await
    }

    /// Drives the child until it ends or waits for an answer.
    pub(super) async fn drive(mut self, tx: EventSender) -> Executed {
        let failed = |text: String| Executed::Ended(Err(ToolError::failed(text)));
        if let Err(error) = self.config.check_budget() {
            return failed(format!("the sub-agent could not begin: {error}"));
        }
        let (cancel, config) = (self.ctx.cancel.child_token(), Arc::clone(&self.config));
        let start = std::mem::replace(&mut self.start, ChildStart::New);
        let prompts = std::mem::take(&mut self.prompts);
        let child = GroupLoop { context: self.context.clone(), config, prompts };
        let driving = child.begin_from(start, &tx, &cancel);
        match child.drive(driving, &tx, &cancel).await {
            Driven::Ended(end) => {
                self.charge(&end);
                Executed::Ended(self.result(&end).await)
            }
            Driven::NotBegun(reason) => failed(format!("the sub-agent could not begin: {reason}")),
            Driven::Panicked(text, _) => failed(format!("The tool panicked: {text}")),
            Driven::Run(run) => match (ChildEnd::of(&run), self.suspended(&run)) {
                (Some(end), _) => Executed::Ended(self.result(&end).await),
                (None, Some(suspended)) => Executed::Suspended(suspended),
                (None, None) => failed("the sub-agent was interrupted".to_owned()),
            },
        }
    }
}

impl fmt::Debug for ChildLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildLoop")
            .field("context", &self.context)
            .field("prompts", &self.prompts.len())
            .field("start", &self.start)
            .finish_non_exhaustive()
    }
}
