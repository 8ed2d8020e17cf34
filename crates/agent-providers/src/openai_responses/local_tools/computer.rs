//! Converts the vendor's actions on a computer to the arguments of `computer`, and back.
//!
//! The output of such a call is a screenshot and nothing else. What a result contains besides it becomes a message of the
//! user behind the outputs.

use agent_core::{Content, ImageContent, ModelConfig, Timestamp, ToolResultMessage, UserMessage};
use serde_json::{Map, Value, json};

use crate::handoff;
use crate::json::Members;

/// The members of a call that are its arguments.
const ACTION: &str = "action";
const ACTIONS: &str = "actions";
const CHECKS: &str = "pending_safety_checks";

/// The name of the older model, which has the older tool.
const PREVIEW: &str = "computer-use-preview";

/// The output of a call without a screenshot: one grey pixel.
const EMPTY_IMAGE: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNoAAAAggCB2kUIOwAAAABJRU5ErkJggg==";

/// Returns whether a model has the older tool, whose definition contains the size of the screen.
pub(in crate::openai_responses) fn is_preview(model: &ModelConfig) -> bool {
    [&model.id, &model.name].iter().any(|name| name.to_lowercase().contains(PREVIEW))
}

/// Returns the arguments: what the model wants to do, and the safety checks that wait for an answer.
pub(super) fn arguments(item: &Map<String, Value>) -> String {
    let is_said = |name: &str, value: &Value| match name {
        ACTION | ACTIONS => !value.is_null(),
        CHECKS => value.as_array().is_some_and(|checks| !checks.is_empty()),
        _ => false,
    };
    let members = item.iter().filter(|(name, value)| is_said(name, value));
    Value::Object(members.map(|(name, value)| (name.clone(), value.clone())).collect()).to_string()
}

/// Returns the members of a call with these arguments; `None` if they have other members than [`arguments`] writes.
pub(super) fn members(arguments: &Value) -> Option<Value> {
    let given = arguments.as_object()?;
    if given.keys().any(|name| !matches!(name.as_str(), ACTION | ACTIONS | CHECKS)) {
        return None;
    }
    let mut members = given.clone();
    members.entry(CHECKS).or_insert_with(|| json!([]));
    Some(Value::Object(members))
}

/// Writes the members of a call.
pub(super) fn write_members(item: &mut Members<'_>, members: &Value) {
    for (name, value) in members.as_object().into_iter().flatten() {
        item.named(name, value);
    }
}

/// Writes the output of a call. Only a call that was executed confirms the safety checks.
pub(super) fn write_output(
    item: &mut Members<'_>,
    call: &Value,
    call_id: &str,
    result: &ToolResultMessage,
    images: Images,
) {
    item.field("type", "computer_call_output").field("call_id", call_id);
    let mut output = Members::open(item.key("output"));
    output.field("type", "computer_screenshot");
    match screenshot(result, images) {
        Some(image) => output.field("image_url", &*handoff::image_address(image)),
        None => output.field("image_url", EMPTY_IMAGE),
    };
    output.close();
    let checks = call.get(CHECKS).and_then(Value::as_array).filter(|checks| !checks.is_empty());
    if let Some(checks) = checks.filter(|_| !result.is_error) {
        item.field("acknowledged_safety_checks", checks);
    }
}

/// Whether the model of the request sees images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::openai_responses) enum Images {
    /// It does.
    Shown,
    /// It does not.
    Hidden,
}

/// Returns the message with what the output of a call cannot contain; `None` if the result is a screenshot alone.
pub(super) fn beside(call_id: &str, result: &ToolResultMessage, images: Images) -> Option<UserMessage> {
    let shown = screenshot(result, images);
    let is_said = |content: &&Content| match content {
        Content::Text(text) => handoff::text(text).is_some(),
        Content::Image(image) => !shown.is_some_and(|shown| std::ptr::eq(shown, image)),
        _ => true,
    };
    let rest: Vec<&Content> = result.content.iter().filter(is_said).collect();
    let head = match (result.is_error, shown) {
        (false, Some(_)) if rest.is_empty() => return None,
        (false, Some(_)) => "returned this beside the screenshot:",
        (false, None) => "returned no screenshot; the image in its output is empty. It returned:",
        (true, Some(_)) => "failed; the screenshot shows the screen after it. The error:",
        (true, None) => "failed without a screenshot; the image in its output is empty. The error:",
    };
    let head = Content::text(format!("The call `{call_id}` of the tool `{}` {head}", result.tool_name));
    let content = std::iter::once(head).chain(rest.into_iter().cloned()).collect();
    Some(UserMessage::new(content, Timestamp::default()))
}

/// Returns the last image of a result, which shows the screen after all actions.
fn screenshot(result: &ToolResultMessage, images: Images) -> Option<&ImageContent> {
    let mut all = result.content.iter().rev().filter_map(|content| match content {
        Content::Image(image) if !handoff::image_address(image).is_empty() => Some(image),
        _ => None,
    });
    all.next().filter(|_| images == Images::Shown)
}
