//! Encodes a request: first all other members, then the conversation. As for Chat Completions, each unit of the history
//! is encoded once and the keys have a fixed order.

#[cfg(test)]
mod tests;

use agent_core::{
    AgentMessage, AssistantMessage, Content, Encoded, ErrorContext, ErrorKind, ImageContent, Message,
    ModelRequest, ProviderError, ResponseFormat, ThinkingForm, ThinkingLevel, ToolChoice, Unit, UserMessage,
};
use http::header;

use crate::answer_format;
use crate::handoff::{Handoff, IdRule, ImageOut, ThinkingOut, file_text, text, tool_name, wire_key};
use crate::json::{Members, write};
use crate::protocol::HttpRequest;
use crate::request;
use crate::server_tools;
use crate::tool_schema::declared;

/// The text before images from tool results.
const FROM_TOOLS: &str = "The pictures that the tools above returned:";

pub(super) fn request(request: &ModelRequest) -> Result<HttpRequest, ProviderError> {
    server_tools::check(request)?;
    crate::cache::refuse_prewarm(request)?;
    let model = &request.model;
    let url = request::endpoint(model, super::DEFAULT_BASE_URL, "/api/chat")?;
    let mut headers = request::json_headers();
    if let Some(key) = request.key().filter(|k| !k.is_empty()) {
        headers.insert(header::AUTHORIZATION, request::credential(model, "Bearer ", key)?);
    }
    let mut body = request::body_buffer(request);
    let mut members = Members::open(&mut body);
    members.field("model", &model.id).field("stream", &true);
    options(&mut members, request)?;
    tools(&mut members, request);
    messages(members.key("messages"), request);
    members.close();
    Ok(HttpRequest { url, headers, body })
}

fn options(members: &mut Members<'_>, request: &ModelRequest) -> Result<(), ProviderError> {
    let model = &request.model;
    let level = request.options.thinking_level.clamp_to(&model.thinking_levels);
    match (model.thinking, level) {
        (ThinkingForm::None, _) => {}
        (_, ThinkingLevel::Off) => {
            members.field("think", &false);
        }
        (ThinkingForm::Effort, ThinkingLevel::Minimal | ThinkingLevel::Low) => {
            members.field("think", "low");
        }
        (ThinkingForm::Effort, ThinkingLevel::Medium) => {
            members.field("think", "medium");
        }
        (ThinkingForm::Effort, _) => {
            members.field("think", "high");
        }
        (_, _) => {
            members.field("think", &true);
        }
    }
    match &request.options.response_format {
        _ if offers_tools(request) => {}
        ResponseFormat::JsonObject => {
            members.field("format", "json");
        }
        ResponseFormat::JsonSchema { schema, .. } => {
            members.field("format", schema);
        }
        _ => {}
    }
    if matches!(request.options.tool_choice, ToolChoice::Required | ToolChoice::Tool(_)) {
        return Err(cannot(
            request,
            "Ollama has no way to demand a tool call",
            "leave tool_choice at Auto or None",
        ));
    }
    let mut options = Members::open(members.key("options"));
    if let Some(limit) = request::output_limit(request) {
        options.field("num_predict", &limit);
    }
    if let Some(window) = model.context_window {
        options.field("num_ctx", &window);
    }
    if let Some(temperature) = request.options.temperature.filter(|t| t.is_finite()) {
        options.field("temperature", &temperature);
    }
    if !request.options.stop_sequences.is_empty() {
        options.field("stop", &request.options.stop_sequences);
    }
    options.close();
    Ok(())
}

/// Returns whether the request offers tools. A server that enforces an answer format does not let the model call tools, so
/// with tools the system prompt describes the format instead.
fn offers_tools(request: &ModelRequest) -> bool {
    !request.tools.is_empty() && request.options.tool_choice != ToolChoice::None
}

fn tools(members: &mut Members<'_>, request: &ModelRequest) {
    if !offers_tools(request) {
        return;
    }
    let out = members.key("tools");
    let make = || {
        let mut bytes = vec![b'['];
        for tool in request.tools.definitions() {
            if bytes.len() > 1 {
                bytes.push(b',');
            }
            let mut wrapper = Members::open(&mut bytes);
            wrapper.field("type", "function");
            let mut function = Members::open(wrapper.key("function"));
            function.field("name", &tool.name).field("description", &tool.description);
            function.field("parameters", &declared(&tool.parameters));
            function.close();
            wrapper.close();
        }
        bytes.push(b']');
        Encoded::new(bytes, [])
    };
    request
        .tools
        .wire()
        .with(wire_key(request, &["ollama tools"]), make, |e| out.extend_from_slice(e.bytes()));
}

fn messages(out: &mut Vec<u8>, request: &ModelRequest) {
    out.push(b'[');
    let start = out.len();
    let told = if offers_tools(request) {
        answer_format::instruction(&request.options.response_format)
    } else {
        None
    };
    let prompt = answer_format::with_instruction(&request.system_prompt, told);
    if !prompt.trim().is_empty() {
        let mut message = Members::open(out);
        message.field("role", "system").field("content", &*prompt);
        message.close();
    }
    let handoff = Handoff::new(request, IdRule::word(64));
    let key = wire_key(request, &["ollama"]);
    for unit in request.history.units().filter(|u| Handoff::shows(u)) {
        unit.wire().with(
            key,
            || encode_unit(unit, &handoff),
            |encoded| {
                if !encoded.bytes().is_empty() {
                    if out.len() > start {
                        out.push(b',');
                    }
                    out.extend_from_slice(encoded.bytes());
                }
            },
        );
    }
    out.push(b']');
}

