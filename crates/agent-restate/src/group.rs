//! Drives a group of branches for the session: each recorded step advances every open branch by one step, and the
//! evaluation is a step of its own.

use std::pin::pin;
use std::sync::{Arc, PoisonError};

use agent_core::drive::{AgentContext, GroupLoop, event_channel};
use agent_core::evaluation::EvaluationError;
use agent_core::event::{Answer, NumberedEvent, Question};
use agent_core::history::History;
use agent_core::identity::{LoopId, QuestionId};
use agent_core::message::AgentMessage;
use agent_core::parallel::{
    BranchEnd, Group, GroupCheckpoint, GroupInput, GroupPlan, GroupStep, ParallelError, ParallelLoopOutcome,
};
use agent_core::run::{Checkpoint, Run};
use agent_core::{CancellationToken, Timestamp};
use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::value::RawValue;

use crate::agent::{Branches, Prepared};
use crate::driver::{Driver, StepError, Work, check_form};
use crate::error::Refusal;
use crate::record::{
    BranchResult, BranchesEnd, FORM, Flow, GroupRecord, GroupStart, MemberRecord, WaitingGroup,
};
use crate::running::{RunningSession, SharedEvents};

/// How a group continues after a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GroupFlow {
    Step,
    /// Branches wait for answers about calls whose outcome is unknown.
    Waiting,
    Ended,
    Refused(Refusal),
}

/// Drives one group in one attempt of one invocation.
pub(crate) struct GroupDriver {
    agent: Arc<Prepared>,
    session: String,
    prompts: Vec<AgentMessage>,
    /// The conversation before the group.
    base: History,
    /// The last loop of that conversation.
    parent: Option<LoopId>,
    attempt: String,
    cancel: CancellationToken,
    started: Option<Started>,
    /// The recorded events that are not stored yet.
    events: SharedEvents,
    step: u32,
}

/// A group that has started.
struct Started {
    plan: GroupPlan,
    group: Group,
    members: Vec<Member>,
}

/// A branch and its next work; none after it has ended.
struct Member {
    driver: Driver,
    work: Option<Work>,
    /// Why the branch could not start.
    refused: Option<String>,
}

/// What continues a group whose branches wait.
pub(crate) enum Resumption {
    Answer { question: QuestionId, answer: Answer },
    Abort,
}

impl GroupDriver {
    pub(crate) fn new(
        agent: Arc<Prepared>,
        session: String,
        prompts: Vec<AgentMessage>,
        base: History,
        parent: Option<LoopId>,
    ) -> Self {
        Self {
            agent,
            session,
            prompts,
            base,
            parent,
            attempt: uuid::Uuid::new_v4().simple().to_string(),
            cancel: CancellationToken::new(),
            started: None,
            events: SharedEvents::default(),
            step: 0,
        }
    }

    /// Creates a driver for a group whose branches wait.
    ///
    /// # Errors
    /// Returns an error if the branches of the agent are others than those of the group, and a refusal if no branch waits
    /// for the answer.
    pub(crate) fn resuming(
        agent: Arc<Prepared>,
        session: String,
        waiting: WaitingGroup,
        base: History,
        resumption: Resumption,
    ) -> Result<Result<Self, Refusal>, StepError> {
        let WaitingGroup { prompts, group, members } = waiting;
        let group = group.into_group();
        let parent = group.setup().parent_loop_id.clone();
        let mut driver = Self::new(agent, session, prompts, base, parent);
        let list = driver.branches()?.list.clone();
        let plan = GroupPlan::resume(group.setup().clone(), &driver.prompts, driver.context(), list)?;
        let runs = members.into_iter().map(|member| member.map(Checkpoint::into_run));
        let members = plan.loops().iter().zip(runs).map(|(planned, run)| driver.member(planned, run));
        let mut started = Started { members: members.collect(), plan, group };
        match resumption {
            Resumption::Answer { question, answer } => {
                let Some((member, question)) = started.find_question(&question) else {
                    return Ok(Err(Refusal::NotAsked { question }));
                };
                member.work = Some(Work::Answer { question, answer });
            }
            Resumption::Abort => {
                driver.cancel.cancel();
                for (_, member) in started.waiting() {
                    member.work = Some(Work::Abort);
                }
            }
        }
        driver.started = Some(started);
        Ok(Ok(driver))
    }

