//! Prepares branches, runs them concurrently, and selects one.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::Branch;
use super::error::ParallelError;
use super::result::{ParallelLoopResult, ParallelUsage};
use crate::drive::{
    AgentContext, AgentLoopConfig, Driven, Driving, EventSender, LoopError, Member, messages_of, panic_text,
};
use crate::evaluation::{
    Announced, BranchEnd, Evaluated, Evaluation, EvaluationError, EvaluationStrategy, ParallelGroup,
    ParallelLoopOutcome,
};
use crate::event::ParallelLoopEnd;
use crate::history::{Entry, History};
use crate::identity::{ContinuationKind, GroupRole};
use crate::message::AgentMessage;

/// The branches to run and their shared context.
pub(crate) struct Plan {
    pub(crate) base: AgentContext,
    pub(crate) prompts: Vec<AgentMessage>,
    pub(crate) branches: Vec<Branch>,
}

/// Branches that are ready to start.
pub(crate) struct Prepared {
    pub(crate) group: ParallelGroup,
    pub(crate) members: Vec<Member>,
    prompts: Vec<AgentMessage>,
}

impl Plan {
    /// Checks that every branch can start, and assigns loop ids. Each branch gets a child token of `cancel`.
    pub(crate) fn prepare(
        self,
        cancel: &CancellationToken,
        tx: &EventSender,
    ) -> Result<Prepared, ParallelError> {
        let Self { mut base, prompts, branches } = self;
        let Some(first) = branches.first() else { return Err(ParallelError::NoBranches) };
        let env = Arc::clone(&first.config.services.environment);
        let agent_id = base.agent_id.get_or_insert_with(|| env.random_id().into()).clone();
        let session_id = base.session_id.get_or_insert_with(|| env.random_id().into()).clone();
        let parent = base.loop_id.take().or_else(|| base.parent_loop_id.take());
        let tag = env.now().to_rfc3339();
        let mut group = ParallelGroup::new(session_id, agent_id, parent, env);
        let mut members = Vec::with_capacity(branches.len());
        for (index, branch) in branches.into_iter().enumerate() {
            let Branch { config, tools, system_prompt, history, prompts: own } = branch;
            let mut context = base.clone();
            context.tools = tools.unwrap_or(context.tools);
            context.system_prompt = system_prompt.unwrap_or(context.system_prompt);
            context.history = history.unwrap_or(context.history);
            let prompts = own.unwrap_or_else(|| prompts.clone());
            let checked = check(&context, &prompts).and_then(|()| Ok(config.check_budget()?));
            checked.map_err(|source| ParallelError::Branch { index, source })?;
            let loop_id = group.branch_id(&config.config_segment(), index);
            context.loop_id = Some(loop_id.clone());
            context.parent_loop_id.clone_from(&group.parent_loop_id);
            context.continuation_kind = Some(ContinuationKind::Branch { tag: tag.clone() });
            context.group = Some(group.member(GroupRole::Branch { index }));
            group.loop_ids.push(loop_id);
            group.write_to(config.services.journal.as_ref());
            let (tx, cancel) = (tx.clone(), cancel.child_token());
            members.push(Member { context, config: Arc::new(config), prompts, tx, cancel });
        }
        let prompts = members.first().map(|m| m.prompts.clone()).unwrap_or_default();
        Ok(Prepared { group, members, prompts })
    }
}

/// Performs the checks of [`agent_loop`](crate::agent_loop) and [`agent_loop_continue`](crate::agent_loop_continue).
fn check(context: &AgentContext, prompts: &[AgentMessage]) -> Result<(), LoopError> {
    if context.suspended.is_some() {
        return Err(LoopError::Suspended);
    }
    for prompt in prompts {
        History::check_standalone(&Entry::from(prompt.clone()))?;
    }
    if prompts.is_empty() { context.check_continues() } else { Ok(()) }
}

