//! Reads the body of a response piece by piece, with a limit on the time between two pieces, until the caller aborts.
//!
//! The timer is not reset for every piece. It fires four times per limit, and the body counts as silent after four
//! firings in a row without a piece since the previous one. A silence is therefore detected between one and one and a
//! quarter times the limit. The same firings measure the time without content.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use agent_core::ProviderError;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};

use super::guard::{Guard, Stir};
use super::{MAX_BYTES_WITHOUT_CONTENT, failure};
use crate::tap::Answering;

/// The result of waiting for the next piece.
pub(super) enum Next {
    Piece(Bytes),
    End,
    Failed(reqwest::Error),
    /// No piece arrived within the time limit.
    Silent,
    /// Pieces arrived, but no content within its time limit.
    Empty,
    /// More than [`MAX_BYTES_WITHOUT_CONTENT`] arrived without content.
    Flood,
    Cancelled,
}

impl Next {
    /// Returns the piece, or `None` at the end of the body.
    ///
    /// # Errors
    /// Returns an error if the connection failed, was silent or without content for too long, or if the caller cancelled.
    pub(super) fn arrived(self, limits: Limits) -> Result<Option<Bytes>, ProviderError> {
        match self {
            Self::Piece(piece) => Ok(Some(piece)),
            Self::End => Ok(None),
            Self::Failed(error) => Err(failure::broken(error)),
            Self::Silent => Err(failure::silent(limits.idle)),
            Self::Empty => Err(failure::empty(limits.content)),
            Self::Flood => Err(failure::flood(MAX_BYTES_WITHOUT_CONTENT)),
            Self::Cancelled => Err(ProviderError::Cancelled),
        }
    }
}

/// The time limits of a body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Between two pieces.
    pub(super) idle: Duration,
    /// Between two pieces of content.
    pub(super) content: Duration,
}

/// The time and size limits for reading the rest of a response after the reply is complete.
const SETTLE: Duration = Duration::from_secs(2);
const MAX_SETTLE_BYTES: usize = 64 << 10;

/// The number of timer ticks within the idle timeout.
pub(super) const RINGS: u32 = 4;

/// The number of times a wait yields to other tasks before it sets a timer.
const TURNS: u32 = 2;

type Pieces = Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>;

pub(super) struct Body<'c> {
    pieces: Pieces,
    guard: Guard<'c>,
    /// Whether a piece arrived since the last timer tick.
    heard: bool,
    /// The number of timer ticks since the last piece arrived.
    rings: u32,
    /// The number of timer ticks since the last content arrived, and the number after which the body counts as empty.
    empty_rings: u32,
    max_empty_rings: u32,
    /// The number of bytes since the last content arrived.
    empty_bytes: usize,
    /// Reports the bytes to the wire hooks. Boxed, because most requests have no hooks.
    tap: Option<Box<Answering>>,
}

impl<'c> Body<'c> {
    /// Takes the body and drops the response head. The guard's timer may already run, so the first tick may come early.
    pub(super) fn new(response: reqwest::Response, limits: Limits, mut guard: Guard<'c>) -> Self {
        let period = limits.idle / RINGS;
        guard.set_period(period);
        let rings = limits.content.as_millis().div_ceil(period.as_millis().max(1)).max(1);
        Self {
            pieces: Box::pin(response.bytes_stream()),
            guard,
            heard: true,
            rings: 0,
            empty_rings: 0,
            max_empty_rings: u32::try_from(rings).unwrap_or(u32::MAX),
            empty_bytes: 0,
            tap: None,
        }
    }

    /// Resets the limits of what may arrive without content.
    pub(super) fn had_content(&mut self) {
        (self.empty_rings, self.empty_bytes) = (0, 0);
    }

    /// Reports the bytes of this body to `tap`.
    pub(super) fn shown_to(mut self, tap: Option<Answering>) -> Self {
        self.tap = tap.map(Box::new);
        self
    }

