//! Prepares the loops of a group, and drives the group in this process.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::error::ParallelError;
use super::open::{GroupRecord, Open};
use super::result::ParallelLoopResult;
use super::{Branch, Group, GroupEnd, GroupInput, GroupStep};
use crate::budget::Budget;
use crate::drive::{AgentContext, ChildStart, EventSender, GroupLoop, LoopError, group_span, panic_text};
use crate::environment::Environment;
use crate::evaluation::{
    Evaluated, Evaluation, EvaluationError, EvaluationStrategy, GroupSetup, ParallelLoopOutcome,
};
use crate::history::{Entry, History, MessageRef};
use crate::identity::{ContinuationKind, GroupRole, Timestamp};
use crate::journal::Journal;
use crate::message::{AgentMessage, Message};
use crate::run::{ChildAnswer, NewMessages};

/// What a driver needs to perform the steps of a [`Group`]: its setup, and the loops of its branches.
/// Another process derives the same loops with [`resume`](Self::resume). `docs/guides/own-driver.md` contains a driver.
#[derive(Debug)]
pub struct GroupPlan {
    pub(crate) setup: GroupSetup,
    loops: Vec<GroupLoop>,
    /// The answers for each branch.
    answers: Vec<Vec<ChildAnswer>>,
    /// Whether the group has started before.
    pub(super) is_resumed: bool,
    pub(crate) environment: Arc<dyn Environment>,
}

impl GroupPlan {
    /// Plans a group that has not started. Its id is random; missing ids of the session and the agent are created.
    ///
    /// # Errors
    /// Returns an error if there is no branch, or if one cannot start.
    pub fn new(
        prompts: &[AgentMessage],
        mut base: AgentContext,
        branches: Vec<Branch>,
    ) -> Result<Self, ParallelError> {
        let env = environment(&branches)?;
        let agent_id = base.agent_id.get_or_insert_with(|| env.random_id().into()).clone();
        let session_id = base.session_id.get_or_insert_with(|| env.random_id().into()).clone();
        let mut setup = GroupSetup::random(session_id, agent_id, &*env);
        setup.parent_loop_id = base.loop_id.take().or_else(|| base.parent_loop_id.take());
        Self::start(setup, prompts, base, branches)
    }

    /// Plans a group with this setup that has not started. The ids of its branches derive from the group's.
    pub(crate) fn start(
        mut setup: GroupSetup,
        prompts: &[AgentMessage],
        base: AgentContext,
        branches: Vec<Branch>,
    ) -> Result<Self, ParallelError> {
        let ids = branches.iter().enumerate();
        setup.loop_ids = ids.map(|(index, b)| setup.branch_id(&b.config.config_segment(), index)).collect();
        Ok(Self { is_resumed: false, ..Self::resume(setup, prompts, base, branches)? })
    }

    /// Plans the loops of a group that has started, with the context, the prompts and the branches of its start. The
    /// ids are those of the setup.
    ///
    /// # Errors
    /// Returns the same errors as [`new`](Self::new), and an error if the number of branches differs from the setup's.
    pub fn resume(
        setup: GroupSetup,
        prompts: &[AgentMessage],
        mut base: AgentContext,
        branches: Vec<Branch>,
    ) -> Result<Self, ParallelError> {
        let environment = environment(&branches)?;
        let (planned, given) = (setup.loop_ids.len(), branches.len());
        if planned != given {
            return Err(ParallelError::OtherBranches { planned, given });
        }
        base.agent_id = Some(setup.agent_id.clone());
        base.session_id = Some(setup.session_id.clone());
        base.parent_loop_id.clone_from(&setup.parent_loop_id);
        let tag = setup.requested.to_rfc3339();
        base.continuation_kind = Some(ContinuationKind::Branch { tag });
        let (mut loops, mut answers) = (Vec::with_capacity(branches.len()), Vec::new());
        for (index, (branch, loop_id)) in branches.into_iter().zip(&setup.loop_ids).enumerate() {
            let Branch { config, tools, system_prompt, history, prompts: own, answers: given } = branch;
            let mut context = base.clone();
            context.tools = tools.unwrap_or(context.tools);
            context.system_prompt = system_prompt.unwrap_or(context.system_prompt);
            context.history = history.unwrap_or(context.history);
            let prompts = own.unwrap_or_else(|| prompts.to_vec());
            let checked = check(&context, &prompts).and_then(|()| Ok(config.check_budget()?));
            checked.map_err(|source| ParallelError::Branch { index, source })?;
            context.loop_id = Some(loop_id.clone());
            context.group = Some(setup.member(GroupRole::Branch { index }));
            loops.push(GroupLoop { context, config: Arc::new(config), prompts });
            answers.push(given);
        }
        Ok(Self { setup, loops, answers, is_resumed: true, environment })
    }

