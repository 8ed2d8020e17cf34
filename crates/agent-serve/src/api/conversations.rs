//! Conversations: create, list, read, delete, prompt, steer, follow up, resume, abort.

use std::sync::Arc;

use agent_core::{AgentMessage, Content, ImageContent, Message, SessionId, Timestamp, Usage};
use agent_session::{LoopStatus, Order, Session, SessionQuery, SessionSummary, SortBy};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use base64::Engine as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::AcquireError;

use super::error::ApiError;
use super::extract::{Body, Caller, InPath, Keyed, Params};
use crate::conversation::requests::{Repeated, RequestId};
use crate::conversation::{StartError, Started, replay};
use crate::keys::Account;
use crate::registry::OpenError;
use crate::service::{Lifetime, Service};

/// The maximum number of items of a page.
pub(super) const MAX_ITEMS: usize = 200;

/// The maximum number of messages that wait for an open run.
const MAX_QUEUED: usize = 32;

/// The maximum number of images of a message.
const MAX_IMAGES: usize = 20;

/// The types of images that a message can have.
const IMAGE_TYPES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// What a run of a conversation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// No run is open
    Idle,
    /// A run works
    Running,
    /// The run waits for an answer to a question
    Waiting,
    /// The run was cut off and can be resumed
    Interrupted,
}

/// A conversation.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Conversation")]
pub(crate) struct ConversationBody {
    /// The id, which is that of the session
    pub(crate) id: String,
    /// The name of the agent
    pub(crate) agent: String,
    /// The state of its run
    pub(crate) status: Status,
    /// The beginning of the first message
    pub(crate) title: Option<String>,
    /// Milliseconds since 1970
    pub(crate) created_at: u64,
    /// Milliseconds since 1970
    pub(crate) last_active_at: u64,
    /// The number of messages
    pub(crate) messages: u64,
    /// The tokens of all turns
    #[schemars(with = "TokenUsage")]
    pub(crate) usage: Usage,
    /// The cost in millionths of the currency of the prices
    pub(crate) cost_micros: u64,
    /// The number of the last event; absent in lists
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_event: Option<u64>,
}

/// Tokens in disjoint groups.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Usage")]
pub(crate) struct TokenUsage {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

/// A page of conversations, the last used first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ConversationList {
    pub(crate) conversations: Vec<ConversationBody>,
    /// The number of all conversations of the key
    pub(crate) total: usize,
    /// The number of conversations that could not be read
    pub(crate) unreadable: usize,
}

/// A page of a list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PageQuery {
    /// The first item, from 0
    pub(crate) offset: Option<u32>,
    /// The number of items
    #[schemars(range(min = 1, max = 200))]
    pub(crate) limit: Option<u32>,
}

impl PageQuery {
    /// Returns the first item and the number of items.
    pub(super) fn range(&self) -> Result<(usize, usize), ApiError> {
        let limit = self.limit.map_or(50, |limit| limit as usize);
        if limit == 0 || limit > MAX_ITEMS {
            let text = format!("limit is between 1 and {MAX_ITEMS}");
            return Err(ApiError::bad_request(text).at("limit"));
        }
        Ok((self.offset.unwrap_or_default() as usize, limit))
    }
}

/// A new conversation.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewConversation {
    /// The name of the agent. Default: the first one of the service
    #[serde(default)]
    pub(crate) agent: Option<String>,
}

/// A message of the user.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserMessageBody {
    /// The text
    #[schemars(length(min = 1))]
    pub(crate) text: String,
    /// Images after the text, at most 20
    #[serde(default)]
    #[schemars(length(max = 20))]
    pub(crate) images: Vec<ImageBody>,
}

/// An image of a message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImageBody {
    /// image/png, image/jpeg, image/gif or image/webp
    pub(crate) mime_type: String,
    /// The image in base64
    pub(crate) data: String,
}

impl UserMessageBody {
    pub(super) fn into_message(self) -> Result<AgentMessage, ApiError> {
        if self.text.is_empty() && self.images.is_empty() {
            return Err(ApiError::bad_request("the message is empty").at("text"));
        }
        if self.images.len() > MAX_IMAGES {
            let text = format!("a message has at most {MAX_IMAGES} images");
            return Err(ApiError::bad_request(text).at("images"));
        }
        let mut blocks = vec![Content::text(self.text)];
        for image in self.images {
            blocks.push(Content::Image(checked_image(image.mime_type, image.data, "images")?));
        }
        Ok(Message::user_content(blocks).into())
    }
}

