//! Whole runs with the tools of the vendors: their calls are shown, counted and sent back as they came, and code of the
//! vendor calls tools of the program.

use std::sync::{Arc, Mutex};

use agent_core::model::{CodeExecution, ServerTool, WebSearch};
use agent_core::provider::ServerToolState;
use agent_core::{
    AgentEvent, AgentMessage, AssistantMessage, BasicAgent, Content, CostConfig, History, Message,
    ModelRequest, StopReason, StreamDelta, StreamProvider as _, ToolCallers, tool_fn,
};
use agent_providers::ProviderRegistry;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::eight::{ANTHROPIC, BEDROCK, EVERY, GEMINI, RESPONSES, Vendor};
use crate::support::{Act, Asked, Server, piece, sse};

/// Frames of a stream of server-sent events.
fn stream(frames: &[Value]) -> Vec<Act> {
    let named = |frame: &Value| format!("event: {}\ndata: {frame}\n\n", frame["type"].as_str().unwrap());
    vec![sse(), piece(&frames.iter().map(named).collect::<String>()), Act::End]
}

/// A reply of Anthropic with these blocks, each of them whole.
fn claude(blocks: &[Value], stop: &str, container: Option<&str>, searches: u32) -> Vec<Act> {
    let mut frames = vec![json!({"type": "message_start", "message": {"id": "msg_1", "type": "message",
        "role": "assistant", "model": "claude-sonnet-4-6", "content": [],
        "usage": {"input_tokens": 100, "output_tokens": 1}}})];
    for (index, block) in blocks.iter().enumerate() {
        let mut head = block.clone();
        let input = head.get_mut("input").map(|input| std::mem::replace(input, json!({})));
        let text = head.get_mut("text").map(|text| std::mem::replace(text, json!("")));
        frames.push(json!({"type": "content_block_start", "index": index, "content_block": head}));
        let delta = match (input, text) {
            (Some(input), _) => Some(json!({"type": "input_json_delta", "partial_json": input.to_string()})),
            (_, Some(text)) => Some(json!({"type": "text_delta", "text": text})),
            _ => None,
        };
        if let Some(delta) = delta {
            frames.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        frames.push(json!({"type": "content_block_stop", "index": index}));
    }
    let mut delta = json!({"stop_reason": stop});
    if let Some(id) = container {
        delta["container"] = json!({"id": id, "expires_at": "2027-01-01T00:00:00Z"});
    }
    frames.push(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 50,
        "server_tool_use": {"web_search_requests": searches, "web_fetch_requests": 0}}}));
    frames.push(json!({"type": "message_stop"}));
    stream(&frames)
}

/// The calls of the vendor's tools that the events of a run show.
fn shown(events: &[AgentEvent]) -> Vec<String> {
    let calls = events.iter().filter_map(|event| match event {
        AgentEvent::MessageUpdate { delta: StreamDelta::ServerTool { call }, .. } => Some(call),
        _ => None,
    });
    calls
        .map(|call| {
            let state = if call.state == ServerToolState::Started { "started" } else { "ended" };
            let input = call.input.as_ref().map(Value::to_string).unwrap_or_default();
            format!("{} {state} {}{}", call.tool, if call.is_error { "failed " } else { "" }, input)
        })
        .collect()
}

fn agent(vendor: Vendor, server: &Server, tools: Vec<ServerTool>) -> BasicAgent {
    let mut model = vendor.at(&format!("http://{}", server.address));
    model.cost = CostConfig::per_million(1_000_000, 0, 0, 0).with_server_tools(10_000_000, 1_000_000);
    BasicAgent::new(model)
        .with_provider(ProviderRegistry::default())
        .configure(|c| c.request.server_tools = tools)
}

