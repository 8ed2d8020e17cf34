//! OpenAI Responses over WebSocket, with a strict server on loopback.

#![cfg(feature = "openai-responses-ws")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    unreachable_pub,
    reason = "a test may fail loudly"
)]

mod faults;
mod lanes;
mod server;
mod steered;
mod steering;

use std::sync::Arc;

use futures_util::StreamExt as _;

use agent_core::{
    AgentMessage, AssistantMessage, CancellationToken, Content, Entry, History, Message, ModelConfig,
    ModelRequest, OwnedStreamEvent, ProviderError, StreamEvent, StreamProvider as _, ToolDefinition,
    ToolResultMessage,
};
use agent_providers::{OpenAiResponsesWsProvider, Transport, TransportConfig};
use serde_json::{Value, json};
use server::{Asked, Server, Upgrade};

const KEY: &str = "sk-test-0123456789";

fn model(server: &Server) -> ModelConfig {
    ModelConfig::openai_responses("gpt-5.5", "GPT-5.5", KEY).with_base_url(server.url())
}

fn provider() -> OpenAiResponsesWsProvider {
    OpenAiResponsesWsProvider::with_transport(Transport::new(TransportConfig::default()))
}

/// A request that says hello, with the tool.
fn hello(server: &Server) -> ModelRequest {
    let mut history = History::new();
    history.push("hello".into()).unwrap();
    let mut request = ModelRequest::new(model(server), history);
    request.tools = vec![ToolDefinition::new("look", "Looks", json!({"type": "object"}))].into();
    request.system_prompt = "Be brief.".into();
    request.session_id = Some("s1".to_owned());
    request
}

/// Makes a call and returns its message and events.
async fn call(
    provider: &OpenAiResponsesWsProvider,
    request: &ModelRequest,
) -> (Result<AssistantMessage, ProviderError>, Vec<OwnedStreamEvent>) {
    let mut events = Vec::new();
    let log = std::sync::Mutex::new(agent_core::ReplyLog::new());
    let mut sink = |event: StreamEvent<'_>| {
        log.lock().unwrap().push(&event);
        events.push(event.into());
    };
    let end = provider.stream(request, &mut sink, &CancellationToken::new()).await;
    let end = end.map(|completion| {
        let mut message = log.lock().unwrap().finish("openai", &request.model.id, &completion);
        message.api = Some(request.model.api);
        message
    });
    (end, events)
}

/// Adds a reply and the results of its calls.
fn answered(request: &mut ModelRequest, reply: &AssistantMessage) {
    let results: Vec<Entry> = reply
        .tool_calls()
        .map(|call| {
            let content = vec![Content::text(format!("seen by {}", call.id.as_str()))];
            entry(ToolResultMessage::new(call.id.clone(), "look".into(), content).into())
        })
        .collect();
    if results.is_empty() {
        request.history.push(AgentMessage::from(Message::from(reply.clone()))).unwrap();
    } else {
        request.history.push_exchange(entry(reply.clone().into()), results).unwrap();
    }
}

fn entry(message: Message) -> Entry {
    Entry::from(AgentMessage::from(message))
}

/// Runs the tool loop until the model answers with a text. A failed call is made again, as the run's retries do.
async fn run(provider: &OpenAiResponsesWsProvider, request: &mut ModelRequest) -> (AssistantMessage, usize) {
    let mut failed = 0;
    loop {
        match call(provider, request).await.0 {
            Ok(reply) => {
                answered(request, &reply);
                if reply.tool_calls().next().is_none() {
                    return (reply, failed);
                }
            }
            Err(error) => {
                assert!(error.is_retryable(), "{error}");
                failed += 1;
                assert!(failed < 5);
            }
        }
    }
}

/// The number of items of a request as it came.
fn sent_items(asked: &Asked) -> usize {
    asked.body["input"].as_array().unwrap().len()
}

fn previous(asked: &Asked) -> Option<&str> {
    asked.body["previous_response_id"].as_str()
}

