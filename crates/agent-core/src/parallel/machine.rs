//! A group of parallel loops as a pure state machine.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::ParallelUsage;
use crate::evaluation::{BranchEnd, Evaluated, EvaluationError, GroupSetup, ParallelLoopOutcome};
use crate::event::{AgentEvent, NumberedEvent, ParallelLoopEnd, ParallelLoopStart};
use crate::identity::{StepKey, Timestamp};
use crate::message::Usage;
use crate::run::form::{self, read_with_form};
use crate::run::{FORM, Misplaced, ReadError};

/// The state of a group of parallel loops: which branches have ended and how, and which one was selected.
///
/// It decides what to do next and emits the events of the group, as [`Run`](crate::run::Run) does for one loop. The
/// loops of the branches and of a judge are runs that are stored beside it. [`GroupCheckpoint`] writes it for another
/// process.
///
/// ```
/// use agent_core::evaluation::{BranchEnd, Evaluated};
/// use agent_core::parallel::{Group, GroupEnd, GroupInput, GroupSetup, GroupStep};
/// use agent_core::{Ended, Timestamp, Usage};
///
/// let mut setup = GroupSetup::new("s-1.parallel.7-group".into(), "s-1".into(), "a-1".into(), Timestamp(1));
/// setup.loop_ids = vec![setup.branch_id("demo", 0), setup.branch_id("demo", 1)];
/// let mut events = Vec::new();
/// let mut group = Group::start(setup, Timestamp(1), &mut events);
/// for index in 0..2 {
///     let (end, usage) = (BranchEnd::Ended(Ended::Completed), Usage::new(10, 1, 0, 0));
///     let ended = GroupInput::BranchEnded { index, end, usage, tool_usage: Usage::default() };
///     group.apply(Timestamp(2), ended, &mut events)?;
/// }
/// assert!(matches!(group.next(), GroupStep::Evaluate { .. }));
/// group.apply(Timestamp(3), GroupInput::Evaluated { evaluated: Evaluated::select(1) }, &mut events)?;
/// assert!(matches!(group.ended(), Some(GroupEnd::Selected { .. })));
/// assert_eq!((events.len(), group.usage().branches.input), (2, 20));
/// # Ok::<(), agent_core::run::Misplaced>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    setup: GroupSetup,
    /// The ends of the branches; `None` for a branch that has not ended.
    branches: Vec<Option<BranchReport>>,
    aborted: bool,
    end: Option<GroupEnd>,
}

/// What the group knows about a branch that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BranchReport {
    end: BranchEnd,
    usage: Usage,
    tool_usage: Usage,
}

/// The next step that the driver of a group performs. Its key is the same in every process that reaches the step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum GroupStep {
    /// Run these branches concurrently or one after the other; apply `BranchEnded` for each.
    RunBranches {
        /// The key of the step.
        key: StepKey,
        /// The indexes of the branches that have not ended, from 0.
        open: Vec<usize>,
    },
    /// Wait: these branches have a call that had started when a process ended, and its outcome is unknown. Once they are
    /// answered, drive them again and apply `BranchEnded` for each. Nothing is selected before.
    AwaitAnswers {
        /// The key of the step.
        key: StepKey,
        /// The indexes of the branches that wait, from 0.
        waiting: Vec<usize>,
    },
    /// Let the strategy select a branch; apply `Evaluated` or `EvaluationFailed`.
    Evaluate {
        /// The key of the step.
        key: StepKey,
    },
    /// The group has ended; nothing remains to perform.
    Done(GroupEnd),
}

/// A result or a request that the driver reports to the group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "input", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum GroupInput {
    /// A branch ended, could not start, or waits for an answer that the driver does not wait for.
    BranchEnded {
        /// The index of the branch, from 0.
        index: usize,
        /// How the branch ended.
        end: BranchEnd,
        /// The tokens of its turns.
        usage: Usage,
        /// The tokens that its tools used themselves.
        tool_usage: Usage,
    },
    /// The strategy selected a branch. An index out of range ends the group without a selection.
    Evaluated {
        /// The selection and its cost.
        evaluated: Evaluated,
    },
    /// The strategy selected no branch.
    EvaluationFailed {
        /// The text of the error.
        reason: String,
    },
    /// The group was aborted. The driver aborts the open branches or the evaluation, and reports their ends as usual.
    /// Nothing is evaluated afterwards. A selection that was already made is accepted.
    Abort {},
    /// The driver stops, and no other one continues the group. The group ends at once.
    Interrupted {
        /// The reason for which it stops.
        reason: String,
    },
}

/// How a group ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum GroupEnd {
    /// All branches have ended, and no selection was wanted.
    Ran {},
    /// A branch was selected.
    Selected {
        /// The selection and its cost.
        evaluated: Evaluated,
    },
    /// The strategy selected no branch.
    NotSelected {
        /// The text of its error.
        reason: String,
    },
    /// The strategy selected a branch that does not exist.
    OutOfRange {
        /// The index that it selected.
        index: usize,
        /// The number of branches.
        branches: usize,
    },
    /// The group was aborted before a branch was selected.
    Aborted {},
    /// The driver stopped before the group had ended.
    Interrupted {
        /// The reason for which it stopped.
        reason: String,
    },
}

