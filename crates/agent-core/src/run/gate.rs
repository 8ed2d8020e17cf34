//! The gates of a run: before the loop, for its prompts, and before a turn.

use super::input::{GateVerdict, InputVerdict};
use super::question_id::{About, question_id};
use super::{GateAt, Phase, Refusal, Run};
use crate::event::{AgentEvent, Answer, Ended, Question};
use crate::history::{Entry, MessageRef};
use crate::identity::QuestionId;
use crate::message::{AgentMessage, Content, Message};

pub(super) fn decided(run: &mut Run, verdict: GateVerdict, out: &mut Vec<AgentEvent>) -> Result<(), Refusal> {
    let gate = match run.phase {
        Phase::Gate(gate @ (GateAt::Loop | GateAt::Turn)) => gate,
        _ => return Err("no gate is waiting for a verdict".into()),
    };
    match verdict {
        GateVerdict::Allow => pass(run, gate, out),
        GateVerdict::Deny(reason) => veto(run, gate, reason, out),
        GateVerdict::Ask(text) => {
            let prefix = &run.setup.question_prefix;
            let id = match gate {
                GateAt::Loop | GateAt::Input => question_id(prefix, About::Loop),
                GateAt::Turn => question_id(prefix, About::Turn(run.turn.index)),
            };
            let question =
                Question { id, text, call: None, tool: None, budget: None, outcome_unknown: false };
            run.emit_question(&question, out);
            run.phase = Phase::GateAsked { gate, question };
        }
    }
    Ok(())
}

pub(super) fn answered(
    run: &mut Run,
    id: &QuestionId,
    answer: Answer,
    out: &mut Vec<AgentEvent>,
) -> Result<(), Refusal> {
    let Phase::GateAsked { gate, question } = &run.phase else { return Err("no question is open".into()) };
    check_open(question, id)?;
    let gate = *gate;
    let denied = match &answer {
        Answer::Allow => None,
        Answer::Deny { reason } => Some(reason.clone()),
        Answer::AllowWith(_) | Answer::Raise { .. } => {
            return Err("a gate has neither arguments nor a budget; answer Allow or Deny".into());
        }
    };
    run.emit_answered(id, answer, out);
    match denied {
        None => pass(run, gate, out),
        Some(reason) => veto(run, gate, reason, out),
    }
    Ok(())
}

/// Checks that an answer refers to the open question.
pub(super) fn check_open(question: &Question, id: &QuestionId) -> Result<(), Refusal> {
    if question.id == *id { Ok(()) } else { Err(format!("no question {id:?} is open; {:?} is", question.id)) }
}

pub(super) fn filtered(
    run: &mut Run,
    verdict: InputVerdict,
    out: &mut Vec<AgentEvent>,
) -> Result<(), Refusal> {
    if !matches!(run.phase, Phase::Gate(GateAt::Input)) {
        return Err("no prompt is waiting to be filtered".into());
    }
    match verdict {
        InputVerdict::Deny { reason } => {
            let loop_id = run.setup.loop_id.clone();
            out.push(AgentEvent::InputRejected { loop_id, reason: reason.clone() });
            run.end(Ended::InputRejected { reason }, out);
        }
        InputVerdict::Allow { warnings } => {
            if !warnings.is_empty() {
                warn(&mut run.prompts, &warnings);
            }
            run.begin_run(out);
        }
    }
    Ok(())
}

fn pass(run: &mut Run, gate: GateAt, out: &mut Vec<AgentEvent>) {
    match gate {
        GateAt::Loop => run.open_loop(out),
        GateAt::Input => run.begin_run(out),
        GateAt::Turn => run.open_turn(out),
    }
}

fn veto(run: &mut Run, gate: GateAt, reason: String, out: &mut Vec<AgentEvent>) {
    let ended = match gate {
        GateAt::Loop => Ended::Vetoed { reason },
        GateAt::Input => Ended::InputRejected { reason },
        GateAt::Turn => {
            run.enter_prompts(out);
            Ended::TurnVetoed { reason }
        }
    };
    run.end(ended, out);
}

/// Adds the warnings to the last user message, as one text block.
fn warn(prompts: &mut [Entry], warnings: &[String]) {
    let is_user = |e: &&mut Entry| matches!(e.message().as_llm(), Some(Message::User(_)));
    let Some(entry) = prompts.iter_mut().rev().find(is_user) else { return };
    let mut message = entry.message().clone();
    if let AgentMessage::Llm(m) = &mut message
        && let Message::User(user) = &mut m.message
    {
        let lines: Vec<String> = warnings.iter().map(|w| format!("[Warning: {w}]")).collect();
        let text = lines.join("\n");
        let more = crate::context::estimate_tokens(&text);
        user.content.push(Content::text(text));
        *entry = Entry::new(MessageRef::new(message), entry.tokens().saturating_add(more));
    }
}