#[tokio::test]
async fn thirty_tool_turns_use_one_connection_and_send_each_item_once() {
    let server = Server::start(30, Upgrade::Open, []).await;
    let provider = provider();
    let mut request = hello(&server);
    let (reply, failed) = run(&provider, &mut request).await;
    assert_eq!((reply.text(), failed), ("text 31".to_owned(), 0));
    let asked = server.asked();
    assert_eq!((asked.len(), server.problems()), (31, vec![]));
    for (n, asked) in asked.iter().enumerate() {
        assert_eq!((asked.connection, asked.http, sent_items(asked)), (0, false, 1), "{n}");
        assert_eq!(previous(asked).is_some(), n > 0);
        // The server has the same conversation that a request over HTTP holds.
        assert_eq!(asked.whole.len(), 1 + 2 * n);
        assert_eq!(asked.body["instructions"], "Be brief.");
    }
    // The usage of a reply is that of its own request.
    let usage: u64 =
        request.history.llm_messages().filter_map(Message::as_assistant).map(|m| m.usage.input).sum();
    assert_eq!(usage, (0..31).map(|n| 1 + 2 * n).sum::<u64>());
    let head = &server.heads()[0];
    assert!(head.starts_with("GET /v1/responses HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("authorization: Bearer {KEY}")), "{head}");
}

#[tokio::test]
async fn a_reply_is_equal_over_both_transports() {
    let server = Server::start(1, Upgrade::Open, []).await;
    let (reply, events) = call(&provider(), &hello(&server)).await;
    let plain = Server::start(1, Upgrade::Open, []).await;
    let http = agent_providers::OpenAiResponsesProvider::new();
    let mut sent = Vec::new();
    let request = hello(&plain);
    http.stream(&request, &mut |event| sent.push(event.into()), &CancellationToken::new()).await.unwrap();
    assert_eq!(events, sent);
    assert_eq!(reply.unwrap().response_id.as_deref(), Some("resp_1"));
    let (socket, http) = (&server.asked()[0].body, &plain.asked()[0].body);
    let mut same = http.as_object().unwrap().clone();
    same.shift_remove("stream");
    same.insert("type".into(), "response.create".into());
    assert_eq!(socket, &Value::Object(same));
}

/// Another system prompt, other tools, a changed message or a changed reply need the whole input.
#[tokio::test]
async fn a_request_that_does_not_continue_the_last_one_sends_its_whole_input() {
    type Change = fn(&mut ModelRequest);
    let changes: Vec<(&str, Change)> = vec![
        ("prompt", |r| r.system_prompt = "Be long.".into()),
        ("tools", |r| r.tools = vec![ToolDefinition::new("see", "Sees", json!({"type": "object"}))].into()),
        ("option", |r| r.options.max_tokens = Some(99)),
        ("message", |r| {
            let splice =
                agent_core::Splice { from: 0, to: 1, messages: vec![AgentMessage::user("other").into()] };
            r.history = r.history.spliced(&[splice]).unwrap();
        }),
        ("reply", |r| {
            let mut messages = r.history.to_vec();
            let Some(Message::Assistant(reply)) = messages[1].as_llm() else { panic!("no reply") };
            let mut reply = reply.clone();
            reply.content = vec![Content::text("changed")];
            messages[1] = Message::from(reply).into();
            r.history = History::repaired(messages).0;
        }),
    ];
    for (name, change) in changes {
        let server = Server::start(0, Upgrade::Open, []).await;
        let provider = provider();
        let mut request = hello(&server);
        let reply = call(&provider, &request).await.0.unwrap();
        answered(&mut request, &reply);
        request.history.push("more".into()).unwrap();
        change(&mut request);
        call(&provider, &request).await.0.unwrap();
        let asked = &server.asked()[1];
        assert_eq!((previous(asked), sent_items(asked)), (None, 3), "{name}");
        assert_eq!(server.problems(), Vec::<String>::new());
    }
}

/// The output of an async call is the only new item of a later request.
#[tokio::test]
async fn a_deferred_result_is_the_new_input_of_a_later_request() {
    let server = Server::start(1, Upgrade::Open, []).await;
    let provider = provider();
    let mut request = hello(&server);
    "gpt-6-astra".clone_into(&mut Arc::make_mut(&mut request.model).id);
    request.options.async_tools.insert("look".to_owned());
    let reply = call(&provider, &request).await.0.unwrap();
    let id = reply.tool_calls().next().unwrap().id.clone();
    let mut result = ToolResultMessage::new(id, "look".into(), vec![Content::text("still running")]);
    result.deferred = Some("job-7".into());
    request.history.push_exchange(entry(reply.into()), vec![entry(result.into())]).unwrap();
    let reply = call(&provider, &request).await.0.unwrap();
    answered(&mut request, &reply);
    let waiting = request.history.deferred().remove(0);
    let completed = waiting.completed(vec![Content::text("42 frames")], false, Value::Null);
    request.history.push(Message::from(completed).into()).unwrap();
    let reply = call(&provider, &request).await.0.unwrap();
    assert_eq!((reply.text(), reply.usage.input), ("text 3".to_owned(), 5));
    let asked = server.asked();
    assert_eq!(asked[0].body["tools"][0]["async"], true);
    assert_eq!(asked[1].body["input"][0]["content"][1]["text"], "still running");
    let output = json!([{"type": "function_call_output", "call_id": "call_1", "output": "42 frames"}]);
    assert_eq!(asked[2].body["input"], output);
    assert_eq!((asked[2].connection, server.problems()), (0, vec![]));
}

#[tokio::test]
async fn a_request_hook_sees_the_body_of_http_and_its_members_are_sent() {
    let server = Server::start(2, Upgrade::Open, []).await;
    let provider = provider();
    let mut request = hello(&server);
    request.options.request_hook = Some(Arc::new(|body: &Value| {
        assert_eq!(body["stream"], true);
        let mut body = body.clone();
        body["service_tier"] = "priority".into();
        Some(body)
    }));
    run(&provider, &mut request).await;
    let asked = server.asked();
    assert!(asked.iter().all(|asked| asked.body["service_tier"] == "priority"));
    assert_eq!(asked.iter().map(sent_items).collect::<Vec<_>>(), [1, 1, 1]);
}

#[tokio::test]
async fn a_key_or_a_header_of_its_own_gets_a_connection_of_its_own() {
    let server = Server::start(0, Upgrade::Open, []).await;
    let provider = provider();
    let mut request = hello(&server);
    call(&provider, &request).await.0.unwrap();
    request.api_key = Some("sk-other-0123456789".into());
    call(&provider, &request).await.0.unwrap();
    request.session_id = Some("s2".to_owned());
    call(&provider, &request).await.0.unwrap();
    let connections: Vec<usize> = server.asked().iter().map(|asked| asked.connection).collect();
    assert_eq!(connections, [0, 1, 2]);
    assert!(!format!("{provider:?}").contains("sk-"));
}

#[tokio::test]
async fn the_number_of_idle_connections_is_bounded() {
    let server = Server::start(0, Upgrade::Open, []).await;
    let provider = provider();
    let mut request = hello(&server);
    for session in 0..20 {
        request.session_id = Some(format!("s{session}"));
        call(&provider, &request).await.0.unwrap();
    }
    while server.closed() < 3 {
        tokio::task::yield_now().await;
    }
    // The connection of the oldest session is closed, that of the newest is not.
    call(&provider, &request).await.0.unwrap();
    assert_eq!(server.asked()[20].connection, 19);
    request.session_id = Some("s0".to_owned());
    call(&provider, &request).await.0.unwrap();
    assert_eq!(server.asked()[21].connection, 20);
}

#[tokio::test]
async fn a_server_without_websockets_is_used_over_http_with_one_event() {
    for upgrade in [Upgrade::Status(404), Upgrade::Status(502), Upgrade::WrongAccept, Upgrade::Drop] {
        let server = Server::start(2, upgrade, []).await;
        let provider = provider();
        let mut request = hello(&server);
        let mut fallbacks = Vec::new();
        for _ in 0..3 {
            let (reply, events) = call(&provider, &request).await;
            answered(&mut request, &reply.unwrap());
            fallbacks.extend(events.into_iter().filter(|e| matches!(e, OwnedStreamEvent::Fallback { .. })));
        }
        let [OwnedStreamEvent::Fallback { from, to, reason }] = &*fallbacks else { panic!("{fallbacks:?}") };
        assert_eq!((from.as_str(), to.as_str()), ("WebSocket", "HTTP"));
        assert!(!reason.is_empty() && !reason.contains(KEY), "{reason}");
        assert_eq!(server.heads().len(), 1, "the upgrade is not tried again");
        assert!(server.asked().iter().all(|asked| asked.http && asked.body["stream"] == true));
        assert_eq!((server.asked().len(), server.problems()), (3, vec![]));
    }
}

#[tokio::test]
async fn the_event_of_a_fallback_reaches_the_receivers_of_an_agent_once() {
    let server = Server::start(0, Upgrade::Status(426), []).await;
    let agent = agent_core::BasicAgent::new(model(&server)).with_provider(provider());
    let mut fallbacks = Vec::new();
    for _ in 0..2 {
        let mut run = agent.prompt("hello").unwrap();
        while let Some(event) = run.next().await {
            if let agent_core::AgentEvent::TransportFallback(note) = event {
                fallbacks.push(format!("{} {} {}", note.from, note.to, note.reason));
            }
        }
    }
    assert_eq!(fallbacks, ["WebSocket HTTP the server answered the upgrade with status 426"]);
}

#[tokio::test]
async fn errors_of_an_upgrade_that_http_has_too_are_returned_without_a_fallback() {
    for (status, kind) in [
        (401, agent_core::ErrorKind::Auth),
        (403, agent_core::ErrorKind::Auth),
        (429, agent_core::ErrorKind::RateLimited),
    ] {
        let server = Server::start(0, Upgrade::Status(status), []).await;
        let (end, events) = call(&provider(), &hello(&server)).await;
        let error = end.unwrap_err();
        assert_eq!((error.kind(), events), (kind, vec![]), "{error:?}");
        assert!(!format!("{error} {error:?}").contains(KEY));
        assert_eq!(server.asked().len(), 0);
    }
    let unreachable = Server::start(0, Upgrade::Open, []).await;
    let request = hello(&unreachable);
    drop(unreachable);
    tokio::task::yield_now().await;
    let error = call(&provider(), &request).await.0.unwrap_err();
    assert_eq!(error.kind(), agent_core::ErrorKind::Network, "{error:?}");
}

/// The wire hooks see the message and the events, and no key.
#[tokio::test]
async fn wire_hooks_see_messages_and_events_without_the_key() {
    let server = Server::start(0, Upgrade::Open, []).await;
    let seen = Arc::new(std::sync::Mutex::new(String::new()));
    let (requests, responses) = (Arc::clone(&seen), Arc::clone(&seen));
    let mut request = hello(&server);
    request.options.wire_hooks.on_request = Some(Arc::new(move |sent: &agent_core::SentRequest<'_>| {
        requests.lock().unwrap().push_str(&format!("{sent:?}"));
    }));
    request.options.wire_hooks.on_response = Some(Arc::new(move |part: &agent_core::ReceivedPart<'_>| {
        responses.lock().unwrap().push_str(&format!("{part:?}"));
    }));
    call(&provider(), &request).await.0.unwrap();
    let seen = seen.lock().unwrap().clone();
    assert!(seen.contains("/v1/responses") && !seen.contains(KEY), "{seen}");
}
