//! Ollama's native chat.

use serde_json::Value;

use super::{Law, blank, is_base64, list, text};
use crate::requests::Body;

pub(super) const LAWS: &[Law] = &[
    Law {
        says: "calls are followed by one tool message each, under their names and in their order",
        broken: |body| {
            let mut open: Vec<&str> = Vec::new();
            for message in messages(body) {
                if message["role"] == "tool" {
                    if open.is_empty() || open.remove(0) != text(&message["tool_name"]) {
                        return Some(message.to_string());
                    }
                } else if !open.is_empty() {
                    return Some(message.to_string());
                }
                open.extend(list(&message["tool_calls"]).iter().map(|c| text(&c["function"]["name"])));
            }
            (!open.is_empty()).then(|| open.join(", "))
        },
    },
    Law {
        says: "the arguments of a call are an object and no text",
        broken: |body| {
            let mut calls = messages(body).iter().flat_map(|m| list(&m["tool_calls"]));
            calls.find(|c| !c["function"]["arguments"].is_object()).map(ToString::to_string)
        },
    },
    Law {
        says: "content is a text, and every message says something: a text, a picture or calls",
        broken: |body| {
            let silent = |m: &Value| {
                blank(&m["content"]) && list(&m["images"]).is_empty() && list(&m["tool_calls"]).is_empty()
            };
            messages(body).iter().find(|m| !m["content"].is_string() || silent(m)).map(ToString::to_string)
        },
    },
    Law {
        says: "a picture is base64 and nothing around it, in a message of the user",
        broken: |body| {
            let wrong = |m: &&Value| {
                let images = list(&m["images"]);
                images.iter().any(|i| !is_base64(i)) || (!images.is_empty() && m["role"] != "user")
            };
            messages(body).iter().find(wrong).map(ToString::to_string)
        },
    },
    Law {
        says: "thinking is asked for by a switch or by low, medium or high",
        broken: |body| {
            let think = &body.json["think"];
            let good =
                think.is_null() || think.is_boolean() || matches!(text(think), "low" | "medium" | "high");
            (!good).then(|| think.to_string())
        },
    },
    Law {
        says: "limits and randomness stand among the options and nowhere else, and no limit is 0",
        broken: |body| {
            let outside = ["temperature", "num_predict", "num_ctx", "stop", "max_tokens", "tool_choice"];
            let zero = |key: &str| body.json["options"][key] == 0;
            let stray = outside.into_iter().find(|key| body.json.get(*key).is_some());
            stray.or(["num_predict", "num_ctx"].into_iter().find(|key| zero(key))).map(str::to_owned)
        },
    },
    Law {
        says: "a tool is a function with a name and the schema of an object",
        broken: |body| {
            let wrong = |t: &&Value| {
                let function = &t["function"];
                t["type"] != "function"
                    || blank(&function["name"])
                    || function["parameters"]["type"] != "object"
            };
            list(&body.json["tools"]).iter().find(wrong).map(ToString::to_string)
        },
    },
];

fn messages(body: &Body) -> &[Value] {
    list(&body.json["messages"])
}
