//! The state of a session in its virtual object.
//!
//! The conversation and the events lie in pieces: full pieces are never written again, and a prompt rewrites only the
//! last one. An open run is a checkpoint beside them.

use agent_core::event::NumberedEvent;
use agent_core::history::History;
use agent_core::identity::LoopId;
use bytes::Bytes;
use restate_sdk::endpoint::ContextInternal;
use restate_sdk::errors::{HandlerError, TerminalError};
use serde::{Deserialize, Serialize};

use crate::error::Refusal;
use crate::record::FORM;

/// The size in bytes from which a piece is not extended.
const PIECE: usize = 64 * 1024;

const HEAD: &str = "head";
const HISTORY: &str = "history";
const EVENTS: &str = "events";

/// The open run, as a [`Checkpoint`](agent_core::run::Checkpoint).
pub(crate) const OPEN: &str = "open";
/// The group whose branches wait for answers, as a [`WaitingGroup`](crate::record::WaitingGroup).
pub(crate) const GROUP: &str = "group";
/// The open questions.
pub(crate) const QUESTIONS: &str = "questions";
/// The invocation that drives the session.
pub(crate) const RUNNING: &str = "running";

/// Returns the key of the end of a loop.
pub(crate) fn end_key(loop_id: &LoopId) -> String {
    format!("end/{}", loop_id.as_str())
}

/// The part of the state that every request reads.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) form: u32,
    /// The number of loops that were started.
    pub(crate) loops: u64,
    /// The number of stored events.
    pub(crate) events: u64,
    /// The number of the first event of each full piece, in order.
    event_pieces: Vec<u64>,
    /// The number of the first event of the last piece.
    event_tail: u64,
    /// The number of full pieces of the conversation.
    history_pieces: u32,
    /// The number of messages of the stored conversation.
    pub(crate) messages: usize,
    /// The last loop of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<LoopId>,
    /// The run that waits for answers or for another invocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) open: Option<Open>,
}

/// An open run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Open {
    pub(crate) loop_id: LoopId,
    /// Whether another invocation continues the run without an answer.
    pub(crate) handed_over: bool,
    /// Whether the run has shortened the conversation, so that the stored one is written anew at its end.
    pub(crate) compacted: bool,
    /// Whether this is a group whose branches wait, and no run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_group: bool,
}

impl Default for Head {
    fn default() -> Self {
        Self {
            form: FORM,
            loops: 0,
            events: 0,
            event_pieces: Vec::new(),
            event_tail: 0,
            history_pieces: 0,
            messages: 0,
            last: None,
            open: None,
        }
    }
}

/// A session as an exclusive handler has read it.
pub(crate) struct Stored {
    pub(crate) head: Head,
    history_tail: String,
    events_tail: String,
}

/// What a handler reads, or the reason for which it cannot.
pub(crate) type Read<T> = Result<Result<T, Refusal>, TerminalError>;