#[tokio::test]
async fn a_search_of_the_vendor_is_shown_priced_and_sent_back_as_it_came() {
    let call = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search",
        "input": {"query": "rust 2027"}});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
        {"type": "web_search_result", "url": "https://example.org", "title": "A page",
         "encrypted_content": "EqgfCioIARgB", "page_age": null}]});
    let failed_call = json!({"type": "server_tool_use", "id": "srvtoolu_2", "name": "web_search",
        "input": {"query": "more"}});
    let failed = json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_2",
        "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}});
    let blocks = [
        json!({"type": "text", "text": "I search."}),
        call.clone(),
        found.clone(),
        failed_call.clone(),
        failed.clone(),
        json!({"type": "text", "text": "Found."}),
    ];
    let server = Server::start(vec![
        claude(&blocks, "end_turn", None, 1),
        claude(&[json!({"type": "text", "text": "Done."})], "end_turn", None, 0),
    ])
    .await;
    let agent = agent(ANTHROPIC, &server, vec![WebSearch::new().into()]);
    let events = agent.prompt("What is new?").unwrap().collect().await;
    assert_eq!(
        shown(&events),
        [
            r#"web_search started {"query":"rust 2027"}"#,
            "web_search ended ",
            r#"web_search started {"query":"more"}"#,
            "web_search ended failed ",
        ]
    );
    let json: Vec<Value> = events.iter().map(|event| serde_json::to_value(event).unwrap()).collect();
    assert!(json.iter().any(|event| event["delta"]["type"] == "server_tool"), "{json:?}");
    let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!("{events:?}") };
    // Of the two calls the vendor charges one.
    assert_eq!((end.usage.server_tool_calls, end.usage.web_searches), (2, 1));
    let cost = end.usage.cost(&agent.config().model.cost);
    assert_eq!((cost.server_tools, cost.total), (11_000, 11_100));

    agent.chat("And now?").await.unwrap();
    let back = server.asked()[1].json();
    let content = back["messages"][1]["content"].as_array().unwrap().clone();
    assert_eq!(content[1..5], [call, found, failed_call, failed]);
}

/// A model may call a tool only by code that the vendor runs. The request with its result names the caller and the
/// container, and contains nothing but results in its last message.
#[tokio::test]
async fn code_of_the_vendor_calls_a_tool_through_a_whole_run() {
    #[derive(Deserialize, JsonSchema)]
    struct Sales {
        region: String,
    }
    fn faults(asked: &Asked) -> Option<Value> {
        let body = asked.json();
        let last = body["messages"].as_array()?.last()?.clone();
        let results = last["content"].as_array()?;
        let strict = results.iter().all(|block| block["type"] == "tool_result")
            && body["container"] == "container_7"
            && body["messages"][1]["content"]
                .as_array()?
                .iter()
                .any(|block| block["type"] == "tool_use" && block["caller"]["tool_id"] == "srvtoolu_1");
        (!strict)
            .then(|| json!({"type": "error", "error": {"type": "invalid_request_error", "message": body}}))
    }
    let code = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution",
        "input": {"code": "print(await sales('west'))"}});
    let caller = json!({"type": "code_execution_20260120", "tool_id": "srvtoolu_1"});
    let called = |id: &str, region: &str| json!({"type": "tool_use", "id": id, "name": "sales", "input": {"region": region}, "caller": caller});
    let done = json!({"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content":
        {"type": "code_execution_result", "stdout": "42", "stderr": "", "return_code": 0, "content": []}});
    let first = claude(
        &[json!({"type": "text", "text": "I ask."}), code, called("toolu_1", "west")],
        "tool_use",
        Some("container_7"),
        0,
    );
    let mut second = vec![Act::Refuse(faults)];
    second.extend(claude(&[called("toolu_2", "east")], "tool_use", Some("container_7"), 0));
    let mut third = vec![Act::Refuse(faults)];
    third.extend(claude(
        &[done, json!({"type": "text", "text": "West wins."})],
        "end_turn",
        Some("container_7"),
        0,
    ));
    let server = Server::start(vec![first, second, third]).await;
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&asked);
    let sales = tool_fn("sales", "Sales of a region.", move |sales: Sales, _| {
        log.lock().unwrap().push(sales.region);
        async { Ok("42") }
    });
    let agent = agent(ANTHROPIC, &server, vec![CodeExecution::new().into()])
        .with_tool(sales.with_callers(ToolCallers::Code));
    let events = agent.prompt("Which region sells most?").unwrap().collect().await;
    assert!(matches!(events.last(), Some(AgentEvent::AgentEnd(_))));
    assert_eq!(*asked.lock().unwrap(), ["west", "east"]);
    let bodies: Vec<Value> = server.asked().iter().map(Asked::json).collect();
    assert_eq!(bodies.len(), 3, "{events:?}");
    assert_eq!(bodies[0].get("container"), None);
    assert_eq!(bodies[0]["tools"][0], json!({"type": "code_execution_20260120", "name": "code_execution"}));
    assert_eq!(bodies[0]["tools"][1]["allowed_callers"], json!(["code_execution_20260120"]));
    assert_eq!(bodies[2]["messages"][3]["content"][0]["caller"], caller);
    assert_eq!(
        shown(&events),
        [r#"code_execution started {"code":"print(await sales('west'))"}"#, "code_execution ended "]
    );
}

