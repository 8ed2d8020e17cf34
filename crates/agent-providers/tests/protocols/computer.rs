//! Actions on a computer in the forms of three vendors: as they arrive, and in the requests to every other model.

use std::time::Duration;

use agent_core::model::{ComputerUse, ServerTool};
use agent_core::{
    AgentMessage, AssistantMessage, Content, History, Message, ModelRequest, StreamProvider as _,
    ToolDefinition, ToolResultMessage,
};
use agent_providers::ProviderRegistry;
use serde_json::{Value, json};

use crate::eight::{ANTHROPIC, EVERY, GEMINI, OLLAMA, RESPONSES, VERTEX, Vendor};
use crate::support::{Act, Server, call, piece, sse};

/// A request for the screen with these messages.
fn request(vendor: Vendor, address: &str, messages: &[AgentMessage]) -> ModelRequest {
    let (history, repairs) = History::repaired(messages.to_vec());
    assert_eq!(repairs, vec![]);
    let mut request = ModelRequest::new(vendor.at(address), history);
    let computer = ServerTool::from(ComputerUse::new(1_280, 800));
    if computer.check(&request.model).is_ok() {
        request.options.server_tools = vec![computer];
    }
    let tool = ToolDefinition::new("computer", "Controls the screen.", json!({"type": "object"}));
    request.tools = [tool].into_iter().collect();
    request
}

/// A stream of frames. The server sends it in pieces that end anywhere, with pauses between them.
fn slowly(frames: &[Value]) -> Vec<Act> {
    let text: String = frames.iter().map(|frame| format!("data: {frame}\n\n")).collect();
    let mut acts = vec![sse()];
    for part in text.as_bytes().chunks(97) {
        acts.push(Act::Piece(part.to_vec()));
        acts.push(Act::Pause(Duration::from_millis(2)));
    }
    acts.push(Act::End);
    acts
}

fn gpt(items: &[Value]) -> Vec<Act> {
    let mut frames =
        vec![json!({"type": "response.created", "response": {"id": "resp_1", "model": "gpt-5.4"}})];
    for (at, item) in items.iter().enumerate() {
        let mut begun = item.clone();
        begun["status"] = json!("in_progress");
        frames.push(json!({"type": "response.output_item.added", "output_index": at, "item": begun}));
        frames.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
    }
    frames.push(json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed",
        "output": items, "usage": {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}}}));
    slowly(&frames)
}

fn gemini(parts: &[Value]) -> Vec<Act> {
    let chunk =
        |part: &Value| json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]});
    let mut frames: Vec<Value> = parts.iter().map(chunk).collect();
    frames.push(json!({"candidates": [{"finishReason": "STOP", "index": 0}]}));
    slowly(&frames)
}

