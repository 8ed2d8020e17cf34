//! What a request of a compatible route asks of an agent, whatever the route.

use std::collections::BTreeMap;

use agent_core::{
    AgentMessage, AssistantMessage, BasicAgent, Content, ImageContent, Message, ResponseFormat, StopReason,
    ThinkingLevel,
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::super::conversations::checked_image;
use super::super::error::ApiError;
use crate::agents::{AgentFactory, BoxError, ConversationRef, ServedAgent};

/// The maximum number of messages of a request.
const MAX_MESSAGES: usize = 2_000;

/// The maximum number of stop sequences.
const MAX_STOPS: usize = 4;

/// A request, translated.
#[derive(Debug, Default)]
pub(super) struct Ask {
    /// The conversation before the prompt.
    pub(super) history: Vec<AgentMessage>,
    pub(super) prompt: Option<AgentMessage>,
    pub(super) options: Options,
}

/// Settings of one request.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Options {
    /// Instructions after the agent's own system prompt.
    pub(super) instructions: Vec<String>,
    pub(super) temperature: Option<f32>,
    pub(super) max_tokens: Option<u32>,
    pub(super) thinking: Option<ThinkingLevel>,
    pub(super) stop: Vec<String>,
    pub(super) form: Option<ResponseFormat>,
}

impl Options {
    fn apply(&self, agent: &mut BasicAgent) {
        if !self.instructions.is_empty() {
            let own = agent.state().system_prompt;
            let parts = std::iter::once(&*own).chain(self.instructions.iter().map(String::as_str));
            let all: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
            agent.set_system_prompt(all.join("\n\n"));
        }
        agent.set_config(|config| {
            let request = &mut config.request;
            if let Some(temperature) = self.temperature {
                request.temperature = Some(temperature);
            }
            if let Some(tokens) = self.max_tokens {
                request.max_tokens = Some(tokens);
            }
            if let Some(level) = self.thinking {
                request.thinking_level = level;
            }
            if let Some(form) = &self.form {
                request.response_format = form.clone();
            }
            if !self.stop.is_empty() {
                request.stop_sequences.clone_from(&self.stop);
            }
        });
    }
}

/// A factory whose agents have the settings of one request.
pub(super) struct WithOptions<'a> {
    pub(super) factory: &'a dyn AgentFactory,
    pub(super) options: &'a Options,
}

#[async_trait]
impl AgentFactory for WithOptions<'_> {
    async fn make(&self, conversation: &ConversationRef) -> Result<ServedAgent, BoxError> {
        let mut served = self.factory.make(conversation).await?;
        self.options.apply(&mut served.agent);
        Ok(served)
    }
}

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    System,
    Developer,
    User,
    Assistant,
}

impl Ask {
    /// Adds a message. Its parts were read before.
    pub(super) fn add(&mut self, role: Role, content: Vec<Content>, param: &str) -> Result<(), ApiError> {
        if self.history.len() >= MAX_MESSAGES {
            let text = format!("a request has at most {MAX_MESSAGES} messages");
            return Err(ApiError::bad_request(text).at(param));
        }
        let text_only = || {
            let texts = content.iter().map(|block| block.as_text().ok_or(()));
            texts
                .collect::<Result<String, ()>>()
                .map_err(|()| ApiError::unsupported(param, "only messages of the user can have images"))
        };
        match role {
            Role::System | Role::Developer => self.options.instructions.push(text_only()?),
            Role::User => self.history.push(Message::user_content(content).into()),
            Role::Assistant => {
                let mut reply = AssistantMessage::new("", "", StopReason::Stop);
                reply.content = vec![Content::text(text_only()?)];
                self.history.push(Message::Assistant(reply).into());
            }
        }
        Ok(())
    }

    /// Takes the last message, which must be one of the user, as the prompt.
    pub(super) fn finish(mut self, param: &str) -> Result<Self, ApiError> {
        match self.history.pop() {
            Some(last) if last.role() == "user" => {
                self.prompt = Some(last);
                Ok(self)
            }
            _ => Err(ApiError::bad_request("the last message must be one of the user").at(param)),
        }
    }
}

/// Reads an image in the form `data:image/png;base64,...`.
pub(super) fn data_url(url: &str, param: &str) -> Result<ImageContent, ApiError> {
    let parts = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let Some((mime_type, data)) = parts else {
        let text = "images are sent as data:image/png;base64,...; the server loads no addresses";
        return Err(ApiError::unsupported(param, text));
    };
    checked_image(mime_type.to_owned(), data.to_owned(), param)
}

