//! The scripted replies of a test's model.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::message::{Citation, StopReason, ToolArguments, Usage};
use crate::provider::{Completion, ErrorContext, ErrorKind, OwnedStreamEvent, ProviderError};

/// A latch at which a task waits until the test opens it.
#[derive(Debug, Clone)]
pub struct Latch {
    permits: Arc<Semaphore>,
    reached: Arc<Semaphore>,
}

impl Default for Latch {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(0)), reached: Arc::new(Semaphore::new(0)) }
    }
}

impl Latch {
    /// Creates a closed latch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Releases one waiter, now or when it arrives.
    pub fn open(&self) {
        self.permits.add_permits(1);
    }

    /// Waits until a waiter has arrived, once for each call.
    pub async fn reached(&self) {
        if let Ok(permit) = self.reached.acquire().await {
            permit.forget();
        }
    }

    /// Waits until the latch is opened.
    pub async fn wait(&self) {
        self.reached.add_permits(1);
        if let Ok(permit) = self.permits.acquire().await {
            permit.forget();
        }
    }
}

#[derive(Debug, Clone)]
pub(super) enum Act {
    Send(OwnedStreamEvent),
    Wait(Latch),
    Hang,
    Panic(String),
}

#[derive(Debug, Clone)]
pub(super) enum End {
    Done(Completion),
    Fail { kind: ErrorKind, message: String, retry_after: Option<Duration> },
}

/// The behavior of the model in one call: events, waits, and one end.
#[derive(Debug, Clone)]
pub struct ScriptedReply {
    acts: Vec<Act>,
    end: End,
    piece: usize,
    started: bool,
    blocks: u32,
    stop: Option<StopReason>,
    usage: Option<Usage>,
}

impl Default for ScriptedReply {
    fn default() -> Self {
        Self::new()
    }
}

impl ScriptedReply {
    /// Creates a reply without content.
    #[must_use]
    pub fn new() -> Self {
        Self {
            acts: Vec::new(),
            end: End::Done(Completion::new(StopReason::Stop)),
            piece: usize::MAX,
            started: true,
            blocks: 0,
            stop: None,
            usage: None,
        }
    }

