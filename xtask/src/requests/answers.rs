//! Replies of the test server, in each protocol's own form. A run continues with these replies, so its later request bodies
//! contain what the decoder read from them.

use std::fmt::Write as _;

use agent_core::ApiProtocol;
use agent_providers::eventstream::{Header, HeaderValue, Message};
use serde_json::{Value, json};

use crate::server::Response;

/// What a model answers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Answer {
    pub(super) thinking: &'static str,
    pub(super) text: &'static str,
    /// Id, name and arguments, as text: they may be no JSON.
    pub(super) calls: &'static [(&'static str, &'static str, &'static str)],
    /// Whether the stream breaks off before its end.
    pub(super) cut: bool,
}

/// The id as a server of this protocol can have written it. Two of them take nothing but letters, digits, _ and -.
pub(super) fn own_id(api: ApiProtocol, id: &str) -> String {
    let is_strict = matches!(
        api,
        ApiProtocol::AnthropicMessages | ApiProtocol::AnthropicVertex | ApiProtocol::BedrockConverseStream
    );
    let fits = |c: char| !is_strict || c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    id.chars().map(|c| if fits(c) { c } else { '-' }).collect()
}

impl Answer {
    /// A text and nothing else.
    pub(super) const fn text(text: &'static str) -> Self {
        Self { thinking: "", text, calls: &[], cut: false }
    }

    /// The response that says it. `n` tells the answers of a conversation apart.
    pub(super) fn response(&self, api: ApiProtocol, n: usize) -> Response {
        let (kind, body) = match api {
            ApiProtocol::AnthropicMessages | ApiProtocol::AnthropicVertex => {
                ("text/event-stream", self.anthropic())
            }
            ApiProtocol::BedrockConverseStream => {
                let headers =
                    [("content-type".to_owned(), "application/vnd.amazon.eventstream".to_owned())].into();
                return Response {
                    status: 200,
                    headers,
                    pieces: vec![self.bedrock()],
                    ..Response::default()
                };
            }
            ApiProtocol::OllamaChat => ("application/x-ndjson", self.ollama()),
            ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex => {
                ("text/event-stream", self.gemini())
            }
            ApiProtocol::OpenAiResponses | ApiProtocol::AzureOpenAiResponses => {
                ("text/event-stream", self.responses(n))
            }
            _ => ("text/event-stream", self.openai_chat()),
        };
        let headers = [("content-type".to_owned(), kind.to_owned())].into();
        Response { status: 200, headers, pieces: vec![body.into_bytes()], ..Response::default() }
    }

