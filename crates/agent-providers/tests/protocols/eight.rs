//! The eight protocols: a model of each, and what its server says.

use std::fmt::Write as _;

use agent_core::{ApiProtocol, ModelConfig};
use agent_providers::eventstream::{Header, HeaderValue, Message};
use serde_json::{Value, json};

use crate::support::{Act, head};

/// One protocol, as a server of its vendor speaks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vendor {
    /// Its name in this test.
    pub name: &'static str,
    pub api: ApiProtocol,
    /// The model that is asked.
    pub model: &'static str,
    /// The key that its requests are made with.
    pub key: &'static str,
}

pub const ANTHROPIC: Vendor = Vendor {
    name: "anthropic",
    api: ApiProtocol::AnthropicMessages,
    model: "claude-sonnet-4-6",
    key: "sk-ant-secret-one",
};
pub const CHAT: Vendor = Vendor {
    name: "chat",
    api: ApiProtocol::OpenAiCompletions,
    model: "gpt-5.5",
    key: "sk-secret-two-of-chat",
};
pub const RESPONSES: Vendor = Vendor {
    name: "responses",
    api: ApiProtocol::OpenAiResponses,
    model: "gpt-5.4",
    key: "sk-secret-three-of-responses",
};
pub const AZURE: Vendor = Vendor {
    name: "azure",
    api: ApiProtocol::AzureOpenAiResponses,
    model: "gpt-5.4",
    key: "azure-secret-four",
};
pub const GEMINI: Vendor = Vendor {
    name: "gemini",
    api: ApiProtocol::GoogleGenerativeAi,
    model: "gemini-3.5-flash",
    key: "AIza-secret-five",
};
pub const VERTEX: Vendor = Vendor {
    name: "vertex",
    api: ApiProtocol::GoogleVertex,
    model: "gemini-2.5-pro",
    key: "ya29.secret-token-six",
};
pub const BEDROCK: Vendor = Vendor {
    name: "bedrock",
    api: ApiProtocol::BedrockConverseStream,
    model: "global.anthropic.claude-opus-4-8",
    key: "AKIDSECRET000007:its-secret-key-seven:its-session-seven",
};
pub const OLLAMA: Vendor =
    Vendor { name: "ollama", api: ApiProtocol::OllamaChat, model: "qwen3-vl", key: "ollama-secret-eight" };

pub const VERTEX_CLAUDE: Vendor = Vendor {
    name: "vertexclaude",
    api: ApiProtocol::AnthropicVertex,
    model: "claude-sonnet-4-5@20250929",
    key: "ya29.secret-token-nine",
};

/// All of them, and Claude on Vertex AI, which shares its body with Anthropic and its address with Vertex AI.
pub const EVERY: [Vendor; 9] =
    [ANTHROPIC, CHAT, OLLAMA, GEMINI, VERTEX, VERTEX_CLAUDE, RESPONSES, AZURE, BEDROCK];

/// All of them.
pub const ALL: [Vendor; 8] = [ANTHROPIC, CHAT, OLLAMA, GEMINI, VERTEX, RESPONSES, AZURE, BEDROCK];

impl Vendor {
    /// Its model, behind this address.
    pub fn at(self, base: &str) -> ModelConfig {
        let id = self.model;
        let model = match self.api {
            ApiProtocol::AnthropicMessages => ModelConfig::anthropic(id, id, self.key),
            ApiProtocol::OpenAiCompletions => ModelConfig::openai(id, id, self.key),
            ApiProtocol::OpenAiResponses => ModelConfig::openai_responses(id, id, self.key),
            ApiProtocol::AzureOpenAiResponses => ModelConfig::azure(base, id, self.key),
            ApiProtocol::GoogleGenerativeAi => ModelConfig::google(id, id, self.key),
            ApiProtocol::GoogleVertex => {
                ModelConfig::vertex("a-project", "europe-west4", id).with_api_key(self.key)
            }
            ApiProtocol::AnthropicVertex => {
                ModelConfig::vertex_claude("a-project", "global", id).with_api_key(self.key)
            }
            ApiProtocol::BedrockConverseStream => {
                ModelConfig::bedrock("eu-west-3", id).with_api_key(self.key)
            }
            ApiProtocol::OllamaChat => ModelConfig::ollama(id).with_api_key(self.key),
            other => panic!("{other}"),
        };
        agent_providers::catalogue::configure(model).with_base_url(base).with_images(true)
    }

