//! Calls that are delegated to a loop of their own: what the run knows about the child while it waits for answers.

use serde::{Deserialize, Serialize};

use super::tool_calls::{self, ABORTED};
use super::{Input, NewMessages, Phase, Refusal, Run, budget};
use crate::budget::Spending;
use crate::event::{AgentEvent, Answer, Ended, Question};
use crate::history::History;
use crate::identity::{LoopId, QuestionId, ToolCallId};
use crate::message::Usage;
use crate::run::open_calls::{Slot, Stage};
use crate::tool::ToolResult;

/// A child loop that waits for answers, as its driver reports it to the run that delegated the call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SuspendedChild {
    /// The open questions of the child, whose ids are unique in the whole tree.
    pub questions: Vec<Question>,
    /// The [number of answers](Run::answer_count) that the child had received.
    pub received: u64,
    /// The suspended run of the child. `None` if a journal has its record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Box<Run>>,
    /// What the call has spent so far of the run's budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Box<Spending>>,
}

impl SuspendedChild {
    /// Describes the suspended run of a child, without the run itself.
    #[must_use]
    pub fn new(child: &Run) -> Self {
        Self { questions: child.questions(), received: child.answer_count(), run: None, spent: None }
    }
}

/// An answer to a question of a child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ChildAnswer {
    /// The id of the question.
    pub question_id: QuestionId,
    /// The answer to the question.
    pub answer: Answer,
}

impl ChildAnswer {
    /// Creates the answer to a question.
    #[must_use]
    pub fn new(question_id: impl Into<QuestionId>, answer: Answer) -> Self {
        Self { question_id: question_id.into(), answer }
    }
}

impl From<ChildAnswer> for Input {
    fn from(ChildAnswer { question_id, answer }: ChildAnswer) -> Self {
        Self::Answer { question_id, answer }
    }
}

/// What a run knows about the child of a call that has been suspended at least once.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PendingChild {
    /// The suspended run of the child. `None` if a journal has its record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<Box<Run>>,
    /// The [number of answers](Run::answer_count) that the child had received when it was suspended.
    pub received: u64,
    /// The questions of the child that have no answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
    /// The answers since the child was suspended, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<ChildAnswer>,
    /// The number of answers with which the child was resumed.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) applied: u64,
    /// What the call had spent when the child was suspended.
    #[serde(skip_serializing_if = "Spending::is_zero")]
    pub(crate) spent: Spending,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
pub(super) fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl PendingChild {
    /// Returns the answers to apply to this run of the child: those to open questions that it has not received.
    #[must_use]
    pub fn answers_for(&self, child: &Run) -> Vec<ChildAnswer> {
        let received = child.answer_count().saturating_sub(self.received);
        let received = usize::try_from(received).unwrap_or(usize::MAX);
        let open = child.questions();
        let is_open = |answer: &&ChildAnswer| open.iter().any(|q| q.id == answer.question_id);
        self.answers.iter().skip(received).filter(is_open).cloned().collect()
    }

    /// Returns whether there is an answer that the child has not received.
    pub(super) fn has_answers(&self) -> bool {
        self.answers.len() as u64 > self.applied
    }

    /// Marks the answers as received, because the child is resumed with them.
    pub(super) fn resume(&mut self) {
        self.run = None;
        self.applied = self.answers.len() as u64;
    }

    fn suspend(&mut self, child: SuspendedChild) {
        let SuspendedChild { questions, received, run, spent } = child;
        let applied = usize::try_from(self.applied).unwrap_or(usize::MAX);
        self.answers.drain(..applied.min(self.answers.len()));
        self.applied = 0;
        self.answers.retain(|answer| questions.iter().any(|q| q.id == answer.question_id));
        let is_open = |q: &Question| !self.answers.iter().any(|answer| answer.question_id == q.id);
        self.questions = questions.into_iter().filter(is_open).collect();
        (self.run, self.received) = (run, received);
        self.spent = spent.map_or(self.spent, |spent| *spent);
    }
}

/// How a child loop ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ChildEnd {
    /// The id of the child loop.
    pub loop_id: LoopId,
    /// How the child ended.
    pub ended: Ended,
    /// The conversation of the child.
    pub history: History,
    /// The number of turns.
    pub turns: u32,
    /// The tokens of its turns and of its tools.
    pub usage: Usage,
    /// What the child spent of its budget, including its tools; `None` without a budget.
    pub spent: Option<Spending>,
    /// The tokens of its turns, without those of its tools.
    pub turn_usage: Usage,
    /// The tokens that its tools used themselves.
    pub tool_usage: Usage,
    /// The messages of the loop, including its prompts.
    pub messages: NewMessages,
}

