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
    for nonsense in ["-1", "NaN", "inf", "soon", "", "Sun, 99 Foo 1994 08:49:37 GMT", "1e300"] {
        check_wait(&[("retry-after", nonsense)], None);
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
    let request = StreamConfig::new(model, agent_core::History::new());
    let (transport, cancel) = (Transport::default(), CancellationToken::new());
    let mut sink = |_: agent_core::StreamEvent<'_>| {};
    let call = transport.call(&crate::openai_chat::OpenAiChat, &request, &mut sink, &cancel);
    // A thousand agents wait at once; every large variant of a future is paid for by all of them.
    let size = size_of_val(&call);
    assert!(size <= 2_048, "{size} bytes");
}