impl GroupInput {
    /// Returns the name of the input, as its JSON has it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::BranchEnded { .. } => "branch_ended",
            Self::Evaluated { .. } => "evaluated",
            Self::EvaluationFailed { .. } => "evaluation_failed",
            Self::Abort {} => "abort",
            Self::Interrupted { .. } => "interrupted",
        }
    }
}

/// Returns the input that reports the outcome of a branch.
impl From<&ParallelLoopOutcome> for GroupInput {
    fn from(outcome: &ParallelLoopOutcome) -> Self {
        let (index, end) = (outcome.index, outcome.end.clone());
        Self::BranchEnded { index, end, usage: outcome.usage, tool_usage: outcome.tool_usage }
    }
}

impl GroupEnd {
    /// Returns the reason that the event of the end contains; `None` if a strategy selected a branch or none was
    /// wanted.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Ran {} => None,
            Self::Selected { evaluated } => evaluated.decision.reason().map(str::to_owned),
            Self::NotSelected { reason } | Self::Interrupted { reason } => Some(reason.clone()),
            Self::OutOfRange { index, branches } => {
                Some(EvaluationError::OutOfRange { index: *index, branches: *branches }.to_string())
            }
            Self::Aborted {} => Some("the branches were aborted".to_owned()),
        }
    }
}

impl Group {
    /// Starts a group and appends its `ParallelLoopStart` to `out`. Without branches it continues after their end.
    #[must_use]
    pub fn start(setup: GroupSetup, now: Timestamp, out: &mut Vec<AgentEvent>) -> Self {
        out.push(AgentEvent::ParallelLoopStart(Box::new(ParallelLoopStart {
            group_id: setup.group_id.clone(),
            session_id: setup.session_id.clone(),
            agent_id: setup.agent_id.clone(),
            parent_loop_id: setup.parent_loop_id.clone(),
            loop_ids: setup.loop_ids.clone(),
            timestamp: now,
        })));
        let mut group = Self::resume(setup);
        group.end_without_evaluation(now, out);
        group
    }

    /// Continues a group whose start is recorded, and emits no event. The branches whose ends are recorded are applied as
    /// [`BranchEnded`](GroupInput::BranchEnded), like those that end later.
    #[must_use]
    pub fn resume(setup: GroupSetup) -> Self {
        let branches = setup.loop_ids.iter().map(|_| None).collect();
        Self { setup, branches, aborted: false, end: None }
    }

    /// Returns the next step for the driver to perform. Does not change the group, so repeated calls return the same
    /// step.
    #[must_use]
    pub fn next(&self) -> GroupStep {
        if let Some(end) = &self.end {
            return GroupStep::Done(end.clone());
        }
        let open: Vec<_> = self.open().collect();
        if !open.is_empty() {
            return GroupStep::RunBranches { key: StepKey::from("branches"), open };
        }
        let waiting: Vec<_> = self.waiting().collect();
        if !waiting.is_empty() {
            return GroupStep::AwaitAnswers { key: StepKey::from("answers"), waiting };
        }
        GroupStep::Evaluate { key: StepKey::from("evaluate") }
    }

    /// Applies `input`, which happened at `now`, and appends the resulting events to `out`.
    ///
    /// # Errors
    /// Returns [`Misplaced`] if the input does not match the current step. The group is unchanged then, and no event is
    /// emitted.
    pub fn apply(
        &mut self,
        now: Timestamp,
        input: GroupInput,
        out: &mut Vec<AgentEvent>,
    ) -> Result<(), Misplaced> {
        let name = input.name();
        self.accept(now, input, out).map_err(|reason| Misplaced { input: name, reason })
    }

    /// Returns an event of the group with its number: 1 for the start, and 2 for the end.
    #[must_use]
    pub fn numbered(&self, event: AgentEvent) -> NumberedEvent {
        let number = if matches!(event, AgentEvent::ParallelLoopStart(_)) { 1 } else { 2 };
        let parent_loop_id = self.setup.parent_loop_id.clone();
        NumberedEvent { parent_loop_id, ..NumberedEvent::new(number, event) }
    }

    /// Returns the setup of the group.
    #[must_use]
    pub fn setup(&self) -> &GroupSetup {
        &self.setup
    }

    /// Returns how the group ended; `None` if it has not ended.
    #[must_use]
    pub fn ended(&self) -> Option<&GroupEnd> {
        self.end.as_ref()
    }

    /// Returns the tokens of the branches that have ended and of the evaluation.
    #[must_use]
    pub fn usage(&self) -> ParallelUsage {
        let sum = |part: fn(&BranchReport) -> &Usage| {
            self.branches.iter().flatten().fold(Usage::default(), |sum, report| sum.combine(part(report)))
        };
        let evaluation = match &self.end {
            Some(GroupEnd::Selected { evaluated }) => evaluated.usage,
            _ => Usage::default(),
        };
        ParallelUsage { branches: sum(|r| &r.usage), tools: sum(|r| &r.tool_usage), evaluation }
    }

