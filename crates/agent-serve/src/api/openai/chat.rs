//! `POST /v1/chat/completions`.

use std::collections::BTreeMap;

use agent_core::{Content, Usage};
use axum::Json;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::response::{IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::conversations::seconds;
use super::super::error::{ApiError, CONVERSATION};
use super::super::extract::{Body, Caller};
use super::ask::{Ask, Neutral, Role, Stop, data_url, effort, form, refuse_others, temperature, tokens};
use super::run::{Finish, Piece, Running, Seat};
use super::{chat_stream, run};
use crate::service::{Lifetime, Service};

/// A request for a chat completion. Other members than these are refused, unless they have the value that changes nothing.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ChatRequest {
    /// The name of an agent
    model: String,
    /// The conversation. The last message is one of the user
    #[schemars(length(min = 1))]
    messages: Vec<ChatMessage>,
    /// Whether the answer is streamed
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    /// Between 0 and 2
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 2.0))]
    temperature: Option<f32>,
    /// The tokens of each reply of the model
    #[serde(default)]
    #[schemars(range(min = 1))]
    max_completion_tokens: Option<u32>,
    /// The same, by its older name
    #[serde(default)]
    #[schemars(range(min = 1))]
    max_tokens: Option<u32>,
    /// none, minimal, low, medium, high or xhigh
    #[serde(default)]
    reasoning_effort: Option<String>,
    /// Sequences at which a reply ends, at most 4
    #[serde(default)]
    stop: Option<Stop>,
    /// Whether the conversation is kept
    #[serde(default)]
    store: Option<bool>,
    /// The form of the answer: text, json_object, or json_schema with a schema
    #[serde(default)]
    response_format: Option<Value>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// What a stream contains.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamOptions {
    /// Whether a last piece has the tokens
    #[serde(default)]
    include_usage: Option<bool>,
}

/// A message of the conversation.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ChatMessage {
    role: Role,
    /// Null in a message of the assistant that has nothing to show
    #[serde(default)]
    content: Option<ChatContent>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// The content of a message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "the content of a message is a text or a list of parts with a type")]
pub(crate) enum ChatContent {
    Text(String),
    Parts(Vec<ChatPart>),
}

/// A part of a message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ChatPart {
    Text {
        text: String,
    },
    ImageUrl {
        image_url: ImageUrl,
    },
    #[serde(other)]
    Other,
}

/// An image of a message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImageUrl {
    /// `data:image/png;base64,...`
    url: String,
    /// `auto`
    #[serde(default)]
    detail: Option<String>,
}

/// Members that change nothing with these values.
const NEUTRAL: &[Neutral] = &[
    ("n", |value| *value == 1),
    ("tools", is_empty_list),
    ("functions", is_empty_list),
    ("tool_choice", |value| *value == "none" || *value == "auto"),
    ("function_call", |value| *value == "none" || *value == "auto"),
    ("parallel_tool_calls", Value::is_boolean),
    ("frequency_penalty", |value| value.as_f64() == Some(0.0)),
    ("presence_penalty", |value| value.as_f64() == Some(0.0)),
    ("top_p", |value| value.as_f64() == Some(1.0)),
    ("logprobs", |value| *value == false),
    ("modalities", |value| value.as_array().is_some_and(|all| all.iter().all(|one| *one == "text"))),
    ("service_tier", |value| *value == "auto" || *value == "default"),
    ("logit_bias", |value| value.as_object().is_some_and(serde_json::Map::is_empty)),
];

pub(super) fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

impl ChatRequest {
    pub(super) fn ask(self) -> Result<Ask, ApiError> {
        refuse_others(&self.others, NEUTRAL)?;
        let mut ask = Ask::default();
        for (at, message) in self.messages.into_iter().enumerate() {
            let param = format!("messages[{at}]");
            // A refusal or calls of an earlier reply are null in what clients send back.
            refuse_others(&message.others, &[("tool_calls", is_empty_list), ("annotations", is_empty_list)])
                .map_err(|error| error.at(&param))?;
            match message.content {
                Some(content) => ask.add(message.role, blocks(content, &param)?, &param)?,
                None if message.role == Role::Assistant => {}
                None => {
                    let text = "only a message of the assistant can be without content";
                    return Err(ApiError::bad_request(text).at(&format!("{param}.content")));
                }
            }
        }
        ask.options.temperature = temperature(self.temperature)?;
        let most = tokens(self.max_completion_tokens, "max_completion_tokens")?;
        ask.options.max_tokens = most.or(tokens(self.max_tokens, "max_tokens")?);
        ask.options.thinking = effort(self.reasoning_effort.as_deref(), "reasoning_effort")?;
        ask.options.form = form(self.response_format.as_ref(), "response_format")?;
        ask.options.stop = self.stop.map(Stop::checked).transpose()?.unwrap_or_default();
        ask.finish("messages")
    }
}