impl Stored {
    /// Reads the head and the last pieces in one round trip.
    pub(crate) async fn read(ctx: &ContextInternal) -> Read<Self> {
        let head = ctx.get::<Bytes>(HEAD);
        let (history, events) = (ctx.get::<Bytes>(HISTORY), ctx.get::<Bytes>(EVENTS));
        let (head, history, events) = (head.await?, history.await?, events.await?);
        let head = match parse_head(head.as_ref()) {
            Ok(head) => head,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let text = |bytes: Option<Bytes>, part| text_of(bytes.as_ref(), part).map(str::to_owned);
        Ok(text(history, HISTORY).and_then(|history_tail| {
            let events_tail = text(events, EVENTS)?;
            Ok(Self { head, history_tail, events_tail })
        }))
    }

    /// Reads the conversation.
    pub(crate) async fn history(&self, ctx: &ContextInternal) -> Read<History> {
        read_history(ctx, self.head.history_pieces, &self.history_tail).await
    }

    /// Appends events.
    pub(crate) fn append_events(
        &mut self,
        ctx: &ContextInternal,
        events: &[NumberedEvent],
    ) -> Result<(), HandlerError> {
        if events.is_empty() {
            return Ok(());
        }
        for event in events {
            if self.events_tail.len() >= PIECE {
                let piece = self.head.event_pieces.len();
                ctx.set(&format!("{EVENTS}/{piece}"), Bytes::from(std::mem::take(&mut self.events_tail)));
                self.head.event_pieces.push(self.head.event_tail);
                self.head.event_tail = self.head.events;
            }
            append(&mut self.events_tail, event)?;
            self.head.events += 1;
        }
        ctx.set(EVENTS, Bytes::from(self.events_tail.clone()));
        Ok(())
    }

    /// Stores the conversation after the end of a run: appends to it, or replaces it if the run has shortened it.
    pub(crate) fn store_history(
        &mut self,
        ctx: &ContextInternal,
        history: &History,
        compacted: bool,
    ) -> Result<(), HandlerError> {
        let replaces = compacted || history.len() < self.head.messages;
        let old_pieces = self.head.history_pieces;
        if replaces {
            self.history_tail.clear();
            self.head.history_pieces = 0;
            self.head.messages = 0;
        }
        let before = self.head.messages;
        for entry in history.entries().skip(before) {
            if self.history_tail.len() >= PIECE {
                let piece = self.head.history_pieces;
                ctx.set(&format!("{HISTORY}/{piece}"), Bytes::from(std::mem::take(&mut self.history_tail)));
                self.head.history_pieces += 1;
            }
            append(&mut self.history_tail, entry)?;
        }
        self.head.messages = history.len();
        for piece in self.head.history_pieces..old_pieces {
            ctx.clear(&format!("{HISTORY}/{piece}"));
        }
        if replaces || history.len() > before {
            ctx.set(HISTORY, Bytes::from(self.history_tail.clone()));
        }
        Ok(())
    }

    /// Writes the head.
    pub(crate) fn write_head(&self, ctx: &ContextInternal) -> Result<(), HandlerError> {
        ctx.set(HEAD, Bytes::from(serde_json::to_vec(&self.head)?));
        Ok(())
    }
}

/// Reads the head alone.
pub(crate) async fn read_head(ctx: &ContextInternal) -> Read<Head> {
    Ok(parse_head(ctx.get::<Bytes>(HEAD).await?.as_ref()))
}

/// Reads the conversation for a handler that changes nothing.
pub(crate) async fn read_conversation(ctx: &ContextInternal) -> Read<History> {
    let head = match read_head(ctx).await? {
        Ok(head) => head,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let tail = ctx.get::<Bytes>(HISTORY).await?;
    match text_of(tail.as_ref(), HISTORY) {
        Ok(tail) => read_history(ctx, head.history_pieces, tail).await,
        Err(refusal) => Ok(Err(refusal)),
    }
}

/// Reads the events of the piece that contains the event with this number, from it on. `None` if no event with the number
/// is stored.
pub(crate) async fn read_events(ctx: &ContextInternal, head: &Head, from: u64) -> Read<Vec<NumberedEvent>> {
    if from >= head.events {
        return Ok(Ok(Vec::new()));
    }
    let after = head.event_pieces.partition_point(|first| *first <= from);
    let (key, first) = if from >= head.event_tail {
        (EVENTS.to_owned(), head.event_tail)
    } else {
        let piece = after.saturating_sub(1);
        (format!("{EVENTS}/{piece}"), head.event_pieces.get(piece).copied().unwrap_or(0))
    };
    let bytes = ctx.get::<Bytes>(&key).await?;
    let events =
        text_of(bytes.as_ref(), EVENTS).and_then(|text| parse_list::<Vec<NumberedEvent>>(text, EVENTS));
    let skipped = usize::try_from(from - first).unwrap_or(usize::MAX);
    Ok(events.map(|events| events.into_iter().skip(skipped).collect()))
}

async fn read_history(ctx: &ContextInternal, pieces: u32, tail: &str) -> Read<History> {
    // All requests are sent before the first response is awaited.
    let keys: Vec<_> = (0..pieces).map(|piece| format!("{HISTORY}/{piece}")).collect();
    let requested: Vec<_> = keys.iter().map(|key| ctx.get::<Bytes>(key)).collect();
    let mut text = String::new();
    for piece in requested {
        let piece = piece.await?;
        let piece = match text_of(piece.as_ref(), HISTORY) {
            Ok(piece) => piece,
            Err(refusal) => return Ok(Err(refusal)),
        };
        text.push_str(piece);
        text.push(',');
    }
    text.push_str(tail);
    Ok(parse_list(text.trim_end_matches(','), HISTORY))
}

fn parse_head(bytes: Option<&Bytes>) -> Result<Head, Refusal> {
    #[derive(Deserialize)]
    struct Form {
        form: u32,
    }
    let Some(bytes) = bytes else { return Ok(Head::default()) };
    let damaged = |error: serde_json::Error| Refusal::Damaged { message: format!("the head: {error}") };
    let Form { form } = serde_json::from_slice(bytes).map_err(damaged)?;
    if form != FORM {
        let what = if form > FORM {
            "update looptree-restate on the workers"
        } else {
            "finish the session with the version that wrote it"
        };
        let message =
            format!("the session is stored in form {form}, and this version reads form {FORM}; {what}");
        return Err(Refusal::Form { message });
    }
    serde_json::from_slice(bytes).map_err(damaged)
}

fn text_of<'b>(bytes: Option<&'b Bytes>, part: &str) -> Result<&'b str, Refusal> {
    let Some(bytes) = bytes else { return Ok("") };
    std::str::from_utf8(bytes).map_err(|error| Refusal::Damaged { message: format!("{part}: {error}") })
}

/// Parses items that stand one after the other with commas.
fn parse_list<T: for<'de> Deserialize<'de>>(items: &str, part: &str) -> Result<T, Refusal> {
    serde_json::from_str(&format!("[{items}]"))
        .map_err(|error| Refusal::Damaged { message: format!("{part}: {error}") })
}

fn append(text: &mut String, item: &impl Serialize) -> Result<(), serde_json::Error> {
    let item = serde_json::to_string(item)?;
    if !text.is_empty() {
        text.push(',');
    }
    text.push_str(&item);
    Ok(())
}
