//! One reply of a script.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::message::{StopReason, ToolArguments, Usage};
use crate::provider::{Completion, ErrorContext, ErrorKind, OwnedStreamEvent, ProviderError};

/// A place where something waits until a test lets it go.
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
    /// A latch that holds.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets one waiter go, now or when it comes.
    pub fn open(&self) {
        self.permits.add_permits(1);
    }

    /// Waits until somebody waits here, for each call once.
    pub async fn reached(&self) {
        if let Ok(permit) = self.reached.acquire().await {
            permit.forget();
        }
    }

    /// Waits to be let go.
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

/// What the model does when it is called: events, waits, and one end.
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
    /// A reply without content.
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

    /// A reply of one text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::new().and_text(text)
    }

    /// A reply that calls one tool.
    #[must_use]
    pub fn call(id: &str, tool: &str, arguments: impl Into<ToolArguments>) -> Self {
        Self::new().and_call(id, tool, arguments)
    }

    /// No reply: an error before anything arrived.
    #[must_use]
    pub fn error(kind: ErrorKind, message: impl Into<String>) -> Self {
        let mut reply = Self::new().failing(kind, message);
        reply.started = false;
        reply
    }

    /// Then a text.
    #[must_use]
    pub fn and_text(mut self, text: impl Into<String>) -> Self {
        let index = self.block();
        self.send(OwnedStreamEvent::TextStart { index });
        self.send(OwnedStreamEvent::TextDelta { index, delta: text.into() });
        self.send(OwnedStreamEvent::BlockEnd { index });
        self
    }

    /// Then thinking.
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

    /// Then a call.
    #[must_use]
    pub fn and_call(mut self, id: &str, tool: &str, arguments: impl Into<ToolArguments>) -> Self {
        let index = self.block();
        self.send(OwnedStreamEvent::ToolCallStart { index, id: id.to_owned(), name: tool.to_owned() });
        self.send(OwnedStreamEvent::ToolCallDelta { index, delta: arguments.into().text().to_owned() });
        self.send(OwnedStreamEvent::BlockEnd { index });
        self
    }

    /// Then any event.
    #[must_use]
    pub fn and_event(mut self, event: OwnedStreamEvent) -> Self {
        self.send(event);
        self
    }

    /// Then it waits at a latch.
    #[must_use]
    pub fn and_wait(mut self, latch: &Latch) -> Self {
        self.acts.push(Act::Wait(latch.clone()));
        self
    }

    /// Then nothing more, until it is cancelled.
    #[must_use]
    pub fn and_hang(mut self) -> Self {
        self.acts.push(Act::Hang);
        self
    }

    /// Then it panics.
    #[must_use]
    pub fn and_panic(mut self, message: impl Into<String>) -> Self {
        self.acts.push(Act::Panic(message.into()));
        self
    }

    /// Texts come in pieces of so many characters, one event each.
    #[must_use]
    pub fn in_pieces_of(mut self, characters: usize) -> Self {
        self.piece = characters.max(1);
        self
    }

    /// The provider never says that the reply begins (B-002).
    #[must_use]
    pub fn without_start(mut self) -> Self {
        self.started = false;
        self
    }

    /// It ends for this reason.
    #[must_use]
    pub fn stopping(mut self, reason: StopReason) -> Self {
        self.stop = Some(reason);
        self
    }

    /// It uses so many tokens.
    #[must_use]
    pub fn using(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// It breaks off with an error.
    #[must_use]
    pub fn failing(mut self, kind: ErrorKind, message: impl Into<String>) -> Self {
        self.end = End::Fail { kind, message: message.into(), retry_after: None };
        self
    }

    /// The error asks to wait so long.
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

    /// What is done, in order, with texts in their pieces.
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