    /// What its signatures and its ids begin with; valid as base64 too. Nobody else is to see one.
    pub fn mark(self) -> String {
        format!("{:x<20}", format!("SIG{}", self.name))
    }

    /// Every credential that may not be seen anywhere.
    pub fn secrets(self) -> Vec<&'static str> {
        self.key.split(':').collect()
    }

    /// The answer, as the vendor's server streams it.
    pub fn answer(self, said: &Said) -> Vec<Act> {
        let (kind, body) = match self.api {
            ApiProtocol::AnthropicMessages | ApiProtocol::AnthropicVertex => {
                ("text/event-stream", self.anthropic(said).into_bytes())
            }
            ApiProtocol::OpenAiCompletions => ("text/event-stream", self.chat(said).into_bytes()),
            ApiProtocol::OllamaChat => ("application/x-ndjson", ollama(said).into_bytes()),
            ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex => {
                ("text/event-stream", self.gemini(said).into_bytes())
            }
            ApiProtocol::BedrockConverseStream => ("application/vnd.amazon.eventstream", self.bedrock(said)),
            _ => ("text/event-stream", self.responses(said).into_bytes()),
        };
        let mut acts = vec![head(200, kind), Act::Piece(body)];
        acts.push(if said.stalls { Act::Stall } else { Act::End });
        acts
    }

    fn anthropic(self, said: &Said) -> String {
        let mut out = Events::default();
        out.named(
            json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
            "model": "m", "content": [], "usage": {"input_tokens": 3, "output_tokens": 1}}}),
        );
        let mut index = 0;
        let mut block = |start: Value, deltas: Vec<Value>| {
            out.named(json!({"type": "content_block_start", "index": index, "content_block": start}));
            for delta in deltas {
                out.named(json!({"type": "content_block_delta", "index": index, "delta": delta}));
            }
            out.named(json!({"type": "content_block_stop", "index": index}));
            index += 1;
        };
        if said.thinks {
            block(
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                vec![
                    json!({"type": "thinking_delta", "thinking": self.thought()}),
                    json!({"type": "signature_delta", "signature": self.mark()}),
                ],
            );
            block(json!({"type": "redacted_thinking", "data": self.mark()}), vec![]);
        }
        if !said.text.is_empty() {
            block(
                json!({"type": "text", "text": ""}),
                vec![json!({"type": "text_delta", "text": said.text})],
            );
        }
        for (id, name, arguments) in &said.calls {
            block(
                json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
                vec![json!({"type": "input_json_delta", "partial_json": arguments.to_string()})],
            );
        }
        if !said.stalls {
            let reason = said.reason("end_turn", "tool_use");
            out.named(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}}));
            out.named(json!({"type": "message_stop"}));
        }
        out.0
    }

    fn chat(self, said: &Said) -> String {
        let mut out = Events::default();
        let mut chunk = |delta: Value, reason: Value| {
            out.data(&json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}));
        };
        if said.thinks {
            chunk(json!({"role": "assistant", "reasoning_content": self.thought()}), Value::Null);
        }
        if !said.text.is_empty() {
            chunk(json!({"role": "assistant", "content": said.text}), Value::Null);
        }
        for (n, (id, name, arguments)) in said.calls.iter().enumerate() {
            chunk(
                json!({"tool_calls": [{"index": n, "id": id, "type": "function",
                    "function": {"name": name, "arguments": arguments.to_string()}}]}),
                Value::Null,
            );
        }
        if !said.stalls {
            chunk(json!({}), json!(said.reason("stop", "tool_calls")));
            out.0.push_str("data: [DONE]\n\n");
        }
        out.0
    }

    fn gemini(self, said: &Said) -> String {
        let mut parts = Vec::new();
        if said.thinks {
            parts.push(json!({"text": self.thought(), "thought": true}));
        }
        if !said.text.is_empty() {
            let mut part = json!({"text": said.text});
            if said.thinks && said.calls.is_empty() {
                part["thoughtSignature"] = json!(self.mark());
            }
            parts.push(part);
        }
        for (n, (id, name, arguments)) in said.calls.iter().enumerate() {
            let mut part = json!({"functionCall": {"id": id, "name": name, "args": arguments}});
            if n == 0 && said.thinks {
                part["thoughtSignature"] = json!(self.mark());
            }
            parts.push(part);
        }
        let mut out = Events::default();
        for part in parts {
            out.data(&json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}));
        }
        if !said.stalls {
            out.data(&json!({"candidates": [{"finishReason": said.reason("STOP", "STOP"), "index": 0}],
                "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}}));
        }
        out.0
    }

    fn responses(self, said: &Said) -> String {
        let mut out = Events::default();
        out.named(json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}));
        let (mark, mut at) = (self.mark(), 0);
        let mut item = |first: Value, delta: Value, whole: Value| {
            out.named(json!({"type": "response.output_item.added", "output_index": at, "item": first}));
            let mut delta = delta;
            delta["output_index"] = json!(at);
            out.named(delta);
            out.named(json!({"type": "response.output_item.done", "output_index": at, "item": whole}));
            at += 1;
        };
        // The vendor names each item, and no two alike.
        let id = |kind: &str, n: usize| format!("{kind}_{mark}_{}_{n}", said.number);
        if said.thinks {
            let summary = json!([{"type": "summary_text", "text": self.thought()}]);
            item(
                json!({"type": "reasoning", "id": id("rs", 0), "summary": []}),
                json!({"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": self.thought()}),
                json!({"type": "reasoning", "id": id("rs", 0), "summary": summary, "encrypted_content": mark}),
            );
        }
        if !said.text.is_empty() {
            let content = json!([{"type": "output_text", "text": said.text, "annotations": []}]);
            item(
                json!({"type": "message", "id": id("msg", 0), "role": "assistant", "content": []}),
                json!({"type": "response.output_text.delta", "content_index": 0, "delta": said.text}),
                json!({"type": "message", "id": id("msg", 0), "role": "assistant", "status": "completed", "content": content}),
            );
        }
        for (n, (call, name, arguments)) in said.calls.iter().enumerate() {
            let whole = |arguments: &str| json!({"type": "function_call", "id": id("fc", n), "call_id": call, "name": name, "arguments": arguments});
            let arguments = arguments.to_string();
            item(
                whole(""),
                json!({"type": "response.function_call_arguments.delta", "delta": arguments}),
                whole(&arguments),
            );
        }
        if !said.stalls {
            let (event, status) = match said.reason {
                None => ("response.completed", "completed"),
                Some(_) => ("response.incomplete", "incomplete"),
            };
            let details = said.reason.map(|reason| json!({ "reason": reason }));
            out.named(json!({"type": event, "response": {"id": "resp_1", "status": status,
                "incomplete_details": details, "output": [],
                "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}}}));
        }
        out.0
    }

    fn bedrock(self, said: &Said) -> Vec<u8> {
        let mut out = frame("messageStart", &json!({"role": "assistant"}));
        let mut index = 0;
        let mut block = |start: Option<Value>, deltas: Vec<Value>| {
            if let Some(start) = start {
                out.extend(frame("contentBlockStart", &json!({"contentBlockIndex": index, "start": start})));
            }
            for delta in deltas {
                out.extend(frame("contentBlockDelta", &json!({"contentBlockIndex": index, "delta": delta})));
            }
            out.extend(frame("contentBlockStop", &json!({"contentBlockIndex": index})));
            index += 1;
        };
        if said.thinks {
            block(
                None,
                vec![
                    json!({"reasoningContent": {"text": self.thought()}}),
                    json!({"reasoningContent": {"signature": self.mark()}}),
                ],
            );
            block(None, vec![json!({"reasoningContent": {"redactedContent": self.mark()}})]);
        }
        if !said.text.is_empty() {
            block(None, vec![json!({"text": said.text})]);
        }
        for (id, name, arguments) in &said.calls {
            block(
                Some(json!({"toolUse": {"toolUseId": id, "name": name}})),
                vec![json!({"toolUse": {"input": arguments.to_string()}})],
            );
        }
        if !said.stalls {
            let reason = said.reason("end_turn", "tool_use");
            out.extend(frame("messageStop", &json!({"stopReason": reason})));
            out.extend(frame("metadata", &json!({"usage": {"inputTokens": 3, "outputTokens": 2}})));
        }
        out
    }

    /// What its model thinks; nobody else is to see it.
    pub fn thought(self) -> String {
        format!("A thought of {}.", self.name)
    }
}

fn ollama(said: &Said) -> String {
    let mut out = String::new();
    let mut line = |message: Value| {
        let _ = writeln!(out, "{}", json!({"model": "m", "message": message, "done": false}));
    };
    if said.thinks {
        line(json!({"role": "assistant", "content": "", "thinking": OLLAMA.thought()}));
    }
    if !said.text.is_empty() {
        line(json!({"role": "assistant", "content": said.text}));
    }
    for (_, name, arguments) in &said.calls {
        let calls = json!([{"function": {"name": name, "arguments": arguments}}]);
        line(json!({"role": "assistant", "content": "", "tool_calls": calls}));
    }
    if !said.stalls {
        let _ = writeln!(
            out,
            "{}",
            json!({"model": "m", "message": {"role": "assistant", "content": ""}, "done": true,
                "done_reason": said.reason("stop", "stop"), "prompt_eval_count": 3, "eval_count": 2})
        );
    }
    out
}

/// What a model says.
#[derive(Debug, Clone, Default)]
pub struct Said {
    /// Whether it thinks first; what it thinks is signed, and a part of it withheld, where the protocol has that.
    pub thinks: bool,
    pub text: String,
    /// Id, name and arguments.
    pub calls: Vec<(String, String, Value)>,
    /// Whether the answer stops in its middle.
    pub stalls: bool,
    /// Tells the answers of a conversation apart.
    pub number: usize,
    /// Why the model stopped, in the vendor's word; what is usual when absent.
    pub reason: Option<&'static str>,
}

impl Said {
    fn reason(&self, usual: &'static str, with_calls: &'static str) -> &'static str {
        self.reason.unwrap_or(if self.calls.is_empty() { usual } else { with_calls })
    }

    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub fn call(mut self, id: &str, name: &str, arguments: Value) -> Self {
        self.calls.push((id.to_owned(), name.to_owned(), arguments));
        self
    }
}

/// A frame of Bedrock's stream.
pub fn frame(name: &str, payload: &Value) -> Vec<u8> {
    let text = |t: &str| HeaderValue::String(t.to_owned().into());
    let message = Message::new(payload.to_string().into_bytes())
        .add_header(Header::new(":message-type", text("event")))
        .add_header(Header::new(":event-type", text(name)));
    let mut out = Vec::new();
    aws_smithy_eventstream::frame::write_message_to(&message, &mut out).unwrap();
    out
}

#[derive(Default)]
struct Events(String);

impl Events {
    fn data(&mut self, data: &Value) {
        let _ = write!(self.0, "data: {data}\n\n");
    }

    fn named(&mut self, data: Value) {
        let _ = writeln!(self.0, "event: {}", data["type"].as_str().unwrap());
        self.data(&data);
    }
}