impl ChildEnd {
    /// Describes the end of a child from its parts, without its messages. All its tokens count as those of its turns.
    #[must_use]
    pub fn new(loop_id: LoopId, ended: Ended, history: History, turns: u32, usage: Usage) -> Self {
        let (turn_usage, tool_usage, messages) = (usage, Usage::default(), NewMessages::default());
        Self { loop_id, ended, history, turns, usage, spent: None, turn_usage, tool_usage, messages }
    }

    /// Sets the messages of the loop, and the tokens of its turns and of its tools.
    #[must_use]
    pub fn with_record(mut self, messages: NewMessages, turn_usage: Usage, tool_usage: Usage) -> Self {
        self.usage = turn_usage.combine(&tool_usage);
        (self.messages, self.turn_usage, self.tool_usage) = (messages, turn_usage, tool_usage);
        self
    }

    /// Sets what the child spent of its budget.
    #[must_use]
    pub fn with_spent(mut self, spent: Option<Spending>) -> Self {
        self.spent = spent;
        self
    }

    /// Describes the end of this run; `None` while it is open.
    #[must_use]
    pub fn of(child: &Run) -> Option<Self> {
        let (loop_id, history) = (child.loop_id().clone(), child.history().clone());
        let end = Self::new(loop_id, child.ended()?.clone(), history, child.tracker.turns, Usage::default());
        let end = end.with_record(child.new_messages().clone(), child.usage(), child.tool_usage());
        Some(end.with_spent(child.spent()))
    }
}

/// The child of a running call was suspended: the call waits with it.
pub(super) fn suspended(
    run: &mut Run,
    id: &ToolCallId,
    child: SuspendedChild,
    out: &mut Vec<AgentEvent>,
) -> Result<(), Refusal> {
    if child.questions.is_empty() {
        return Err(format!("the child of call {id:?} has no open question"));
    }
    let (now, loop_id) = (run.now, run.setup.loop_id.clone());
    let (slot, aborting) = tool_calls::open_slot(&mut run.phase, id)?;
    let Stage::Began(arguments) = &slot.stage else { return Err(format!("the call {id:?} is not running")) };
    let arguments = arguments.clone();
    let spent = slot.spent_since(child.spent.as_deref());
    slot.child.get_or_insert_default().suspend(child);
    if aborting {
        tool_calls::close(slot, &loop_id, ToolResult::error(ABORTED), now, out);
    } else {
        slot.stage = Stage::Waiting(arguments);
    }
    budget::spend_by_tool(run, spent.as_ref());
    tool_calls::settle(run, out);
    Ok(())
}

/// A question of a child was answered. The child emits the event when it is resumed with the answer. Returns whether
/// a child has asked the question.
pub(super) fn answered(run: &mut Run, id: &QuestionId, answer: &Answer) -> Result<bool, Refusal> {
    let Phase::Tools(open) = &mut run.phase else { return Ok(false) };
    let children = open.slots.iter_mut().filter_map(|slot| slot.child.as_deref_mut());
    for child in children {
        let Some(at) = child.questions.iter().position(|question| question.id == *id) else { continue };
        if let Some(question) = child.questions.get(at) {
            check(question, answer)?;
        }
        child.questions.remove(at);
        child.answers.push(ChildAnswer { question_id: id.clone(), answer: answer.clone() });
        return Ok(true);
    }
    Ok(false)
}

/// Checks that the answer fits the question, because the child receives it later.
fn check(question: &Question, answer: &Answer) -> Result<(), Refusal> {
    match answer {
        Answer::Raise { .. } if question.budget.is_none() => {
            Err("this question is not that of a budget; answer Allow, AllowWith or Deny".into())
        }
        Answer::AllowWith(_) if question.call.is_none() => {
            Err("this question is about no call, so it has no arguments; answer Allow or Deny".into())
        }
        _ => Ok(()),
    }
}

impl Slot {
    /// Returns what the call has spent beyond what its child had spent at its last suspension.
    pub(super) fn spent_since(&self, spent: Option<&Spending>) -> Option<Spending> {
        let before = self.child.as_ref().map_or_else(Spending::default, |child| child.spent);
        spent.map(|spent| spent.minus(&before)).filter(|spent| !spent.is_zero())
    }
}
