//! Branches: several continuations of an agent's conversation that run concurrently.

use std::fmt;
use std::sync::{Arc, Weak};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{AgentError, AgentHandle, Inner, IntoPrompt};
use crate::drive::{AgentContext, AgentLoopConfig, EventReceiver, EventSender, event_channel};
use crate::evaluation::EvaluationStrategy;
use crate::event::{AgentEvent, Answer, ParallelLoopEnd};
use crate::history::History;
use crate::identity::{GroupRole, LoopId, QuestionId};
use crate::journal::{GroupEntry, JournalError};
use crate::message::AgentMessage;
use crate::parallel::{
    Branch, GroupPlan, GroupRecord, GroupSetup, ParallelError, ParallelLoopOutcome, ParallelLoopResult,
    Prepared, not_adopted, selection,
};
use crate::run::ChildAnswer;
use crate::tool::Tools;

type Change = Box<dyn FnOnce(&mut Branch) + Send>;

/// The prompts and settings of one branch. Every setting that is not set here has the value of the agent.
#[derive(Default)]
pub struct BranchSpec {
    prompts: Vec<AgentMessage>,
    changes: Vec<Change>,
}

impl BranchSpec {
    /// Creates a branch that continues the agent's conversation without a new prompt.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a branch that begins with `prompt`.
    #[must_use]
    pub fn asking(prompt: impl IntoPrompt) -> Self {
        Self { prompts: prompt.into_prompt(), ..Self::default() }
    }

    /// Changes the configuration of the branch, for example its model, temperature or limits. Several changes are
    /// applied in the order in which they were added.
    #[must_use]
    pub fn configure(self, change: impl FnOnce(&mut AgentLoopConfig) + Send + 'static) -> Self {
        self.changed(|branch| change(&mut branch.config))
    }

    /// Replaces the tools of the branch, for example by tools of a workspace that only this branch writes to.
    #[must_use]
    pub fn with_tools(self, tools: impl Into<Tools>) -> Self {
        let tools = tools.into();
        self.changed(|branch| branch.tools = Some(tools))
    }

    /// Replaces the system prompt of the branch.
    #[must_use]
    pub fn with_system_prompt(self, text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        self.changed(|branch| branch.system_prompt = Some(text))
    }

    /// Replaces the conversation that the branch continues, for example by one with a different tool result.
    #[must_use]
    pub fn with_history(self, history: History) -> Self {
        self.changed(|branch| branch.history = Some(history))
    }

    /// Answers a question at which this branch waited when its group was cut off. Without that question, the answer is ignored.
    ///
    /// A call that must run once and had started when a process ended causes a question. [`AgentHandle::explore_and_adopt`]
    /// returns [`ParallelError::Waiting`] with it then, and continues the group when it is called with the answer.
    #[must_use]
    pub fn answering(self, question: impl Into<QuestionId>, answer: Answer) -> Self {
        let answer = ChildAnswer::new(question, answer);
        self.changed(|branch| branch.answers.push(answer))
    }

    fn changed(mut self, change: impl FnOnce(&mut Branch) + Send + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    fn into_branch(self, agent: &AgentLoopConfig) -> Branch {
        let mut branch = Branch::new(agent.clone()).with_prompts(self.prompts);
        self.changes.into_iter().for_each(|change| change(&mut branch));
        branch
    }
}

impl fmt::Debug for BranchSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BranchSpec").field("prompts", &self.prompts.len()).finish_non_exhaustive()
    }
}

/// A group of running branches, which [`AgentHandle::explore_branches`] returns.
///
/// Dropping it does not stop the branches. [`abort`](Self::abort) and [`AgentHandle::abort`] end them.
#[derive(Debug)]
#[non_exhaustive]
pub struct Exploration {
    /// The id of the group in the events and the journal.
    pub group_id: LoopId,
    /// The branches, in the order of their specifications.
    pub branches: Vec<ExploredBranch>,
    cancel: CancellationToken,
    outcomes: oneshot::Receiver<Result<Vec<ParallelLoopOutcome>, ParallelError>>,
}

/// One running branch of an [`Exploration`].
#[derive(Debug)]
#[non_exhaustive]
pub struct ExploredBranch {
    /// The id of the branch's loop.
    pub loop_id: LoopId,
    /// The receiver of the branch's events.
    pub events: EventReceiver,
    cancel: CancellationToken,
}

impl ExploredBranch {
    /// Aborts this branch. The other branches continue.
    pub fn abort(&self) {
        self.cancel.cancel();
    }
}

impl Exploration {
    /// Aborts all branches of the group.
    pub fn abort(&self) {
        self.cancel.cancel();
    }

