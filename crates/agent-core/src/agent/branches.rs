//! Branches of an agent's conversation (seed 002, future scenarios).

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{AgentError, AgentHandle, IntoPrompt};
use crate::drive::{AgentContext, AgentLoopConfig, EventReceiver, EventSender, event_channel};
use crate::evaluation::EvaluationStrategy;
use crate::history::History;
use crate::identity::{GroupRole, LoopId};
use crate::journal::GroupEntry;
use crate::message::AgentMessage;
use crate::parallel::{Branch, ParallelError, ParallelLoopOutcome, ParallelLoopResult, Plan, Prepared};
use crate::tool::Tools;

type Change = Box<dyn FnOnce(&mut AgentLoopConfig) + Send>;

/// How a branch differs from its agent. Whatever is not set here is the agent's.
#[derive(Default)]
pub struct BranchSpec {
    prompts: Vec<AgentMessage>,
    change: Option<Change>,
    tools: Option<Tools>,
    system_prompt: Option<Arc<str>>,
    history: Option<History>,
}

impl BranchSpec {
    /// A branch that goes on from what the conversation holds.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A branch that begins with this prompt.
    #[must_use]
    pub fn asking(prompt: impl IntoPrompt) -> Self {
        Self { prompts: prompt.into_prompt(), ..Self::default() }
    }

    /// The same branch, whose configuration is changed: another model, temperature, thinking, limits.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut AgentLoopConfig) + Send + 'static) -> Self {
        self.change = Some(match self.change {
            None => Box::new(change),
            Some(earlier) => Box::new(move |config| {
                earlier(config);
                change(config);
            }),
        });
        self
    }

    /// The same branch with tools of its own, for example those of a workspace that only this branch writes in.
    #[must_use]
    pub fn with_tools(mut self, tools: impl Into<Tools>) -> Self {
        self.tools = Some(tools.into());
        self
    }

    /// The same branch with a system prompt of its own.
    #[must_use]
    pub fn with_system_prompt(mut self, text: impl Into<Arc<str>>) -> Self {
        self.system_prompt = Some(text.into());
        self
    }

    /// The same branch over another past, such as one with another tool result.
    #[must_use]
    pub fn with_history(mut self, history: History) -> Self {
        self.history = Some(history);
        self
    }

    fn into_branch(self, agent: &AgentLoopConfig) -> Branch {
        let mut config = agent.clone();
        if let Some(change) = self.change {
            change(&mut config);
        }
        let mut branch = Branch::new(config).with_prompts(self.prompts);
        branch.tools = self.tools;
        branch.system_prompt = self.system_prompt;
        branch.history = self.history;
        branch
    }
}

impl fmt::Debug for BranchSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BranchSpec").field("prompts", &self.prompts.len()).finish_non_exhaustive()
    }
}

/// Branches that run. Dropping it leaves them running; [`abort`](Self::abort), and that of their agent, ends them.
#[derive(Debug)]
#[non_exhaustive]
pub struct Exploration {
    /// The group that they are.
    pub group_id: LoopId,
    /// The branches, in the order of their specifications.
    pub branches: Vec<ExploredBranch>,
    cancel: CancellationToken,
    outcomes: oneshot::Receiver<Result<Vec<ParallelLoopOutcome>, ParallelError>>,
}

/// A branch that runs.
#[derive(Debug)]
#[non_exhaustive]
pub struct ExploredBranch {
    /// Its loop.
    pub loop_id: LoopId,
    /// Its events.
    pub events: EventReceiver,
    cancel: CancellationToken,
}

impl ExploredBranch {
    /// Ends this branch; the others go on.
    pub fn abort(&self) {
        self.cancel.cancel();
    }
}

impl Exploration {
    /// Ends all branches.
    pub fn abort(&self) {
        self.cancel.cancel();
    }

    /// The events alone, one receiver for each branch.
    #[must_use]
    pub fn into_receivers(self) -> Vec<EventReceiver> {
        self.branches.into_iter().map(|b| b.events).collect()
    }

    /// Waits for all branches. Their events need not be read before.
    ///
    /// # Errors
    /// When the group could not be written down, or its task was ended from outside.
    pub async fn finish(self) -> Result<Vec<ParallelLoopOutcome>, AgentError> {
        match self.outcomes.await {
            Ok(outcomes) => outcomes.map_err(|e| AgentError::Branches(Box::new(e))),
            Err(_) => Err(AgentError::Branches(Box::new(ParallelError::Aborted { outcomes: Vec::new() }))),
        }
    }
}

