//! Accepts connections and serves routes on them, with bounds on their number and times.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use prometheus_client::metrics::counter::Counter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep};

/// The wait after a connection could not be accepted, mostly because too many files are open.
const PAUSE: Duration = Duration::from_millis(100);

/// The time that responses get to end after the last request was accepted.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The bounds of connections.
#[derive(Debug, Clone)]
pub(crate) struct Acceptance {
    /// Connections that are open at once; a further one waits.
    pub(crate) connections: usize,
    /// The time for the head of a request.
    pub(crate) head_time: Duration,
    /// The time in which the client must read what was written.
    pub(crate) write_time: Duration,
    /// Counts the connections that were closed because their client did not read.
    pub(crate) cut: Counter,
}

/// Serves until `until` completes. Connections are then closed after their responses.
pub(crate) async fn accept(
    listener: TcpListener,
    routes: Router,
    acceptance: Acceptance,
    until: impl Future<Output = ()>,
) {
    let mut until = std::pin::pin!(until);
    let places = Arc::new(Semaphore::new(acceptance.connections));
    let stop = tokio_util::sync::CancellationToken::new();
    let mut open = JoinSet::new();
    loop {
        let place = tokio::select! {
            biased;
            () = &mut until => break,
            place = Arc::clone(&places).acquire_owned() => place,
        };
        let Ok(place) = place else { break };
        let accepted = tokio::select! {
            biased;
            () = &mut until => break,
            accepted = listener.accept() => accepted,
            Some(_) = open.join_next() => continue,
        };
        let connection = match accepted {
            Ok((connection, _)) => connection,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(PAUSE).await;
                continue;
            }
        };
        // An event that waits for the next one to fill a packet arrives late.
        let _ = connection.set_nodelay(true);
        let (routes, stop, cut) = (routes.clone(), stop.clone(), acceptance.cut.clone());
        let (head_time, write_time) = (acceptance.head_time, acceptance.write_time);
        open.spawn(async move {
            // The time for the head begins with the connection only if no other version is looked for.
            let mut builder = Builder::new(TokioExecutor::new()).http1_only();
            builder.http1().timer(TokioTimer::new()).header_read_timeout(head_time);
            let service = TowerToHyperService::new(routes);
            let io = TokioIo::new(TimedWrites::new(connection, write_time, cut));
            let mut serving = std::pin::pin!(builder.serve_connection(io, service));
            let served = tokio::select! {
                served = serving.as_mut() => served,
                () = stop.cancelled() => {
                    serving.as_mut().graceful_shutdown();
                    serving.await
                }
            };
            if let Err(error) = served {
                tracing::debug!(error, "a connection ended");
            }
            drop(place);
        });
    }
    drop(listener);
    stop.cancel();
    let _ = tokio::time::timeout(LAST_WORDS, async { while open.join_next().await.is_some() {} }).await;
}

/// A connection whose writes fail if the client reads nothing for some time.
struct TimedWrites {
    inner: TcpStream,
    time: Duration,
    blocked: Option<Pin<Box<Sleep>>>,
    cut: Counter,
}

impl TimedWrites {
    fn new(inner: TcpStream, time: Duration, cut: Counter) -> Self {
        Self { inner, time, blocked: None, cut }
    }

    fn timed<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.blocked = None;
            return polled;
        }
        let time = self.time;
        let blocked = self.blocked.get_or_insert_with(|| Box::pin(sleep(time)));
        match blocked.as_mut().poll(cx) {
            Poll::Ready(()) => {
                self.cut.inc();
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for TimedWrites {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl AsyncWrite for TimedWrites {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.timed(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(cx, parts);
        self.timed(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(cx);
        self.timed(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