fn claude(block: &Value) -> Vec<Act> {
    let mut head = block.clone();
    head["input"] = json!({});
    let input = block["input"].to_string();
    let frames = [
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
            "model": "claude-sonnet-4-6", "content": [], "usage": {"input_tokens": 9, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": head}),
        json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": input}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ];
    let text = |frame: &Value| format!("event: {}\ndata: {frame}\n\n", frame["type"].as_str().unwrap());
    vec![sse(), piece(&frames.iter().map(text).collect::<String>()), Act::End]
}

/// Asks the model, and adds its reply and the results of its calls: an image, or a denial.
async fn step(
    vendor: Vendor,
    answer: Vec<Act>,
    messages: &mut Vec<AgentMessage>,
    denied: bool,
) -> AssistantMessage {
    let server = Server::start(vec![answer]).await;
    let request = request(vendor, &format!("http://{}", server.address), messages);
    let mut reply = call(&ProviderRegistry::default(), &request).await.message();
    reply.provider.clone_from(&request.model.provider);
    reply.model.clone_from(&request.model.id);
    reply.api = Some(request.model.api);
    messages.push(Message::from(reply.clone()).into());
    for call in reply.tool_calls() {
        assert_eq!(call.name.as_str(), "computer");
        let content = if denied {
            Content::text("The user says no.")
        } else {
            Content::image("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ", "image/png")
        };
        let mut result = ToolResultMessage::new(call.id.clone(), call.name.clone(), vec![content]);
        result.is_error = denied;
        result.details = json!({"url": "https://example.org/"});
        messages.push(Message::from(result).into());
    }
    reply
}

fn body(vendor: Vendor, messages: &[AgentMessage]) -> Value {
    let request = request(vendor, "http://unused", messages);
    serde_json::from_slice(&ProviderRegistry::default().body(&request).unwrap()).unwrap()
}

/// All values with this key, at any depth.
fn all<'v>(value: &'v Value, key: &str) -> Vec<&'v Value> {
    match value {
        Value::Object(members) => {
            members.iter().flat_map(|(name, v)| if name == key { vec![v] } else { all(v, key) }).collect()
        }
        Value::Array(items) => items.iter().flat_map(|item| all(item, key)).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn actions_arrive_in_pieces_and_survive_a_hand_off_in_every_direction() {
    let checks = json!([{"id": "cu_sc_1", "code": "c", "message": "m"}]);
    let item = |id: &str, actions: Value| {
        json!({"type": "computer_call", "id": format!("cu_{id}"), "call_id": id, "status": "completed",
            "actions": actions, "pending_safety_checks": checks})
    };
    let reasoning =
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbGVk"});
    let first =
        item("call_gpt_1", json!([{"type": "click", "button": "left", "x": 1, "y": 2, "keys": null}]));
    let second = item("call_gpt_2", json!([{"type": "type", "text": "Grüße 🌱"}, {"type": "wait"}]));
    let click = json!({"functionCall": {"id": "gem1", "name": "click", "args": {"x": 5, "y": 999, "intent": "Grüße 🌱"}},
        "thoughtSignature": "c2ln"});
    let scroll = json!({"functionCall": {"id": "gem2", "name": "scroll", "args": {"direction": "down"}}});
    let toolu = json!({"type": "tool_use", "id": "toolu_1", "name": "computer",
        "input": {"action": "left_click", "coordinate": [1, 2]}});

    let mut messages = vec![AgentMessage::user("Do it.")];
    let reply = step(RESPONSES, gpt(&[reasoning.clone(), first.clone()]), &mut messages, false).await;
    let given = reply.tool_calls().next().unwrap().arguments.value().unwrap().clone();
    assert_eq!(given, json!({"actions": first["actions"], "pending_safety_checks": checks}));
    let reply = step(
        GEMINI,
        gemini(&[json!({"text": "I click.", "thought": true}), click.clone(), scroll.clone()]),
        &mut messages,
        false,
    )
    .await;
    let given: Vec<&Value> = reply.tool_calls().map(|call| call.arguments.value().unwrap()).collect();
    assert_eq!(
        given,
        [
            &json!({"action": "click", "x": 5, "y": 999, "intent": "Grüße 🌱"}),
            &json!({"action": "scroll", "direction": "down"}),
        ]
    );
    step(ANTHROPIC, claude(&toolu), &mut messages, false).await;
    step(RESPONSES, gpt(std::slice::from_ref(&second)), &mut messages, true).await;
    messages.push(AgentMessage::user("And now?"));

    for target in EVERY {
        let sent = body(target, &messages);
        let text = sent.to_string();
        if matches!(target, GEMINI | VERTEX) {
            let calls: Vec<&Value> =
                all(&sent["contents"], "functionCall").iter().map(|c| &c["name"]).collect();
            let answers: Vec<&Value> =
                all(&sent["contents"], "functionResponse").iter().map(|c| &c["name"]).collect();
            assert_eq!(calls, ["computer", "click", "scroll", "computer", "computer"], "{}", target.name);
            assert_eq!(calls, answers, "{}", target.name);
        } else if target == OLLAMA {
            assert_eq!(all(&sent["messages"], "tool_name"), ["computer"; 5], "ids are not sent");
        } else {
            for id in ["call_gpt_1", "call_gpt_2", "gem1", "gem2", "toolu_1"] {
                assert!(text.matches(&format!(r#""{id}""#)).count() >= 2, "{} {id}: {text}", target.name);
            }
        }
        let own = matches!(target, RESPONSES);
        assert_eq!(text.contains("computer_call_output"), own, "{}", target.name);
        assert_eq!(text.contains("acknowledged_safety_checks"), own, "{}", target.name);
    }

    let back = body(RESPONSES, &messages);
    let input = back["input"].as_array().unwrap();
    assert!([&reasoning, &first, &second].iter().all(|item| input.contains(item)), "{back}");
    let outputs: Vec<&Value> = input.iter().filter(|item| item["type"] == "computer_call_output").collect();
    assert_eq!(outputs.len(), 2);
    assert_eq!(outputs[0]["acknowledged_safety_checks"], checks);
    assert_eq!(outputs[1].get("acknowledged_safety_checks"), None);
    let functions: Vec<&Value> = input.iter().filter(|item| item["type"] == "function_call").collect();
    assert_eq!(functions.len(), 3, "{back}");

    let back = body(GEMINI, &messages);
    let parts: Vec<&Value> = back["contents"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|content| content["parts"].as_array().unwrap())
        .collect();
    assert!(parts.contains(&&click) && parts.contains(&&scroll), "{back}");
    let back = body(ANTHROPIC, &messages);
    assert_eq!(all(&back["messages"], "name"), ["computer"; 5]);
    assert_eq!(all(&back["messages"], "tool_use_id").len(), 5);
}