    /// Returns the setup with which [`Group::start`] starts the group.
    #[must_use]
    pub fn setup(&self) -> &GroupSetup {
        &self.setup
    }

    /// Returns the loops of the branches, in order.
    #[must_use]
    pub fn loops(&self) -> &[GroupLoop] {
        &self.loops
    }

    /// Returns the time of the first branch's environment, which is the time of the group's events.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.environment.now()
    }

    /// Returns what a strategy evaluates. The strategy sends its events, with those of a judge, to `tx`.
    #[must_use]
    pub fn evaluation<'a>(
        &'a self,
        outcomes: &'a [ParallelLoopOutcome],
        tx: &'a EventSender,
        cancel: &'a CancellationToken,
    ) -> Evaluation<'a> {
        let services = || self.loops.iter().map(|l| &l.config.services);
        let budget: Option<&Budget> = services().find_map(|s| s.budget.as_ref());
        let journal = services().find_map(|s| s.journal.as_ref());
        let telemetry = services().find_map(|s| s.telemetry.as_ref());
        let prompts = self.loops.first().map_or(&[][..], |l| &l.prompts);
        let (group, environment) = (&self.setup, &self.environment);
        let is_resumed = self.is_resumed;
        Evaluation {
            prompts,
            outcomes,
            group,
            environment,
            journal,
            budget,
            telemetry,
            is_resumed,
            tx,
            cancel,
        }
    }

    /// Lets the strategy evaluate the outcomes. A panic of the strategy is an error, and after a cancellation it has the grace
    /// period to return. It sends its events, with those of a judge, to `tx`.
    ///
    /// # Errors
    /// Returns the error of the strategy, [`EvaluationError::Panicked`], or [`EvaluationError::Aborted`].
    pub async fn evaluate(
        &self,
        strategy: &dyn EvaluationStrategy,
        outcomes: &[ParallelLoopOutcome],
        tx: &EventSender,
        cancel: &CancellationToken,
    ) -> Result<Evaluated, EvaluationError> {
        let evaluation = self.evaluation(outcomes, tx, cancel);
        let evaluated = AssertUnwindSafe(async { strategy.evaluate(evaluation).await }).catch_unwind();
        let timed_out = async {
            cancel.cancelled().await;
            self.environment.sleep(crate::run::GRACE).await;
        };
        tokio::select! {
            biased;
            evaluated = evaluated => {
                evaluated.unwrap_or_else(|p| Err(EvaluationError::Panicked(panic_text(&*p))))
            }
            () = timed_out => Err(EvaluationError::Aborted),
        }
    }

    /// Returns where each branch starts: at its beginning, or in a group that is resumed, where its record ends.
    async fn starts(&self) -> Result<Vec<ChildStart>, ParallelError> {
        let mut starts = Vec::with_capacity(self.loops.len());
        for (index, (planned, answers)) in self.loops.iter().zip(&self.answers).enumerate() {
            if !self.is_resumed {
                starts.push(ChildStart::New);
                continue;
            }
            let start = planned.recorded_start(answers).await;
            let start = start.map_err(|source| ParallelError::Journal { source, outcomes: Vec::new() })?;
            let recorded = match &start {
                ChildStart::New => None,
                ChildStart::Resume(run, _) => Some(run.new_messages()),
                ChildStart::Ended(end) => Some(&end.messages),
            };
            if let Some(messages) = recorded.and_then(NewMessages::all) {
                check_prompts(index, messages, planned)?;
            }
            starts.push(start);
        }
        Ok(starts)
    }

    /// Returns the journals of the branches, each once.
    pub(super) fn journals(&self) -> Vec<Arc<dyn Journal>> {
        let mut journals: Vec<Arc<dyn Journal>> = Vec::new();
        for journal in self.loops.iter().filter_map(|l| l.config.services.journal.as_ref()) {
            if !journals.iter().any(|known| Arc::ptr_eq(known, journal)) {
                journals.push(Arc::clone(journal));
            }
        }
        journals
    }
}

