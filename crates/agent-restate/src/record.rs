//! What a step leaves in the engine's journal, and the messages between the parts of a session.
//!
//! A step records the inputs of the run with their times, never the run. A replay applies them again and executes
//! nothing.

use agent_core::Timestamp;
use agent_core::event::{AgentEvent, NumberedEvent};
use agent_core::event::{Answer, Ended, Question};
use agent_core::identity::{LoopId, QuestionId};
use agent_core::journal::AppliedInput;
use agent_core::message::{AgentMessage, AssistantMessage, Usage};
use agent_core::parallel::{BranchEnd, GroupCheckpoint, GroupEnd, GroupInput, GroupSetup, ParallelUsage};
use agent_core::run::{Checkpoint, ReadError, RunCheckpoint, RunSetup};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::Refusal;

/// The form of the records and of the state of a session. A version with another form refuses them.
pub const FORM: u32 = 1;

/// The record of a step in the engine's journal.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StepRecord {
    /// The form of the record.
    pub(crate) form: u32,
    /// The number of messages from the mailbox that the step applied.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) mails: usize,
    /// The start of the run, if the step started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) start: Option<Box<StartRecord>>,
    /// The inputs that were applied and the events of child loops, in their order.
    pub(crate) items: Vec<Item>,
    /// How the session continues.
    pub(crate) flow: Flow,
}

/// The start of a run as data, so that a replay depends neither on the clock nor on the configuration.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StartRecord {
    pub(crate) setup: RunSetup,
    pub(crate) checkpoint: RunCheckpoint,
    pub(crate) events: Vec<AgentEvent>,
}

/// The record of a step of a group in the engine's journal: one step of each open branch, or the evaluation.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GroupRecord {
    /// The form of the record.
    pub(crate) form: u32,
    /// The start of the group, if the step started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) start: Option<Box<GroupStart>>,
    /// The reason for which the group was not started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<Refusal>,
    /// The steps of the branches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) members: Vec<MemberRecord>,
    /// The result of the evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) evaluated: Option<GroupInput>,
    /// The recorded events of the evaluation, such as those of a judge.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) events: Vec<NumberedEvent>,
    /// Whether the group had been aborted at the end of the step.
    pub(crate) aborted: bool,
    /// The time of the end of the step.
    pub(crate) now: Timestamp,
}

/// A group whose branches wait for answers, in the state of the session. Its conversation is that of the session.
#[derive(Debug, Serialize)]
pub(crate) struct WaitingGroup {
    pub(crate) prompts: Vec<AgentMessage>,
    pub(crate) group: GroupCheckpoint,
    /// The runs of the branches; `None` for a branch that could not start.
    pub(crate) members: Vec<Option<Checkpoint>>,
}

impl WaitingGroup {
    /// Reads a group that [`serde_json::to_vec`] has written.
    pub(crate) fn from_json(text: &str) -> Result<Self, ReadError> {
        #[derive(Deserialize)]
        struct Form<'t> {
            prompts: Vec<AgentMessage>,
            #[serde(borrow)]
            group: &'t RawValue,
            #[serde(borrow)]
            members: Vec<Option<&'t RawValue>>,
        }
        let Form { prompts, group, members } = serde_json::from_str(text).map_err(ReadError::Json)?;
        let group = GroupCheckpoint::from_json(group.get())?;
        let read = |member: Option<&RawValue>| member.map(|run| Checkpoint::from_json(run.get())).transpose();
        let members = members.into_iter().map(read).collect::<Result<_, _>>()?;
        Ok(Self { prompts, group, members })
    }
}

/// The start of a group as data.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GroupStart {
    pub(crate) setup: GroupSetup,
    pub(crate) now: Timestamp,
}

/// A step of a branch.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MemberRecord {
    /// The index of the branch.
    pub(crate) branch: usize,
    /// The [`StepRecord`].
    pub(crate) step: Box<RawValue>,
}