fn cannot(request: &ModelRequest, what: &str, advice: &str) -> ProviderError {
    let context =
        ErrorContext::new(what).with_target(&request.model.provider, &request.model.id).with_advice(advice);
    ProviderError::new(ErrorKind::Other, context)
}

/// Encodes one unit as messages, separated by commas.
struct Out {
    bytes: Vec<u8>,
}

/// The text and the images of a message.
#[derive(Default)]
struct Said<'c> {
    text: String,
    pictures: Vec<&'c str>,
}

fn encode_unit(unit: &Unit, handoff: &Handoff<'_>) -> Encoded {
    let mut out = Out { bytes: Vec::new() };
    match unit.first().and_then(AgentMessage::as_llm) {
        Some(Message::User(message)) => user(&mut out, message, handoff),
        Some(Message::Assistant(reply)) => {
            assistant(&mut out, reply, handoff);
            results(&mut out, unit, handoff);
        }
        Some(_) | None => {}
    }
    Encoded::new(out.bytes, [])
}

impl Out {
    fn message(&mut self, role: &str) -> Members<'_> {
        if !self.bytes.is_empty() {
            self.bytes.push(b',');
        }
        let mut message = Members::open(&mut self.bytes);
        message.field("role", role);
        message
    }

    fn said<'c>(content: &'c [Content], handoff: &Handoff<'_>) -> Said<'c> {
        let mut said = Said::default();
        for block in content {
            match block {
                Content::Text(block) => join(&mut said.text, text(block).unwrap_or_default()),
                Content::Image(image) => match (handoff.image(image), image) {
                    (ImageOut::Text(instead), _) => join(&mut said.text, &instead),
                    (ImageOut::Keep, ImageContent::Base64 { data, .. }) => said.pictures.push(data),
                    (ImageOut::Keep, _) => {}
                },
                other => join(&mut said.text, &file_text(other).unwrap_or_default()),
            }
        }
        said
    }

    fn user(&mut self, said: &Said<'_>) {
        if said.text.is_empty() && said.pictures.is_empty() {
            return;
        }
        let mut message = self.message("user");
        message.field("content", &said.text);
        if !said.pictures.is_empty() {
            message.field("images", &said.pictures);
        }
        message.close();
    }
}

fn join(out: &mut String, text: &str) {
    if !out.is_empty() && !text.is_empty() {
        out.push('\n');
    }
    out.push_str(text);
}

fn user(out: &mut Out, message: &UserMessage, handoff: &Handoff<'_>) {
    let said = Out::said(&message.content, handoff);
    out.user(&said);
}

fn assistant(out: &mut Out, reply: &AssistantMessage, handoff: &Handoff<'_>) {
    let mut said = String::new();
    let mut thought = String::new();
    for block in &reply.content {
        match block {
            Content::Text(block) => said.push_str(&block.text),
            Content::Thinking(block) => match handoff.thinking(reply, block) {
                ThinkingOut::Keep => thought.push_str(&block.thinking),
                ThinkingOut::AsText(text) => {
                    said.push_str(&text);
                    said.push_str("\n\n");
                }
                ThinkingOut::Drop => {}
            },
            _ => {}
        }
    }
    if said.trim().is_empty() && reply.tool_calls().next().is_none() {
        return;
    }
    let mut message = out.message("assistant");
    message.field("content", said.as_str());
    if !thought.is_empty() {
        message.field("thinking", &thought);
    }
    let mut calls = reply.tool_calls().peekable();
    if calls.peek().is_some() {
        let list = message.key("tool_calls");
        for (n, call) in calls.enumerate() {
            list.push(if n == 0 { b'[' } else { b',' });
            let mut object = Members::open(list);
            let mut function = Members::open(object.key("function"));
            function.field("name", &tool_name(call.name.as_str()));
            match call.arguments.value() {
                Ok(value) if value.is_object() => write(function.key("arguments"), value),
                Ok(_) | Err(_) => function.key("arguments").extend_from_slice(b"{}"),
            }
            function.close();
            object.close();
        }
        list.push(b']');
    }
    message.close();
}

fn results(out: &mut Out, unit: &Unit, handoff: &Handoff<'_>) {
    let mut pictures = Said { text: FROM_TOOLS.to_owned(), pictures: Vec::new() };
    for result in unit.results() {
        let mut said = Out::said(&result.content, handoff);
        if said.text.is_empty() {
            said.text.push_str(handoff.result_note(&result.content).unwrap_or_default());
        }
        pictures.pictures.append(&mut said.pictures);
        let mut message = out.message("tool");
        message.field("tool_name", &tool_name(result.tool_name.as_str())).field("content", &said.text);
        message.close();
    }
    if !pictures.pictures.is_empty() {
        out.user(&pictures);
    }
}