impl Prepared {
    /// Runs the branches and lets the strategy select one.
    pub(crate) async fn run_and_select(
        self,
        strategy: &dyn EvaluationStrategy,
        tx: &EventSender,
        cancel: &CancellationToken,
    ) -> Result<ParallelLoopResult, ParallelError> {
        let Self { group, members, prompts } = self;
        let unwritten = |source| ParallelError::Journal { source, outcomes: Vec::new() };
        let announced = group.announce(tx).await.map_err(unwritten)?;
        let outcomes = run_all(&members).await;
        if cancel.is_cancelled() {
            return abort(&group, announced, outcomes).await;
        }
        let budget = members.iter().find_map(|m| m.config.services.budget.as_ref());
        let evaluation =
            Evaluation { prompts: &prompts, outcomes: &outcomes, group: &group, budget, tx, cancel };
        let selected = match evaluate(strategy, evaluation).await {
            Ok(evaluated) => Ok(evaluated),
            Err(_) if cancel.is_cancelled() => return abort(&group, announced, outcomes).await,
            Err(error) => Err(error),
        };
        let end = match &selected {
            Ok(evaluated) => ParallelLoopEnd {
                selected_loop_id: outcomes.get(evaluated.decision.index()).map(|o| o.loop_id.clone()),
                selected_config_index: Some(evaluated.decision.index()),
                evaluation_usage: evaluated.usage,
                judge_loop_id: evaluated.judge_loop_id.clone(),
                ..group.end(evaluated.decision.reason().map(str::to_owned))
            },
            Err(error) => group.end(Some(error.to_string())),
        };
        if let Err(source) = announced.close(end).await {
            return Err(ParallelError::Journal { source, outcomes });
        }
        match selected {
            Ok(evaluated) => Ok(result(&group, outcomes, evaluated)?),
            Err(source) => Err(ParallelError::Evaluation { source, outcomes }),
        }
    }

    /// Returns the end to journal when an agent adopts a branch of a group that ended without a selection.
    pub(crate) fn selection(
        outcome: &ParallelLoopOutcome,
        index: Option<usize>,
        config: &AgentLoopConfig,
    ) -> Option<ParallelLoopEnd> {
        let context = &outcome.context;
        let (group, session) = (context.group.as_ref()?.group_id.clone(), context.session_id.clone()?);
        Some(ParallelLoopEnd {
            selected_loop_id: Some(outcome.loop_id.clone()),
            selected_config_index: index,
            ..ParallelLoopEnd::new(group, session, config.services.environment.now())
        })
    }

    /// Returns the end to journal when the selected branch was not adopted.
    pub(crate) fn not_adopted(
        result: &ParallelLoopResult,
        config: &AgentLoopConfig,
    ) -> Option<ParallelLoopEnd> {
        let (group, session) = (result.group_id.clone(), result.selected.context.session_id.clone()?);
        let selected = &result.selected.loop_id;
        Some(ParallelLoopEnd {
            evaluation_usage: result.usage.evaluation,
            judge_loop_id: result.judge_loop_id.clone(),
            reason: Some(format!(
                "branch {selected} was selected and not adopted: the conversation had changed"
            )),
            ..ParallelLoopEnd::new(group, session, config.services.environment.now())
        })
    }

    /// Runs the branches without selecting one.
    pub(crate) async fn run(self, tx: &EventSender) -> Result<Vec<ParallelLoopOutcome>, ParallelError> {
        let unwritten = |source| ParallelError::Journal { source, outcomes: Vec::new() };
        let announced = self.group.announce(tx).await.map_err(unwritten)?;
        let outcomes = run_all(&self.members).await;
        match announced.close(self.group.end(None)).await {
            Ok(()) => Ok(outcomes),
            Err(source) => Err(ParallelError::Journal { source, outcomes }),
        }
    }
}