    /// Returns the group whose branches wait, and their questions.
    pub(crate) fn waiting(&self) -> Option<(WaitingGroup, Vec<Question>)> {
        let started = self.started.as_ref()?;
        let GroupStep::AwaitAnswers { waiting, .. } = started.group.next() else { return None };
        let run = |member: &Member| member.driver.run().map(Checkpoint::of);
        let members = started.members.iter().map(run).collect();
        let group = GroupCheckpoint::of(&started.group);
        let mut questions = Vec::new();
        for index in waiting {
            let open = started.members.get(index).and_then(|member| member.driver.run());
            for mut question in open.map(Run::questions).unwrap_or_default() {
                question.id = branch_question(index, &question.id);
                questions.push(question);
            }
        }
        Some((WaitingGroup { prompts: self.prompts.clone(), group, members }, questions))
    }

    fn member(&self, planned: &GroupLoop, run: Option<Run>) -> Member {
        let (agent, session) = (Arc::clone(&self.agent), self.session.clone());
        let driver = Driver::member(agent, session, planned, run, self.cancel.child_token());
        Member { driver, work: None, refused: None }
    }

    /// Returns the token whose cancellation aborts the group in this process.
    pub(crate) fn cancel_token(&self) -> &CancellationToken {
        &self.cancel
    }

    pub(crate) fn events(&self) -> &SharedEvents {
        &self.events
    }

    /// Returns what this process knows of the session while the invocation drives it. The session has so many events before.
    pub(crate) fn running(&self, invocation: &str, first: u64) -> RunningSession {
        RunningSession {
            invocation: invocation.to_owned(),
            attempt: self.attempt.clone(),
            cancel: self.cancel.clone(),
            first,
            events: Arc::clone(&self.events),
        }
    }

    /// Returns the name of the next step: the same in every attempt.
    pub(crate) fn step_name(&self) -> String {
        let at = self.step;
        match self.started.as_ref().map(|started| started.group.next()) {
            None => format!("{at} start"),
            Some(
                GroupStep::RunBranches { key, .. }
                | GroupStep::AwaitAnswers { key, .. }
                | GroupStep::Evaluate { key },
            ) => format!("{at} {}", key.as_str()),
            Some(_) => format!("{at} settle"),
        }
    }

    /// Performs a step and returns its record as JSON.
    pub(crate) async fn perform(&mut self) -> Result<Bytes, StepError> {
        let mut record = GroupRecord {
            form: FORM,
            start: None,
            refused: None,
            members: Vec::new(),
            evaluated: None,
            events: Vec::new(),
            aborted: false,
            now: Timestamp(0),
        };
        if self.started.is_none() {
            match self.plan() {
                Ok(plan) => {
                    let start = GroupStart { setup: plan.setup().clone(), now: plan.now() };
                    self.begin(plan, start.now);
                    record.start = Some(Box::new(start));
                }
                Err(refusal) => {
                    record.refused = Some(refusal);
                    return Ok(serde_json::to_vec(&record)?.into());
                }
            }
        }
        let Some(started) = &mut self.started else { return Err(StepError::NoRun) };
        match started.group.next() {
            GroupStep::RunBranches { .. } | GroupStep::AwaitAnswers { .. } => {
                record.members = started.perform_members().await?;
            }
            GroupStep::Evaluate { .. } => {
                let (evaluated, events) = self.evaluate().await;
                (record.evaluated, record.events) = (Some(evaluated), events);
            }
            _ => {}
        }
        record.aborted = self.cancel.is_cancelled();
        record.now = self.started.as_ref().map_or(record.now, |started| started.plan.now());
        Ok(serde_json::to_vec(&record)?.into())
    }

    /// Accepts the record that the engine returns: of the step that was just performed, or in a replay of one that an
    /// earlier attempt performed.
    pub(crate) fn accept(&mut self, record: &Bytes) -> Result<GroupFlow, StepError> {
        check_form(record)?;
        let record: GroupRecord = serde_json::from_slice(record)?;
        if let Some(refusal) = record.refused {
            return Ok(GroupFlow::Refused(refusal));
        }
        if let (Some(start), None) = (record.start, &self.started) {
            let GroupStart { setup, now } = *start;
            let plan =
                GroupPlan::resume(setup, &self.prompts, self.context(), self.branches()?.list.clone())?;
            self.begin(plan, now);
        }
        let Some(started) = &mut self.started else { return Err(StepError::NoRun) };
        let (mut fresh, mut inputs) = (Vec::new(), Vec::new());
        for MemberRecord { branch, step } in record.members {
            let step = Bytes::from(String::from(Box::<str>::from(step)));
            match started.accept(branch, &step, &mut fresh)? {
                MemberFlow::Step => {}
                MemberFlow::Ended(input) => inputs.push(*input),
                MemberFlow::Refused(refusal) => return Ok(GroupFlow::Refused(refusal)),
            }
        }
        fresh.extend(record.events);
        inputs.extend(record.evaluated);
        if record.aborted && !inputs.is_empty() {
            inputs.insert(0, GroupInput::Abort {});
        }
        let mut events = Vec::new();
        for input in inputs {
            started.group.apply(record.now, input, &mut events)?;
        }
        fresh.extend(events.into_iter().map(|event| started.group.numbered(event)));
        let flow = match started.group.next() {
            GroupStep::Done(_) => GroupFlow::Ended,
            GroupStep::AwaitAnswers { .. } if !started.has_work() => GroupFlow::Waiting,
            _ => GroupFlow::Step,
        };
        self.events.lock().unwrap_or_else(PoisonError::into_inner).append(&mut fresh);
        self.step += 1;
        Ok(flow)
    }