    pub(super) async fn next(&mut self) -> Next {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// Returns the piece that arrives within `limit`. It has nearly always arrived already and the connection's task must only
    /// deliver it, so the wait yields to that task before it sets a timer.
    pub(super) async fn next_soon(&mut self, limit: Duration) -> Option<Next> {
        let mut turns = 0;
        let there = poll_fn(|cx| match self.poll(cx) {
            Poll::Ready(next) => Poll::Ready(Some(next)),
            Poll::Pending if turns < TURNS => {
                turns += 1;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Pending => Poll::Ready(None),
        })
        .await;
        match there {
            Some(next) => Some(next),
            // Boxed, so that the timer uses no memory while the reply streams.
            None => Box::pin(tokio::time::timeout(limit, self.next())).await.ok(),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        if self.guard.is_cancelled() {
            return Poll::Ready(Next::Cancelled);
        }
        match self.pieces.as_mut().poll_next(cx) {
            Poll::Ready(Some(Ok(piece))) => {
                self.heard = true;
                self.empty_bytes = self.empty_bytes.saturating_add(piece.len());
                if self.empty_bytes > MAX_BYTES_WITHOUT_CONTENT {
                    return Poll::Ready(Next::Flood);
                }
                show(&mut self.tap, &piece);
                return Poll::Ready(Next::Piece(piece));
            }
            Poll::Ready(Some(Err(error))) => {
                end(&mut self.tap, false);
                return Poll::Ready(Next::Failed(error.without_url()));
            }
            Poll::Ready(None) => {
                end(&mut self.tap, true);
                return Poll::Ready(Next::End);
            }
            Poll::Pending => {}
        }
        loop {
            match self.guard.poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Stir::Cancelled) => return Poll::Ready(Next::Cancelled),
                Poll::Ready(Stir::Ring) => {
                    self.rings = if std::mem::take(&mut self.heard) { 0 } else { self.rings + 1 };
                    if self.rings >= RINGS {
                        return Poll::Ready(Next::Silent);
                    }
                    self.empty_rings += 1;
                    if self.empty_rings > self.max_empty_rings {
                        return Poll::Ready(Next::Empty);
                    }
                }
            }
        }
    }

    /// Reads the response to its end, so that the connection can be reused. The reply is already complete, and its end has
    /// nearly always arrived; only the connection's task must run to deliver it. Otherwise a detached task waits for the
    /// end.
    pub(super) async fn settle(self) {
        let Self { mut pieces, guard, mut tap, .. } = self;
        drop(guard);
        let (mut turns, mut bytes) = (0, 0);
        let ended = poll_fn(|cx| {
            loop {
                match pieces.as_mut().poll_next(cx) {
                    Poll::Ready(Some(Ok(piece))) if bytes < MAX_SETTLE_BYTES => {
                        show(&mut tap, &piece);
                        bytes += piece.len();
                    }
                    Poll::Ready(last) => {
                        end(&mut tap, last.is_none());
                        return Poll::Ready(true);
                    }
                    Poll::Pending if turns < TURNS => {
                        turns += 1;
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Poll::Pending => return Poll::Ready(false),
                }
            }
        })
        .await;
        if !ended && let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(tokio::time::timeout(SETTLE, async move {
                let mut bytes = 0;
                while let Some(Ok(piece)) = pieces.next().await {
                    show(&mut tap, &piece);
                    bytes += piece.len();
                    if bytes > MAX_SETTLE_BYTES {
                        return;
                    }
                }
                end(&mut tap, true);
            }));
        }
    }

    /// Returns the first piece that is not empty. The kind of the body is detected from it.
    pub(super) async fn first(&mut self) -> Next {
        loop {
            match self.next().await {
                Next::Piece(piece) if piece.trim_ascii().is_empty() => {}
                next => return next,
            }
        }
    }

    /// Appends the rest of the body, up to `limit` bytes, to the bytes read so far, and returns them with the last result.
    pub(super) async fn collect(&mut self, begun: &[u8], limit: usize) -> (Vec<u8>, Next) {
        let mut bytes = begun.to_vec();
        loop {
            if bytes.len() > limit {
                bytes.truncate(limit);
                return (bytes, Next::Piece(Bytes::new()));
            }
            match self.next().await {
                Next::Piece(piece) => bytes.extend_from_slice(&piece),
                end => return (bytes, end),
            }
        }
    }
}

fn show(tap: &mut Option<Box<Answering>>, piece: &[u8]) {
    if let Some(tap) = tap {
        tap.piece(piece);
    }
}

/// Reports the end of the body to the wire hooks, once.
fn end(tap: &mut Option<Box<Answering>>, complete: bool) {
    if let Some(mut tap) = tap.take() {
        tap.end(complete);
    }
}