    /// Returns one event receiver for each branch, in the order of the specifications. The branches continue to run.
    #[must_use]
    pub fn into_receivers(self) -> Vec<EventReceiver> {
        self.branches.into_iter().map(|b| b.events).collect()
    }

    /// Waits until all branches have ended and returns their outcomes. Their events need not be read first.
    ///
    /// # Errors
    /// Returns [`AgentError::Branches`] if the group could not be journaled, or if its task was dropped.
    pub async fn finish(self) -> Result<Vec<ParallelLoopOutcome>, AgentError> {
        match self.outcomes.await {
            Ok(outcomes) => outcomes.map_err(|e| AgentError::Branches(Box::new(e))),
            Err(_) => Err(AgentError::Branches(Box::new(ParallelError::Aborted { outcomes: Vec::new() }))),
        }
    }
}

impl AgentHandle {
    /// Starts several branches of the conversation concurrently, each with its own events, and returns at once. A group that
    /// was cut off at this point of the conversation is continued, as by [`explore_and_adopt`](Self::explore_and_adopt).
    ///
    /// The agent's own conversation does not change, and the agent is idle while the branches run.
    /// [`adopt_branch`](Self::adopt_branch) replaces the conversation by that of one outcome. The agent's listeners do
    /// not receive the events of branches. [`abort`](Self::abort) also ends the branches.
    ///
    /// # Errors
    /// Fails if the agent is busy or waits for an answer, if there is no branch, if a branch cannot start (then none is
    /// started), and outside a runtime.
    pub fn explore_branches(
        &self,
        branches: impl IntoIterator<Item = BranchSpec>,
    ) -> Result<Exploration, AgentError> {
        let (cancel, mut prepared, place) = self.prepare(branches, &EventSender::none())?;
        let env = Arc::clone(&prepared.plan.environment);
        let setup = prepared.plan.setup().clone();
        let mut explored = Vec::with_capacity(prepared.outputs.len());
        for ((tx, cancel), loop_id) in prepared.outputs.iter_mut().zip(setup.loop_ids) {
            let (own, events) = event_channel();
            *tx = own;
            explored.push(ExploredBranch { loop_id, events, cancel: cancel.clone() });
        }
        let (group_id, aborted) = (setup.group_id, cancel.clone());
        let (done, outcomes) = oneshot::channel();
        let task = async move {
            let ran = prepared.run(&EventSender::none(), &aborted).await;
            drop(place);
            let _ = done.send(ran);
        };
        env.spawn(Box::pin(task.in_current_span()))?;
        Ok(Exploration { group_id, branches: explored, cancel, outcomes })
    }

    /// Runs several branches concurrently, selects one with `strategy`, and replaces the agent's conversation by that
    /// of the selected branch. All events, including those of the group and of a judge, are sent to `tx`.
    ///
    /// An agent that was restored from its session after a crash continues the group that was cut off at this point of the
    /// conversation: branches that had ended are taken from the record, the others continue like a resumed run, and a judge
    /// whose verdict is recorded is not asked again. Give it the branches with which the group was started. If the end of a
    /// group is recorded, the next call starts another one.
    ///
    /// # Errors
    /// Returns the same errors as [`explore_branches`](Self::explore_branches). Also fails if no branch was selected,
    /// and with [`AgentError::ConversationWentOn`] if the conversation has changed since the branches started. The
    /// conversation is not replaced then. A group that is continued fails with [`ParallelError::Waiting`] if a branch waits
    /// for an answer about a call that had started, and with `OtherBranches` or `OtherPrompt` if the branches are others.
    pub async fn explore_and_adopt(
        &self,
        branches: impl IntoIterator<Item = BranchSpec>,
        strategy: impl EvaluationStrategy,
        tx: impl Into<EventSender>,
    ) -> Result<ParallelLoopResult, AgentError> {
        let tx = tx.into();
        let before = self.history();
        let (cancel, prepared, place) = self.prepare(branches, &tx)?;
        let selected = prepared.run_and_select(&strategy, &tx, &cancel).await;
        drop(place);
        let result = selected.map_err(|e| AgentError::Branches(Box::new(e)))?;
        let now = self.history();
        if now.unit_count() != before.unit_count() || !now.extends(&before) {
            // The journal must not show this branch as the one that the conversation continues.
            let config = self.config();
            record_end(&config, not_adopted(&result, &config)).await?;
            return Err(AgentError::ConversationWentOn);
        }
        self.take_over(&result.selected)?;
        Ok(result)
    }