fn environment(branches: &[Branch]) -> Result<Arc<dyn Environment>, ParallelError> {
    let first = branches.first().ok_or(ParallelError::NoBranches)?;
    Ok(Arc::clone(&first.config.services.environment))
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

/// Checks that a recorded branch began with the prompts that are given for it. Filters can have added warnings to them.
fn check_prompts(index: usize, recorded: &[MessageRef], planned: &GroupLoop) -> Result<(), ParallelError> {
    let other = |recorded: &MessageRef, given: Option<&AgentMessage>| {
        let given = given.map(AgentMessage::text).unwrap_or_default();
        Err(ParallelError::OtherPrompt { index, recorded: recorded.text(), given })
    };
    for (recorded, given) in recorded.iter().zip(&planned.prompts) {
        let is_same = match (recorded.as_llm(), given.as_llm()) {
            (Some(Message::User(known)), Some(Message::User(given))) => {
                known.content.starts_with(&given.content)
            }
            (known, given) => known.is_some() == given.is_some(),
        };
        if !is_same {
            return other(recorded, Some(given));
        }
    }
    match recorded.first() {
        Some(first) if planned.prompts.is_empty() && planned.config.hooks.queues.steering.is_empty() => {
            if matches!(first.as_llm(), Some(Message::User(_))) { other(first, None) } else { Ok(()) }
        }
        _ => Ok(()),
    }
}

/// A planned group with the receiver and the token of each branch.
pub(crate) struct Prepared {
    pub(crate) plan: GroupPlan,
    pub(crate) outputs: Vec<(EventSender, CancellationToken)>,
    pub(crate) record: Arc<GroupRecord>,
}

/// A group that has ended, with the outcomes of its branches and the error of its strategy.
struct Driven {
    group: Group,
    outcomes: Vec<ParallelLoopOutcome>,
    failed: Option<EvaluationError>,
}

impl Prepared {
    /// Gives each branch a child token of `cancel`.
    pub(crate) fn new(plan: GroupPlan, tx: &EventSender, cancel: &CancellationToken) -> Self {
        let outputs = plan.loops.iter().map(|_| (tx.clone(), cancel.child_token())).collect();
        let record = Arc::new(GroupRecord::of(&plan));
        Self { plan, outputs, record }
    }

    /// Runs the branches and lets the strategy select one.
    pub(crate) async fn run_and_select(
        self,
        strategy: &dyn EvaluationStrategy,
        tx: &EventSender,
        cancel: &CancellationToken,
    ) -> Result<ParallelLoopResult, ParallelError> {
        let Driven { group, mut outcomes, failed } = self.drive(Some(strategy), tx, cancel).await?;
        let source = match group.ended().cloned() {
            Some(GroupEnd::Selected { evaluated }) if evaluated.decision.index() < outcomes.len() => {
                return Ok(ParallelLoopResult {
                    group_id: group.setup().group_id.clone(),
                    selected: outcomes.remove(evaluated.decision.index()),
                    others: outcomes,
                    usage: group.usage(),
                    decision: evaluated.decision,
                    judge_loop_id: evaluated.judge_loop_id,
                });
            }
            Some(GroupEnd::Aborted {}) => return Err(ParallelError::Aborted { outcomes }),
            Some(GroupEnd::OutOfRange { index, branches }) => EvaluationError::OutOfRange { index, branches },
            other => {
                let reason = || other.and_then(|end| end.reason()).unwrap_or_default();
                failed.unwrap_or_else(|| EvaluationError::Failed(reason().into()))
            }
        };
        Err(ParallelError::Evaluation { source, outcomes })
    }

    /// Runs the branches without selecting one.
    pub(crate) async fn run(
        mut self,
        tx: &EventSender,
        cancel: &CancellationToken,
    ) -> Result<Vec<ParallelLoopOutcome>, ParallelError> {
        self.plan.setup.selects = false;
        Ok(self.drive(None, tx, cancel).await?.outcomes)
    }

    /// Performs the steps of the group until it ends, in the span of the group.
    async fn drive(
        self,
        strategy: Option<&dyn EvaluationStrategy>,
        tx: &EventSender,
        cancel: &CancellationToken,
    ) -> Result<Driven, ParallelError> {
        let setup = &self.plan.setup;
        let span = group_span(setup.group_id.as_str(), setup.session_id.as_str());
        self.perform(strategy, tx, cancel).instrument(span).await
    }

    async fn perform(
        self,
        strategy: Option<&dyn EvaluationStrategy>,
        tx: &EventSender,
        cancel: &CancellationToken,
    ) -> Result<Driven, ParallelError> {
        let (mut outcomes, mut failed) = (Vec::new(), None);
        let mut starts = self.plan.starts().await?;
        let mut open = match Open::start(&self.plan, &self.record, tx).await {
            Ok(open) => open,
            Err(source) => return Err(ParallelError::Journal { source, outcomes }),
        };
        loop {
            let inputs: Vec<GroupInput> = match open.group.next() {
                GroupStep::RunBranches { .. } => {
                    outcomes = self.run_all(std::mem::take(&mut starts)).await;
                    outcomes.iter().map(GroupInput::from).collect()
                }
                GroupStep::AwaitAnswers { .. } => {
                    let error = ParallelError::Waiting { outcomes };
                    open.leave(error.to_string());
                    return Err(error);
                }
                GroupStep::Evaluate { .. } => {
                    let evaluated = match strategy {
                        Some(strategy) => self.plan.evaluate(strategy, &outcomes, tx, cancel).await,
                        None => Err(EvaluationError::NoCandidate),
                    };
                    vec![match evaluated {
                        Ok(evaluated) => GroupInput::Evaluated { evaluated },
                        Err(error) => {
                            let reason = error.to_string();
                            failed = Some(error);
                            GroupInput::EvaluationFailed { reason }
                        }
                    }]
                }
                GroupStep::Done(_) => break,
            };
            let abort = cancel.is_cancelled().then_some(GroupInput::Abort {});
            for input in abort.into_iter().chain(inputs) {
                if let Err(source) = open.apply(input).await {
                    return Err(ParallelError::Journal { source, outcomes });
                }
            }
        }
        Ok(Driven { group: open.group.clone(), outcomes, failed })
    }

    /// Prepares all branches before it drives the first, so that each one emits an end even if another one fails.
    async fn run_all(&self, starts: Vec<ChildStart>) -> Vec<ParallelLoopOutcome> {
        let (mut driving, loops) = (Vec::with_capacity(starts.len()), &self.plan.loops);
        for ((of, (tx, cancel)), start) in loops.iter().zip(&self.outputs).zip(starts) {
            driving.push((of, of.begin_from(start, tx, cancel), tx, cancel));
        }
        let driven = driving.into_iter().map(|(of, driving, tx, cancel)| of.drive(driving, tx, cancel));
        let driven = join_all(driven).await;
        let outcome = |(index, (of, driven))| ParallelLoopOutcome::of(index, of, driven);
        self.plan.loops.iter().zip(driven).enumerate().map(outcome).collect()
    }
}
