//! The budget as a run sees it: a call is made when it was granted, and what it cost is counted here.
//!
//! The accounts are shared with others and live outside of the run. What they answer is an input; what was spent is a
//! function of the inputs. The shell tells the accounts what the run counted, so there is one count and not two.

use serde::{Deserialize, Serialize};

use super::input::BudgetVerdict;
use super::{Phase, Retry, Run};
use crate::budget::{AtLimit, BudgetRefusal, BudgetSnapshot, Spending, settled_usage};
use crate::event::{AgentEvent, Answer, BudgetEvent, BudgetNote, Ended, Question};
use crate::history::Entry;
use crate::identity::{QuestionId, StepKey, Timestamp};
use crate::message::{AgentMessage, CostConfig, Usage};
use crate::provider::ErrorKind;
use crate::run::input::Failure;

type Refusal = String;

/// What a run knows and counts of its budget. It is part of its state and survives a pause.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct BudgetState {
    /// The accounts as they were when they were last asked, and what the run spent since.
    pub(super) known: BudgetSnapshot,
    /// What the run's own calls cost.
    pub(super) own: Spending,
    /// What its tools spent, sub-agents included.
    #[serde(skip_serializing_if = "Spending::is_zero")]
    pub(super) tools: Spending,
    /// The call that is being made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) granted: Option<Granted>,
    /// A limit that stopped a call of a tool: the run ends when the other calls have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) over: Option<Box<BudgetRefusal>>,
}

/// What was set aside for the call of the model that is being made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Granted {
    pub(super) amounts: Spending,
    /// Tokens of the prompt, as estimated.
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
    now: Timestamp,
    verdict: BudgetVerdict,
    out: &mut Vec<AgentEvent>,
) -> Result<(), Refusal> {
    let Phase::Reserving { retry, .. } = &run.phase else { return Err("nothing is to be reserved".into()) };
    let retry = retry.clone();
    run.now = now;
    match verdict {
        BudgetVerdict::Allow { amounts, prompt_tokens, max_output, known } => {
            run.budget.known = known;
            run.budget.granted = Some(Granted { amounts, prompt: prompt_tokens, max_output });
            run.say_budget(BudgetNote::Reserved { amounts, max_output }, out);
            run.phase = Phase::Calling { started: false, retry };
        }
        BudgetVerdict::Deny { refusal, known } => {
            run.budget.known = known;
            run.refused(refusal, retry, out);
        }
        BudgetVerdict::Failed { message } => {
            run.close_retry(retry, Some(&message), out);
            let failure = Failure::new(ErrorKind::Other, message.clone());
            run.fail_turn(failure.kind, message, None, out);
        }
    }
    Ok(())
}

pub(super) fn answered(
    run: &mut Run,
    now: Timestamp,
    id: &QuestionId,
    answer: Answer,
    out: &mut Vec<AgentEvent>,
) -> Result<(), Refusal> {
    let Phase::BudgetAsked(asked) = &run.phase else { return Err("nothing is asked".into()) };
    if asked.question.id != *id {
        return Err(format!("no question {id:?} is open; {:?} is", asked.question.id));
    }
    if let Answer::AllowWith(_) = answer {
        return Err("a budget has no arguments; answer Raise, Allow or Deny".into());
    }
    let (retry, refusal) = (asked.retry.clone(), asked.question.budget.clone());
    run.now = now;
    let loop_id = run.setup.loop_id.clone();
    let raised = if let Answer::Raise { by } = &answer { Some(*by) } else { None };
    let allowed = matches!(answer, Answer::Allow);
    out.push(AgentEvent::QuestionAnswered { loop_id, question_id: id.clone(), answer });
    match (raised, refusal) {
        (Some(by), refusal) => {
            run.raise(refusal.map_or(0, |r| r.level), by, out);
            run.phase = Phase::Reserving { retry, forced: false };
        }
        (None, Some(refusal)) if !allowed => run.stop_over_budget(refusal, retry, out),
        (None, None) if !allowed => run.end(Ended::Aborted, out),
        (None, _) => run.phase = Phase::Reserving { retry, forced: true },
    }
    Ok(())
}

/// A question of a budget before a call of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) retry: Option<Retry>,
}

impl Run {
    /// The model is called next; with a budget, after it was asked.
    pub(super) fn await_call(&mut self, retry: Option<Retry>) {
        self.phase = if self.setup.budget.is_some() {
            Phase::Reserving { retry, forced: false }
        } else {
            Phase::Calling { started: false, retry }
        };
    }

