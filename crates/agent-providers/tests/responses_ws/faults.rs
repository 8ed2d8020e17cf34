//! Connections that end, fall silent, or carry what does not belong there.

use std::time::Duration;

use agent_core::{CancellationToken, ErrorKind, StreamEvent, StreamProvider as _};
use agent_providers::{OpenAiResponsesWsProvider, Transport, TransportConfig};
use serde_json::json;

use crate::server::{Fault, Server, Upgrade};
use crate::{KEY, answered, call, hello, provider, run, sent_items};

/// After a cut the retry sends the whole input over another connection, and nothing is lost or doubled.
#[tokio::test]
async fn a_cut_loses_and_doubles_nothing() {
    for (fault, failed) in [
        (Fault::CutBefore, 1..=1),
        (Fault::CutMidFrame, 1..=1),
        // The next request may be sent before the end of the connection is noticed.
        (Fault::CutAfter, 0..=1),
        (Fault::Close(1012), 1..=1),
        (Fault::Forget, 0..=0),
        (Fault::Binary, 1..=1),
    ] {
        let server = Server::start(10, Upgrade::Open, [(5, fault)]).await;
        let provider = provider();
        let mut request = hello(&server);
        let (reply, retries) = run(&provider, &mut request).await;
        assert!(failed.contains(&retries), "{retries}");
        assert_eq!(server.problems(), Vec::<String>::new());
        // The last request stands for the whole conversation: each call once, each result once.
        let asked = server.asked();
        let last = asked.last().unwrap();
        let calls = last.whole.iter().filter(|item| item["type"] == "function_call").count();
        let outputs = last.whole.iter().filter(|item| item["type"] == "function_call_output").count();
        assert_eq!((calls, outputs), (request.history.unit_count() - 2, calls));
        assert_eq!(reply.text(), format!("text {}", asked.len()));
        // One request has the whole input again, all later ones have the new input.
        let long: Vec<usize> = asked.iter().map(sent_items).filter(|items| *items > 1).collect();
        assert_eq!(long.len(), 1, "{long:?}");
    }
}

#[tokio::test]
async fn a_reply_that_the_server_forgot_is_sent_again_within_the_call() {
    let server = Server::start(0, Upgrade::Open, [(2, Fault::Forget)]).await;
    let provider = provider();
    let mut request = hello(&server);
    let reply = call(&provider, &request).await.0.unwrap();
    answered(&mut request, &reply);
    request.history.push("more".into()).unwrap();
    let (reply, events) = call(&provider, &request).await;
    assert_eq!(reply.unwrap().text(), "text 3");
    let starts = events.iter().filter(|e| matches!(e, agent_core::OwnedStreamEvent::Start { .. })).count();
    assert_eq!(starts, 1);
    let asked = server.asked();
    assert_eq!(asked.iter().map(sent_items).collect::<Vec<_>>(), [1, 1, 3]);
    assert!(asked.iter().all(|asked| asked.connection == 0));
}

#[tokio::test]
async fn a_connection_that_is_too_old_is_replaced() {
    let event = json!({"type": "error", "status": 400, "error": {"type": "invalid_request_error",
        "code": "websocket_connection_limit_reached", "message": "60 minutes"}});
    let server = Server::start(0, Upgrade::Open, [(1, Fault::Event(event))]).await;
    let reply = call(&provider(), &hello(&server)).await.0.unwrap();
    assert_eq!(reply.text(), "text 2");
    assert_eq!(server.asked().iter().map(|asked| asked.connection).collect::<Vec<_>>(), [0, 1]);
}

#[tokio::test]
async fn error_events_have_the_kind_of_their_status_and_no_key() {
    let event = |status: u16, code: &str| {
        json!({"type": "error", "status": status, "error": {"type": "t", "code": code,
            "message": format!("refused {KEY}"), "headers": {"retry-after": "7"}}})
    };
    for (event, kind) in [
        (event(401, "invalid_api_key"), ErrorKind::Auth),
        (event(429, "rate_limit_exceeded"), ErrorKind::RateLimited),
        (event(503, "server_error"), ErrorKind::Network),
        (event(400, "invalid_value"), ErrorKind::Api),
        (json!({"type": "error", "error": {"code": "server_error", "message": "x"}}), ErrorKind::Network),
    ] {
        let server = Server::start(0, Upgrade::Open, [(1, Fault::Event(event.clone()))]).await;
        let provider = provider();
        let request = hello(&server);
        let error = call(&provider, &request).await.0.unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(!format!("{error} {error:?}").contains(KEY), "{error:?}");
        let wait = error.context().and_then(|context| context.retry_after);
        assert_eq!(wait, event.get("status").map(|_| Duration::from_secs(7)));
        // The connection serves the next request.
        call(&provider, &request).await.0.unwrap();
        assert_eq!(server.asked()[1].connection, 0);
    }
}