    /// Returns the end of the group and the run of the selected branch; `None` before the end.
    pub(crate) fn end(&self) -> Option<(BranchesEnd, Option<&Run>)> {
        let started = self.started.as_ref()?;
        let end = started.group.ended()?.clone();
        let branches = started.outcomes().map(|outcome| BranchResult {
            loop_id: outcome.loop_id,
            end: outcome.end,
            reply: outcome.context.history.last_reply().cloned(),
            usage: outcome.usage,
        });
        let group_id = started.group.setup().group_id.clone();
        let usage = started.group.usage();
        let end = BranchesEnd { group_id, end, branches: branches.collect(), usage };
        let selected = end.selected().map(|branch| branch.loop_id.clone());
        let run = selected.and_then(|selected| {
            started
                .members
                .iter()
                .filter_map(|member| member.driver.run())
                .find(|run| *run.loop_id() == selected)
        });
        Some((end, run))
    }

    fn branches(&self) -> Result<&Branches, StepError> {
        self.agent.branches.as_ref().ok_or(StepError::Branches(ParallelError::NoBranches))
    }

    fn context(&self) -> AgentContext {
        let mut context = AgentContext::new(Arc::clone(&self.agent.system_prompt))
            .with_shared_tools(self.agent.tools.clone());
        context.agent_id = Some(self.agent.name.as_str().into());
        context.session_id = Some(self.session.as_str().into());
        context.parent_loop_id.clone_from(&self.parent);
        context.history = self.base.clone();
        context
    }

    fn plan(&self) -> Result<GroupPlan, Refusal> {
        let Some(branches) = &self.agent.branches else { return Err(Refusal::NoBranches) };
        GroupPlan::new(&self.prompts, self.context(), branches.list.clone())
            .map_err(|error| Refusal::Prompt { reason: error.to_string() })
    }

    /// Starts the group of a plan.
    fn begin(&mut self, plan: GroupPlan, now: Timestamp) {
        let mut events = Vec::new();
        let group = Group::start(plan.setup().clone(), now, &mut events);
        let events = events.into_iter().map(|event| group.numbered(event));
        self.events.lock().unwrap_or_else(PoisonError::into_inner).extend(events);
        let member = |planned: &GroupLoop| {
            let (setup, prompts) = (Box::new(planned.setup()), planned.prompts.clone());
            Member { work: Some(Work::Start { setup, prompts }), ..self.member(planned, None) }
        };
        let members = plan.loops().iter().map(member).collect();
        self.started = Some(Started { plan, group, members });
    }

    /// Lets the strategy select a branch, and returns its result with its recorded events. After an abort, and after twice
    /// the longest step, it has the grace period to return.
    async fn evaluate(&self) -> (GroupInput, Vec<NumberedEvent>) {
        let failed = |error: &EvaluationError| GroupInput::EvaluationFailed { reason: error.to_string() };
        let (Some(started), Ok(branches)) = (&self.started, self.branches()) else {
            return (failed(&EvaluationError::NoCandidate), Vec::new());
        };
        let outcomes: Vec<_> = started.outcomes().collect();
        let (tx, rx) = event_channel();
        let cancel = self.cancel.child_token();
        let environment = &self.agent.config.services.environment;
        let evaluated = {
            let mut evaluating = pin!(started.plan.evaluate(&*branches.strategy, &outcomes, &tx, &cancel));
            tokio::select! {
                biased;
                evaluated = &mut evaluating => evaluated,
                () = environment.deadline(self.agent.longest_step.saturating_mul(2)) => {
                    cancel.cancel();
                    evaluating.await
                }
            }
        };
        drop(tx);
        let mut events = rx.collect_numbered().await;
        events.retain(|event| !event.is_live());
        (
            evaluated.map_or_else(|error| failed(&error), |evaluated| GroupInput::Evaluated { evaluated }),
            events,
        )
    }
}

