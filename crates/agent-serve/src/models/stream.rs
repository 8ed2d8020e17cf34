//! One reply: the next part is requested from the provider only when the client has read the previous one.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use agent_core::{
    CancellationToken, ErrorContext, ErrorKind, EventSink, ModelRequest, ProviderError, StreamEvent,
    StreamProvider,
};
use agent_providers::remote::{end_frame, event_frame};
use axum::body::Bytes;
use futures_util::Stream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, sleep_until, timeout};

use super::Limits;

/// Pieces that may lie between the provider and the connection.
const PIECES: usize = 4;

/// A comment, which a reader of server-sent events passes over.
const SIGN_OF_LIFE: &[u8] = b": still here\n\n";

/// Calls the model in a task of its own; the pieces come by the stream. Dropped, it ends the call.
pub(super) fn start(
    provider: Arc<dyn StreamProvider>,
    config: ModelRequest,
    limits: Limits,
    permit: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
    let (tx, mut rx) = mpsc::channel(PIECES);
    tokio::spawn(async move {
        run(&*provider, &config, limits, &tx).await;
        drop(permit);
    });
    futures_util::stream::poll_fn(move |cx| rx.poll_recv(cx).map(|piece| piece.map(Ok)))
}

async fn run(provider: &dyn StreamProvider, config: &ModelRequest, limits: Limits, tx: &mpsc::Sender<Bytes>) {
    let arrived = Mutex::new(Vec::new());
    let mut sink = |event: StreamEvent<'_>| {
        event_frame(&mut arrived.lock().unwrap_or_else(PoisonError::into_inner), event);
    };
    let sink: &mut EventSink<'_> = &mut sink;
    // Dropping the call ends it: no other task can cancel it.
    let cancel = CancellationToken::new();
    let mut call = pin!(provider.stream(config, sink, &cancel));
    let latest = Instant::now() + limits.stream_time;
    let taken = || std::mem::take(&mut *arrived.lock().unwrap_or_else(PoisonError::into_inner));
    loop {
        // What one poll brings is sent before the next: who reads slowly is not read for.
        let polled = poll_fn(|cx| match call.as_mut().poll(cx) {
            Poll::Ready(end) => Poll::Ready((taken(), Some(end))),
            Poll::Pending => match taken() {
                pieces if pieces.is_empty() => Poll::Pending,
                pieces => Poll::Ready((pieces, None)),
            },
        });
        let (mut pieces, end) = tokio::select! {
            biased;
            () = tx.closed() => return,
            polled = polled => polled,
            () = sleep_until(latest) => (taken(), Some(Err(too_long(limits)))),
            () = tokio::time::sleep(limits.keep_alive) => (SIGN_OF_LIFE.to_vec(), None),
        };
        if let Some(end) = &end {
            end_frame(&mut pieces, end);
        }
        let sent = timeout(limits.write_time, tx.send(pieces.into())).await;
        if end.is_some() || !matches!(sent, Ok(Ok(()))) {
            return;
        }
    }
}

fn too_long(limits: Limits) -> ProviderError {
    let text =
        format!("the reply took longer than the {} s that the server allows", limits.stream_time.as_secs());
    ProviderError::new(ErrorKind::Other, ErrorContext::new(text))
}
