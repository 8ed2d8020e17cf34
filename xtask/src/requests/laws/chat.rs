//! Chat Completions, and what single vendors of it demand.

use serde_json::Value;

use super::{Law, blank, is_own_id, is_word, list, text};
use crate::requests::Body;

pub(super) const LAWS: &[Law] = &[
    Law {
        says: "calls are followed by one tool message each, in their order, and no tool message stands elsewhere",
        broken: |body| {
            let mut open: Vec<&str> = Vec::new();
            for message in messages(body) {
                if message["role"] == "tool" {
                    if open.is_empty() || open.remove(0) != text(&message["tool_call_id"]) {
                        return Some(message.to_string());
                    }
                } else if !open.is_empty() {
                    return Some(message.to_string());
                }
                open.extend(list(&message["tool_calls"]).iter().map(|c| text(&c["id"])));
            }
            (!open.is_empty()).then(|| open.join(", "))
        },
    },
    Law {
        says: "a call is a function with an id that its vendor takes and arguments that are the text of an object",
        broken: |body| {
            let id = |id: &Value| match body.vendor.as_str() {
                _ if is_own_id(body, id) => true,
                "mistral" => text(id).len() == 9 && text(id).bytes().all(|b| b.is_ascii_alphanumeric()),
                "openai" | "azure" => is_word(id, 40),
                "llamacpp" if body.what == "short-ids" => is_word(id, 20),
                _ => is_word(id, 64),
            };
            let object = |v: &Value| serde_json::from_str::<Value>(text(v)).is_ok_and(|v| v.is_object());
            let wrong =
                |c: &&Value| c["type"] != "function" || !id(&c["id"]) || !object(&c["function"]["arguments"]);
            messages(body).iter().flat_map(|m| list(&m["tool_calls"])).find(wrong).map(ToString::to_string)
        },
    },
    Law {
        says: "no two calls of the conversation have the same id",
        broken: |body| {
            let calls = messages(body).iter().flat_map(|m| list(&m["tool_calls"]));
            let mut ids: Vec<&str> = calls.map(|c| text(&c["id"])).collect();
            ids.sort_unstable();
            ids.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].to_owned())
        },
    },
    Law {
        says: "every message says something: a text, a list of parts, or calls",
        broken: |body| {
            let wrong = |m: &&Value| match &m["content"] {
                Value::String(_) => blank(&m["content"]),
                Value::Array(parts) => parts.is_empty() || m["role"] == "tool",
                _ => m["role"] != "assistant" || list(&m["tool_calls"]).is_empty(),
            };
            messages(body).iter().find(wrong).map(ToString::to_string)
        },
    },
    Law {
        says: "a system prompt stands first and nowhere else, under developer only for OpenAI's models or on demand",
        broken: |body| {
            let system = |m: &Value| m["role"] == "system" || m["role"] == "developer";
            let late = messages(body).iter().skip(1).any(system);
            let developer = messages(body).first().is_some_and(|m| m["role"] == "developer");
            let may = matches!(body.vendor.as_str(), "openai" | "azure") || body.what == "developer-role";
            (late || (developer && !may)).then(|| "the system prompt".to_owned())
        },
    },
    Law {
        says: "the output is limited under one name, the one that the vendor knows, or not at all",
        broken: |body| {
            let new = matches!(body.vendor.as_str(), "openai" | "azure" | "groq" | "cerebras" | "xai");
            let (wanted, other) = if new {
                ("max_completion_tokens", "max_tokens")
            } else {
                ("max_tokens", "max_completion_tokens")
            };
            let limit = body.json.get(wanted).is_none_or(|limit| limit.as_u64().is_some_and(|n| n > 0));
            (!limit || body.json.get(other).is_some()).then(|| wanted.to_owned())
        },
    },
    Law {
        says: "thinking goes back only to vendors that take it",
        broken: |body| {
            let field = match body.vendor.as_str() {
                "deepseek" | "zai" | "moonshot" | "llamacpp" | "qwen" => "reasoning_content",
                "openrouter" | "vllm" => "reasoning",
                _ => "",
            };
            let wrong = |m: &&Value| {
                let fields = ["reasoning_content", "reasoning", "reasoning_text"];
                fields.iter().any(|f| *f != field && m.get(*f).is_some())
            };
            messages(body).iter().find(wrong).map(ToString::to_string)
        },
    },
    Law {
        says: "vendors' own words for thinking go to these vendors only",
        broken: |body| {
            let own: &[(&str, &[&str])] = &[
                ("thinking", &["zai"]),
                ("enable_thinking", &["qwen"]),
                ("chat_template_kwargs", &["llamacpp"]),
                ("reasoning", &["openrouter"]),
                ("reasoning_effort", &["openai", "azure", "groq", "xai", "vllm", "llamacpp", "cerebras"]),
                ("store", &["openai", "llamacpp"]),
                ("prompt_cache_key", &["openai", "azure", "llamacpp"]),
            ];
            let stray = |(key, vendors): &&(&str, &[&str])| {
                body.json.get(*key).is_some() && !vendors.contains(&body.vendor.as_str())
            };
            own.iter().find(stray).map(|(key, _)| (*key).to_owned())
        },
    },
    Law {
        says: "a tool is a function with a name of at most 64 and a schema; a choice is made only among tools",
        broken: |body| {
            let tools = list(&body.json["tools"]);
            let wrong = |t: &&Value| {
                let function = &t["function"];
                t["type"] != "function"
                    || !is_word(&function["name"], 64)
                    || function["parameters"]["type"] != "object"
            };
            let choice = &body.json["tool_choice"];
            let name = &choice["function"]["name"];
            let named = name.is_null() || tools.iter().any(|t| &t["function"]["name"] == name);
            let lonely = !choice.is_null() && (tools.is_empty() || !named);
            tools.iter().find(wrong).or(Some(choice).filter(|_| lonely)).map(ToString::to_string)
        },
    },
    Law {
        says: "a picture is a data address with its type, or an address, and only users show one",
        broken: |body| {
            let wrong = |m: &&Value| {
                list(&m["content"]).iter().filter(|p| p["type"] == "image_url").any(|p| {
                    let url = text(&p["image_url"]["url"]);
                    let good = url.starts_with("data:image/png;base64,") || url.starts_with("https://");
                    !good || m["role"] != "user"
                })
            };
            messages(body).iter().find(wrong).map(ToString::to_string)
        },
    },
];

fn messages(body: &Body) -> &[Value] {
    list(&body.json["messages"])
}
