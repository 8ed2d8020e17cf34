//! Reading the body of an answer: piece by piece, with a bound on silence, and ended at once by the caller's abort.

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

type Pieces = Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>;

pub(super) struct Body<'c> {
    pieces: Pieces,
    idle: Duration,
    /// Made at the first wait and moved at each later one.
    deadline: Option<Pin<Box<Sleep>>>,
    cancel: &'c CancellationToken,
    cancelled: Pin<Box<dyn Future<Output = ()> + Send + 'c>>,
}

impl<'c> Body<'c> {
    /// Takes the body and lets the head go.
    pub(super) fn new(response: reqwest::Response, idle: Duration, cancel: &'c CancellationToken) -> Self {
        Self {
            pieces: Box::pin(response.bytes_stream()),
            idle,
            deadline: None,
            cancel,
            cancelled: Box::pin(cancel.cancelled()),
        }
    }

    pub(super) async fn next(&mut self) -> Next {
        if self.cancel.is_cancelled() {
            return Next::Cancelled;
        }
        let mut waiting = false;
        poll_fn(|cx| self.poll(cx, &mut waiting)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>, waiting: &mut bool) -> Poll<Next> {
        match self.pieces.as_mut().poll_next(cx) {
            Poll::Ready(Some(Ok(piece))) => return Poll::Ready(Next::Piece(piece)),
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Next::Failed(error.without_url())),
            Poll::Ready(None) => return Poll::Ready(Next::End),
            Poll::Pending => {}
        }
        if self.cancelled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Next::Cancelled);
        }
        if !std::mem::replace(waiting, true) {
            let until = Instant::now() + self.idle;
            match &mut self.deadline {
                Some(deadline) => deadline.as_mut().reset(until),
                None => self.deadline = Some(Box::pin(tokio::time::sleep_until(until))),
            }
        }
        match &mut self.deadline {
            Some(deadline) => deadline.as_mut().poll(cx).map(|()| Next::Silent),
            None => Poll::Pending,
        }
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