    fn anthropic(&self) -> String {
        let mut out = Events::default();
        out.named(&json!({"type": "message_start", "message": {"id": "msg_own", "type": "message", "role": "assistant",
            "model": "served", "content": [], "stop_reason": null, "stop_sequence": null,
            "usage": {"input_tokens": 10, "output_tokens": 1}}}));
        let mut index = 0;
        let mut block = |start: Value, deltas: &[Value]| {
            out.named(&json!({"type": "content_block_start", "index": index, "content_block": start}));
            for delta in deltas {
                out.named(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
            }
            out.named(&json!({"type": "content_block_stop", "index": index}));
            index += 1;
        };
        if !self.thinking.is_empty() {
            let deltas = [
                json!({"type": "thinking_delta", "thinking": self.thinking}),
                json!({"type": "signature_delta", "signature": "c2lnbmF0dXJlIG9mIHRoaXMgdGhvdWdodA=="}),
            ];
            block(json!({"type": "thinking", "thinking": "", "signature": ""}), &deltas);
            block(json!({"type": "redacted_thinking", "data": "d2l0aGhlbGQ="}), &[]);
        }
        if !self.text.is_empty() {
            block(json!({"type": "text", "text": ""}), &[json!({"type": "text_delta", "text": self.text})]);
        }
        for (id, name, arguments) in self.calls {
            block(
                json!({"type": "tool_use", "id": own_id(ApiProtocol::AnthropicMessages, id), "name": name, "input": {}}),
                &[json!({"type": "input_json_delta", "partial_json": arguments})],
            );
        }
        if !self.cut {
            let reason = if self.calls.is_empty() { "end_turn" } else { "tool_use" };
            out.named(
                &json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
                "usage": {"output_tokens": 9}}),
            );
            out.named(&json!({"type": "message_stop"}));
        }
        out.text
    }

    fn openai_chat(&self) -> String {
        let mut out = Events::default();
        let mut delta = |delta: &Value| {
            out.data(&json!({"id": "chatcmpl-own", "object": "chat.completion.chunk", "created": 1,
                "model": "served", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]}));
        };
        delta(&json!({"role": "assistant", "content": ""}));
        if !self.thinking.is_empty() {
            delta(&json!({"reasoning_content": self.thinking}));
        }
        if !self.text.is_empty() {
            delta(&json!({"content": self.text}));
        }
        for (index, (id, name, arguments)) in self.calls.iter().enumerate() {
            delta(&json!({"tool_calls": [{"index": index, "id": id, "type": "function",
                "function": {"name": name, "arguments": arguments}}]}));
        }
        if !self.cut {
            let reason = if self.calls.is_empty() { "stop" } else { "tool_calls" };
            out.data(&json!({"id": "chatcmpl-own", "object": "chat.completion.chunk", "created": 1,
                "model": "served", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 9, "total_tokens": 19}}));
            out.text.push_str("data: [DONE]\n\n");
        }
        out.text
    }

    fn bedrock(&self) -> Vec<u8> {
        let mut out = Vec::new();
        frame(&mut out, "messageStart", &json!({"role": "assistant"}));
        let mut index = 0;
        let mut block = |start: Option<Value>, deltas: &[Value]| {
            if let Some(start) = start {
                frame(&mut out, "contentBlockStart", &json!({"contentBlockIndex": index, "start": start}));
            }
            for delta in deltas {
                frame(&mut out, "contentBlockDelta", &json!({"contentBlockIndex": index, "delta": delta}));
            }
            frame(&mut out, "contentBlockStop", &json!({"contentBlockIndex": index}));
            index += 1;
        };
        if !self.thinking.is_empty() {
            let signature = "c2lnbmF0dXJlIG9mIHRoaXMgdGhvdWdodA==";
            let deltas = [
                json!({"reasoningContent": {"text": self.thinking}}),
                json!({"reasoningContent": {"signature": signature}}),
            ];
            block(None, &deltas);
            block(None, &[json!({"reasoningContent": {"redactedContent": "d2l0aGhlbGQ="}})]);
        }
        if !self.text.is_empty() {
            block(None, &[json!({"text": self.text})]);
        }
        for (id, name, arguments) in self.calls {
            let id = own_id(ApiProtocol::BedrockConverseStream, id);
            let start = json!({"toolUse": {"toolUseId": id, "name": name}});
            block(Some(start), &[json!({"toolUse": {"input": arguments}})]);
        }
        if !self.cut {
            let reason = if self.calls.is_empty() { "end_turn" } else { "tool_use" };
            frame(&mut out, "messageStop", &json!({"stopReason": reason}));
            frame(&mut out, "metadata", &json!({"usage": {"inputTokens": 10, "outputTokens": 9}}));
        }
        out
    }

    fn gemini(&self) -> String {
        let mut parts = Vec::new();
        if !self.thinking.is_empty() {
            parts.push(json!({"text": self.thinking, "thought": true}));
        }
        if !self.text.is_empty() {
            parts.push(json!({"text": self.text}));
        }
        for (n, (id, name, arguments)) in self.calls.iter().enumerate() {
            let args: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
            let mut part = json!({"functionCall": {"name": name, "args": args}});
            // Some servers give ids and some do not; the first call of a step is signed.
            if !id.contains('|') {
                part["functionCall"]["id"] = json!(id);
            }
            if n == 0 {
                part["thoughtSignature"] = json!("c2lnbmF0dXJlIG9mIHRoaXMgY2FsbA==");
            }
            parts.push(part);
        }
        if self.calls.is_empty() && !self.thinking.is_empty() && !self.cut {
            parts.push(json!({"text": "", "thoughtSignature": "c2lnbmF0dXJlIG9mIHRoZSBlbmQ="}));
        }
        let mut out = Events::default();
        for part in parts {
            out.data(&json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}],
                "modelVersion": "served", "responseId": "own"}));
        }
        if !self.cut {
            out.data(
                &json!({"candidates": [{"content": {"role": "model"}, "finishReason": "STOP", "index": 0}],
                "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 9, "totalTokenCount": 19},
                "modelVersion": "served", "responseId": "own"}),
            );
        }
        out.text
    }

    fn responses(&self, answer: usize) -> String {
        let mut out = Events::default();
        out.named(&json!({"type": "response.created", "response": {"id": "resp_own", "object": "response",
            "model": "served", "status": "in_progress", "output": []}}));
        let mut at = 0;
        let mut item = |item: Value, deltas: &[Value], whole: Value| {
            out.named(&json!({"type": "response.output_item.added", "output_index": at, "item": item}));
            for delta in deltas {
                let mut delta = delta.clone();
                delta["output_index"] = at.into();
                out.named(&delta);
            }
            out.named(&json!({"type": "response.output_item.done", "output_index": at, "item": whole}));
            at += 1;
        };
        // The vendor names each item, and no two alike.
        let name = |kind: &str, n: usize| format!("{kind}_{answer}_{n}");
        if !self.thinking.is_empty() {
            let id = name("rs", 0);
            item(
                json!({"type": "reasoning", "id": id, "summary": []}),
                &[json!({"type": "response.reasoning_summary_text.delta", "summary_index": 0,
                    "delta": self.thinking})],
                json!({"type": "reasoning", "id": id,
                    "summary": [{"type": "summary_text", "text": self.thinking}],
                    "encrypted_content": "c2lnbmF0dXJlIG9mIHRoaXMgdGhvdWdodA=="}),
            );
        }
        if !self.text.is_empty() {
            let id = name("msg", 1);
            item(
                json!({"type": "message", "id": id, "role": "assistant", "content": []}),
                &[json!({"type": "response.output_text.delta", "content_index": 0, "delta": self.text})],
                json!({"type": "message", "id": id, "role": "assistant", "status": "completed",
                    "phase": "commentary",
                    "content": [{"type": "output_text", "text": self.text, "annotations": []}]}),
            );
        }
        for (n, (call_id, tool, arguments)) in self.calls.iter().enumerate() {
            let call = |arguments: &str| {
                json!({"type": "function_call", "id": name("fc", n + 2), "call_id": call_id, "name": tool,
                    "arguments": arguments})
            };
            let delta = json!({"type": "response.function_call_arguments.delta", "delta": arguments});
            item(call(""), &[delta], call(arguments));
        }
        if !self.cut {
            out.named(
                &json!({"type": "response.completed", "response": {"id": "resp_own", "object": "response",
                "model": "served", "status": "completed", "output": [],
                "usage": {"input_tokens": 10, "output_tokens": 9, "total_tokens": 19}}}),
            );
        }
        out.text
    }

    fn ollama(&self) -> String {
        let mut out = String::new();
        let mut line = |message: &Value| {
            let _ = writeln!(out, "{}", json!({"model": "served", "message": message, "done": false}));
        };
        if !self.thinking.is_empty() {
            line(&json!({"role": "assistant", "content": "", "thinking": self.thinking}));
        }
        if !self.text.is_empty() {
            line(&json!({"role": "assistant", "content": self.text}));
        }
        for (_, name, arguments) in self.calls {
            // Arguments are a value here; what is none arrives as a text.
            let arguments: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!(arguments));
            let call = json!({"function": {"name": name, "arguments": arguments}});
            line(&json!({"role": "assistant", "content": "", "tool_calls": [call]}));
        }
        if !self.cut {
            let _ = writeln!(
                out,
                "{}",
                json!({"model": "served", "message": {"role": "assistant", "content": ""}, "done": true,
                    "done_reason": "stop", "prompt_eval_count": 10, "eval_count": 9})
            );
        }
        out
    }
}

/// Writes an event as a frame of an AWS event stream.
fn frame(out: &mut Vec<u8>, name: &str, payload: &Value) {
    let text = |t: &str| HeaderValue::String(t.to_owned().into());
    let message = Message::new(payload.to_string().into_bytes())
        .add_header(Header::new(":message-type", text("event")))
        .add_header(Header::new(":event-type", text(name)));
    // Its names are short, which is all that could be wrong with it.
    let _ = aws_smithy_eventstream::frame::write_message_to(&message, out);
}

/// Server-sent events.
#[derive(Default)]
struct Events {
    text: String,
}

impl Events {
    fn data(&mut self, data: &Value) {
        let _ = write!(self.text, "data: {data}\n\n");
    }

    fn named(&mut self, data: &Value) {
        let _ = writeln!(self.text, "event: {}", data["type"].as_str().unwrap_or_default());
        self.data(data);
    }
}