/// An input of the run, or a recorded event of a child loop.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Item {
    Input(AppliedInput),
    Child(Box<NumberedEvent>),
}

/// How a session continues after a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "next", rename_all = "snake_case")]
pub(crate) enum Flow {
    /// Perform the next step.
    Step,
    /// Wait before the next step.
    Sleep { delay_ms: u64 },
    /// The start of calls is recorded that must not run twice. Only the attempt with this nonce executes them.
    Began { nonce: String },
    /// The run waits for answers.
    Suspended,
    /// The run has ended.
    Ended,
    /// The first input was refused, and the run is unchanged.
    Refused { refusal: Refusal },
}

/// A message for a running session.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mail {
    Steer(AgentMessage),
    FollowUp(AgentMessage),
    Abort,
}

/// The input of `prompt`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PromptInput {
    pub(crate) messages: Vec<AgentMessage>,
}

/// The input of `answer`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AnswerInput {
    pub(crate) question: QuestionId,
    pub(crate) answer: Answer,
}

/// The input of `events`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EventsInput {
    pub(crate) from: u64,
}

/// The output of `events`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EventsPage {
    /// The events from the requested number on; more may follow.
    pub(crate) events: Vec<NumberedEvent>,
    /// Whether an invocation drives the session.
    pub(crate) running: bool,
    /// The number of events that the session has, as far as this worker knows.
    pub(crate) known: u64,
}

/// The input of `turn`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TurnInput {
    pub(crate) loop_id: LoopId,
}

/// Where a run stands when an invocation ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "progress", rename_all = "snake_case")]
pub(crate) enum Progress {
    Ended {
        #[serde(flatten)]
        end: Box<LoopEnd>,
    },
    Suspended {
        loop_id: LoopId,
        questions: Vec<Question>,
    },
    /// Another invocation drives the run.
    Continues {
        invocation: String,
    },
    /// A group of branches has ended.
    Explored {
        end: Box<BranchesEnd>,
    },
    Refused {
        #[serde(flatten)]
        refusal: Refusal,
    },
    /// There was nothing to do.
    Idle,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoopEnd {
    /// The id of the loop that ended.
    pub loop_id: LoopId,
    /// How the run ended.
    pub ended: Ended,
    /// The last reply of the conversation; `None` if the model has not replied.
    pub reply: Option<AssistantMessage>,
    /// The tokens that the run used.
    pub usage: Usage,
}

/// The end of a group of branches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BranchesEnd {
    /// The id of the group.
    pub group_id: LoopId,
    /// How the group ended, with the selected branch. The conversation of the session is that of the selected branch; without
    /// one it is unchanged.
    pub end: GroupEnd,
    /// The branches, in the order of the agent's branches.
    pub branches: Vec<BranchResult>,
    /// The tokens that the branches, their tools and the evaluation used.
    pub usage: ParallelUsage,
}

/// The end of a branch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BranchResult {
    /// The id of the loop of the branch.
    pub loop_id: LoopId,
    /// How the branch ended.
    pub end: BranchEnd,
    /// The last reply of its conversation; `None` if the model has not replied.
    pub reply: Option<AssistantMessage>,
    /// The tokens that its turns used.
    pub usage: Usage,
}

impl BranchesEnd {
    /// Returns the selected branch; `None` if none was selected.
    ///
    /// ```
    /// use agent_restate::BranchesEnd;
    ///
    /// fn answer(end: &BranchesEnd) -> Option<String> {
    ///     Some(end.selected()?.reply.as_ref()?.text())
    /// }
    /// ```
    #[must_use]
    pub fn selected(&self) -> Option<&BranchResult> {
        let GroupEnd::Selected { evaluated } = &self.end else { return None };
        self.branches.get(evaluated.decision.index())
    }
}

/// The inputs of the mailbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Attached {
    pub(crate) invocation: String,
}

/// The input of `detach`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Detached {
    pub(crate) invocation: String,
    pub(crate) taken: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}