/// Prepares all branches before it drives the first, so that each one emits an end even if another one fails.
async fn run_all(members: &[Member]) -> Vec<ParallelLoopOutcome> {
    let driving: Vec<Driving> = members.iter().map(Member::begin).collect();
    let driven = join_all(driving.into_iter().map(Driving::drive)).await;
    let outcome = |(index, (member, driven))| outcome(index, member, driven);
    members.iter().zip(driven).enumerate().map(outcome).collect()
}

async fn abort(
    group: &ParallelGroup,
    announced: Announced<'_>,
    outcomes: Vec<ParallelLoopOutcome>,
) -> Result<ParallelLoopResult, ParallelError> {
    match announced.close(group.end(Some("the branches were aborted".to_owned()))).await {
        Ok(()) => Err(ParallelError::Aborted { outcomes }),
        Err(source) => Err(ParallelError::Journal { source, outcomes }),
    }
}

/// Calls the strategy and checks that it selected an existing branch.
async fn evaluate(
    strategy: &dyn EvaluationStrategy,
    evaluation: Evaluation<'_>,
) -> Result<Evaluated, EvaluationError> {
    let (cancel, branches) = (evaluation.cancel, evaluation.outcomes.len());
    let env = Arc::clone(&evaluation.group.environment);
    let evaluation = AssertUnwindSafe(async { strategy.evaluate(evaluation).await }).catch_unwind();
    let timed_out = async {
        cancel.cancelled().await;
        env.sleep(crate::run::GRACE).await;
    };
    let evaluated = tokio::select! {
        biased;
        evaluated = evaluation => evaluated.unwrap_or_else(|p| Err(EvaluationError::Panicked(panic_text(&*p)))),
        () = timed_out => Err(EvaluationError::Aborted),
    }?;
    match evaluated.decision.index() {
        index if index < branches => Ok(evaluated),
        index => Err(EvaluationError::OutOfRange { index, branches }),
    }
}

fn outcome(index: usize, member: &Member, driven: Driven) -> ParallelLoopOutcome {
    let original = member.context.history.clone();
    let mut context = member.context.clone();
    let (end, run) = match driven {
        Driven::NotBegun(reason) => (BranchEnd::NotBegun { reason }, None),
        Driven::Panicked(message, run) => (BranchEnd::Panicked { message }, run),
        Driven::Run(run) => match run.ended() {
            Some(ended) => (BranchEnd::Ended(ended.clone()), Some(run)),
            None => (BranchEnd::Suspended { questions: run.questions() }, Some(run)),
        },
    };
    let mut outcome = ParallelLoopOutcome {
        config: member.config.snapshot(),
        loop_id: context.loop_id.clone().unwrap_or_else(|| "".into()),
        ..ParallelLoopOutcome::new(index, "", AgentContext::default(), end)
    };
    if let Some(run) = run {
        outcome.usage = run.usage();
        outcome.tool_usage = run.tool_usage();
        outcome.new_messages = messages_of(&run);
        context.history = run.history().clone();
        if run.ended().is_none() {
            context.suspended = Some(run);
        }
    }
    let shared = context.history.shared_units(&original);
    outcome.original_context_len = original.units().take(shared).map(|u| u.entries().len()).sum();
    outcome.original_context = original;
    outcome.context = context;
    outcome
}

fn result(
    group: &ParallelGroup,
    mut outcomes: Vec<ParallelLoopOutcome>,
    evaluated: Evaluated,
) -> Result<ParallelLoopResult, ParallelError> {
    let Evaluated { decision, usage, judge_loop_id } = evaluated;
    let usage = ParallelUsage::of(&outcomes, usage);
    let index = decision.index();
    if index >= outcomes.len() {
        let source = EvaluationError::OutOfRange { index, branches: outcomes.len() };
        return Err(ParallelError::Evaluation { source, outcomes });
    }
    let selected = outcomes.remove(index);
    let group_id = group.group_id.clone();
    Ok(ParallelLoopResult { group_id, selected, others: outcomes, decision, usage, judge_loop_id })
}
