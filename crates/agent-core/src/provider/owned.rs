//! Owned stream events, and helpers that call a provider and return the complete message.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use super::{Completion, ModelRequest, ProviderError, ReplyLog, ServerToolCall, StreamEvent, StreamProvider};
use crate::message::{AssistantMessage, Citation, Usage};

/// A [`StreamEvent`] that owns its text, for channels, streams and remote connections. Exactly one `Done` or `Error`
/// follows the events of a reply and ends it.
///
/// In JSON it is a flat object with a snake-case `type` tag: `{"type":"text_delta","index":0,"text":"Hel"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(missing_docs, reason = "each field is that of the borrowed event of the same name")]
#[non_exhaustive]
pub enum OwnedStreamEvent {
    /// The owned form of [`StreamEvent::Start`].
    Start { response_id: Option<String>, model: Option<String> },
    /// The owned form of [`StreamEvent::TextStart`].
    TextStart { index: u32 },
    /// The owned form of [`StreamEvent::TextDelta`].
    TextDelta {
        index: u32,
        #[serde(rename = "text")]
        delta: String,
    },
    /// The owned form of [`StreamEvent::TextSignature`].
    TextSignature {
        index: u32,
        #[serde(rename = "signature")]
        delta: String,
    },
    /// The owned form of [`StreamEvent::Citation`].
    Citation { index: u32, citation: Box<Citation> },
    /// The owned form of [`StreamEvent::ThinkingStart`].
    ThinkingStart { index: u32 },
    /// The owned form of [`StreamEvent::ThinkingDelta`].
    ThinkingDelta {
        index: u32,
        #[serde(rename = "text")]
        delta: String,
    },
    /// The owned form of [`StreamEvent::ThinkingSignature`].
    ThinkingSignature {
        index: u32,
        #[serde(rename = "signature")]
        delta: String,
    },
    /// The owned form of [`StreamEvent::RedactedThinking`].
    RedactedThinking { index: u32, data: String },
    /// The owned form of [`StreamEvent::ToolCallStart`].
    ToolCallStart { index: u32, id: String, name: String },
    /// The owned form of [`StreamEvent::ToolCallDelta`].
    ToolCallDelta {
        index: u32,
        #[serde(rename = "text")]
        delta: String,
    },
    /// The owned form of [`StreamEvent::ToolCallSignature`].
    ToolCallSignature {
        index: u32,
        #[serde(rename = "signature")]
        delta: String,
    },
    /// The owned form of [`StreamEvent::Opaque`].
    Opaque { index: u32, kind: String, data: Value },
    /// The owned form of [`StreamEvent::ServerTool`].
    ServerTool { index: u32, call: Box<ServerToolCall> },
    /// The owned form of [`StreamEvent::BlockEnd`].
    BlockEnd { index: u32 },
    /// The owned form of [`StreamEvent::Usage`].
    Usage { usage: Usage },
    /// The owned form of [`StreamEvent::Fallback`].
    Fallback { from: String, to: String, reason: String },
    /// The owned form of [`StreamEvent::Unrecognised`].
    Unrecognised { name: String },
    /// The reply is complete.
    Done { completion: Completion },
    /// The call failed without a complete reply.
    Error { message: String },
}

impl From<StreamEvent<'_>> for OwnedStreamEvent {
    fn from(event: StreamEvent<'_>) -> Self {
        match event {
            StreamEvent::Start { response_id, model } => {
                Self::Start { response_id: response_id.map(str::to_owned), model: model.map(str::to_owned) }
            }
            StreamEvent::TextStart { index } => Self::TextStart { index },
            StreamEvent::TextDelta { index, delta } => Self::TextDelta { index, delta: delta.to_owned() },
            StreamEvent::TextSignature { index, delta } => {
                Self::TextSignature { index, delta: delta.to_owned() }
            }
            StreamEvent::Citation { index, citation } => {
                Self::Citation { index, citation: Box::new(citation.clone()) }
            }
            StreamEvent::ThinkingStart { index } => Self::ThinkingStart { index },
            StreamEvent::ThinkingDelta { index, delta } => {
                Self::ThinkingDelta { index, delta: delta.to_owned() }
            }
            StreamEvent::ThinkingSignature { index, delta } => {
                Self::ThinkingSignature { index, delta: delta.to_owned() }
            }
            StreamEvent::RedactedThinking { index, data } => {
                Self::RedactedThinking { index, data: data.to_owned() }
            }
            StreamEvent::ToolCallStart { index, id, name } => {
                Self::ToolCallStart { index, id: id.to_owned(), name: name.to_owned() }
            }
            StreamEvent::ToolCallDelta { index, delta } => {
                Self::ToolCallDelta { index, delta: delta.to_owned() }
            }
            StreamEvent::ToolCallSignature { index, delta } => {
                Self::ToolCallSignature { index, delta: delta.to_owned() }
            }
            StreamEvent::Opaque { index, kind, data } => {
                Self::Opaque { index, kind: kind.to_owned(), data: data.clone() }
            }
            StreamEvent::ServerTool { index, call } => {
                Self::ServerTool { index, call: Box::new(call.clone()) }
            }
            StreamEvent::BlockEnd { index } => Self::BlockEnd { index },
            StreamEvent::Usage(usage) => Self::Usage { usage },
            StreamEvent::Fallback { from, to, reason } => {
                Self::Fallback { from: from.to_owned(), to: to.to_owned(), reason: reason.to_owned() }
            }
            StreamEvent::Unrecognised { name } => Self::Unrecognised { name: name.to_owned() },
        }
    }
}