    fn refused(&mut self, refusal: Box<BudgetRefusal>, retry: Option<Retry>, out: &mut Vec<AgentEvent>) {
        self.say_budget(BudgetNote::Refused { refusal: refusal.clone() }, out);
        if !self.pauses_at_limit() {
            self.stop_over_budget(refusal, retry, out);
            return;
        }
        let loop_id = self.setup.loop_id.clone();
        let id = QuestionId::from(format!("budget-{}.{}", self.turn.index, self.turn.attempt));
        let text = format!("{refusal}. Raise it and go on?");
        let question = Question { id, text: sentence(&text), call: None, budget: Some(refusal) };
        out.push(AgentEvent::QuestionAsked { loop_id: loop_id.clone(), question: question.clone() });
        out.push(AgentEvent::RunSuspended { loop_id, questions: vec![question.clone()] });
        self.phase = Phase::BudgetAsked(Box::new(Asked { question, retry }));
    }

    pub(super) fn pauses_at_limit(&self) -> bool {
        self.setup.budget.as_ref().is_some_and(|b| b.at_limit == AtLimit::Pause)
    }

    /// Ends the turn without another call of the model, and the run.
    pub(super) fn stop_over_budget(
        &mut self,
        refusal: Box<BudgetRefusal>,
        retry: Option<Retry>,
        out: &mut Vec<AgentEvent>,
    ) {
        let reason = refusal.to_string();
        self.close_retry(retry, Some(&reason), out);
        self.say_stop(&reason, out);
        self.close_turn(None, Vec::new(), out);
        self.end(Ended::Budget { refusal }, out);
    }

    /// The note that a limit leaves in the conversation (REQ-062).
    pub(super) fn say_stop(&mut self, reason: &str, out: &mut Vec<AgentEvent>) {
        let note = Entry::from(AgentMessage::user(format!("[Agent stopped: {reason}]")));
        let note = self.entered(note);
        if self.history.push_entry(note.clone()).is_ok() {
            self.say_message(&note, out);
        }
    }

    /// The call of the model that was granted has ended.
    pub(super) fn settle_call(
        &mut self,
        reported: Usage,
        answered: bool,
        output: u64,
        out: &mut Vec<AgentEvent>,
    ) {
        if self.setup.budget.is_none() {
            return;
        }
        let granted = self.budget.granted.take();
        let prompt = granted.map_or(0, |g| g.prompt);
        let (usage, estimated) = settled_usage(reported, answered, prompt, output);
        let amounts = Spending::of_call(&usage, self.prices());
        self.budget.own = self.budget.own.plus(&amounts);
        self.budget.spend(&amounts);
        self.say_budget(BudgetNote::Spent { amounts, estimated }, out);
    }

    /// A call of a tool begins.
    pub(super) fn spend_tool_call(&mut self) {
        if self.setup.budget.is_some() {
            let call = Spending::of_tool_calls(1);
            self.budget.own = self.budget.own.plus(&call);
            self.budget.spend(&call);
        }
    }

    /// A call of a tool spent this much itself.
    pub(super) fn spend_by_tool(&mut self, spent: Option<&Spending>) {
        if let Some(spent) = spent.filter(|_| self.setup.budget.is_some()) {
            self.budget.tools = self.budget.tools.plus(spent);
            self.budget.spend(spent);
        }
    }

    pub(super) fn raise(&mut self, level: u32, by: Spending, out: &mut Vec<AgentEvent>) {
        let at = usize::try_from(level).unwrap_or(usize::MAX);
        if let Some(account) = self.budget.known.accounts.get_mut(at) {
            account.raised = account.raised.plus(&by);
        }
        self.say_budget(BudgetNote::Raised { by }, out);
    }

    fn prices(&self) -> &CostConfig {
        static NONE: CostConfig = CostConfig::unknown();
        match self.route() {
            Some(route) => &route.prices,
            None => self.setup.budget.as_ref().map_or(&NONE, |b| &b.prices),
        }
    }

    fn say_budget(&self, note: BudgetNote, out: &mut Vec<AgentEvent>) {
        self.say_budget_of(self.model_key(), note, out);
    }

    pub(super) fn say_budget_of(&self, step: StepKey, note: BudgetNote, out: &mut Vec<AgentEvent>) {
        let spent = self.budget.known.accounts.first().map_or(self.budget.own, |a| a.spent);
        let loop_id = self.setup.loop_id.clone();
        out.push(AgentEvent::Budget(Box::new(BudgetEvent { loop_id, step, note, spent })));
    }

    /// What the run spent of its budget: its own calls, and its tools with their sub-agents. `None` without a budget.
    #[must_use]
    pub fn spent(&self) -> Option<Spending> {
        self.setup.budget.as_ref().map(|_| self.budget.own.plus(&self.budget.tools))
    }

    /// The accounts of its budget as far as the run knows them, for another process that goes on with it.
    #[must_use]
    pub fn budget(&self) -> &BudgetSnapshot {
        &self.budget.known
    }

    /// What its own calls cost so far.
    pub(crate) fn own_spending(&self) -> Spending {
        self.budget.own
    }

    /// What is set aside for the call of the model that is being made.
    pub(crate) fn granted(&self) -> Option<Spending> {
        self.budget.granted.as_ref().map(|g| g.amounts)
    }
}

/// Begins with a capital.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
