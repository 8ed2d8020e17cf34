//! Servers over streamable HTTP.

use std::time::Duration;

use agent_core::AgentTool as _;
use agent_tools::mcp::{McpClient, McpError, McpServer, Restart};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::http_server::{HttpServer, Seen};
use crate::support::server::TestServer;
use crate::support::{call, connect, context, failure, lines, listening, now_ms, text, tool, tools, until};

fn quick() -> Restart {
    Restart::new(3, Duration::from_millis(10), Duration::from_millis(100))
}

/// REQ-132.
#[tokio::test]
async fn a_server_over_http_is_greeted_listed_and_called() {
    let server = HttpServer::start().await;
    let client = McpClient::connect_http(server.url()).await.unwrap();
    assert_eq!(client.server_info().unwrap().name, "test-server");
    assert_eq!(tools(&client).await.len(), 17);
    assert_eq!(text(call(&client, "echo", json!({"text": "über HTTP"})).await), "über HTTP");
    let requests = server.seen.requests.lock().unwrap();
    let header =
        |n: usize, name: &str| requests[n].1.get(name).map(|value| value.to_str().unwrap().to_owned());
    assert!(header(0, "accept").unwrap().contains("text/event-stream"));
    let last = requests.len() - 1;
    assert!(header(last, "mcp-session-id").is_some());
    assert_eq!(header(last, "mcp-protocol-version").as_deref(), Some("2025-11-25"));
}

/// REQ-143.
#[tokio::test]
async fn progress_comes_over_http_too() {
    let server = HttpServer::start().await;
    let client = McpClient::connect_http(server.url()).await.unwrap();
    let slow = tool(&client, "slow").await;
    let (ctx, heard) = listening(&slow);
    assert_eq!(text(slow.execute(json!({"steps": 4}), ctx).await), "done");
    assert_eq!(heard.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn a_cancelled_call_is_cancelled_at_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let test_server = TestServer::new(Some(folder.path().to_owned()));
    let address = "127.0.0.1:0".parse().unwrap();
    let server = HttpServer::start_at(address, Seen::default(), test_server).await;
    let client = McpClient::connect_http(server.url()).await.unwrap();
    let slow = tool(&client, "slow").await;
    let ctx = context(&slow);
    let cancel = ctx.cancel.clone();
    let (result, ()) = tokio::join!(slow.execute(json!({"steps": 1, "ms": 600_000}), ctx), async {
        until("the call", || lines(folder.path(), "calls").contains(&"slow".to_owned())).await;
        cancel.cancel();
    });
    assert_eq!(result, Err(agent_core::ToolError::Cancelled));
    until("the cancellation", || !lines(folder.path(), "cancelled").is_empty()).await;
}

#[tokio::test]
async fn headers_and_the_bearer_token_go_with_every_request() {
    let server = HttpServer::guarded("Bearer tok-0123456789").await;
    let spec = McpServer::http("guarded", server.url())
        .with_bearer("tok-0123456789")
        .with_header("X-Tenant", "acme");
    let client = connect(spec).await;
    assert_eq!(text(call(&client, "echo", json!({"text": "a"})).await), "a");
    client.close().await;
    let requests = server.seen.requests.lock().unwrap();
    assert!(requests.len() >= 4);
    for (method, headers) in requests.iter() {
        assert_eq!(headers["authorization"], "Bearer tok-0123456789", "{method}");
        assert_eq!(headers["x-tenant"], "acme", "{method}");
    }
    assert_eq!(requests.last().unwrap().0, "DELETE", "the session is ended");
}

#[tokio::test]
async fn a_refused_token_is_an_error_that_says_so_without_it() {
    let server = HttpServer::guarded("Bearer tok-right-0123456789").await;
    let spec = McpServer::http("guarded", server.url()).with_bearer("tok-wrong-0123456789");
    let error = McpClient::connect(spec.clone()).await.unwrap_err();
    match &error {
        McpError::Unauthorized { challenge, .. } => {
            assert_eq!(challenge.as_deref(), Some("Bearer realm=\"test\""));
        }
        other => panic!("{other:?}"),
    }
    for shown in [format!("{error} {error:?}"), format!("{spec:?}")] {
        assert!(!shown.contains("0123456789"), "{shown}");
    }
}

#[tokio::test]
async fn a_header_that_cannot_be_sent_is_named_without_its_value() {
    for (name, value) in [("X-Key", "line\nbreak-0123456789"), ("no name", "0123456789")] {
        let spec = McpServer::http("guarded", "http://127.0.0.1:9/mcp").with_header(name, value);
        let error = McpClient::connect(spec).await.unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert!(!format!("{error:?}").contains("0123456789"), "{error:?}");
    }
}

#[tokio::test]
async fn where_nobody_listens_there_is_an_error_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let begun = now_ms();
    let error = McpClient::connect_http(format!("http://{address}/mcp?key=0123456789")).await.unwrap_err();
    assert!(matches!(error, McpError::Transport { .. }), "{error:?}");
    assert!(now_ms() - begun < 20_000);
    assert!(!error.server().contains("key="), "{error}");
}

