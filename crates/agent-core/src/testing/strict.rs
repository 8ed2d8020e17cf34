//! The checks of a real API on a request.

use std::collections::BTreeSet;

use crate::history::UnitKind;
use crate::message::{AssistantMessage, Content, Message};
use crate::provider::ModelRequest;

/// The maximum length of a tool name that every vendor accepts.
const MAX_TOOL_NAME: usize = 64;

/// Returns the reason for which a real API would reject the request.
pub(super) fn check(request: &ModelRequest, allow_empty: bool) -> Result<(), String> {
    check_tools(request)?;
    let mut ids = BTreeSet::new();
    let mut last = None;
    for unit in request.history.units() {
        if unit.kind() == UnitKind::Failed {
            continue;
        }
        if let Some(reply) = unit.reply() {
            check_calls(
                reply,
                &unit.results().map(|r| r.tool_call_id.as_str()).collect::<Vec<_>>(),
                &mut ids,
            )?;
        }
        for message in unit.entries().iter().filter_map(|e| e.message().as_llm()) {
            check_content(message)?;
            last = Some(message.role());
        }
    }
    match last {
        None if allow_empty => Ok(()),
        None => Err("messages: at least one message is required".into()),
        Some("assistant") if request.continued_reply().is_none() => {
            Err("the conversation must end with a user message or a tool result".into())
        }
        Some(_) => Ok(()),
    }
}

fn check_tools(request: &ModelRequest) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for tool in request.tools.definitions() {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if tool.name.is_empty() || tool.name.len() > MAX_TOOL_NAME || !tool.name.chars().all(fits) {
            return Err(format!("tools: the name {:?} does not match [A-Za-z0-9_-]{{1,64}}", tool.name));
        }
        if !names.insert(&tool.name) {
            return Err(format!("tools: the name {:?} is used twice", tool.name));
        }
        if tool.parameters.get("type").and_then(serde_json::Value::as_str) != Some("object") {
            return Err(format!("tools: the schema of {:?} is not an object", tool.name));
        }
    }
    Ok(())
}

fn check_calls<'a>(
    reply: &'a AssistantMessage,
    results: &[&'a str],
    ids: &mut BTreeSet<String>,
) -> Result<(), String> {
    let calls: Vec<&str> = reply.tool_calls().map(|c| c.id.as_str()).collect();
    if calls != results {
        return Err(format!("tool calls {calls:?} are not answered by the results {results:?}"));
    }
    for id in calls {
        if id.is_empty() || !ids.insert(id.to_owned()) {
            return Err(format!("the tool call id {id:?} is empty or used twice"));
        }
    }
    Ok(())
}

fn check_content(message: &Message) -> Result<(), String> {
    if let Message::User(user) = message {
        let is_blank = user.content.iter().all(|c| matches!(c, Content::Text(t) if t.text.trim().is_empty()));
        if is_blank {
            return Err("a user message must have content that is not blank".into());
        }
    }
    Ok(())
}