fn blocks(content: ChatContent, param: &str) -> Result<Vec<Content>, ApiError> {
    let parts = match content {
        ChatContent::Text(text) => return Ok(vec![Content::text(text)]),
        ChatContent::Parts(parts) => parts,
    };
    if parts.is_empty() {
        return Err(ApiError::bad_request("the content of the message is empty").at(param));
    }
    let block = |part| match part {
        ChatPart::Text { text } => Ok(Content::text(text)),
        ChatPart::ImageUrl { image_url } => {
            if image_url.detail.is_some_and(|detail| detail != "auto") {
                return Err(ApiError::unsupported(param, "the detail of images is always auto"));
            }
            data_url(&image_url.url, param).map(Content::Image)
        }
        ChatPart::Other => {
            Err(ApiError::unsupported(param, "messages have parts of the types text and image_url"))
        }
    };
    parts.into_iter().map(block).collect()
}

/// A chat completion.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChatCompletion {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
    choices: Vec<Choice>,
    usage: ChatUsage,
}

/// The answer.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Choice {
    index: u32,
    message: ChoiceMessage,
    logprobs: Option<Value>,
    /// `stop`, or `length` if the answer ends early
    finish_reason: &'static str,
}

/// The message of the answer.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChoiceMessage {
    role: &'static str,
    /// The texts of all replies of the agent, separated by empty lines
    content: String,
    refusal: Option<String>,
}

/// The tokens of the answer, over all turns.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct ChatUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: CachedTokens,
}

/// The tokens that were read from a cache.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct CachedTokens {
    pub(super) cached_tokens: u64,
}

impl From<Usage> for ChatUsage {
    fn from(usage: Usage) -> Self {
        let (prompt_tokens, completion_tokens) = (usage.prompt_tokens(), usage.output);
        Self {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens.saturating_add(completion_tokens),
            prompt_tokens_details: CachedTokens { cached_tokens: usage.cache_read },
        }
    }
}

/// The reason why an answer ends.
pub(super) fn finish_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Complete => "stop",
        Finish::Cut => "length",
    }
}

pub(in super::super) async fn complete(
    State(service): State<Service>,
    Caller(account): Caller,
    Body(body, request): Body<ChatRequest>,
) -> Result<Response, ApiError> {
    let lifetime = if body.store == Some(true) { Lifetime::Kept } else { Lifetime::Once };
    let streams = body.stream == Some(true);
    if body.stream_options.is_some() && !streams {
        return Err(ApiError::bad_request("stream_options is for streams only").at("stream_options"));
    }
    let include_usage = body.stream_options.and_then(|options| options.include_usage) == Some(true);
    let model = body.model.clone();
    let ask = body.ask()?;
    let running = Seat { service: &service, account: &account, lifetime, request }.begin(&model, ask).await?;
    let head = Head {
        id: format!("chatcmpl-{}", running.conversation().of.id),
        created: seconds(service.inner.shared.environment.now()),
        model,
    };
    let conversation = HeaderValue::try_from(running.conversation().of.id.as_str());
    let mut response = match streams {
        true => chat_stream::stream(&service, running, head, include_usage),
        false => whole(running, head).await?,
    };
    if let Ok(conversation) = conversation {
        response.headers_mut().insert(CONVERSATION, conversation);
    }
    Ok(response)
}

/// What all pieces of an answer have in common.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) model: String,
}

async fn whole(mut running: Running, head: Head) -> Result<Response, ApiError> {
    let mut texts = Vec::new();
    while let Some(piece) = running.next().await {
        if let Piece::Reply(text) = piece
            && !text.is_empty()
        {
            texts.push(text);
        }
    }
    let usage = running.usage();
    let finish = running.finish().await?;
    let message =
        ChoiceMessage { role: "assistant", content: texts.join(run::BETWEEN_REPLIES), refusal: None };
    let choice = Choice { index: 0, message, logprobs: None, finish_reason: finish_reason(finish) };
    let Head { id, created, model } = head;
    let object = "chat.completion";
    let completion =
        ChatCompletion { id, object, created, model, choices: vec![choice], usage: usage.into() };
    Ok(Json(completion).into_response())
}
