//! The trace context arrives at model servers, commands and MCP servers, and only with telemetry.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

mod support;

use std::sync::{Arc, Mutex};

use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::trace::names;
use agent_core::{BasicAgent, ModelConfig, SystemEnvironment};
use agent_otel::{Metrics, Telemetry, WithTelemetry as _};
use agent_providers::ProviderRegistry;
use agent_tools::bash::TraceVariables;
use agent_tools::mcp::{McpClient, McpToolAdapter};
use agent_tools::{BashTool, Workspace};
use axum::Router;
use axum::http::HeaderMap;
use axum::response::IntoResponse as _;
use axum::routing::post;
use serde_json::{Value, json};
use support::{Receiver, Seen};
use tracing_subscriber::layer::SubscriberExt as _;

/// Runs the agent, with or without telemetry, and returns the spans.
async fn run(agent: BasicAgent, connected: bool) -> Vec<Seen> {
    let receiver = Receiver::start();
    let telemetry = Telemetry::to(receiver.url.clone()).with_metrics(Metrics::Omitted).start().unwrap();
    let agent = if connected { agent.with_telemetry(telemetry.connection()) } else { agent };
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(telemetry.layer()));
    agent.chat("go").await.unwrap();
    tokio::task::spawn_blocking(move || telemetry.shutdown().unwrap()).await.unwrap();
    receiver.spans()
}

/// Returns the `traceparent` of the span with this name.
fn parent_of(spans: &[Seen], operation: &str) -> String {
    let of = |span: &&Seen| span.attributes.get(names::OPERATION).is_some_and(|value| value == operation);
    let span = spans.iter().find(of).unwrap();
    format!("00-{}-{}-01", span.trace, span.id)
}

#[tokio::test]
async fn a_model_server_receives_the_header_of_its_call() {
    for connected in [true, false] {
        let headers = Arc::new(Mutex::new(HeaderMap::new()));
        let log = Arc::clone(&headers);
        let answer = move |received: HeaderMap| {
            *log.lock().unwrap() = received;
            let chunk = json!({ "id": "r1", "choices": [{ "index": 0, "delta": { "content": "hi" }, "finish_reason": "stop" }] });
            let body = format!("data: {chunk}\n\ndata: [DONE]\n\n");
            async move { ([("content-type", "text/event-stream")], body).into_response() }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap());
        let app = Router::new().route("/v1/chat/completions", post(answer));
        let server = tokio::spawn(async move { axum::serve(listener, app).await });
        let mut model = ModelConfig::openai("gpt-test", "Test", "key");
        model.base_url = Some(base);
        let agent = BasicAgent::new(model).with_provider(ProviderRegistry::default());
        let spans = run(agent, connected).await;
        server.abort();
        let headers = headers.lock().unwrap();
        let received = headers.get("traceparent").map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(received, connected.then(|| parent_of(&spans, names::CHAT)));
        assert!(headers.get("tracestate").is_none());
    }
}

fn calling(tool: &str, arguments: Value) -> ScriptedProvider {
    ScriptedProvider::new([ScriptedReply::call("c1", tool, arguments), ScriptedReply::text("done")])
}

fn last_result(agent: &agent_core::AgentHandle) -> String {
    let history = agent.history();
    let messages: Vec<String> = history.messages().map(agent_core::AgentMessage::text).collect();
    messages.join("\n")
}

#[cfg(unix)]
#[tokio::test]
async fn a_command_receives_the_variable_only_if_it_is_set() {
    for (variables, connected) in
        [(TraceVariables::Set, true), (TraceVariables::Omitted, true), (TraceVariables::Set, false)]
    {
        let bash = BashTool::new(Workspace::unconfined()).with_trace_variables(variables);
        let agent = BasicAgent::new(ModelConfig::default())
            .with_environment(Arc::new(SystemEnvironment))
            .with_provider(calling("bash", json!({ "command": "echo \"parent=${TRACEPARENT:-none}\"" })))
            .with_tool(bash);
        let handle = agent.handle();
        let spans = run(agent, connected).await;
        let wanted = match (variables, connected) {
            (TraceVariables::Set, true) => parent_of(&spans, names::EXECUTE_TOOL),
            _ => "none".to_owned(),
        };
        let text = last_result(&handle);
        assert!(text.contains(&format!("parent={wanted}")), "{text}");
    }
}

/// A small MCP server over HTTP, which answers each request with JSON and keeps the last call.
async fn mcp_server(call: Arc<Mutex<Value>>) -> (String, tokio::task::JoinHandle<()>) {
    let answer = move |axum::Json(request): axum::Json<Value>| {
        let id = request["id"].clone();
        let result = match request["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": "2025-06-18",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "test", "version": "1" },
            }),
            "tools/list" => json!({ "tools": [{ "name": "look", "inputSchema": { "type": "object" } }] }),
            "tools/call" => {
                *call.lock().unwrap() = request.clone();
                json!({ "content": [{ "type": "text", "text": "seen" }] })
            }
            _ => Value::Null,
        };
        async move {
            if id.is_null() {
                return axum::http::StatusCode::ACCEPTED.into_response();
            }
            axum::Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response()
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let app = Router::new().route("/mcp", post(answer));
    let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (url, server)
}

#[tokio::test]
async fn an_mcp_server_receives_the_context_in_the_meta_of_a_call() {
    for connected in [true, false] {
        let call = Arc::new(Mutex::new(Value::Null));
        let (url, server) = mcp_server(Arc::clone(&call)).await;
        let client = McpClient::connect_http(url).await.unwrap();
        let tools = McpToolAdapter::from_client(&client).await.unwrap();
        let name = agent_core::AgentTool::name(&tools[0]).to_owned();
        let mut agent = BasicAgent::new(ModelConfig::default()).with_provider(calling(&name, json!({})));
        for tool in tools {
            agent = agent.with_tool(tool);
        }
        let spans = run(agent, connected).await;
        client.close().await;
        server.abort();
        let call = call.lock().unwrap().clone();
        assert_eq!(call["params"]["name"], "look", "{call}");
        let received = call["params"]["_meta"]["traceparent"].as_str().map(str::to_owned);
        assert_eq!(received, connected.then(|| parent_of(&spans, names::EXECUTE_TOOL)), "{call}");
    }
}