#[tokio::test]
async fn a_server_that_accepts_and_says_nothing_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let spec = McpServer::http("mute", url).with_connect_timeout(Duration::from_secs(1));
    let error = McpClient::connect(spec).await.unwrap_err();
    assert!(matches!(error, McpError::Timeout { .. }), "{error:?}");
}

/// Headers with credentials would go to wherever it points.
#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = HttpServer::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let answer =
        format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", other.url());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = [0; 4096];
            drop(socket.read(&mut request).await);
            drop(socket.write_all(answer.as_bytes()).await);
        }
    });
    let error =
        McpClient::connect(McpServer::http("moved", url).with_bearer("tok-0123456789")).await.unwrap_err();
    assert!(matches!(error, McpError::Transport { .. } | McpError::Protocol { .. }), "{error:?}");
    assert!(other.methods().is_empty());
}

#[tokio::test]
async fn a_server_that_was_restarted_answers_the_next_call() {
    let server = HttpServer::start().await;
    let client = connect(McpServer::http("web", server.url()).with_restart(quick())).await;
    assert_eq!(text(call(&client, "echo", json!({"text": "one"})).await), "one");
    let address = server.stop();
    let again = loop {
        // The port is free once the old listener is gone.
        match std::net::TcpListener::bind(address) {
            Ok(free) => {
                drop(free);
                break HttpServer::start_at(address, Seen::default(), TestServer::new(None)).await;
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    let result = client.call_tool("echo", json!({"text": "two"})).await.unwrap();
    assert_eq!(result.text(), "two");
    drop(again);
}

#[tokio::test]
async fn a_server_that_is_gone_fails_calls_in_bounded_time() {
    let server = HttpServer::start().await;
    let client = connect(McpServer::http("web", server.url()).with_restart(quick())).await;
    let echo = tool(&client, "echo").await;
    server.stop();
    let begun = now_ms();
    let told = failure(echo.execute(json!({"text": "a"}), context(&echo)).await);
    assert!(told.starts_with("MCP "), "{told}");
    assert!(now_ms() - begun < 60_000);
}

#[tokio::test]
async fn a_server_that_dies_during_a_call_fails_it_in_bounded_time() {
    let folder = tempfile::tempdir().unwrap();
    let test_server = TestServer::new(Some(folder.path().to_owned()));
    let address = "127.0.0.1:0".parse().unwrap();
    let server = HttpServer::start_at(address, Seen::default(), test_server).await;
    let client = connect(McpServer::http("web", server.url()).with_restart(quick())).await;
    let calling = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("slow", json!({"steps": 1, "ms": 600_000})).await }
    });
    until("the call", || lines(folder.path(), "calls").contains(&"slow".to_owned())).await;
    server.stop();
    let begun = now_ms();
    let error = calling.await.unwrap().unwrap_err();
    assert!(!matches!(error, McpError::Timeout { .. }), "its end was seen: {error:?}");
    assert!(now_ms() - begun < 100_000);
}

#[tokio::test]
async fn many_calls_run_beside_each_other_over_http() {
    let server = HttpServer::start().await;
    let client = connect(McpServer::http("web", server.url())).await;
    let calls: Vec<_> = (0..40)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move { client.call_tool("echo", json!({"text": n.to_string()})).await })
        })
        .collect();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap().unwrap().text(), n.to_string());
    }
}