    /// Creates a reply with one text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::new().and_text(text)
    }

    /// Creates a reply that calls one tool.
    #[must_use]
    pub fn call(id: &str, tool: &str, arguments: impl Into<ToolArguments>) -> Self {
        Self::new().and_call(id, tool, arguments)
    }

    /// Creates a call that fails before anything arrives.
    #[must_use]
    pub fn error(kind: ErrorKind, message: impl Into<String>) -> Self {
        let mut reply = Self::new().failing(kind, message);
        reply.started = false;
        reply
    }

    /// Appends a text block to the reply.
    #[must_use]
    pub fn and_text(mut self, text: impl Into<String>) -> Self {
        let index = self.block();
        self.send(OwnedStreamEvent::TextStart { index });
        self.send(OwnedStreamEvent::TextDelta { index, delta: text.into() });
        self.send(OwnedStreamEvent::BlockEnd { index });
        self
    }

    /// Appends a thinking block to the reply.
    #[must_use]
    pub fn and_thinking(mut self, text: impl Into<String>, signature: Option<&str>) -> Self {
        let index = self.block();
        self.send(OwnedStreamEvent::ThinkingStart { index });
        self.send(OwnedStreamEvent::ThinkingDelta { index, delta: text.into() });
        if let Some(signature) = signature {
            self.send(OwnedStreamEvent::ThinkingSignature { index, delta: signature.to_owned() });
        }
        self.send(OwnedStreamEvent::BlockEnd { index });
        self
    }

    /// Appends a tool call to the reply.
    #[must_use]
    pub fn and_call(mut self, id: &str, tool: &str, arguments: impl Into<ToolArguments>) -> Self {
        let index = self.block();
        self.send(OwnedStreamEvent::ToolCallStart { index, id: id.to_owned(), name: tool.to_owned() });
        self.send(OwnedStreamEvent::ToolCallDelta { index, delta: arguments.into().text().to_owned() });
        self.send(OwnedStreamEvent::BlockEnd { index });
        self
    }

    /// Appends a source of the block that was appended last.
    #[must_use]
    pub fn and_citation(mut self, citation: Citation) -> Self {
        let index = self.blocks.saturating_sub(1);
        self.send(OwnedStreamEvent::Citation { index, citation: Box::new(citation) });
        self
    }

    /// Appends any event to the reply.
    #[must_use]
    pub fn and_event(mut self, event: OwnedStreamEvent) -> Self {
        self.send(event);
        self
    }

    /// Waits at a latch before it continues.
    #[must_use]
    pub fn and_wait(mut self, latch: &Latch) -> Self {
        self.acts.push(Act::Wait(latch.clone()));
        self
    }

    /// Sends nothing more until the call is cancelled.
    #[must_use]
    pub fn and_hang(mut self) -> Self {
        self.acts.push(Act::Hang);
        self
    }

    /// Panics at this point of the reply.
    #[must_use]
    pub fn and_panic(mut self, message: impl Into<String>) -> Self {
        self.acts.push(Act::Panic(message.into()));
        self
    }

    /// Splits texts into pieces of this many characters, one event each.
    #[must_use]
    pub fn in_pieces_of(mut self, characters: usize) -> Self {
        self.piece = characters.max(1);
        self
    }

    /// Omits the event for the start of the reply.
    #[must_use]
    pub fn without_start(mut self) -> Self {
        self.started = false;
        self
    }

    /// Sets the stop reason of the reply.
    #[must_use]
    pub fn stopping(mut self, reason: StopReason) -> Self {
        self.stop = Some(reason);
        self
    }

    /// Sets the token usage of the reply.
    #[must_use]
    pub fn using(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Makes the reply break off with an error.
    #[must_use]
    pub fn failing(mut self, kind: ErrorKind, message: impl Into<String>) -> Self {
        self.end = End::Fail { kind, message: message.into(), retry_after: None };
        self
    }

    /// Sets the delay that the error asks for.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        if let End::Fail { retry_after, .. } = &mut self.end {
            *retry_after = Some(wait);
        }
        self
    }

    fn block(&mut self) -> u32 {
        self.blocks += 1;
        self.blocks - 1
    }

    fn send(&mut self, event: OwnedStreamEvent) {
        self.acts.push(Act::Send(event));
    }

    /// Returns the actions in order, with texts split into pieces.
    pub(super) fn acts(&self) -> Vec<Act> {
        let mut acts = Vec::new();
        if self.started {
            acts.push(Act::Send(OwnedStreamEvent::Start { response_id: None, model: None }));
        }
        for act in &self.acts {
            match act {
                Act::Send(OwnedStreamEvent::TextDelta { index, delta }) => {
                    acts.extend(
                        pieces(delta, self.piece)
                            .map(|delta| Act::Send(OwnedStreamEvent::TextDelta { index: *index, delta })),
                    );
                }
                Act::Send(OwnedStreamEvent::ToolCallDelta { index, delta }) => {
                    acts.extend(
                        pieces(delta, self.piece)
                            .map(|delta| Act::Send(OwnedStreamEvent::ToolCallDelta { index: *index, delta })),
                    );
                }
                other => acts.push(other.clone()),
            }
        }
        if let Some(usage) = self.usage {
            acts.push(Act::Send(OwnedStreamEvent::Usage { usage }));
        }
        acts
    }

    pub(super) fn end(&self) -> Result<Completion, ProviderError> {
        match &self.end {
            End::Done(completion) => {
                let mut completion = completion.clone();
                let calls =
                    self.acts.iter().any(|a| matches!(a, Act::Send(OwnedStreamEvent::ToolCallStart { .. })));
                completion.stop_reason =
                    self.stop.unwrap_or(if calls { StopReason::ToolUse } else { StopReason::Stop });
                Ok(completion)
            }
            End::Fail { kind: ErrorKind::Cancelled, .. } => Err(ProviderError::Cancelled),
            End::Fail { kind, message, retry_after } => {
                let mut context = ErrorContext::new(message.clone()).with_target("mock", "mock");
                context.retry_after = *retry_after;
                Err(ProviderError::new(*kind, context))
            }
        }
    }
}

impl From<&str> for ScriptedReply {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

fn pieces(text: &str, size: usize) -> impl Iterator<Item = String> {
    let characters: Vec<char> = text.chars().collect();
    let whole = size >= characters.len();
    let out: Vec<String> = if whole {
        vec![text.to_owned()]
    } else {
        characters.chunks(size).map(|c| c.iter().collect()).collect()
    };
    out.into_iter()
}
