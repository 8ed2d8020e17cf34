//! `POST /v1/responses`.

use std::collections::BTreeMap;

use agent_core::{Content, SessionId, Usage};
use axum::Json;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::response::{IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::conversations::seconds;
use super::super::error::{ApiError, CONVERSATION};
use super::super::extract::{Body, Caller, InPath};
use super::ask::{Ask, Neutral, Role, data_url, effort, form, refuse_others, temperature, tokens};
use super::chat::{CachedTokens, is_empty_list};
use super::responses_stream;
use super::run::{Finish, Piece, Running, Seat};
use crate::service::{Lifetime, Service};

/// A request for a response. Other members than these are refused, unless they have the value that changes nothing.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ResponsesRequest {
    /// The name of an agent
    model: String,
    /// A text, or the messages of a conversation. The last one is of the user
    input: Input,
    /// Instructions after the agent's own
    #[serde(default)]
    instructions: Option<String>,
    /// Whether the answer is streamed
    #[serde(default)]
    stream: Option<bool>,
    /// Whether the conversation is kept. Default: true
    #[serde(default)]
    store: Option<bool>,
    /// The latest response of a kept conversation, which the input continues
    #[serde(default)]
    previous_response_id: Option<String>,
    /// Between 0 and 2
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 2.0))]
    temperature: Option<f32>,
    /// The tokens of each reply of the model
    #[serde(default)]
    #[schemars(range(min = 1))]
    max_output_tokens: Option<u32>,
    #[serde(default)]
    reasoning: Option<Reasoning>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// How much the model thinks.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reasoning {
    /// none, minimal, low, medium, high or xhigh
    #[serde(default)]
    effort: Option<String>,
}

/// The input of a request.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "the input is a text or a list of messages with a role and a content")]
pub(crate) enum Input {
    Text(String),
    Items(Vec<Item>),
}

/// A message of the input.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Item {
    /// `message`
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    role: Option<Role>,
    #[serde(default)]
    content: Option<ItemContent>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// The content of a message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "the content of a message is a text or a list of parts with a type")]
pub(crate) enum ItemContent {
    Text(String),
    Parts(Vec<ItemPart>),
}

/// A part of a message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ItemPart {
    InputText {
        text: String,
    },
    OutputText {
        text: String,
    },
    InputImage {
        /// `data:image/png;base64,...`
        #[serde(default)]
        image_url: Option<String>,
        /// `auto`
        #[serde(default)]
        detail: Option<String>,
    },
    #[serde(other)]
    Other,
}

/// Members that change nothing with these values.
const NEUTRAL: &[Neutral] = &[
    ("tools", is_empty_list),
    ("tool_choice", |value| *value == "none" || *value == "auto"),
    ("parallel_tool_calls", Value::is_boolean),
    ("top_p", |value| value.as_f64() == Some(1.0)),
    ("truncation", |value| *value == "disabled"),
    ("background", |value| *value == false),
    ("service_tier", |value| *value == "auto" || *value == "default"),
    // Its format is read.
    ("text", |value| value.as_object().is_some_and(|text| text.keys().all(|name| name == "format"))),
    // The output has no further parts to include.
    ("include", |value| {
        value.as_array().is_some_and(|all| all.iter().all(|one| *one == "reasoning.encrypted_content"))
    }),
];

impl ResponsesRequest {
    pub(super) fn ask(self) -> Result<Ask, ApiError> {
        refuse_others(&self.others, NEUTRAL)?;
        let mut ask = Ask::default();
        ask.options.instructions.extend(self.instructions);
        match self.input {
            Input::Text(text) => ask.add(Role::User, vec![Content::text(text)], "input")?,
            Input::Items(items) => {
                for (at, item) in items.into_iter().enumerate() {
                    let param = format!("input[{at}]");
                    // What a client sends back of an earlier stream.
                    if item.kind.as_deref() == Some("reasoning") {
                        continue;
                    }
                    if item.kind.as_deref().is_some_and(|kind| kind != "message") {
                        return Err(ApiError::unsupported(
                            &param,
                            "the input has items of the type message only",
                        ));
                    }
                    // What a client sends back of an earlier response.
                    let known: &[Neutral] =
                        &[("id", Value::is_string), ("status", |status| *status == "completed")];
                    refuse_others(&item.others, known).map_err(|error| error.at(&param))?;
                    let missing = |member: &str| {
                        ApiError::bad_request(format!("{param}.{member} is missing")).at(&param)
                    };
                    let role = item.role.ok_or_else(|| missing("role"))?;
                    match item.content {
                        Some(content) => ask.add(role, blocks(content, &param)?, &param)?,
                        None if role == Role::Assistant => {}
                        None => return Err(missing("content")),
                    }
                }
            }
        }
        let text = self.others.get("text").and_then(|text| text.get("format"));
        ask.options.form = form(text, "text.format")?;
        ask.options.temperature = temperature(self.temperature)?;
        ask.options.max_tokens = tokens(self.max_output_tokens, "max_output_tokens")?;
        let level = self.reasoning.and_then(|reasoning| reasoning.effort);
        ask.options.thinking = effort(level.as_deref(), "reasoning.effort")?;
        ask.finish("input")
    }
}

