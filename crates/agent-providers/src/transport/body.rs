//! Reading the body of an answer: piece by piece, with a bound on silence, and ended at once by the caller's abort.
//!
//! Most waits for a piece are over at once, so a wait costs nothing but the question whether the caller gave up. The
//! alarm of the silence is not moved with each piece: it rings four times within the bound, and the answer is silent
//! when it rang four times in a row with nothing heard since the ring before. So a silence is noticed when it is as
//! long as the bound, or at most a quarter of the bound later.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use agent_core::CancellationToken;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tokio::time::{Instant, Sleep};

/// What came next.
pub(super) enum Next {
    Piece(Bytes),
    End,
    Failed(reqwest::Error),
    /// Nothing came for as long as the bound allows.
    Silent,
    Cancelled,
}

/// How long and how much of an answer's end is read after the reply is complete.
const SETTLE: Duration = Duration::from_secs(2);
const MAX_SETTLE_BYTES: usize = 64 << 10;

/// How often the alarm rings within the bound on silence.
const RINGS: u32 = 4;

type Pieces = Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>;

pub(super) struct Body<'c> {
    pieces: Pieces,
    watch: Watch,
    cancel: &'c CancellationToken,
    cancelled: Pin<Box<dyn Future<Output = ()> + Send + 'c>>,
    /// Who is woken by the alarm and by the abort.
    waker: Option<Waker>,
}

/// The bound on silence.
struct Watch {
    /// The time from one ring of the alarm to the next.
    period: Duration,
    /// Set at the first wait.
    alarm: Option<Pin<Box<Sleep>>>,
    /// Whether something came since the last ring.
    heard: bool,
    /// Rings since something came.
    rings: u32,
}

impl Watch {
    fn has_rung(&self) -> bool {
        self.alarm.as_ref().is_none_or(|alarm| alarm.is_elapsed())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        let period = self.period;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep(period)));
        while alarm.as_mut().poll(cx).is_ready() {
            self.rings = if std::mem::take(&mut self.heard) { 0 } else { self.rings + 1 };
            if self.rings >= RINGS {
                return Poll::Ready(Next::Silent);
            }
            alarm.as_mut().reset(Instant::now() + period);
        }
        Poll::Pending
    }
}

impl<'c> Body<'c> {
    /// Takes the body and lets the head go.
    pub(super) fn new(response: reqwest::Response, idle: Duration, cancel: &'c CancellationToken) -> Self {
        Self {
            pieces: Box::pin(response.bytes_stream()),
            watch: Watch { period: idle / RINGS, alarm: None, heard: false, rings: 0 },
            cancel,
            cancelled: Box::pin(cancel.cancelled()),
            waker: None,
        }
    }

    pub(super) async fn next(&mut self) -> Next {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        if self.cancel.is_cancelled() {
            return Poll::Ready(Next::Cancelled);
        }
        match self.pieces.as_mut().poll_next(cx) {
            Poll::Ready(Some(Ok(piece))) => {
                self.watch.heard = true;
                return Poll::Ready(Next::Piece(piece));
            }
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Next::Failed(error.without_url())),
            Poll::Ready(None) => return Poll::Ready(Next::End),
            Poll::Pending => {}
        }
        // Both wake the task that asked last, so asking again is needed only for another task.
        if !self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            if self.cancelled.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Next::Cancelled);
            }
            self.waker = Some(cx.waker().clone());
        } else if !self.watch.has_rung() {
            return Poll::Pending;
        }
        self.watch.poll(cx)
    }

    /// Lets the connection reach the end of the answer, so that the next call can use it. The reply is complete
    /// already and nobody waits for this.
    pub(super) fn settle(mut self) {
        let mut pieces = std::mem::replace(&mut self.pieces, Box::pin(futures_util::stream::empty()));
        let ended = loop {
            match pieces.as_mut().poll_next(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(_) => break true,
                Poll::Pending => break false,
            }
        };
        if !ended && let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(tokio::time::timeout(SETTLE, async move {
                let mut bytes = 0;
                while let Some(Ok(piece)) = pieces.next().await {
                    bytes += piece.len();
                    if bytes > MAX_SETTLE_BYTES {
                        return;
                    }
                }
            }));
        }
    }

    /// The first piece that is not empty, from which the kind of body can be told.
    pub(super) async fn first(&mut self) -> Next {
        loop {
            match self.next().await {
                Next::Piece(piece) if piece.trim_ascii().is_empty() => {}
                next => return next,
            }
        }
    }

    /// The rest, up to `limit` bytes, after what has been read already. The second is how reading ended.
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
