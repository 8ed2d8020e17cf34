//! The budget of a run: a call is made after the budget allowed it, and its cost is counted here.
//!
//! The accounts are shared and live outside of the run. Their verdicts are inputs; what the run spent is a function
//! of its inputs. The driver charges the accounts with what the run counted, so there is one count only.

use serde::{Deserialize, Serialize};

use super::input::BudgetVerdict;
use super::question_id::{About, question_id};
use super::{Phase, Refusal, Retry, Run, gate};
use crate::budget::{BudgetRefusal, BudgetSnapshot, Spending, settled_usage};
use crate::event::{AgentEvent, Answer, BudgetEvent, BudgetNote, Ended, Question};
use crate::history::Entry;
use crate::identity::{QuestionId, StepKey};
use crate::message::{AgentMessage, Usage};
use crate::provider::ErrorKind;

/// What a run knows about its budget and has counted. It is part of the run's state and survives a suspension.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct BudgetState {
    /// The accounts at the last verdict, plus what the run has spent since.
    pub(super) known: BudgetSnapshot,
    /// The cost of the run's own calls.
    pub(super) own: Spending,
    /// The cost of its tools, including sub-agents.
    #[serde(skip_serializing_if = "Spending::is_zero")]
    pub(super) tools: Spending,
    /// The reservation for the model call that is being made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) granted: Option<Box<Granted>>,
    /// A limit that denied a tool call. The run ends when the other calls have ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) over: Option<Box<BudgetRefusal>>,
}

/// The reservation for a model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Granted {
    pub(super) amounts: Spending,
    /// The estimated tokens of the prompt.
    pub(super) prompt: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) max_output: Option<u32>,
}

impl BudgetState {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn spend(&mut self, spent: &Spending) {
        for account in &mut self.known.accounts {
            account.spent = account.spent.plus(spent);
        }
    }
}

pub(super) fn decided(
    run: &mut Run,
    verdict: BudgetVerdict,
    out: &mut Vec<AgentEvent>,
) -> Result<(), Refusal> {
    let Phase::Reserving { retry, .. } = &run.phase else { return Err("no reservation is pending".into()) };
    let retry = retry.clone();
    match verdict {
        BudgetVerdict::Allow { amounts, prompt_tokens, max_output, known } => {
            run.budget.known = known;
            run.budget.granted = Some(Box::new(Granted { amounts, prompt: prompt_tokens, max_output }));
            emit(run, BudgetNote::Reserved { amounts, max_output }, out);
            run.phase = Phase::Calling { started: false, retry };
        }
        BudgetVerdict::Deny { refusal, known } => {
            run.budget.known = known;
            refuse(run, refusal, retry, out);
        }
        BudgetVerdict::Failed { message } => {
            run.close_retry(retry, Some(&message), out);
            run.fail_turn(ErrorKind::Other, message, None, out);
        }
    }
    Ok(())
}

pub(super) fn answered(
    run: &mut Run,
    id: &QuestionId,
    answer: &Answer,
    out: &mut Vec<AgentEvent>,
) -> Result<(), Refusal> {
    let Phase::BudgetAsked(asked) = &run.phase else { return Err("no question is open".into()) };
    gate::check_open(&asked.question, id)?;
    if let Answer::AllowWith(_) = answer {
        return Err("a budget has no arguments; answer Raise, Allow or Deny".into());
    }
    let Some(refusal) = asked.question.budget.clone() else {
        return Err("the question is not about a budget".into());
    };
    let retry = asked.retry.clone();
    run.emit_answered(id, answer.clone(), out);
    match answer {
        Answer::Raise { by } => {
            raise(run, refusal.level, *by, out);
            run.phase = Phase::Reserving { retry, forced: false };
        }
        Answer::Allow => run.phase = Phase::Reserving { retry, forced: true },
        _ => stop(run, refusal, retry, out),
    }
    Ok(())
}

/// A question about the budget before a model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) retry: Option<Retry>,
}

/// Makes the model call the next step. With a budget, a reservation precedes it.
pub(super) fn await_call(run: &mut Run, retry: Option<Retry>) {
    run.phase = if run.setup.budget.is_some() {
        Phase::Reserving { retry, forced: false }
    } else {
        Phase::Calling { started: false, retry }
    };
}