    /// Returns the branches that have not ended and do not wait.
    fn open(&self) -> impl Iterator<Item = usize> {
        self.branches_that(Option::is_none)
    }

    /// Returns the branches that wait for an answer about a call whose outcome is unknown.
    fn waiting(&self) -> impl Iterator<Item = usize> {
        self.branches_that(|report| report.as_ref().is_some_and(|report| report.end.has_unknown_outcome()))
    }

    fn branches_that(&self, test: fn(&Option<BranchReport>) -> bool) -> impl Iterator<Item = usize> {
        let found = self.branches.iter().enumerate().filter(move |(_, report)| test(report));
        found.map(|(index, _)| index)
    }

    fn accept(&mut self, now: Timestamp, input: GroupInput, out: &mut Vec<AgentEvent>) -> Result<(), String> {
        if self.end.is_some() {
            return Err("the group has ended".to_owned());
        }
        match input {
            GroupInput::BranchEnded { index, end, usage, tool_usage } => {
                match self.branches.get_mut(index) {
                    Some(Some(report)) if !report.end.has_unknown_outcome() => {
                        return Err(format!("branch {index} has already ended"));
                    }
                    Some(open) => *open = Some(BranchReport { end, usage, tool_usage }),
                    None => return Err(format!("there is no branch {index}")),
                }
                self.end_without_evaluation(now, out);
            }
            GroupInput::Evaluated { evaluated } => {
                self.check_evaluating()?;
                let (index, branches) = (evaluated.decision.index(), self.branches.len());
                match index < branches {
                    true => self.finish(now, GroupEnd::Selected { evaluated }, out),
                    false => self.finish_unselected(now, GroupEnd::OutOfRange { index, branches }, out),
                }
            }
            GroupInput::EvaluationFailed { reason } => {
                self.check_evaluating()?;
                self.finish_unselected(now, GroupEnd::NotSelected { reason }, out);
            }
            GroupInput::Abort {} => self.aborted = true,
            GroupInput::Interrupted { reason } => self.finish(now, GroupEnd::Interrupted { reason }, out),
        }
        Ok(())
    }

    fn check_evaluating(&self) -> Result<(), String> {
        self.unfinished().map_or(Ok(()), |open| Err(format!("branch {open} has not ended")))
    }

    /// Returns a branch that has not ended, or waits with a call whose outcome is unknown.
    fn unfinished(&self) -> Option<usize> {
        self.open().chain(self.waiting()).next()
    }

    /// Ends the group if all branches have ended and no evaluation follows.
    fn end_without_evaluation(&mut self, now: Timestamp, out: &mut Vec<AgentEvent>) {
        if self.unfinished().is_some() {
            return;
        }
        if !self.setup.selects {
            self.finish(now, GroupEnd::Ran {}, out);
        } else if self.aborted {
            self.finish(now, GroupEnd::Aborted {}, out);
        }
    }

    /// Ends the group after an evaluation without a selection. The cause of it is the abort, if there was one.
    fn finish_unselected(&mut self, now: Timestamp, end: GroupEnd, out: &mut Vec<AgentEvent>) {
        self.finish(now, if self.aborted { GroupEnd::Aborted {} } else { end }, out);
    }

    fn finish(&mut self, now: Timestamp, end: GroupEnd, out: &mut Vec<AgentEvent>) {
        let (group, session) = (self.setup.group_id.clone(), self.setup.session_id.clone());
        let mut event = ParallelLoopEnd { reason: end.reason(), ..ParallelLoopEnd::new(group, session, now) };
        if let GroupEnd::Selected { evaluated } = &end {
            let index = evaluated.decision.index();
            event.selected_loop_id = self.setup.loop_ids.get(index).cloned();
            event.selected_config_index = Some(index);
            event.evaluation_usage = evaluated.usage;
            event.judge_loop_id.clone_from(&evaluated.judge_loop_id);
        }
        out.push(AgentEvent::ParallelLoopEnd(Box::new(event)));
        self.end = Some(end);
    }
}

/// A group with the form in which it is written. The runs of its loops are written as
/// [`Checkpoint`](crate::run::Checkpoint)s of their own.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GroupCheckpoint {
    /// The form of the group; always [`FORM`].
    pub form: u32,
    /// The group with its setup.
    pub group: Group,
}

impl GroupCheckpoint {
    /// Returns the group in the current form.
    #[must_use]
    pub fn of(group: &Group) -> Self {
        Self { form: FORM, group: group.clone() }
    }

    /// Reads a group from its JSON text.
    ///
    /// # Errors
    /// Returns [`ReadError::Form`] for another form, and [`ReadError::Json`] for a text that is not a group or has
    /// unknown fields.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        form::read(text)
    }

    /// Returns the group, which continues where it was written.
    #[must_use]
    pub fn into_group(self) -> Group {
        self.group
    }
}

read_with_form!(GroupCheckpoint { group: Group });