/// Checks the type and the base64 of an image.
pub(super) fn checked_image(mime_type: String, data: String, param: &str) -> Result<ImageContent, ApiError> {
    if !IMAGE_TYPES.contains(&mime_type.as_str()) {
        let text = format!("images are of the types {}", IMAGE_TYPES.join(", "));
        return Err(ApiError::bad_request(text).at(param));
    }
    if base64::engine::general_purpose::STANDARD.decode(&data).is_err() {
        return Err(ApiError::bad_request("the data of an image is not base64").at(param));
    }
    match Content::image(data, mime_type) {
        Content::Image(image) => Ok(image),
        _ => Err(ApiError::internal(&"an image is not an image")),
    }
}

/// A run that was recorded.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunStarted {
    /// The number of the last event before the run: `GET .../events?after=N` returns the events of the run
    pub(crate) after: u64,
}

/// An accepted request without a result.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Accepted {
    /// The state of the conversation
    pub(crate) status: Status,
}

pub(super) async fn create(
    State(service): State<Service>,
    Caller(account): Caller,
    Body(body, request): Body<NewConversation>,
) -> Result<(StatusCode, Json<ConversationBody>), ApiError> {
    let created = service.create(&account, body.agent.as_deref(), Lifetime::Kept, request.as_ref()).await;
    let (of, _) = created.map_err(|error| match error {
        OpenError::NoAgent(_) => {
            let text = "this server has no such agent; GET /v1/models lists those it has";
            ApiError::bad_request(text).at("agent")
        }
        error => error.into(),
    })?;
    let now = service.inner.shared.environment.now().0;
    let body = ConversationBody {
        id: of.id.to_string(),
        agent: of.agent.to_string(),
        status: Status::Idle,
        title: None,
        created_at: now,
        last_active_at: now,
        messages: 0,
        usage: Usage::default(),
        cost_micros: 0,
        last_event: Some(0),
    };
    Ok((StatusCode::CREATED, Json(body)))
}

pub(super) async fn list(
    State(service): State<Service>,
    Caller(account): Caller,
    Params(page): Params<PageQuery>,
) -> Result<Json<ConversationList>, ApiError> {
    let (offset, limit) = page.range()?;
    let query = SessionQuery::new()
        .with_agent(account.owner())
        .sorted(SortBy::LastActive, Order::Descending)
        .page(offset, limit);
    let store = Arc::clone(&service.inner.shared.store);
    let found = service.read(&account, async move { store.find_sessions(&query).await }).await??;
    let mut conversations = Vec::new();
    for session in found.sessions {
        let running = service.is_running(&session.summary.session_id).await;
        conversations.push(of_summary(session.summary, running));
    }
    let unreadable = found.unreadable.len();
    Ok(Json(ConversationList { conversations, total: found.total, unreadable }))
}

fn agent_of(id: &str) -> &str {
    id.rsplit_once('-').map_or(id, |(agent, _)| agent)
}

fn of_summary(summary: SessionSummary, running: bool) -> ConversationBody {
    ConversationBody {
        agent: agent_of(summary.session_id.as_str()).to_owned(),
        id: summary.session_id.to_string(),
        status: status_of(summary.status, running),
        title: summary.title,
        created_at: summary.created_at.0,
        last_active_at: summary.last_active_at.0,
        messages: summary.messages,
        usage: summary.usage,
        cost_micros: summary.cost_micros,
        last_event: None,
    }
}

fn status_of(stored: Option<LoopStatus>, running: bool) -> Status {
    match stored {
        _ if running => Status::Running,
        Some(LoopStatus::Suspended) => Status::Waiting,
        Some(LoopStatus::Interrupted | LoopStatus::Running | LoopStatus::Pending) => Status::Interrupted,
        _ => Status::Idle,
    }
}