/// How a branch continues after a step.
enum MemberFlow {
    Step,
    /// It has ended or waits for an answer, which this input reports.
    Ended(Box<GroupInput>),
    /// It has refused an answer, and is unchanged.
    Refused(Refusal),
}

/// Returns the id that a question of a branch has in the session, where the questions of all branches are.
fn branch_question(index: usize, id: &QuestionId) -> QuestionId {
    QuestionId::from(format!("branch-{index}/{id}"))
}

impl Started {
    fn has_work(&self) -> bool {
        self.members.iter().any(|member| member.work.is_some())
    }

    /// Returns the branches that wait for answers about calls whose outcome is unknown.
    fn waiting(&mut self) -> impl Iterator<Item = (usize, &mut Member)> {
        let waiting = match self.group.next() {
            GroupStep::AwaitAnswers { waiting, .. } => waiting,
            _ => Vec::new(),
        };
        self.members.iter_mut().enumerate().filter(move |(index, _)| waiting.contains(index))
    }

    /// Returns the branch that asked this question of the session, and the question's id in the branch.
    fn find_question(&mut self, question: &QuestionId) -> Option<(&mut Member, QuestionId)> {
        self.waiting().find_map(|(index, member)| {
            let open = member.driver.run().map(Run::questions).unwrap_or_default();
            let id = open.into_iter().map(|q| q.id).find(|id| branch_question(index, id) == *question)?;
            Some((member, id))
        })
    }

    /// Performs the next step of every open branch concurrently.
    async fn perform_members(&mut self) -> Result<Vec<MemberRecord>, StepError> {
        let steps =
            self.members.iter_mut().enumerate().filter_map(|(branch, Member { driver, work, .. })| {
                let work = work.take()?;
                Some(async move { (branch, driver.perform(work, Vec::new()).await) })
            });
        let performed = join_all(steps).await;
        let record = |(branch, step): (usize, Result<Bytes, StepError>)| {
            let step: Box<RawValue> = serde_json::from_slice(&step?)?;
            Ok(MemberRecord { branch, step })
        };
        performed.into_iter().map(record).collect()
    }

    /// Accepts the step of a branch.
    fn accept(
        &mut self,
        branch: usize,
        step: &Bytes,
        fresh: &mut Vec<NumberedEvent>,
    ) -> Result<MemberFlow, StepError> {
        let Some(member) = self.members.get_mut(branch) else { return Err(StepError::NoRun) };
        let accepted = member.driver.accept(step)?;
        // In a replay, nothing has taken it.
        member.work = None;
        fresh.append(&mut member.driver.events().lock().unwrap_or_else(PoisonError::into_inner));
        match accepted.flow {
            Flow::Step => member.work = Some(Work::Step),
            Flow::Began { nonce } => member.work = Some(Work::Execute { nonce }),
            Flow::Sleep { .. } => member.work = Some(Work::Slept),
            Flow::Suspended | Flow::Ended => return self.report(branch),
            Flow::Refused { refusal } if member.driver.run().is_some() => {
                return Ok(MemberFlow::Refused(refusal));
            }
            Flow::Refused { refusal } => {
                member.refused = Some(refusal.to_string());
                return self.report(branch);
            }
        }
        Ok(MemberFlow::Step)
    }

    fn report(&self, branch: usize) -> Result<MemberFlow, StepError> {
        let outcome = self.outcome(branch).ok_or(StepError::NoRun)?;
        Ok(MemberFlow::Ended(Box::new(GroupInput::from(&outcome))))
    }

    /// Returns the outcome of a branch; `None` before its first step.
    fn outcome(&self, branch: usize) -> Option<ParallelLoopOutcome> {
        let (member, planned) = (self.members.get(branch)?, self.plan.loops().get(branch)?);
        if let Some(reason) = &member.refused {
            let (context, end) = (planned.context.clone(), BranchEnd::NotBegun { reason: reason.clone() });
            let loop_id = planned.setup().loop_id;
            return Some(ParallelLoopOutcome::new(branch, loop_id, context, end));
        }
        Some(ParallelLoopOutcome::of_run(branch, planned, member.driver.run()?.clone()))
    }

    fn outcomes(&self) -> impl Iterator<Item = ParallelLoopOutcome> {
        (0..self.members.len()).filter_map(|branch| self.outcome(branch))
    }
}