impl AgentHandle {
    /// Runs several branches of the conversation side by side, each with its own events, and returns at once. The agent's own
    /// conversation stays as it is, and the agent is idle meanwhile; [`adopt_branch`](Self::adopt_branch) takes over one of
    /// the outcomes. The agent's listeners do not hear of branches. [`abort`](Self::abort) ends them, too.
    ///
    /// # Errors
    /// When the agent is busy or waits for an answer, when there is no branch or one cannot begin (then none is begun), and
    /// outside a runtime.
    pub fn explore_branches(
        &self,
        branches: impl IntoIterator<Item = BranchSpec>,
    ) -> Result<Exploration, AgentError> {
        let (cancel, mut prepared) = self.prepare(branches, &EventSender::none())?;
        let env = Arc::clone(&prepared.group.environment);
        let mut explored = Vec::with_capacity(prepared.members.len());
        for (member, loop_id) in prepared.members.iter_mut().zip(&prepared.group.loop_ids) {
            let (tx, events) = event_channel();
            member.tx = tx;
            let cancel = member.cancel.clone();
            explored.push(ExploredBranch { loop_id: loop_id.clone(), events, cancel });
        }
        let group_id = prepared.group.group_id.clone();
        let (done, outcomes) = oneshot::channel();
        env.spawn(Box::pin(async move {
            let _ = done.send(prepared.run(&EventSender::none()).await);
        }))?;
        Ok(Exploration { group_id, branches: explored, cancel, outcomes })
    }

    /// Runs several branches side by side, lets the strategy select one, and takes that one over. All events, those of the
    /// group and of a judge among them, go to `tx`.
    ///
    /// # Errors
    /// As [`explore_branches`](Self::explore_branches); when none was selected; and when the conversation has gone on in the
    /// meantime: then it is not replaced.
    pub async fn explore_and_adopt(
        &self,
        branches: impl IntoIterator<Item = BranchSpec>,
        strategy: impl EvaluationStrategy,
        tx: impl Into<EventSender>,
    ) -> Result<ParallelLoopResult, AgentError> {
        let tx = tx.into();
        let before = self.history();
        let (cancel, prepared) = self.prepare(branches, &tx)?;
        let selected = prepared.run_and_select(&strategy, &tx, &cancel).await;
        let result = selected.map_err(|e| AgentError::Branches(Box::new(e)))?;
        let now = self.history();
        if now.unit_count() != before.unit_count() || !now.extends(&before) {
            // The record must not say that the conversation goes on from this branch.
            let config = self.config();
            if let (Some(journal), Some(end)) =
                (&config.services.journal, Prepared::not_taken(&result, &config))
            {
                journal.append_group(GroupEntry::new(config.services.environment.now(), &end)).await?;
            }
            return Err(AgentError::ConversationWentOn);
        }
        self.take_over(&result.selected)?;
        Ok(result)
    }

    /// Puts a branch's conversation in the place of the agent's, and writes down that it was selected. What was said here since
    /// the branches began is not in it. A branch that waits for an answer is taken over as one that waits:
    /// [`answer`](Self::answer) goes on with it.
    ///
    /// # Errors
    /// When the agent is busy or waits for an answer, and when it cannot be written down. Then nothing is changed.
    pub async fn adopt_branch(&self, outcome: &ParallelLoopOutcome) -> Result<(), AgentError> {
        self.check_idle()?;
        let config = self.config();
        let index = match outcome.context.group.as_ref().map(|g| g.role) {
            Some(GroupRole::Branch { index }) => Some(index),
            Some(GroupRole::Judge) | None => None,
        };
        if let (Some(journal), Some(end)) =
            (&config.services.journal, Prepared::selection(outcome, index, &config))
        {
            journal.append_group(GroupEntry::new(config.services.environment.now(), &end)).await?;
        }
        self.take_over(outcome)
    }

    fn take_over(&self, outcome: &ParallelLoopOutcome) -> Result<(), AgentError> {
        let mut snapshot = self.snapshot();
        snapshot.history = outcome.context.history.clone();
        snapshot.last_loop_id = Some(outcome.loop_id.clone());
        snapshot.suspended.clone_from(&outcome.context.suspended);
        self.load_snapshot(snapshot)
    }

    fn prepare(
        &self,
        branches: impl IntoIterator<Item = BranchSpec>,
        tx: &EventSender,
    ) -> Result<(CancellationToken, Prepared), AgentError> {
        let settings = self.settings_of_run();
        let branches = branches.into_iter().map(|spec| spec.into_branch(&settings.config)).collect();
        let mut base = AgentContext::new(settings.system_prompt).with_shared_tools(settings.tools);
        base.agent_id = Some(settings.agent_id);
        self.check_idle()?;
        let cancel = {
            let state = self.inner.state();
            base.history = state.history.clone();
            base.session_id = Some(state.session_id.clone());
            base.loop_id.clone_from(&state.last_loop_id);
            state.explorations.child_token()
        };
        let plan = Plan { base, prompts: Vec::new(), branches };
        let prepared = plan.prepare(&cancel, tx).map_err(|e| AgentError::Branches(Box::new(e)))?;
        Ok((cancel, prepared))
    }
}
