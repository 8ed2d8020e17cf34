//! OpenAI Responses, there and on Azure.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Law, blank, conversation, is_own_id, is_word, list, text};
use crate::requests::Body;

/// The types of the tools that the vendor defines.
const VENDORS_TOOLS: &[&str] = &[
    "apply_patch",
    "code_interpreter",
    "computer",
    "computer_use_preview",
    "file_search",
    "image_generation",
    "mcp",
    "programmatic_tool_calling",
    "shell",
    "tool_search",
    "web_search",
];

pub(super) const LAWS: &[Law] = &[
    Law {
        says: "calls are followed by one output each, and no output stands without its call",
        broken: |body| {
            let mut open: Vec<&str> = Vec::new();
            for item in conversation(body) {
                let id = text(&item["call_id"]);
                match text(&item["type"]) {
                    "function_call" | "shell_call" | "apply_patch_call" => open.push(id),
                    "function_call_output" | "shell_call_output" | "apply_patch_call_output" => {
                        match open.iter().position(|o| *o == id) {
                            Some(at) => {
                                open.remove(at);
                            }
                            None => return Some(item.to_string()),
                        }
                    }
                    _ if item["role"] == "user" && !open.is_empty() => return Some(item.to_string()),
                    _ => {}
                }
            }
            (!open.is_empty()).then(|| open.join(", "))
        },
    },
    Law {
        says: "a call has an id that is a word, a name that is one, and arguments that are the text of an object",
        broken: |body| {
            let object = |v: &Value| serde_json::from_str::<Value>(text(v)).is_ok_and(|v| v.is_object());
            let wrong = |c: &&Value| {
                !(is_word(&c["call_id"], 64) || is_own_id(body, &c["call_id"]))
                    || !is_word(&c["name"], 64)
                    || !object(&c["arguments"])
            };
            of(body, "function_call").find(wrong).map(ToString::to_string)
        },
    },
    Law {
        says: "no two calls of the conversation have the same id, and no two items the same name",
        broken: |body| {
            let mut seen = BTreeSet::new();
            let calls = of(body, "function_call").map(|c| &c["call_id"]);
            let names = conversation(body).iter().map(|i| &i["id"]).filter(|id| !id.is_null());
            calls.chain(names).find(|id| !seen.insert(text(id))).map(ToString::to_string)
        },
    },
    Law {
        says: "reasoning goes back encrypted, and what it led to stands behind it",
        broken: |body| {
            let items = conversation(body);
            let leads = |next: Option<&Value>| {
                next.is_some_and(|n| n["role"] != "user" && !text(&n["type"]).ends_with("_output"))
            };
            let wrong = |(at, item): &(usize, &Value)| {
                item["type"] == "reasoning"
                    && (blank(&item["encrypted_content"]) || !leads(items.get(at + 1)))
            };
            items.iter().enumerate().find(wrong).map(|(_, item)| item.to_string())
        },
    },
    Law {
        says: "an item goes back under a name of its kind, or under none",
        broken: |body| {
            let prefix = |item: &Value| match text(&item["type"]) {
                "message" => "msg_",
                "function_call" => "fc_",
                "reasoning" => "rs_",
                _ => "",
            };
            let good = |item: &&Value| {
                item["id"].is_null()
                    || (is_word(&item["id"], 64) && text(&item["id"]).starts_with(prefix(item)))
            };
            conversation(body).iter().find(|item| !good(item)).map(ToString::to_string)
        },
    },
    Law {
        says: "nobody is asked for what only the client could have answered",
        broken: |body| of(body, "local_shell_call").next().map(ToString::to_string),
    },
    Law {
        says: "every message and every output says something",
        broken: |body| {
            let silent = |v: &Value| match v {
                Value::Array(parts) => parts.is_empty(),
                other => blank(other),
            };
            let wrong = |item: &&Value| match text(&item["type"]) {
                "function_call_output" => silent(&item["output"]),
                "" | "message" => silent(&item["content"]),
                _ => false,
            };
            conversation(body).iter().find(wrong).map(ToString::to_string)
        },
    },
    Law {
        says: "nothing is stored, and a limit of the output is at least 16 tokens",
        broken: |body| {
            let limit =
                body.json.get("max_output_tokens").is_none_or(|n| n.as_u64().is_some_and(|n| n >= 16));
            (body.json["store"] != false || !limit).then(|| "the head of the body".to_owned())
        },
    },
    Law {
        says: "encrypted reasoning is asked of models that reason, and they get no temperature while they are asked to",
        broken: |body| {
            let reasons = !body.model.starts_with("gpt-4");
            let included = list(&body.json["include"]).iter().any(|i| i == "reasoning.encrypted_content");
            let effort = &body.json["reasoning"]["effort"];
            let words = ["minimal", "low", "medium", "high", "xhigh", "max"];
            let good = effort.is_null() || (reasons && words.contains(&text(effort)));
            let both = !effort.is_null() && !body.json["temperature"].is_null();
            (included != reasons || !good || both).then(|| "how thinking is asked for".to_owned())
        },
    },
    Law {
        says: "a tool is a function with a name of at most 64, a schema, and a word on strictness, or one of the vendor's",
        broken: |body| {
            let wrong = |t: &&Value| {
                let schema = t["parameters"]["type"] == "object";
                let is_vendors = VENDORS_TOOLS.contains(&text(&t["type"]));
                let is_wrong = t["type"] != "function"
                    || !is_word(&t["name"], 64)
                    || !schema
                    || !t["strict"].is_boolean();
                !is_vendors && is_wrong
            };
            list(&body.json["tools"]).iter().find(wrong).map(ToString::to_string)
        },
    },
    Law {
        says: "a choice is made only among tools",
        broken: |body| {
            let tools = list(&body.json["tools"]);
            let choice = &body.json["tool_choice"];
            let name = &choice["name"];
            let named = name.is_null() || tools.iter().any(|t| &t["name"] == name);
            (!choice.is_null() && (tools.is_empty() || !named)).then(|| choice.to_string())
        },
    },
    Law {
        says: "a picture is a data address with its type, or an address",
        broken: |body| {
            let parts =
                conversation(body).iter().flat_map(|i| list(&i["content"]).iter().chain(list(&i["output"])));
            let good = |p: &&Value| {
                let url = text(&p["image_url"]);
                url.starts_with("data:image/png;base64,") || url.starts_with("https://")
            };
            parts.filter(|p| p["type"] == "input_image").find(|p| !good(p)).map(ToString::to_string)
        },
    },
    Law {
        says: "the name of a session has at most 64 characters",
        broken: |body| {
            let key = body.json.get("prompt_cache_key")?;
            (!(1..=64).contains(&text(key).chars().count())).then(|| key.to_string())
        },
    },
];

/// The items of a type.
fn of<'b>(body: &'b Body, kind: &'static str) -> impl Iterator<Item = &'b Value> {
    conversation(body).iter().filter(move |item| item["type"] == kind)
}