pub(super) async fn get(
    State(service): State<Service>,
    Caller(account): Caller,
    InPath(id): InPath<String>,
) -> Result<Json<ConversationBody>, ApiError> {
    let id = SessionId::from(id);
    let session = service.session(&account, &id).await?;
    let running = service.is_running(&id).await;
    let mut body = of_summary(SessionSummary::of(&session), running);
    body.last_event = Some(replay::count(&session).0);
    Ok(Json(body))
}

pub(super) async fn delete(
    State(service): State<Service>,
    Caller(account): Caller,
    InPath(id): InPath<String>,
) -> Result<StatusCode, ApiError> {
    service.delete(&account, &SessionId::from(id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A page of messages, in their order.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MessageList {
    /// Messages in the form of session files
    #[schemars(with = "Vec<Value>")]
    pub(crate) messages: Vec<AgentMessage>,
    /// The number of all messages
    pub(crate) total: usize,
}

pub(super) async fn messages(
    State(service): State<Service>,
    Caller(account): Caller,
    InPath(id): InPath<String>,
    Params(page): Params<PageQuery>,
) -> Result<Json<MessageList>, ApiError> {
    let (offset, limit) = page.range()?;
    let session = service.session(&account, &SessionId::from(id)).await?;
    let history = session.history().map_err(ApiError::from)?;
    let messages = history.messages().skip(offset).take(limit).cloned().collect();
    Ok(Json(MessageList { messages, total: history.len() }))
}

pub(super) async fn prompt(
    State(service): State<Service>,
    Caller(account): Caller,
    InPath(id): InPath<String>,
    Body(body, request): Body<UserMessageBody>,
) -> Result<(StatusCode, Json<RunStarted>), ApiError> {
    let mut message = body.into_message()?;
    if let Some(request) = &request {
        request.mark(&mut message);
    }
    run_once(&service, &account, &id.into(), request.as_ref(), |agent| agent.send(message.clone())).await
}

pub(super) async fn resume(
    State(service): State<Service>,
    Caller(account): Caller,
    InPath(id): InPath<String>,
    Keyed(request): Keyed,
) -> Result<(StatusCode, Json<RunStarted>), ApiError> {
    run_once(&service, &account, &id.into(), request.as_ref(), agent_core::AgentHandle::resume).await
}

/// Starts a run, or returns the answer of an earlier request with the same key.
async fn run_once(
    service: &Service,
    account: &Account,
    id: &SessionId,
    request: Option<&RequestId>,
    start: impl Fn(&agent_core::AgentHandle) -> Result<agent_core::EventReceiver, agent_core::AgentError>
    + Send
    + Sync,
) -> Result<(StatusCode, Json<RunStarted>), ApiError> {
    // A repeated request is answered also if the first one has used up the budget.
    if let Some(request) = request
        && let Some(after) = service.open(account, id).await?.requests.find(request)?
    {
        return Ok(accepted(after));
    }
    check_budget(service, account)?;
    let (_, started) = service.start(account, id, request, start).await?;
    began(started)
}

/// Returns the answer of a request whose run has begun now, or by an earlier request with the same key.
pub(super) fn began(
    started: Result<Started, StartError>,
) -> Result<(StatusCode, Json<RunStarted>), ApiError> {
    match started {
        Ok(Started { after, .. }) | Err(StartError::Repeated(Repeated::Done { after })) => {
            Ok(accepted(after))
        }
        Err(error) => Err(error.into()),
    }
}

pub(super) fn accepted(after: u64) -> (StatusCode, Json<RunStarted>) {
    (StatusCode::ACCEPTED, Json(RunStarted { after }))
}

/// Refuses to start a run whose key has nothing left.
pub(super) fn check_budget(service: &Service, account: &Account) -> Result<(), ApiError> {
    let left = account.budget.left_at(service.inner.shared.environment.now());
    let amounts = [left.money.map(agent_core::Money::micros), left.tokens, left.model_calls, left.time_ms];
    if amounts.contains(&Some(0)) {
        let text = "the budget of the key is used up";
        return Err(ApiError::new(StatusCode::PAYMENT_REQUIRED, "insufficient_quota", text));
    }
    Ok(())
}

pub(super) async fn steer(
    State(service): State<Service>,
    Caller(account): Caller,
    InPath(id): InPath<String>,
    Body(body, request): Body<UserMessageBody>,
) -> Result<(StatusCode, Json<Accepted>), ApiError> {
    queue(&service, &account, id, body, request.as_ref(), agent_core::AgentHandle::steer).await
}

pub(super) async fn follow_up(
    State(service): State<Service>,
    Caller(account): Caller,
    InPath(id): InPath<String>,
    Body(body, request): Body<UserMessageBody>,
) -> Result<(StatusCode, Json<Accepted>), ApiError> {
    queue(&service, &account, id, body, request.as_ref(), agent_core::AgentHandle::follow_up).await
}

/// Queues a message for the open run, unless an earlier request with the same key has.
async fn queue(
    service: &Service,
    account: &Account,
    id: String,
    body: UserMessageBody,
    request: Option<&RequestId>,
    queue: impl FnOnce(&agent_core::AgentHandle, AgentMessage),
) -> Result<(StatusCode, Json<Accepted>), ApiError> {
    let mut message = body.into_message()?;
    let conversation = service.open(account, &SessionId::from(id)).await?;
    let status = if conversation.is_running() { Status::Running } else { Status::Idle };
    let claim = request.map(|request| {
        request.mark(&mut message);
        conversation.requests.claim(request)
    });
    let mut claim = match claim.transpose() {
        Err(Repeated::Done { .. }) => return Ok((StatusCode::ACCEPTED, Json(Accepted { status }))),
        claim => claim?,
    };
    if !conversation.is_running() {
        let text = "no run is open, so there is nothing to steer; prompt the conversation";
        return Err(ApiError::new(StatusCode::CONFLICT, "no_open_run", text));
    }
    let agent = conversation.agent();
    if agent.state().queued.len() >= MAX_QUEUED {
        let text = format!(
            "{MAX_QUEUED} messages wait for the open run, and more are not allowed; wait for its next turn"
        );
        return Err(ApiError::over_bound("too_many_messages", text));
    }
    queue(&agent, message);
    if let Some(claim) = &mut claim {
        claim.began(conversation.events.last());
    }
    Ok((StatusCode::ACCEPTED, Json(Accepted { status: Status::Running })))
}

pub(super) async fn abort(
    State(service): State<Service>,
    Caller(account): Caller,
    InPath(id): InPath<String>,
) -> Result<(StatusCode, Json<Accepted>), ApiError> {
    let conversation = service.open(&account, &SessionId::from(id)).await?;
    conversation.abort().await;
    let status = if conversation.is_running() { Status::Running } else { Status::Idle };
    Ok((StatusCode::ACCEPTED, Json(Accepted { status })))
}

/// Reading without an agent.
impl Service {
    /// Returns the session of a conversation of the account as it is stored.
    pub(super) async fn session(&self, account: &Account, id: &SessionId) -> Result<Session, ApiError> {
        let (store, loaded) = (Arc::clone(&self.inner.shared.store), id.clone());
        let read = async move { store.load_session(loaded.as_str()).await };
        let session = self.read(account, read).await??.into_session();
        if session.agent_id.as_str() != account.owner() {
            return Err(OpenError::NotFound(id.clone()).into());
        }
        Ok(session)
    }

    /// Reads the store or the workspace for the account. Each key has few reads at once, so that the others do not wait for all of
    /// them. A read goes to its end and counts until then, also if the client closes the connection.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        account: &Account,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ApiError> {
        let closed = |error: AcquireError| ApiError::internal(&error);
        let own = Arc::clone(&account.bounds.reads).acquire_owned().await.map_err(closed)?;
        let shared = Arc::clone(&self.inner.reads).acquire_owned().await.map_err(closed)?;
        let reading = tokio::spawn(async move {
            let read = work.await;
            drop((own, shared));
            read
        });
        reading.await.map_err(|error| ApiError::internal(&error))
    }

    pub(super) async fn is_running(&self, id: &SessionId) -> bool {
        match self.inner.registry.get(id).await {
            Some(conversation) => conversation.is_running(),
            None => false,
        }
    }
}

/// Returns the time as seconds since 1970, as OpenAI's routes use it.
pub(super) fn seconds(time: Timestamp) -> u64 {
    time.0 / 1_000
}
