//! Laws about the conversation and what it costs.

use std::collections::BTreeSet;

use agent_core::history::{History, UnitKind};
use agent_core::{AgentEvent, Content, Message, Usage};

use super::Evidence;
use crate::log::What;

/// Every request has a conversation that the vendors accept.
pub(super) fn valid(evidence: &Evidence<'_>) -> Result<(), String> {
    for entry in &evidence.log.entries {
        if let What::ModelCalled(history) = &entry.what {
            accepted(history)?;
        }
    }
    Ok(())
}

fn accepted(history: &History) -> Result<(), String> {
    let mut ids = BTreeSet::new();
    let mut last = None;
    for unit in history.units().filter(|unit| unit.kind() != UnitKind::Failed) {
        if let Some(reply) = unit.reply() {
            let calls: Vec<&str> = reply.tool_calls().map(|call| call.id.as_str()).collect();
            let results: Vec<&str> = unit.results().map(|result| result.tool_call_id.as_str()).collect();
            if calls != results {
                return Err(format!("the calls {calls:?} have the results {results:?}"));
            }
            for id in calls {
                if id.is_empty() || !ids.insert(id) {
                    return Err(format!("the id {id:?} of a call is empty or used twice"));
                }
            }
        }
        for message in unit.entries().iter().filter_map(|entry| entry.message().as_llm()) {
            last = Some(message.role());
            if let Message::User(user) = message {
                let blank = |c: &Content| matches!(c, Content::Text(text) if text.text.trim().is_empty());
                if user.content.iter().all(blank) {
                    return Err("a user message has no content".to_owned());
                }
            }
        }
    }
    match last {
        None => Err("the conversation is empty".to_owned()),
        Some("assistant") if history.paused_reply().is_none() => {
            Err("the conversation ends with a reply".to_owned())
        }
        Some(_) => Ok(()),
    }
}

/// The usage of a run is the sum of the usage of its replies, including those of attempts that were repeated.
pub(super) fn usage(evidence: &Evidence<'_>) -> Result<(), String> {
    let loops = evidence.loops();
    // A call without a reported usage is charged with an estimate, also to the callers of a sub-agent.
    let is_cut_off = |event: &AgentEvent| match event {
        AgentEvent::MessageEnd { message, .. } => message
            .as_llm()
            .and_then(Message::as_assistant)
            .is_some_and(agent_core::AssistantMessage::is_failed),
        _ => false,
    };
    let children =
        || loops.values().flatten().filter(|(_, event)| event.depth > 0).map(|(_, event)| &event.event);
    let of_children = children().any(is_cut_off);
    // The call of a sub-agent that was cut off reports nothing of what it has used.
    let by_children: u64 = children().map(|event| reply_usage(event).total_tokens).sum();
    for (id, events) in &loops {
        let (mut replies, mut turns, mut cut_off) = (Usage::default(), Usage::default(), of_children);
        for (_, event) in events {
            match &event.event {
                AgentEvent::MessageEnd { message, .. } => {
                    if let Some(reply) = message.as_llm().and_then(Message::as_assistant) {
                        replies = replies.combine(&reply.usage);
                        cut_off |= is_cut_off(&event.event);
                    }
                }
                AgentEvent::CompactionEnded(ended) => replies = replies.combine(&ended.usage),
                AgentEvent::TurnEnd { usage, .. } => turns = turns.combine(usage),
                AgentEvent::AgentEnd(end) => {
                    if end.usage != replies || turns != replies {
                        let (run, turns, replies) =
                            (end.usage.total_tokens, turns.total_tokens, replies.total_tokens);
                        return Err(format!(
                            "{id} used {run} tokens, its turns {turns}, its replies {replies}"
                        ));
                    }
                    let used = replies.total_tokens + end.tool_usage.total_tokens;
                    if let Some(spent) = &end.spent
                        && (spent.tokens < used || (spent.tokens > used + by_children && !cut_off))
                    {
                        let spent = spent.tokens;
                        return Err(format!("{id} was charged {spent} tokens, its replies used {used}"));
                    }
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn reply_usage(event: &AgentEvent) -> Usage {
    match event {
        AgentEvent::MessageEnd { message, .. } => {
            message.as_llm().and_then(Message::as_assistant).map_or(Usage::default(), |reply| reply.usage)
        }
        _ => Usage::default(),
    }
}

/// The results of a turn are in the order of the calls of its reply.
pub(super) fn order(evidence: &Evidence<'_>) -> Result<(), String> {
    for (id, events) in evidence.loops() {
        for (_, event) in events {
            let AgentEvent::TurnEnd { message: Some(reply), tool_results, .. } = &event.event else {
                continue;
            };
            let Some(reply) = reply.as_llm().and_then(Message::as_assistant) else { continue };
            let calls = reply.tool_calls().map(|call| &call.id);
            let results = tool_results.iter().filter_map(|result| match result.as_llm() {
                Some(Message::ToolResult(result)) => Some(&result.tool_call_id),
                _ => None,
            });
            let (calls, results): (Vec<_>, Vec<_>) = (calls.collect(), results.collect());
            if calls != results && !reply.is_failed() {
                return Err(format!("a turn of {id} has the calls {calls:?} and the results {results:?}"));
            }
        }
    }
    Ok(())
}
