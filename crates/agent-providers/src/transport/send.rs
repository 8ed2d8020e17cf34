//! Sends the request of a call and waits for the headers of the response.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use agent_core::{CancellationToken, ModelRequest, ProviderError};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::body::RINGS;
use super::guard::{Guard, Stir};
use super::{Inner, TransportConfig, failure, retry_after};
use crate::protocol::{Dispatched, HttpRequest, Protocol, Undelivered};
use crate::request::{apply_custom, apply_trace};
use crate::tap::{Answering, Tap};

/// Headers that contain the request id, in order of precedence.
const REQUEST_ID: &[&str] = &[
    "x-request-id",
    "request-id",
    "apim-request-id",
    "mistral-correlation-id",
    "x-amzn-requestid",
    "cf-ray",
];

/// The values of the response head that errors need. They are copied, because headers are slices of the connection's read
/// buffer and would retain it while the reply streams.
#[derive(Default)]
pub(super) struct Head {
    pub(super) request_id: Option<Box<str>>,
    /// The value of `x-should-retry`.
    pub(super) retry: Option<bool>,
    pub(super) retry_after: Option<Duration>,
    /// The value of `x-amzn-errortype`, often the only place where AWS names the kind of error.
    pub(super) error_type: Option<Box<str>>,
    /// The credential that was fetched for the request.
    pub(super) fetched: Option<HeaderValue>,
}

impl Head {
    /// Reads the headers in one pass. A lookup of each name, most of which are absent, takes several times as long.
    pub(super) fn of(status: StatusCode, headers: &HeaderMap, fetched: Option<HeaderValue>) -> Self {
        let mut head = Self { fetched, ..Self::default() };
        // Only with this status do the times of the limits say when to try again.
        let (mut named, mut waits) = (REQUEST_ID.len(), status == StatusCode::TOO_MANY_REQUESTS);
        for (name, value) in headers {
            let name = name.as_str();
            let text = || value.to_str().ok();
            match name {
                "retry-after" | "retry-after-ms" => waits = true,
                "x-should-retry" => head.retry = head.retry.or_else(|| text()?.parse().ok()),
                "x-amzn-errortype" => head.error_type = head.error_type.or_else(|| text().map(Box::from)),
                _ => {
                    if let Some(at) = REQUEST_ID.iter().take(named).position(|known| *known == name)
                        && let Some(id) = text()
                    {
                        (named, head.request_id) = (at, Some(Box::from(id)));
                    }
                }
            }
        }
        if waits {
            head.retry_after = retry_after::read(headers, now);
        }
        head
    }
}

/// Builds the request and passes it to the client. A separate function, because otherwise the future of the exchange would
/// reserve memory for these values while the response streams.
pub(super) fn send(
    inner: &Inner,
    protocol: &dyn Protocol,
    request: &ModelRequest,
    fetched: Option<(HeaderName, HeaderValue)>,
    tap: Option<Arc<Tap>>,
) -> Result<(reqwest::Url, Dispatched), ProviderError> {
    let HttpRequest { url, mut headers, mut body } = protocol.sendable(request)?;
    headers.extend(fetched);
    if let Some(trace) = &request.trace {
        apply_trace(&mut headers, trace);
    }
    apply_custom(&mut headers, request)?;
    if let Some(hook) = &request.options.request_hook
        && let Ok(value) = serde_json::from_slice(&body)
        && let Some(replaced) = hook(&value)
    {
        body.clear();
        crate::json::write(&mut body, &replaced);
    }
    let client = inner.clients.for_url(&url)?;
    let sent = protocol.dispatch(request, client, HttpRequest { url: url.clone(), headers, body }, tap);
    Ok((url, sent))
}

/// Waits for the response head.
pub(super) async fn answered<'c>(
    inner: &Inner,
    (url, sent): (reqwest::Url, Dispatched),
    cancel: &'c CancellationToken,
    head: &mut Head,
    tap: Option<Arc<Tap>>,
) -> Result<Answered<'c>, ProviderError> {
    let config = &inner.config;
    let (mut guard, rings) = head_guard(config, cancel);
    let mut response = match within(rings, sent, &mut guard).await {
        Waited::Ready(Ok(response)) => response,
        Waited::Ready(Err(Undelivered::Sending(error))) => return Err(failure::sending(error, &url)),
        Waited::Ready(Err(Undelivered::Refused(error))) => return Err(error),
        Waited::TooLong => return Err(failure::no_head(&url, config.header_timeout)),
        Waited::Cancelled => return Err(ProviderError::Cancelled),
    };
    let status = response.status();
    let headers = std::mem::take(response.headers_mut());
    *head = Head::of(status, &headers, head.fetched.take());
    let tap = tap.and_then(|tap| tap.answered(status.as_u16(), &headers));
    if status.is_redirection() {
        return Err(failure::redirected(status.as_u16(), &headers, &url));
    }
    let declared = headers.get(http::header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).map(Box::from);
    Ok(Answered { response, guard, declared, tap })
}

/// A response whose head has arrived.
pub(super) struct Answered<'c> {
    /// The response, whose body has not been read yet.
    pub(super) response: reqwest::Response,
    pub(super) guard: Guard<'c>,
    /// The content type of the response.
    pub(super) declared: Option<Box<str>>,
    /// Reports the body to the wire hooks.
    pub(super) tap: Option<Answering>,
}

enum Waited<T> {
    Ready(T),
    TooLong,
    Cancelled,
}

/// Returns the guard of a call and the number of timer ticks until the response head is late. The period also suits the
/// body.
fn head_guard<'c>(config: &TransportConfig, cancel: &'c CancellationToken) -> (Guard<'c>, u32) {
    let period = (config.idle_timeout / RINGS).as_millis().max(1);
    let rings = config.header_timeout.as_millis().div_ceil(period).max(1);
    let rings = u32::try_from(rings).unwrap_or(u32::MAX);
    (Guard::new(cancel, config.header_timeout / rings), rings)
}

/// Waits for `work` for this number of timer ticks. A result wins over a cancellation that arrives at the same time.
async fn within<T>(rings: u32, work: impl Future<Output = T>, guard: &mut Guard<'_>) -> Waited<T> {
    let mut work = pin!(work);
    let mut left = rings;
    poll_fn(|cx| {
        if let Poll::Ready(out) = work.as_mut().poll(cx) {
            return Poll::Ready(Waited::Ready(out));
        }
        if guard.is_cancelled() {
            return Poll::Ready(Waited::Cancelled);
        }
        loop {
            match guard.poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Stir::Cancelled) => return Poll::Ready(Waited::Cancelled),
                Poll::Ready(Stir::Ring) if left <= 1 => return Poll::Ready(Waited::TooLong),
                Poll::Ready(Stir::Ring) => left -= 1,
            }
        }
    })
    .await
}

/// Returns the Unix time in seconds.
#[expect(clippy::disallowed_methods, reason = "a date in `retry-after` means nothing without a clock")]
fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