impl OwnedStreamEvent {
    /// Returns the borrowed form of this event; `None` for `Done` and `Error`, which end a reply.
    #[must_use]
    pub fn borrowed(&self) -> Option<StreamEvent<'_>> {
        Some(match self {
            Self::Start { response_id, model } => {
                StreamEvent::Start { response_id: response_id.as_deref(), model: model.as_deref() }
            }
            Self::TextStart { index } => StreamEvent::TextStart { index: *index },
            Self::TextDelta { index, delta } => StreamEvent::TextDelta { index: *index, delta },
            Self::TextSignature { index, delta } => StreamEvent::TextSignature { index: *index, delta },
            Self::Citation { index, citation } => StreamEvent::Citation { index: *index, citation },
            Self::ThinkingStart { index } => StreamEvent::ThinkingStart { index: *index },
            Self::ThinkingDelta { index, delta } => StreamEvent::ThinkingDelta { index: *index, delta },
            Self::ThinkingSignature { index, delta } => {
                StreamEvent::ThinkingSignature { index: *index, delta }
            }
            Self::RedactedThinking { index, data } => StreamEvent::RedactedThinking { index: *index, data },
            Self::ToolCallStart { index, id, name } => StreamEvent::ToolCallStart { index: *index, id, name },
            Self::ToolCallDelta { index, delta } => StreamEvent::ToolCallDelta { index: *index, delta },
            Self::ToolCallSignature { index, delta } => {
                StreamEvent::ToolCallSignature { index: *index, delta }
            }
            Self::Opaque { index, kind, data } => StreamEvent::Opaque { index: *index, kind, data },
            Self::ServerTool { index, call } => StreamEvent::ServerTool { index: *index, call },
            Self::BlockEnd { index } => StreamEvent::BlockEnd { index: *index },
            Self::Usage { usage } => StreamEvent::Usage(*usage),
            Self::Fallback { from, to, reason } => StreamEvent::Fallback { from, to, reason },
            Self::Unrecognised { name } => StreamEvent::Unrecognised { name },
            Self::Done { .. } | Self::Error { .. } => return None,
        })
    }
}

/// Calls a model and returns the complete message.
///
/// # Errors
/// Returns the same errors as [`StreamProvider::stream`], and the error of a reply that exceeds a
/// [`ReplyLimit`](super::ReplyLimit).
pub async fn complete(
    provider: &dyn StreamProvider,
    request: &ModelRequest,
    cancel: &CancellationToken,
) -> Result<AssistantMessage, ProviderError> {
    let mut log = ReplyLog::new();
    let completion = provider.stream(request, &mut |event| log.push(&event), cancel).await?;
    log.exceeded().map_or(Ok(()), |limit| Err(limit.error_of(&request.model)))?;
    let mut message = log.finish(&request.model.provider, &request.model.id, &completion);
    message.api = Some(request.model.api);
    Ok(message)
}

/// Fills the vendor's prompt cache with the prompt of `request`, without a reply of the model, and returns the tokens that
/// this used. A later request that begins with the same bytes reads them from the cache.
///
/// The request needs a message, like every request; only what precedes the last cache marker is useful later. See
/// [`CachePrewarm::Only`](crate::model::CachePrewarm::Only) for the vendors that have it.
///
/// # Errors
/// Returns the errors of [`StreamProvider::stream`]. If the vendor has no such request, the source of the error is a
/// [`PrewarmError`](crate::model::PrewarmError), and nothing is sent.
///
/// ```no_run
/// # use agent_core::{AgentMessage, History, ModelRequest, StreamProvider, provider};
/// # async fn warm(api: &dyn StreamProvider, mut request: ModelRequest) -> Result<(), Box<dyn std::error::Error>> {
/// request.history = History::new();
/// request.history.push(AgentMessage::user("Hello"))?;
/// let usage = provider::prewarm(api, &request, &tokio_util::sync::CancellationToken::new()).await?;
/// println!("{} tokens are in the cache", usage.cache_write);
/// # Ok(())
/// # }
/// ```
pub async fn prewarm(
    provider: &dyn StreamProvider,
    request: &ModelRequest,
    cancel: &CancellationToken,
) -> Result<Usage, ProviderError> {
    let mut warm = request.clone();
    warm.options.cache_config = warm.options.cache_config.with_prewarm();
    Ok(complete(provider, &warm, cancel).await?.usage)
}

/// Calls a model, sends each event as it arrives, and returns the complete message. The last event that is sent is
/// `Done` or `Error`. If the receiver has been dropped, events are discarded and the call continues.
///
/// # Errors
/// Returns the same errors as [`StreamProvider::stream`], and the error of a reply that exceeds a
/// [`ReplyLimit`](super::ReplyLimit).
pub async fn stream_to(
    provider: &dyn StreamProvider,
    request: &ModelRequest,
    tx: &UnboundedSender<OwnedStreamEvent>,
    cancel: &CancellationToken,
) -> Result<AssistantMessage, ProviderError> {
    let mut log = ReplyLog::new();
    let mut sink = |event: StreamEvent<'_>| {
        if log.try_push(&event).is_ok() {
            let _ = tx.send(event.into());
        }
    };
    let end = provider.stream(request, &mut sink, cancel).await;
    let end = end.and_then(|end| log.exceeded().map_or(Ok(end), |limit| Err(limit.error_of(&request.model))));
    match end {
        Ok(completion) => {
            let mut message = log.finish(&request.model.provider, &request.model.id, &completion);
            message.api = Some(request.model.api);
            let _ = tx.send(OwnedStreamEvent::Done { completion });
            Ok(message)
        }
        Err(error) => {
            let _ = tx.send(OwnedStreamEvent::Error { message: error.to_string() });
            Err(error)
        }
    }
}