#[tokio::test]
async fn a_close_code_decides_whether_the_call_can_be_retried() {
    for (code, kind) in [
        (1000, ErrorKind::Network),
        (1001, ErrorKind::Network),
        (1011, ErrorKind::Network),
        (1008, ErrorKind::Api),
        (4001, ErrorKind::Api),
    ] {
        let server = Server::start(0, Upgrade::Open, [(1, Fault::Close(code))]).await;
        let error = call(&provider(), &hello(&server)).await.0.unwrap_err();
        assert_eq!(error.kind(), kind, "{code}: {error:?}");
        let text = format!("{error} {error:?}");
        assert!(text.contains(&format!("code {code}")) && !text.contains(KEY), "{text}");
    }
}

#[tokio::test]
async fn a_message_beyond_the_limit_is_an_error_and_ends_the_connection() {
    let server = Server::start(0, Upgrade::Open, [(1, Fault::Large(20_000))]).await;
    let config = TransportConfig::default().with_max_frame_bytes(10_000);
    let provider = OpenAiResponsesWsProvider::with_transport(Transport::new(config));
    let request = hello(&server);
    let error = call(&provider, &request).await.0.unwrap_err();
    assert!(error.to_string().contains("longer than 10000 bytes"), "{error}");
    assert!(!error.is_retryable());
    call(&provider, &request).await.0.unwrap();
    assert_eq!(server.asked()[1].connection, 1);
}

#[tokio::test]
async fn pings_are_answered_and_change_nothing() {
    let server = Server::start(0, Upgrade::Open, [(1, Fault::Pings)]).await;
    let provider = provider();
    let mut request = hello(&server);
    let (reply, events) = call(&provider, &request).await;
    let reply = reply.unwrap();
    answered(&mut request, &reply);
    request.history.push("more".into()).unwrap();
    call(&provider, &request).await.0.unwrap();
    assert_eq!(events.len(), call(&provider, &hello(&server)).await.1.len());
    assert_eq!((server.pongs(), server.asked()[1].connection), (4, 0));
}

/// The clock is paused after the first event, so the limit is not waited for.
#[tokio::test]
async fn a_server_that_falls_silent_exceeds_the_idle_timeout() {
    let server = Server::start(0, Upgrade::Open, [(1, Fault::Silent)]).await;
    let provider = provider();
    let request = hello(&server);
    let mut sink = |event: StreamEvent<'_>| {
        if matches!(event, StreamEvent::Start { .. }) {
            tokio::time::pause();
        }
    };
    let end = provider.stream(&request, &mut sink, &CancellationToken::new()).await;
    tokio::time::resume();
    let error = end.unwrap_err();
    assert!(error.to_string().contains("nothing came for 300 s"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Network);
    call(&provider, &request).await.0.unwrap();
    assert_eq!(server.asked()[1].connection, 1);
}

#[tokio::test]
async fn a_cancelled_call_returns_at_once_and_closes_the_connection() {
    let server = Server::start(0, Upgrade::Open, [(1, Fault::Silent)]).await;
    let provider = provider();
    let request = hello(&server);
    let cancel = CancellationToken::new();
    let mut sink = |event: StreamEvent<'_>| {
        if matches!(event, StreamEvent::Start { .. }) {
            cancel.cancel();
        }
    };
    let end = provider.stream(&request, &mut sink, &cancel).await;
    assert!(matches!(end, Err(agent_core::ProviderError::Cancelled)), "{end:?}");
    while server.closed() == 0 {
        tokio::task::yield_now().await;
    }
    call(&provider, &request).await.0.unwrap();
    assert_eq!(server.asked()[1].connection, 1);
}

/// The clock is paused between two calls, so the limit is not waited for.
#[tokio::test]
async fn an_idle_connection_is_closed() {
    let server = Server::start(0, Upgrade::Open, []).await;
    let provider = provider();
    let mut request = hello(&server);
    let reply = call(&provider, &request).await.0.unwrap();
    answered(&mut request, &reply);
    request.history.push("more".into()).unwrap();
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(600)).await;
    tokio::time::resume();
    while server.closed() == 0 {
        tokio::task::yield_now().await;
    }
    call(&provider, &request).await.0.unwrap();
    let asked = &server.asked()[1];
    assert_eq!((asked.connection, sent_items(asked)), (1, 3));
}
