//! Calls that the model repeats with the same results.

use super::Run;
use crate::history::{Entry, Unit, UnitKind};
use crate::limits::LimitReason;
use crate::message::{AgentMessage, AssistantMessage, Content, Message, ToolResultMessage};

/// The beginning of the text that tells the model about its repetitions. It is no part of a result when results are compared.
const NOTICE: &str = "[The same call had the same result";

/// Returns the limit of repetitions if the end of the conversation has reached it. A message of the user begins anew.
pub(super) fn reached_limit(run: &Run) -> Option<LimitReason> {
    // A run that has just begun gets its turn, also after one that was stopped.
    let most = limit(run).filter(|_| run.turn.index > 0 && run.prompts.is_empty())?;
    let last = run.history.last_unit().filter(|unit| unit.kind() == UnitKind::Exchange)?;
    // Most turns differ from the one before, so that this ends at once.
    let count = 1 + repeats(run, last.reply()?, last.results(), 1);
    (count >= most).then_some(LimitReason::Repeats)
}

/// Returns the maximum number of repetitions, at least 2; `None` if the turns of the run have no limit, either.
fn limit(run: &Run) -> Option<u32> {
    let policy = &run.setup.policy;
    let is_bounded = policy.limits.is_some_and(|limits| limits.max_turns.is_some());
    (is_bounded && policy.max_repeats > 0).then_some(policy.max_repeats.max(2))
}

/// Tells the model in its last result when it has used half of the repetitions.
pub(super) fn tell(run: &Run, reply: &Entry, results: &mut [Entry]) {
    let Some(most) = limit(run) else { return };
    let Some(message) = reply.message().as_assistant() else { return };
    let given = results.iter().filter_map(|entry| entry.message().as_llm().and_then(Message::as_tool_result));
    let count = 1 + repeats(run, message, given, 0);
    if count < (most / 2).max(2) {
        return;
    }
    let Some(entry) = results.last_mut() else { return };
    let mut message = entry.message().clone();
    if let AgentMessage::Llm(inner) = &mut message
        && let Message::ToolResult(result) = &mut inner.message
    {
        result.content.push(Content::text(format!(
            "{NOTICE} {count} times in a row. Do something else, or end with what is known. The run is stopped after {most} \
             times.]"
        )));
        *entry = Entry::from(message);
    }
}

/// Returns how many exchanges in a row at the end of the conversation, without the last `skipped` ones, have these calls and
/// results.
fn repeats<'r>(
    run: &Run,
    reply: &AssistantMessage,
    results: impl Iterator<Item = &'r ToolResultMessage>,
    skipped: usize,
) -> u32 {
    let results: Vec<&ToolResultMessage> = results.collect();
    let same =
        run.history.units_rev().skip(skipped).take_while(|unit| is_same(unit, reply, &results)).count();
    u32::try_from(same).unwrap_or(u32::MAX)
}

fn is_same(unit: &Unit, reply: &AssistantMessage, results: &[&ToolResultMessage]) -> bool {
    let Some(other) = unit.reply().filter(|_| unit.kind() == UnitKind::Exchange) else { return false };
    let calls = |a: &AssistantMessage, b: &AssistantMessage| {
        let parts = |reply: &AssistantMessage| {
            reply.tool_calls().map(|c| (c.name.clone(), c.arguments.text().to_owned())).collect::<Vec<_>>()
        };
        parts(a) == parts(b)
    };
    let content = |result: &ToolResultMessage| {
        let is_notice = |block: &&Content| block.as_text().is_some_and(|text| text.starts_with(NOTICE));
        result.content.iter().filter(|block| !is_notice(block)).cloned().collect::<Vec<_>>()
    };
    let mut others = unit.results();
    calls(other, reply)
        && results.iter().all(|result| {
            others.next().is_some_and(|o| o.is_error == result.is_error && content(o) == content(result))
        })
        && others.next().is_none()
}