    /// Replaces the agent's conversation by that of a branch, and journals that the branch was selected.
    ///
    /// Messages that were added to the agent's conversation since the branches started are lost. A suspended branch
    /// stays suspended: [`answer`](Self::answer) resumes it.
    ///
    /// # Errors
    /// Fails if the agent is busy or waits for an answer, and if the selection cannot be journaled. The agent does not
    /// change then.
    pub async fn adopt_branch(&self, outcome: &ParallelLoopOutcome) -> Result<(), AgentError> {
        self.check_idle()?;
        let config = self.config();
        let index = match outcome.context.group.as_ref().map(|g| g.role) {
            Some(GroupRole::Branch { index }) => Some(index),
            Some(GroupRole::Judge) | None => None,
        };
        record_end(&config, selection(outcome, index, &config)).await?;
        self.take_over(outcome)
    }

    fn take_over(&self, outcome: &ParallelLoopOutcome) -> Result<(), AgentError> {
        let mut snapshot = self.snapshot();
        snapshot.history = outcome.context.history.clone();
        snapshot.last_loop_id = Some(outcome.loop_id.clone());
        snapshot.suspended.clone_from(&outcome.context.suspended);
        self.load(snapshot)
    }

    fn prepare(
        &self,
        branches: impl IntoIterator<Item = BranchSpec>,
        tx: &EventSender,
    ) -> Result<(CancellationToken, Prepared, Place), AgentError> {
        let settings = self.settings_of_run();
        let branches = branches.into_iter().map(|spec| spec.into_branch(&settings.config)).collect();
        let mut base = AgentContext::new(settings.system_prompt).with_shared_tools(settings.tools);
        base.agent_id = Some(settings.agent_id.clone());
        self.check_idle()?;
        let now = settings.config.services.environment.now();
        let (cancel, plan, number) = {
            let mut state = self.inner.state();
            base.history = state.history.clone();
            let open = state.open_group();
            let number = state.peek_group();
            let plan = match open {
                Some(setup) => GroupPlan::resume(setup, &[], base, branches),
                None => {
                    let (session, parent) = (state.session_id.clone(), state.last_loop_id.clone());
                    let setup = GroupSetup::at(session, settings.agent_id, parent, number, now);
                    GroupPlan::start(setup, &[], base, branches)
                }
            };
            let plan = plan.map_err(|e| AgentError::Branches(Box::new(e)))?;
            state.take_group(plan.setup(), number);
            (state.explorations.get_or_insert_default().child_token(), plan, number)
        };
        let (setup, is_recorded) = (plan.setup().clone(), settings.config.services.journal.is_some());
        let prepared = Prepared::new(plan, tx, &cancel);
        let record = Arc::clone(&prepared.record);
        let inner = Arc::downgrade(&self.inner);
        let place = Place { inner, setup, number, is_recorded, record };
        Ok((cancel, prepared, place))
    }
}

/// The place of a group in the conversation. If the group is left before its end is recorded, the next call continues it.
struct Place {
    inner: Weak<Inner>,
    setup: GroupSetup,
    /// The number of the group among those after the same loop.
    number: u64,
    /// Whether the agent has a journal.
    is_recorded: bool,
    record: Arc<GroupRecord>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(inner) = self.inner.upgrade() else { return };
        if self.record.is_open() {
            inner.state().open_groups.push(self.setup.clone());
        } else if self.is_recorded && !self.record.has_started() {
            inner.state().release_group(self.setup.parent_loop_id.as_ref(), self.number);
        }
    }
}

/// Ends the groups that were cut off at this point of the agent's conversation, without a selection. The next call of
/// [`AgentHandle::explore_and_adopt`] starts another group. Does nothing if there is no such group.
///
/// # Errors
/// Fails if the agent is busy or waits for an answer, and if the end cannot be journaled. The group stays open then.
pub async fn discard_branches(agent: &AgentHandle) -> Result<(), AgentError> {
    agent.check_idle()?;
    let config = agent.config();
    loop {
        let open = agent.inner.state().open_group();
        let Some(setup) = open else { return Ok(()) };
        let (group, session) = (setup.group_id.clone(), setup.session_id.clone());
        let end = ParallelLoopEnd {
            reason: Some("the branches were discarded".to_owned()),
            ..ParallelLoopEnd::new(group, session, config.services.environment.now())
        };
        record_end(&config, Some(end)).await?;
        agent.inner.state().open_groups.retain(|open| open.group_id != setup.group_id);
    }
}

/// Journals the end of a group, if the agent has a journal.
async fn record_end(config: &AgentLoopConfig, end: Option<ParallelLoopEnd>) -> Result<(), JournalError> {
    if let (Some(journal), Some(end)) = (&config.services.journal, end) {
        let (now, event) = (end.timestamp, AgentEvent::ParallelLoopEnd(Box::new(end)));
        journal.append_group(GroupEntry::new(now, &event)).await?;
    }
    Ok(())
}