fn blocks(content: ItemContent, param: &str) -> Result<Vec<Content>, ApiError> {
    let parts = match content {
        ItemContent::Text(text) => return Ok(vec![Content::text(text)]),
        ItemContent::Parts(parts) => parts,
    };
    if parts.is_empty() {
        return Err(ApiError::bad_request("the content of the message is empty").at(param));
    }
    let block = |part| match part {
        ItemPart::InputText { text } | ItemPart::OutputText { text } => Ok(Content::text(text)),
        ItemPart::InputImage { image_url: Some(url), detail } => {
            if detail.is_some_and(|detail| detail != "auto") {
                return Err(ApiError::unsupported(param, "the detail of images is always auto"));
            }
            data_url(&url, param).map(Content::Image)
        }
        ItemPart::InputImage { image_url: None, .. } | ItemPart::Other => {
            let text =
                "messages have parts of the types input_text, output_text, and input_image with an image_url";
            Err(ApiError::unsupported(param, text))
        }
    };
    parts.into_iter().map(block).collect()
}

/// The id of a response: the conversation, and the number of its last event before the run of the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResponseId {
    pub(super) conversation: SessionId,
    pub(super) after: u64,
}

impl std::fmt::Display for ResponseId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "resp_{}_{}", self.conversation, self.after)
    }
}

impl std::str::FromStr for ResponseId {
    type Err = ApiError;

    fn from_str(text: &str) -> Result<Self, ApiError> {
        let parts = text.strip_prefix("resp_").and_then(|rest| rest.rsplit_once('_'));
        let parsed = parts.and_then(|(id, number)| Some((id, number.parse().ok()?)));
        match parsed {
            Some((id, after)) => Ok(Self { conversation: id.into(), after }),
            None => Err(unknown_response()),
        }
    }
}

fn unknown_response() -> ApiError {
    let text =
        "there is no such response that can be continued; only the latest one of a kept conversation can";
    ApiError::new(axum::http::StatusCode::BAD_REQUEST, "previous_response_not_found", text)
        .at("previous_response_id")
}

/// A response.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ResponseBody {
    pub(super) id: String,
    object: &'static str,
    created_at: u64,
    /// `in_progress`, `completed`, `incomplete` or `failed`
    pub(super) status: &'static str,
    error: Option<Value>,
    incomplete_details: Option<Incomplete>,
    model: String,
    /// A message for each reply of the agent with text
    pub(super) output: Vec<Value>,
    previous_response_id: Option<String>,
    store: bool,
    temperature: Option<f32>,
    max_output_tokens: Option<u32>,
    parallel_tool_calls: bool,
    tool_choice: &'static str,
    tools: Vec<Value>,
    usage: Option<ResponseUsage>,
}

/// Why a response ends early.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Incomplete {
    reason: &'static str,
}

/// The tokens of a response, over all turns.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ResponseUsage {
    input_tokens: u64,
    input_tokens_details: CachedTokens,
    output_tokens: u64,
    output_tokens_details: ReasoningTokens,
    total_tokens: u64,
}

/// The tokens of thinking.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ReasoningTokens {
    reasoning_tokens: u64,
}

impl ResponseBody {
    /// Returns the body at the beginning of a response.
    fn new(id: String, service: &Service, model: String) -> Self {
        Self {
            id,
            object: "response",
            created_at: seconds(service.inner.shared.environment.now()),
            status: "in_progress",
            error: None,
            incomplete_details: None,
            model,
            output: Vec::new(),
            previous_response_id: None,
            store: true,
            temperature: None,
            max_output_tokens: None,
            parallel_tool_calls: true,
            tool_choice: "auto",
            tools: Vec::new(),
            usage: None,
        }
    }

    /// Returns the body of a response that failed.
    pub(super) fn failed(mut self, error: &ApiError) -> Self {
        self.status = "failed";
        self.error = Some(json!({"code": "server_error", "message": error.body().error.message}));
        self
    }

