//! The parts of the transport that need no socket.

use super::*;
use http::{HeaderMap, HeaderValue};

#[track_caller]
fn check_wait(headers: &[(&'static str, &'static str)], expect: Option<Duration>) {
    let headers: HeaderMap = headers
        .iter()
        .map(|(n, v)| (http::HeaderName::from_static(n), HeaderValue::from_static(v)))
        .collect();
    assert_eq!(retry_after::read(&headers, || 784_111_770), expect, "{headers:?}");
}

/// REQ-073.
#[test]
fn a_wait_is_read_from_every_form_of_the_header() {
    check_wait(&[("retry-after", "7")], Some(Duration::from_secs(7)));
    check_wait(&[("retry-after", "1.5")], Some(Duration::from_millis(1_500)));
    check_wait(&[("retry-after-ms", "250"), ("retry-after", "7")], Some(Duration::from_millis(250)));
    check_wait(&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")], Some(Duration::from_secs(7)));
    check_wait(
        &[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"), ("date", "Sun, 06 Nov 1994 08:49:07 GMT")],
        Some(Duration::from_secs(30)),
    );
    check_wait(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")], None);
    // No delay at all, and a limit with its own time of reset.
    check_wait(&[("retry-after", "0")], None);
    check_wait(&[("retry-after-ms", "0"), ("retry-after", "0")], None);
    let spent = ("x-ratelimit-remaining-tokens", "0");
    let left = ("x-ratelimit-remaining-requests", "7");
    check_wait(
        &[spent, left, ("x-ratelimit-reset-tokens", "1m0.5s"), ("x-ratelimit-reset-requests", "8h")],
        Some(Duration::from_millis(60_500)),
    );
    check_wait(
        &[spent, ("x-ratelimit-reset-tokens", "350ms"), ("retry-after", "0")],
        Some(Duration::from_millis(350)),
    );
    check_wait(&[left, ("x-ratelimit-reset-requests", "9s")], None);
    let date = ("date", "Sun, 09 Sep 2001 01:46:40 GMT");
    for (reset, seconds) in [("1000000007", 7), ("1000000007000", 7), ("12", 12)] {
        check_wait(&[("x-ratelimit-reset", reset), date], Some(Duration::from_secs(seconds)));
    }
    for reset in ["0", "1000000000", "999999999000", "2000000000", "soon"] {
        check_wait(&[("x-ratelimit-reset", reset), date], None);
    }
    for nonsense in ["-1", "NaN", "inf", "soon", "", "Sun, 99 Foo 1994 08:49:37 GMT", "1e300"] {
        check_wait(&[("retry-after", nonsense)], None);
    }
}

#[test]
fn a_wait_is_read_from_the_words_of_an_error() {
    for (text, ms) in [
        ("Rate limit reached. Please try again in 9.5s. Visit", 9_500),
        ("Please try again in 1m26.5s", 86_500),
        ("Please retry after 1 second.", 1_000),
        ("Quota exceeded. Please retry in 39.25s.", 39_250),
        ("Try again in 20 minutes", 1_200_000),
        ("try again in 350ms", 350),
    ] {
        assert_eq!(retry_after::in_text(text), Some(Duration::from_millis(ms)), "{text}");
    }
    for text in ["try again in a while", "try again later", "retry after 900000 h", ""] {
        assert_eq!(retry_after::in_text(text), None, "{text}");
    }
}

#[test]
fn dates_are_counted_from_1970() {
    assert_eq!(retry_after::date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
    assert_eq!(retry_after::date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
    assert_eq!(retry_after::date("Thu, 29 Feb 2024 23:59:59 GMT"), Some(1_709_251_199));
    assert_eq!(retry_after::date("Fri, 31 Dec 9999 23:59:59 GMT"), Some(253_402_300_799));
}

#[test]
fn the_default_transport_is_one_for_the_process() {
    assert!(Arc::ptr_eq(&Transport::default().inner, &Transport::default().inner));
}

#[cfg(feature = "openai-chat")]
#[test]
fn a_waiting_call_is_small() {
    let model = agent_core::ModelConfig::local("http://localhost:1/v1", "m", "");
    let request = ModelRequest::new(model, agent_core::History::new());
    let (transport, cancel) = (Transport::default(), CancellationToken::new());
    let mut sink = |_: agent_core::StreamEvent<'_>| {};
    let call = transport.call(&crate::openai_chat::OpenAiChat, &request, &mut sink, &cancel);
    // A thousand agents wait at once; every large variant of a future is paid for by all of them.
    let size = size_of_val(&call);
    assert!(size <= 2_048, "{size} bytes");
}

/// Reads a body whose pieces come at these seconds and which then stays open; at which second it counts as silent.
async fn silent_after(pieces: &'static [u64], idle: u64) -> f64 {
    let start = tokio::time::Instant::now();
    let stream = futures_util::stream::unfold(pieces.iter(), move |mut left| async move {
        match left.next() {
            Some(at) => tokio::time::sleep_until(start + Duration::from_secs(*at)).await,
            None => std::future::pending().await,
        }
        Some((Ok::<_, std::io::Error>("x"), left))
    });
    let response = reqwest::Response::from(http::Response::new(reqwest::Body::wrap_stream(stream)));
    let (cancel, idle) = (CancellationToken::new(), Duration::from_secs(idle));
    let guard = guard::Guard::new(&cancel, idle / body::RINGS);
    let limits = body::Limits { idle, content: idle * 1_000 };
    let mut body = body::Body::new(response, limits, guard);
    let mut came = 0;
    loop {
        match body.next().await {
            body::Next::Piece(_) => came += 1,
            body::Next::Silent => break,
            _ => panic!("neither a piece nor silence"),
        }
    }
    assert_eq!(came, pieces.len());
    start.elapsed().as_secs_f64()
}

/// The bound holds from the last piece on, and is passed by a quarter of it at most.
#[tokio::test(start_paused = true)]
async fn a_silence_is_noticed_when_it_is_as_long_as_the_bound_and_at_most_a_quarter_later() {
    for pieces in [&[][..], &[1], &[9, 10, 11], &[39, 78, 117], &[1, 2, 3, 41]] {
        let quiet = silent_after(pieces, 40).await - *pieces.last().unwrap_or(&0) as f64;
        assert!((40.0..=50.1).contains(&quiet), "{pieces:?}: {quiet} s");
    }
}

#[tokio::test(start_paused = true)]
async fn an_abort_ends_a_wait_at_once_and_a_shorter_period_counts_from_now() {
    use std::future::poll_fn;
    let start = tokio::time::Instant::now();
    let cancel = CancellationToken::new();
    let mut guard = guard::Guard::new(&cancel, Duration::from_secs(100));
    let first = tokio::time::timeout(Duration::from_secs(5), poll_fn(|cx| guard.poll(cx))).await;
    assert!(first.is_err(), "{first:?}");
    guard.set_period(Duration::from_secs(10));
    assert_eq!(poll_fn(|cx| guard.poll(cx)).await, guard::Stir::Ring);
    assert_eq!(start.elapsed().as_secs(), 15);
    let canceller = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(3)).await;
        canceller.cancel();
    });
    let stir = poll_fn(|cx| match guard.is_cancelled() {
        true => std::task::Poll::Ready(guard::Stir::Cancelled),
        false => guard.poll(cx),
    });
    assert_eq!(stir.await, guard::Stir::Cancelled);
    assert_eq!(start.elapsed().as_secs(), 18);
}