fn refuse(run: &mut Run, refusal: Box<BudgetRefusal>, retry: Option<Retry>, out: &mut Vec<AgentEvent>) {
    emit(run, BudgetNote::Refused { refusal: refusal.clone() }, out);
    if !run.pauses_at_limit() {
        stop(run, refusal, retry, out);
        return;
    }
    let prefix = &run.setup.question_prefix;
    let about = About::ModelBudget { turn: run.turn.index, attempt: run.turn.attempt };
    let id = question_id(prefix, about);
    let text = format!("{refusal}. Raise it and continue?");
    let (text, budget) = (sentence(&text), Some(refusal));
    let question = Question { id, text, call: None, tool: None, budget, outcome_unknown: false };
    run.emit_question(&question, out);
    run.phase = Phase::BudgetAsked(Box::new(Asked { question, retry }));
}

/// Ends the turn and the run without another model call.
pub(super) fn stop(
    run: &mut Run,
    refusal: Box<BudgetRefusal>,
    retry: Option<Retry>,
    out: &mut Vec<AgentEvent>,
) {
    let reason = refusal.to_string();
    run.close_retry(retry, Some(&reason), out);
    emit_stop(run, &reason, out);
    run.close_turn(None, Vec::new(), out);
    run.end(Ended::Budget { refusal }, out);
}

/// Adds the message that a limit leaves in the conversation.
pub(super) fn emit_stop(run: &mut Run, reason: &str, out: &mut Vec<AgentEvent>) {
    let note = Entry::from(AgentMessage::stopped(reason));
    let note = run.stamped(note);
    if run.history.push_entry(note.clone()).is_ok() {
        run.emit_message(&note, out);
    }
}

/// Counts the cost of a model call that has ended.
pub(super) fn settle_call(
    run: &mut Run,
    reported: Usage,
    answered: bool,
    output: u64,
    out: &mut Vec<AgentEvent>,
) {
    if run.setup.budget.is_none() {
        return;
    }
    let granted = run.budget.granted.take();
    let prompt = granted.map_or(0, |g| g.prompt);
    let (usage, estimated) = settled_usage(reported, answered, prompt, output);
    let amounts = Spending::of_call(&usage, run.prices());
    run.budget.own = run.budget.own.plus(&amounts);
    run.budget.spend(&amounts);
    emit(run, BudgetNote::Spent { amounts, estimated }, out);
}

/// Counts the start of a tool call.
pub(super) fn spend_tool_call(run: &mut Run) {
    if run.setup.budget.is_some() {
        let call = Spending::of_tool_calls(1);
        run.budget.own = run.budget.own.plus(&call);
        run.budget.spend(&call);
    }
}

/// Counts what a tool call spent itself.
pub(super) fn spend_by_tool(run: &mut Run, spent: Option<&Spending>) {
    if let Some(spent) = spent.filter(|_| run.setup.budget.is_some()) {
        run.budget.tools = run.budget.tools.plus(spent);
        run.budget.spend(spent);
    }
}

pub(super) fn raise(run: &mut Run, level: u32, by: Spending, out: &mut Vec<AgentEvent>) {
    let at = usize::try_from(level).unwrap_or(usize::MAX);
    if let Some(account) = run.budget.known.accounts.get_mut(at) {
        account.raised = account.raised.plus(&by);
    }
    emit(run, BudgetNote::Raised { by }, out);
}

fn emit(run: &Run, note: BudgetNote, out: &mut Vec<AgentEvent>) {
    emit_at(run, run.model_key(), note, out);
}

pub(super) fn emit_at(run: &Run, step: StepKey, note: BudgetNote, out: &mut Vec<AgentEvent>) {
    let spent = run.budget.known.accounts.first().map_or(run.budget.own, |a| a.spent);
    let loop_id = run.setup.loop_id.clone();
    out.push(AgentEvent::Budget(Box::new(BudgetEvent { loop_id, step, note, spent })));
}

/// Returns the text with its first letter in upper case.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