#[tokio::test]
async fn the_items_and_parts_of_other_vendors_are_shown_and_counted() {
    let search = |status: &str, action: Value| json!({"type": "web_search_call", "id": "ws_1", "status": status, "action": action});
    let whole = search("completed", json!({"type": "search", "query": "rust 2027"}));
    let said = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Found.", "annotations": []}]});
    let usage = json!({"input_tokens": 100, "output_tokens": 5, "total_tokens": 105});
    let openai = stream(&[
        json!({"type": "response.created", "response": {"id": "resp_1", "model": "gpt-5.4"}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": search("in_progress", Value::Null)}),
        json!({"type": "response.web_search_call.searching", "output_index": 0, "item_id": "ws_1"}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": whole}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": said}),
        json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed",
            "output": [whole, said], "usage": usage}}),
    ]);
    let chunk = |parts: Value, more: Value| {
        let mut candidate = json!({"content": {"role": "model", "parts": parts}});
        candidate.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format!(
            "data: {}\n\n",
            json!({"candidates": [candidate], "usageMetadata": {"promptTokenCount": 100,
                "candidatesTokenCount": 5, "totalTokenCount": 105}})
        )
    };
    let gemini = [
        chunk(json!([{"executableCode": {"language": "PYTHON", "code": "print(1)"}}]), json!({})),
        chunk(json!([{"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}]), json!({})),
        chunk(
            json!([{"text": "Found."}]),
            json!({"finishReason": "STOP", "groundingMetadata": {"webSearchQueries": ["rust 2027"]}}),
        ),
    ];
    let gemini = vec![sse(), piece(&gemini.concat()), Act::End];
    let rows = [
        (
            RESPONSES,
            openai,
            vec!["web_search started ", r#"web_search ended {"type":"search","query":"rust 2027"}"#],
            (1, 1),
        ),
        (
            GEMINI,
            gemini,
            vec![
                r#"code_execution started {"language":"PYTHON","code":"print(1)"}"#,
                "code_execution ended ",
                r#"google_search started {"query":"rust 2027"}"#,
                "google_search ended ",
            ],
            (2, 1),
        ),
    ];
    for (vendor, script, expected, counted) in rows {
        let server = Server::start(vec![script]).await;
        let agent = agent(vendor, &server, vec![WebSearch::new().into(), CodeExecution::new().into()]);
        let events = agent.prompt("What is new?").unwrap().collect().await;
        assert_eq!(shown(&events), expected, "{}", vendor.name);
        let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!("{events:?}") };
        assert_eq!((end.usage.server_tool_calls, end.usage.web_searches), counted, "{}", vendor.name);
    }
}

/// The blocks of each vendor's tools go back to the model that wrote them and to no other; the texts go to all.
#[test]
fn a_history_with_tools_of_a_vendor_can_be_handed_to_every_protocol() {
    let block = |kind: &str, data: Value| Content::opaque(kind, data);
    let rows = [
        (
            ANTHROPIC,
            vec![
                block(
                    "server_tool_use",
                    json!({"type": "server_tool_use", "id": "MARK", "name": "web_search", "input": {}}),
                ),
                block(
                    "web_search_tool_result",
                    json!({"type": "web_search_tool_result", "tool_use_id": "MARK", "content": []}),
                ),
            ],
        ),
        (
            RESPONSES,
            vec![block(
                "web_search_call",
                json!({"type": "web_search_call", "id": "MARK", "status": "completed"}),
            )],
        ),
        (
            GEMINI,
            vec![
                block("executableCode", json!({"executableCode": {"language": "PYTHON", "code": "MARK"}})),
                block("codeExecutionResult", json!({"codeExecutionResult": {"outcome": "OUTCOME_OK"}})),
            ],
        ),
        (
            BEDROCK,
            vec![
                block(
                    "toolUse",
                    json!({"toolUse": {"toolUseId": "MARK", "name": "nova_grounding", "input": {},
                        "type": "server_tool_use"}}),
                ),
                block(
                    "toolResult",
                    json!({"toolResult": {"toolUseId": "MARK", "content": [], "type": "nova_grounding_result"}}),
                ),
            ],
        ),
    ];
    for (writer, mut content) in rows {
        content.push(Content::text("Found."));
        let mut reply = AssistantMessage::new("", writer.model, StopReason::Stop);
        reply.provider.clone_from(&writer.at("http://unused").provider);
        reply.api = Some(writer.api);
        reply.content = content;
        let messages =
            [AgentMessage::user("Search."), Message::from(reply).into(), AgentMessage::user("And?")];
        let (history, repairs) = History::repaired(messages);
        assert_eq!(repairs, vec![]);
        for target in EVERY {
            let request = ModelRequest::new(target.at("http://unused"), history.clone());
            let body = String::from_utf8(ProviderRegistry::default().body(&request).unwrap()).unwrap();
            assert!(body.contains("Found."), "{} to {}", writer.name, target.name);
            assert_eq!(body.contains("MARK"), writer == target, "{} to {}: {body}", writer.name, target.name);
        }
    }
}

/// A reply of the Responses API with these items.
fn gpt(id: &str, items: &[Value]) -> Vec<Act> {
    let mut frames = vec![json!({"type": "response.created", "response": {"id": id, "model": "gpt-5.4"}})];
    for (at, item) in items.iter().enumerate() {
        frames.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
    }
    frames.push(json!({"type": "response.completed", "response": {"id": id, "status": "completed",
        "output": items, "usage": {"input_tokens": 100, "output_tokens": 5, "total_tokens": 105}}}));
    stream(&frames)
}

/// Commands and patches that the vendor's own tools request are calls of local tools, also in the requests to other vendors'
/// models; the model that made them receives them as they came.
#[tokio::test]
async fn commands_and_patches_run_locally_and_survive_a_hand_off_in_both_directions() {
    #[derive(Deserialize, JsonSchema)]
    struct Command {
        command: String,
    }
    #[derive(Deserialize, JsonSchema)]
    struct Patch {
        input: String,
    }
    let reasoning =
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbGVk"});
    let shell = json!({"type": "shell_call", "id": "sh_1", "call_id": "call_1", "status": "completed",
        "action": {"commands": ["ls", "pwd"], "max_output_length": 900, "timeout_ms": null},
        "environment": {"type": "local"}});
    let patch = json!({"type": "apply_patch_call", "id": "apc_1", "call_id": "call_2", "status": "completed",
        "operation": {"type": "create_file", "path": "a.txt", "diff": "+a\n"}});
    let said = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Done.", "annotations": []}]});
    let responses = Server::start(vec![
        gpt("resp_1", &[reasoning.clone(), shell.clone(), patch.clone()]),
        gpt("resp_2", std::slice::from_ref(&said)),
        gpt("resp_3", &[said]),
    ])
    .await;
    let claude_call =
        json!({"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "date"}});
    let anthropic = Server::start(vec![
        claude(&[claude_call], "tool_use", None, 0),
        claude(&[json!({"type": "text", "text": "It is late."})], "end_turn", None, 0),
    ])
    .await;

    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let (commands, patches) = (Arc::clone(&log), Arc::clone(&log));
    let bash = tool_fn("bash", "Runs a command.", move |args: Command, _| {
        commands.lock().unwrap().push(args.command);
        async { Ok("a.txt") }
    });
    let apply = tool_fn("apply_patch", "Applies a patch.", move |args: Patch, _| {
        patches.lock().unwrap().push(args.input);
        async { Err::<&str, _>(agent_core::ToolError::Failed("the file exists".into())) }
    });
    let tools = vec![ServerTool::Bash, ServerTool::ApplyPatch];
    let first = agent(RESPONSES, &responses, tools.clone()).with_tool(bash).with_tool(apply);
    first.chat("Look and write.").await.unwrap();
    assert_eq!(*log.lock().unwrap(), ["ls\npwd", "*** Begin Patch\n*** Add File: a.txt\n+a\n*** End Patch"]);
    let same = responses.asked()[1].json();
    let input = same["input"].as_array().unwrap();
    let mut sent_reasoning = reasoning;
    sent_reasoning.as_object_mut().unwrap().remove("content");
    assert_eq!(input[1..4], [sent_reasoning, shell.clone(), patch.clone()]);
    assert_eq!(
        input[4],
        json!({"type": "shell_call_output", "call_id": "call_1", "max_output_length": 900,
            "output": [{"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]})
    );
    assert_eq!(input[5]["type"], "apply_patch_call_output");
    assert_eq!(input[5]["status"], "failed");
    assert!(input[5]["output"].as_str().unwrap().contains("the file exists"), "{}", input[5]);

    // To Claude, with its own form of the shell, and from there back.
    let mut messages: Vec<AgentMessage> = first.history().messages().cloned().collect();
    messages.push(AgentMessage::user("What time is it?"));
    let mut request = ModelRequest::new(
        ANTHROPIC.at(&format!("http://{}", anthropic.address)),
        History::repaired(messages.clone()).0,
    );
    let definition =
        |name: &str| agent_core::ToolDefinition::new(name, "Does it.", json!({"type": "object"}));
    request.tools = ["bash", "apply_patch"].map(definition).into_iter().collect();
    request.options.server_tools = vec![ServerTool::Bash];
    let body: Value = serde_json::from_slice(&ProviderRegistry::default().body(&request).unwrap()).unwrap();
    let calls = &body["messages"][1]["content"];
    assert_eq!(calls[0]["input"], json!({"command": "ls\npwd"}));
    assert_eq!(calls[1]["name"], "apply_patch");
    assert_eq!(body["messages"][2]["content"][1]["is_error"], true);

    let reply = crate::support::call(&ProviderRegistry::default(), &request).await.message();
    let id = reply.tool_calls().next().unwrap().id.clone();
    messages.push(Message::from(reply).into());
    let result = agent_core::ToolResultMessage::new(id, "bash".into(), vec![Content::text("noon")]);
    messages.push(Message::from(result).into());
    let (history, repairs) = History::repaired(messages);
    assert_eq!(repairs, vec![]);
    let mut request = ModelRequest::new(RESPONSES.at("http://unused"), history);
    request.tools = ["bash", "apply_patch"].map(definition).into_iter().collect();
    request.options.server_tools = tools;
    let body: Value = serde_json::from_slice(&ProviderRegistry::default().body(&request).unwrap()).unwrap();
    let items: Vec<&Value> = body["input"].as_array().unwrap().iter().collect();
    assert!(items.contains(&&shell) && items.contains(&&patch), "{body}");
    let last = &items[items.len() - 2..];
    assert_eq!(last[0]["action"], json!({"commands": ["date"]}), "{body}");
    assert_eq!(last[1]["output"][0]["stdout"], "noon");
}
