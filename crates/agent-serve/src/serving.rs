//! Accepts connections and serves routes on them, with bounds on their number, times and buffers.
//!
//! A full server closes the connection that deserves its place least, instead of letting new ones wait: first connections
//! without a valid key, those of the address with most of them, and then idle ones. A connection whose request has a valid key
//! is not closed for another one. The routes report this with [`Seat::admit`].
//!
//! ```no_run
//! use agent_serve::serving::{ConnectionLimits, Seat, serve_routes};
//! use axum::{Extension, Router, http::StatusCode, routing::get};
//!
//! async fn hello(Extension(seat): Extension<Seat>) -> Result<&'static str, StatusCode> {
//!     // Here the key of the request has been checked.
//!     seat.admit().map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
//!     Ok("hello")
//! }
//!
//! # async fn example() -> std::io::Result<()> {
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! let routes = Router::new().route("/", get(hello));
//! serve_routes(listener, routes, ConnectionLimits::default(), std::future::pending()).await;
//! # Ok(())
//! # }
//! ```

mod body;
mod places;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use prometheus_client::metrics::counter::Counter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep};

pub(crate) use body::holding;
pub use places::{AllBusy, RESERVE, Seat};

use places::Places;

/// The wait after a connection could not be accepted, mostly because too many files are open.
const PAUSE: Duration = Duration::from_millis(100);

/// The time that responses get to end after the last request was accepted.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The maximum size of the head of a request, and of each buffer of a connection, in bytes.
const BUFFER: usize = 64 << 10;

/// The bounds of the connections of a server. Requests beyond them are the matter of the routes. Each field states its
/// default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionLimits {
    /// Connections with a valid key that are answered at once. At most [`RESERVE`] more are open. Default: 2,048.
    pub connections: usize,
    /// The time in which the head of a request must arrive, also of the next one of a connection. Default: 10 seconds.
    pub head_time: Duration,
    /// The time in which the client must read a part of what was written; then its connection is closed. Default: 60 seconds.
    pub write_time: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { connections: 2_048, head_time: Duration::from_secs(10), write_time: Duration::from_secs(60) }
    }
}

/// The counters of connections that were closed by the server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Closed {
    /// Their client did not read.
    pub(crate) unread: Counter,
    /// Another connection took their place.
    pub(crate) evicted: Counter,
}

/// Serves routes until `until` completes; connections are then closed after their responses. Each request has its [`Seat`] as
/// an extension. Use it for routes beside those of a [`Service`](crate::Service), which serves itself.
pub async fn serve_routes(
    listener: TcpListener,
    routes: Router,
    limits: ConnectionLimits,
    until: impl Future<Output = ()>,
) {
    accept(listener, routes, limits, Closed::default(), until).await;
}

/// Serves until `until` completes and counts the connections that it closes.
pub(crate) async fn accept(
    listener: TcpListener,
    routes: Router,
    limits: ConnectionLimits,
    closed: Closed,
    until: impl Future<Output = ()>,
) {
    let mut until = std::pin::pin!(until);
    let places = Places::new(limits.connections);
    let stop = tokio_util::sync::CancellationToken::new();
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut until => break,
            Some(_) = open.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let (connection, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(PAUSE).await;
                continue;
            }
        };
        // An event that waits for the next one to fill a packet arrives late.
        let _ = connection.set_nodelay(true);
        let (seat, evicts) = places.take(peer.ip());
        if evicts {
            closed.evicted.inc();
        }
        let connection = TimedWrites::new(connection, limits.write_time, closed.unread.clone());
        open.spawn(serve_one(connection, routes.clone(), seat, limits.head_time, stop.clone()));
    }
    drop(listener);
    stop.cancel();
    let _ = tokio::time::timeout(LAST_WORDS, async { while open.join_next().await.is_some() {} }).await;
}

/// Serves a connection until it ends, is closed for another one, or the server stops.
async fn serve_one(
    connection: TimedWrites,
    routes: Router,
    seat: Seat,
    head_time: Duration,
    stop: tokio_util::sync::CancellationToken,
) {
    // The time for the head begins with the connection only if no other version is looked for.
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(head_time).max_buf_size(BUFFER);
    let routes = TowerToHyperService::new(routes);
    let (seated, place) = (seat.clone(), seat);
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let mut request: Request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(seated.clone());
        let (answered, response) = (seated.request(), routes.call(request));
        async move {
            // A connection with many requests in its buffer takes turns with the others.
            tokio::task::yield_now().await;
            response.await.map(|response| holding(response, answered))
        }
    });
    let mut serving = std::pin::pin!(builder.serve_connection(TokioIo::new(connection), service));
    let served = tokio::select! {
        served = serving.as_mut() => served,
        () = place.closed() => return,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(error, "a connection ended");
    }
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
