//! Bodies of requests, read as each vendor would.

use agent_core::ApiProtocol;
use serde_json::Value;

/// What stands in a conversation, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A call, by what its result has to name: its id, or its name where there are no ids.
    Call { id: Option<String>, name: String },
    /// A result.
    Result { id: Option<String>, name: Option<String> },
    /// Anything else that somebody says.
    Said,
}

/// The conversation of a body.
pub fn items(api: ApiProtocol, body: &Value) -> Vec<Item> {
    match api {
        ApiProtocol::AnthropicMessages | ApiProtocol::AnthropicVertex => {
            blocks(body, "messages", "content", |block| match text(block, "type") {
                Some("tool_use") => Item::Call { id: own(block, "id"), name: own(block, "name").unwrap() },
                Some("tool_result") => Item::Result { id: own(block, "tool_use_id"), name: None },
                _ => Item::Said,
            })
        }
        ApiProtocol::BedrockConverseStream => blocks(body, "messages", "content", |block| {
            match (block.get("toolUse"), block.get("toolResult")) {
                (Some(call), _) => {
                    Item::Call { id: own(call, "toolUseId"), name: own(call, "name").unwrap() }
                }
                (_, Some(result)) => Item::Result { id: own(result, "toolUseId"), name: None },
                _ => Item::Said,
            }
        }),
        ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex => {
            blocks(body, "contents", "parts", |part| {
                match (part.get("functionCall"), part.get("functionResponse")) {
                    (Some(call), _) => Item::Call { id: own(call, "id"), name: own(call, "name").unwrap() },
                    (_, Some(result)) => Item::Result { id: own(result, "id"), name: own(result, "name") },
                    _ => Item::Said,
                }
            })
        }
        ApiProtocol::OpenAiResponses | ApiProtocol::AzureOpenAiResponses => {
            let input = body["input"].as_array().unwrap().iter();
            let read =
                input.filter(|item| item["type"] != "reasoning").map(|item| match text(item, "type") {
                    Some("function_call") => {
                        Item::Call { id: own(item, "call_id"), name: own(item, "name").unwrap() }
                    }
                    Some("function_call_output") => Item::Result { id: own(item, "call_id"), name: None },
                    _ => Item::Said,
                });
            read.collect()
        }
        _ => {
            let mut out = Vec::new();
            for message in body["messages"].as_array().unwrap() {
                if message["role"] == "tool" {
                    out.push(Item::Result {
                        id: own(message, "tool_call_id"),
                        name: own(message, "tool_name"),
                    });
                    continue;
                }
                out.push(Item::Said);
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    let name = own(&call["function"], "name").unwrap();
                    out.push(Item::Call { id: own(call, "id"), name });
                }
            }
            out
        }
    }
}

fn blocks(body: &Value, messages: &str, content: &str, read: fn(&Value) -> Item) -> Vec<Item> {
    let messages = body[messages].as_array().unwrap().iter();
    messages
        .flat_map(|message| match &message[content] {
            // A mark of Bedrock's cache is nothing that is said.
            Value::Array(blocks) => {
                blocks.iter().filter(|b| b.get("cachePoint").is_none()).map(read).collect()
            }
            _ => vec![Item::Said],
        })
        .collect()
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key)?.as_str()
}

fn own(value: &Value, key: &str) -> Option<String> {
    text(value, key).map(str::to_owned)
}

/// Every call has its result behind it, before anybody says something else, and every result its call; no id is there
/// twice. Gives the ids.
#[track_caller]
pub fn assert_paired(items: &[Item], what: &str) -> Vec<String> {
    let mut open: Vec<(Option<String>, String)> = Vec::new();
    let mut ids: Vec<String> = Vec::new();
    for item in items {
        match item {
            Item::Call { id, name } => {
                if let Some(id) = id {
                    assert!(!ids.contains(id), "{what}: the id {id} is there twice");
                    ids.push(id.clone());
                }
                open.push((id.clone(), name.clone()));
            }
            Item::Result { id, name } => {
                let fits = |call: &(Option<String>, String)| {
                    call.0 == *id && name.as_ref().is_none_or(|name| *name == call.1)
                };
                let at = open.iter().position(fits);
                let at = at.unwrap_or_else(|| panic!("{what}: no call for {item:?} in {open:?}"));
                open.remove(at);
            }
            Item::Said => assert!(open.is_empty(), "{what}: without result: {open:?}"),
        }
    }
    assert!(open.is_empty(), "{what}: without result: {open:?}");
    ids
}

/// How many pictures a body holds.
pub fn pictures(api: ApiProtocol, body: &Value) -> usize {
    let is_picture = |value: &Value| match api {
        ApiProtocol::AnthropicMessages | ApiProtocol::AnthropicVertex => value["type"] == "image",
        ApiProtocol::OpenAiCompletions => value["type"] == "image_url",
        ApiProtocol::OpenAiResponses | ApiProtocol::AzureOpenAiResponses => value["type"] == "input_image",
        ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex => value.get("inlineData").is_some(),
        ApiProtocol::BedrockConverseStream => value.get("image").is_some(),
        _ => false,
    };
    fn count(value: &Value, is_picture: &dyn Fn(&Value) -> bool) -> usize {
        let here = usize::from(value.is_object() && is_picture(value));
        let images = value.get("images").and_then(Value::as_array).map_or(0, Vec::len);
        let below: usize = match value {
            Value::Array(items) => items.iter().map(|v| count(v, is_picture)).sum(),
            Value::Object(members) => members.values().map(|v| count(v, is_picture)).sum(),
            _ => 0,
        };
        here + images + below
    }
    count(body, &is_picture)
}

/// How a body demands the form of the answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    /// By the protocol's own member.
    Native(Value),
    /// By a tool.
    Tool(Value),
    /// In the system prompt.
    Words,
    /// Not at all.
    Free,
}

pub fn form(api: ApiProtocol, body: &Value) -> Form {
    let native = match api {
        ApiProtocol::AnthropicMessages | ApiProtocol::AnthropicVertex => {
            body.pointer("/output_config/format/schema").cloned()
        }
        ApiProtocol::OpenAiCompletions => body.pointer("/response_format/json_schema/schema").cloned(),
        ApiProtocol::OpenAiResponses | ApiProtocol::AzureOpenAiResponses => {
            body.pointer("/text/format/schema").cloned()
        }
        ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex => {
            body.pointer("/generationConfig/responseJsonSchema").cloned()
        }
        ApiProtocol::BedrockConverseStream => body
            .pointer("/outputConfig/textFormat/structure/jsonSchema/schema")
            .map(|text| serde_json::from_str(text.as_str().unwrap()).unwrap()),
        _ => body.get("format").cloned(),
    };
    if let Some(schema) = native {
        return Form::Native(schema);
    }
    let tools = match api {
        ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex => {
            body.pointer("/tools/0/functionDeclarations").cloned()
        }
        ApiProtocol::BedrockConverseStream => body.pointer("/toolConfig/tools").cloned(),
        _ => body.get("tools").cloned(),
    };
    for tool in tools.as_ref().and_then(Value::as_array).into_iter().flatten() {
        let tool = tool.get("toolSpec").unwrap_or(tool);
        if tool["name"] == "respond_json" {
            let schema = tool
                .get("input_schema")
                .or_else(|| tool.get("parametersJsonSchema"))
                .or_else(|| tool.pointer("/inputSchema/json"));
            return Form::Tool(schema.unwrap().clone());
        }
    }
    if body["messages"][0]["content"].as_str().is_some_and(|t| t.contains("fits this JSON schema")) {
        return Form::Words;
    }
    Form::Free
}