    /// Returns the body at the end of a response.
    pub(super) fn finished(mut self, finish: Finish, usage: Usage) -> Self {
        match finish {
            Finish::Complete => self.status = "completed",
            Finish::Cut => {
                self.status = "incomplete";
                self.incomplete_details = Some(Incomplete { reason: "max_output_tokens" });
            }
        }
        let (input_tokens, output_tokens) = (usage.prompt_tokens(), usage.output);
        self.usage = Some(ResponseUsage {
            input_tokens,
            input_tokens_details: CachedTokens { cached_tokens: usage.cache_read },
            output_tokens,
            output_tokens_details: ReasoningTokens { reasoning_tokens: usage.reasoning },
            total_tokens: input_tokens.saturating_add(output_tokens),
        });
        self
    }
}

/// Returns a message of the output.
pub(super) fn message(id: &str, status: &str, text: Option<&str>) -> Value {
    let content: Vec<Value> = text.map(part).into_iter().collect();
    json!({"type": "message", "id": id, "status": status, "role": "assistant", "content": content})
}

/// Returns a part of a message.
pub(super) fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

pub(in super::super) async fn respond(
    State(service): State<Service>,
    Caller(account): Caller,
    Body(body, request): Body<ResponsesRequest>,
) -> Result<Response, ApiError> {
    let kept = body.store != Some(false);
    let lifetime = if kept { Lifetime::Kept } else { Lifetime::Once };
    let streams = body.stream == Some(true);
    let previous = body.previous_response_id.clone();
    let continued = previous.as_deref().map(str::parse::<ResponseId>).transpose()?;
    if continued.is_some() && !kept {
        let text = "a response that continues a kept conversation is kept, too; leave store out";
        return Err(ApiError::unsupported("store", text));
    }
    let model = body.model.clone();
    let (temperature, max_output_tokens) = (body.temperature, body.max_output_tokens);
    let ask = body.ask()?;
    let seat = Seat { service: &service, account: &account, lifetime, request };
    let running = match continued {
        None => seat.begin(&model, ask).await?,
        Some(previous) => {
            if !ask.history.is_empty() {
                let text = "a response that continues another one has one message of the user as its input";
                return Err(ApiError::bad_request(text).at("input"));
            }
            let begun = seat.go_on(&previous.conversation, ask, |conversation| {
                let is_latest = conversation.events.before_last_loop() == Some(previous.after);
                let is_agent = *conversation.of.agent == *model;
                if is_latest && is_agent { Ok(()) } else { Err(unknown_response()) }
            });
            begun.await.map_err(|error| error.or_unknown(unknown_response))?
        }
    };
    let id = ResponseId { conversation: running.conversation().of.id.clone(), after: running.after() };
    let body = ResponseBody {
        previous_response_id: previous,
        store: kept,
        temperature,
        max_output_tokens,
        ..ResponseBody::new(id.to_string(), &service, model)
    };
    let conversation = HeaderValue::try_from(id.conversation.as_str());
    let mut response = match streams {
        true => responses_stream::stream(&service, running, body, id),
        false => Json(whole(running, body, id).await?).into_response(),
    };
    if let Ok(conversation) = conversation {
        response.headers_mut().insert(CONVERSATION, conversation);
    }
    Ok(response)
}

/// Returns a response of a kept conversation.
pub(in super::super) async fn retrieve(
    State(service): State<Service>,
    Caller(account): Caller,
    InPath(id): InPath<String>,
) -> Result<Json<ResponseBody>, ApiError> {
    let unknown =
        || ApiError::not_found("there is no such response; only those of kept conversations are stored");
    let id: ResponseId = id.parse().map_err(|_| unknown())?;
    let seat = Seat { service: &service, account: &account, lifetime: Lifetime::Kept, request: None };
    let mut running = seat.find_run(&id.conversation, id.after).await?.ok_or_else(unknown)?;
    let agent = running.conversation().of.agent.to_string();
    let mut body = ResponseBody::new(id.to_string(), &service, agent);
    body.created_at = seconds(running.start_time());
    body.output = read_output(&mut running, &id).await;
    let usage = running.usage();
    Ok(Json(match running.finish().await {
        Ok(finish) => body.finished(finish, usage),
        Err(error) => body.failed(&error),
    }))
}

async fn whole(
    mut running: Running,
    mut body: ResponseBody,
    id: ResponseId,
) -> Result<ResponseBody, ApiError> {
    body.output = read_output(&mut running, &id).await;
    let usage = running.usage();
    let finish = running.finish().await?;
    Ok(body.finished(finish, usage))
}

/// Reads the messages of the output to their end.
async fn read_output(running: &mut Running, id: &ResponseId) -> Vec<Value> {
    let mut output = Vec::new();
    while let Some(piece) = running.next().await {
        if let Piece::Reply(text) = piece
            && !text.is_empty()
        {
            let message_id = format!("msg_{}_{}", id.conversation, output.len());
            output.push(message(&message_id, "completed", Some(&text)));
        }
    }
    output
}
