//! Deferred calls in the API's own form: the tool is defined with `async`, and the output of a call comes in a later item.
//!
//! Only the model that made a call receives this form. Any other model receives the preliminary result as the output of the
//! call, and the later result as a user message.

use std::collections::BTreeMap;

use agent_core::{
    AgentMessage, ApiProtocol, AssistantMessage, Content, DeferredState, Encoded, History, Message,
    ModelRequest, Timestamp, ToolCallId, ToolResultMessage, Unit, UserMessage, WireKey,
};
use serde_json::{Map, Value};

use super::items::Writer;
use crate::handoff::Handoff;
use crate::openai_responses::config::is_vendor;

/// The beginning of the ids of the models that are known to support async tools.
const FAMILY: &str = "gpt-6";

/// The beginning of the first line of a user message with the result of a call that did not fail.
const FIRST_LINE: &str = "Result of the call ";

/// The calls that wait for their output, with their marks and whether they were sent with their ids.
type Waiting<'h> = BTreeMap<ToolCallId, (&'h AssistantMessage, Map<String, Value>, bool)>;

/// Returns whether the request uses the API's own form.
pub(super) fn is_native(request: &ModelRequest) -> bool {
    let model = &request.model;
    let known =
        || is_vendor(model) && model.api != ApiProtocol::AzureOpenAiResponses && model.id.starts_with(FAMILY);
    !request.options.async_tools.is_empty() && model.dialect.async_tools.unwrap_or_else(known)
}

/// Returns the names of the tools whose results may be deferred.
pub(super) fn names(request: &ModelRequest) -> Vec<&str> {
    if !is_native(request) {
        return Vec::new();
    }
    request.options.async_tools.iter().map(String::as_str).collect()
}

/// Returns the user message with what a tool reported when it deferred its result. It tells the model the handle.
pub(super) fn preliminary(result: &ToolResultMessage) -> UserMessage {
    let first = Content::text(format!("Preliminary result of the call `{}`:\n", result.tool_name));
    let content = std::iter::once(first).chain(result.content.iter().cloned()).collect();
    UserMessage::new(content, Timestamp::default())
}

/// Calls `read` with the encoded form of each unit that is sent, oldest first. The result of a call that waits for its output
/// becomes this output; its form depends on an earlier unit, so it is not cached.
pub(super) fn each_form(
    history: &History,
    writer: &Writer<'_>,
    key: WireKey,
    mut read: impl FnMut(&Encoded),
) {
    let mut waiting = Waiting::new();
    let mut read = |form: &Encoded| {
        if !form.bytes().is_empty() {
            read(form);
        }
    };
    for unit in history.units().filter(|unit| Handoff::shows(unit)) {
        if let Some(form) = output(unit, writer, &mut waiting) {
            read(&form);
            continue;
        }
        unit.wire().with(key, || writer.unit(unit), &mut read);
        let Some(reply) = unit.reply() else { continue };
        for result in unit.results().filter(|result| result.deferred.is_some()) {
            let mark = writer.mark_of(reply, result);
            if writer.waits(result, &mark) {
                waiting.insert(result.tool_call_id.clone(), (reply, mark, writer.is_named(reply)));
            }
        }
    }
}

/// Returns the output of a waiting call if the unit is its result.
fn output(unit: &Unit, writer: &Writer<'_>, waiting: &mut Waiting<'_>) -> Option<Encoded> {
    let Some(Message::User(user)) = unit.first().and_then(AgentMessage::as_llm) else { return None };
    let call = user.deferred.as_deref().filter(|call| call.state != DeferredState::Running)?;
    let (reply, mark, named) = waiting.remove(&call.tool_call_id)?;
    // The first block names the call, which the output does by its id. It also reports a failure, which the output cannot.
    let names_call =
        |content: &Content| matches!(content, Content::Text(text) if text.text.starts_with(FIRST_LINE));
    let named_call = usize::from(user.content.first().is_some_and(names_call));
    let content: Vec<Content> = user.content.iter().skip(named_call).cloned().collect();
    let result = ToolResultMessage::new(call.tool_call_id.clone(), call.tool_name.clone(), content);
    Some(writer.output(reply, &result, &mark, named))
}