/// Checks the temperature.
pub(super) fn temperature(value: Option<f32>) -> Result<Option<f32>, ApiError> {
    match value {
        Some(value) if !(0.0..=2.0).contains(&value) => {
            Err(ApiError::bad_request("temperature is between 0 and 2").at("temperature"))
        }
        value => Ok(value),
    }
}

/// Checks a number of tokens.
pub(super) fn tokens(value: Option<u32>, param: &str) -> Result<Option<u32>, ApiError> {
    match value {
        Some(0) => Err(ApiError::bad_request(format!("{param} is at least 1")).at(param)),
        value => Ok(value),
    }
}

/// Reads the effort of reasoning.
pub(super) fn effort(value: Option<&str>, param: &str) -> Result<Option<ThinkingLevel>, ApiError> {
    let level = match value {
        None => return Ok(None),
        Some("none") => ThinkingLevel::Off,
        Some("minimal") => ThinkingLevel::Minimal,
        Some("low") => ThinkingLevel::Low,
        Some("medium") => ThinkingLevel::Medium,
        Some("high") => ThinkingLevel::High,
        Some("xhigh") => ThinkingLevel::XHigh,
        Some(_) => {
            let text = "the effort is none, minimal, low, medium, high or xhigh";
            return Err(ApiError::bad_request(text).at(param));
        }
    };
    Ok(Some(level))
}

/// One stop sequence or several.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Stop {
    One(String),
    Several(Vec<String>),
}

impl Stop {
    pub(super) fn checked(self) -> Result<Vec<String>, ApiError> {
        let all = match self {
            Self::One(one) => vec![one],
            Self::Several(all) => all,
        };
        if all.len() > MAX_STOPS || all.iter().any(String::is_empty) {
            let text = format!("stop has at most {MAX_STOPS} sequences, and none is empty");
            return Err(ApiError::bad_request(text).at("stop"));
        }
        Ok(all)
    }
}

/// The name of a member, and whether a value of it changes nothing.
pub(super) type Neutral = (&'static str, fn(&Value) -> bool);

/// Members that label a request and cannot change its answer. Chat programs send them with every request.
const LABELS: &[&str] =
    &["user", "metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "name", "store"];

/// Why a member that could change the answer is refused.
const REASONS: &[(&[&str], &str)] = &[
    (
        &["tools", "functions", "tool_choice", "function_call"],
        "the agent has its own tools, which run on this server, and calls none of the client",
    ),
    (
        &[
            "top_p",
            "top_k",
            "min_p",
            "seed",
            "frequency_penalty",
            "presence_penalty",
            "logit_bias",
            "verbosity",
        ],
        "of the sampling values only temperature, stop and the number of tokens are passed on to the model",
    ),
    (&["response_format", "text"], "the form is text, json_object, or json_schema with a schema"),
    (&["n", "logprobs", "top_logprobs"], "an agent gives one answer, as text"),
    (&["modalities", "audio", "prediction"], "an agent answers with text"),
];

/// Refuses members that the route does not support. A member with the value that OpenAI uses without it changes nothing, nor
/// does a label.
pub(super) fn refuse_others(others: &BTreeMap<String, Value>, neutral: &[Neutral]) -> Result<(), ApiError> {
    for (name, value) in others {
        let is_neutral = neutral.iter().any(|(known, is_neutral)| known == name && is_neutral(value));
        if !value.is_null() && !is_neutral && !LABELS.contains(&name.as_str()) {
            let reason = REASONS.iter().find(|(names, _)| names.contains(&name.as_str()));
            let reason = reason.map_or("so the request was refused", |(_, reason)| *reason);
            let name: String = name.chars().take(64).collect();
            let text = format!("{name:?} is not supported here: {reason}; leave it out");
            return Err(ApiError::unsupported(&name, text));
        }
    }
    Ok(())
}

/// Reads the form of the answer, as `response_format` of a chat or `text.format` of a response has it.
pub(super) fn form(value: Option<&Value>, param: &str) -> Result<Option<ResponseFormat>, ApiError> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
    match value["type"].as_str() {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(ResponseFormat::JsonObject)),
        Some("json_schema") => {
            // A chat has the schema one level deeper than a response.
            let inner = if value["json_schema"].is_object() { &value["json_schema"] } else { value };
            match (inner["name"].as_str(), &inner["schema"]) {
                (Some(name), schema @ Value::Object(_)) => {
                    let (name, schema) = (name.to_owned(), schema.clone());
                    Ok(Some(ResponseFormat::JsonSchema { name, schema, strict: inner["strict"] == true }))
                }
                _ => Err(ApiError::bad_request("a form json_schema has a name and a schema").at(param)),
            }
        }
        _ => {
            let text = format!("{param:?} is text, json_object, or json_schema with a schema");
            Err(ApiError::unsupported(param, text))
        }
    }
}
