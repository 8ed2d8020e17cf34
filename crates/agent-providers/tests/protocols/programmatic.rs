//! Programmatic tool calling of the OpenAI Responses API through a whole run: code of the vendor calls a tool of the program,
//! over several requests, against a server that checks how the items refer to each other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use agent_core::{AgentEvent, BasicAgent, Ended, ToolCallers, tool_fn};
use agent_providers::ProviderRegistry;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::eight::RESPONSES;
use crate::support::{Act, Asked, Server, piece, sse};

const CODE: &str =
    "const west = await tools.sales({region: 'west'}); return west > (await tools.sales({region: 'east'}));";

#[derive(Deserialize, JsonSchema)]
struct Sales {
    region: String,
}

fn program() -> Value {
    json!({"type": "program", "id": "prog_1", "call_id": "call_prog", "code": CODE, "fingerprint": "f1ng3r=="})
}

fn called(n: u32, region: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{n}"), "call_id": format!("call_{n}"), "name": "sales",
        "arguments": json!({"region": region}).to_string(), "status": "completed",
        "caller": {"type": "program", "caller_id": "call_prog"}})
}

fn program_output() -> Value {
    json!({"type": "program_output", "id": "po_1", "call_id": "call_prog", "result": "true", "status": "completed"})
}

fn message(n: u32, text: &str) -> Value {
    json!({"type": "message", "id": format!("msg_{n}"), "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn reply(id: &str, output: &[Value]) -> Vec<Act> {
    let mut events =
        vec![json!({"type": "response.created", "response": {"id": id, "status": "in_progress"}})];
    for (index, item) in output.iter().enumerate() {
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": item}));
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    events.push(
        json!({"type": "response.completed", "response": {"id": id, "status": "completed", "output": output,
        "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}}}),
    );
    let named = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    vec![Act::Refuse(fault), sse(), piece(&events.iter().map(named).collect::<String>()), Act::End]
}

/// The rules of the API for items that code has caused.
fn fault(asked: &Asked) -> Option<Value> {
    let body = asked.json();
    let refuse = |what: String| {
        Some(json!({"error": {"type": "invalid_request_error", "code": "invalid_value", "message": what}}))
    };
    let tools = body["tools"].as_array().unwrap();
    if !tools.iter().any(|tool| *tool == json!({"type": "programmatic_tool_calling"})) {
        return refuse("the tool for programs is missing".to_owned());
    }
    if !tools.iter().any(|tool| tool["name"] == "sales" && tool["allowed_callers"] == json!(["programmatic"]))
    {
        return refuse("no function that a program may call".to_owned());
    }
    let mut programs: BTreeMap<String, bool> = BTreeMap::new();
    let mut open: BTreeMap<String, Value> = BTreeMap::new();
    for (at, item) in body["input"].as_array().unwrap().iter().enumerate() {
        let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
        let is_wrong = match item["type"].as_str().unwrap_or("message") {
            "program" => {
                programs.insert(text("call_id"), true);
                *item != program()
            }
            "function_call" => {
                let caller = item["caller"]["caller_id"].as_str().unwrap_or_default();
                open.insert(text("call_id"), item["caller"].clone());
                item["caller"]["type"] != "program" || programs.get(caller) != Some(&true)
            }
            "function_call_output" => open.remove(&text("call_id")).as_ref() != item.get("caller"),
            "program_output" => {
                let is_running = programs.insert(text("call_id"), false) == Some(true);
                !is_running || !open.is_empty() || *item != program_output()
            }
            _ => item["role"] == "user" && programs.values().any(|running| *running),
        };
        if is_wrong {
            return refuse(format!("input[{at}]: {item}"));
        }
    }
    (!open.is_empty())
        .then(|| json!({"error": {"type": "invalid_request_error", "message": "a call without an output"}}))
}

#[tokio::test]
async fn a_program_of_the_vendor_calls_a_tool_through_a_whole_run_and_stays_in_the_conversation() {
    let server = Server::start(vec![
        reply("resp_1", &[program(), called(1, "west")]),
        reply("resp_2", &[called(2, "east")]),
        reply("resp_3", &[program_output(), message(3, "West wins.")]),
        reply("resp_4", &[message(4, "You are welcome.")]),
    ])
    .await;
    let regions: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&regions);
    let sales = tool_fn("sales", "Sales of a region.", move |sales: Sales, _| {
        log.lock().unwrap().push(sales.region);
        async { Ok("42") }
    });
    let agent = BasicAgent::new(RESPONSES.at(&server.url()))
        .with_provider(ProviderRegistry::default())
        .with_tool(sales.with_callers(ToolCallers::Code));
    for prompt in ["Which region sells most?", "Thanks."] {
        let events = agent.prompt(prompt).unwrap().collect().await;
        let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!("{events:?}") };
        assert_eq!(end.ended, Ended::Completed);
    }
    assert_eq!(*regions.lock().unwrap(), ["west", "east"]);
    let bodies: Vec<Value> = server.asked().iter().map(Asked::json).collect();
    assert_eq!(bodies.len(), 4);
    let kinds: Vec<&str> = bodies[3]["input"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["type"].as_str().or(item["role"].as_str()).unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "user",
            "program",
            "function_call",
            "function_call_output",
            "function_call",
            "function_call_output",
            "program_output",
            "message",
            "user"
        ]
    );
    // Each request begins with the items of the one before.
    for pair in bodies.windows(2) {
        let (before, after) = (pair[0]["input"].as_array().unwrap(), pair[1]["input"].as_array().unwrap());
        assert_eq!(after[..before.len()], before[..]);
    }
}
