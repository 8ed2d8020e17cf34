//! Anthropic Messages.

use serde_json::Value;

use super::{Law, blank, is_base64, is_own_id, is_word, list, text};
use crate::requests::Body;

pub(super) const LAWS: &[Law] = &[
    Law {
        says: "the conversation begins with the user and has no other roles than user and assistant",
        broken: |body| {
            let first = messages(body).first().filter(|m| m["role"] != "user");
            let other = messages(body).iter().find(|m| m["role"] != "user" && m["role"] != "assistant");
            first.or(other).map(ToString::to_string)
        },
    },
    Law {
        says: "a turn with calls is followed by a user turn that begins with one result for each, in order",
        broken: |body| {
            let next = messages(body).iter().skip(1).map(Some).chain([None]);
            let wrong = |(message, next): &(&Value, Option<&Value>)| {
                let calls: Vec<&str> = blocks(message, "tool_use").map(|b| text(&b["id"])).collect();
                let results: Vec<&str> = next
                    .map(|m| list(&m["content"]))
                    .unwrap_or_default()
                    .iter()
                    .take(calls.len())
                    .map(|b| text(&b["tool_use_id"]))
                    .collect();
                calls != results || (!calls.is_empty() && next.is_none_or(|m| m["role"] != "user"))
            };
            messages(body).iter().zip(next).find(wrong).map(|(m, _)| m.to_string())
        },
    },
    Law {
        says: "a result answers a call of the turn before it, once, and stands before everything else",
        broken: |body| {
            let before = [None].into_iter().chain(messages(body).iter().map(Some));
            let wrong = |(before, message): &(Option<&Value>, &Value)| {
                let calls: Vec<&str> =
                    before.iter().flat_map(|m| blocks(m, "tool_use")).map(|b| text(&b["id"])).collect();
                let mut seen: Vec<&str> = Vec::new();
                let stray = blocks(message, "tool_result").any(|b| {
                    let id = text(&b["tool_use_id"]);
                    let bad = !calls.contains(&id) || seen.contains(&id);
                    seen.push(id);
                    bad
                });
                let late = list(&message["content"])
                    .iter()
                    .skip_while(|b| b["type"] == "tool_result")
                    .any(|b| b["type"] == "tool_result");
                stray || late
            };
            before.zip(messages(body)).find(wrong).map(|(_, m)| m.to_string())
        },
    },
    Law {
        says: "no two calls of the conversation have the same id",
        broken: |body| {
            let mut ids: Vec<&str> =
                messages(body).iter().flat_map(|m| blocks(m, "tool_use")).map(|b| text(&b["id"])).collect();
            ids.sort_unstable();
            ids.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].to_owned())
        },
    },
    Law {
        says: "a call has an id and a name of letters, digits, _ and -, and an object as input",
        broken: |body| {
            let wrong = |b: &&Value| {
                !(is_word(&b["id"], 64) || is_own_id(body, &b["id"]))
                    || !is_word(&b["name"], 128)
                    || !b["input"].is_object()
            };
            messages(body).iter().flat_map(|m| blocks(m, "tool_use")).find(wrong).map(ToString::to_string)
        },
    },
    Law {
        says: "every message and every result is a list of at least one block",
        broken: |body| {
            let results = messages(body).iter().flat_map(|m| blocks(m, "tool_result"));
            messages(body)
                .iter()
                .chain(results)
                .find(|m| list(&m["content"]).is_empty())
                .map(ToString::to_string)
        },
    },
    Law {
        says: "an error is told in text only",
        broken: |body| {
            let mut errors = messages(body)
                .iter()
                .flat_map(|m| blocks(m, "tool_result"))
                .filter(|b| b["is_error"] == true);
            errors.find(|b| list(&b["content"]).iter().any(|c| c["type"] != "text")).map(ToString::to_string)
        },
    },
    Law {
        says: "thinking goes back with its signature or as data, only in replies, and never at the end of one",
        broken: |body| {
            let thinks = |b: &Value| b["type"] == "thinking" || b["type"] == "redacted_thinking";
            // Others who speak the protocol sign nothing.
            let unsigned =
                |b: &Value| body.vendor == "anthropic" && b["type"] == "thinking" && blank(&b["signature"]);
            let empty = |b: &Value| b["type"] == "redacted_thinking" && blank(&b["data"]);
            let wrong = |m: &&Value| {
                let content = list(&m["content"]);
                content.last().is_some_and(thinks)
                    || content
                        .iter()
                        .any(|b| unsigned(b) || empty(b) || (thinks(b) && m["role"] != "assistant"))
            };
            messages(body).iter().find(wrong).map(ToString::to_string)
        },
    },
    Law {
        says: "a thinking budget is at least 1024 and below max_tokens, without a temperature or a forced call",
        broken: |body| {
            let (thinking, most) =
                (&body.json["thinking"], body.json["max_tokens"].as_u64().unwrap_or_default());
            let budget = thinking["budget_tokens"].as_u64();
            let is_budget = thinking["type"] == "enabled";
            let bad = is_budget != budget.is_some() || budget.is_some_and(|b| b < 1_024 || b >= most);
            let beside = is_budget && (body.json.get("temperature").is_some() || forced(body));
            (bad || beside || most == 0).then(|| format!("{thinking} of {most}"))
        },
    },
    Law {
        says: "a forced call is not combined with adaptive thinking",
        broken: |body| {
            (body.json["thinking"]["type"] == "adaptive" && forced(body)).then(|| "tool_choice".to_owned())
        },
    },
    Law {
        says: "at most four places are marked for caching, none of them on thinking or on a blank text",
        broken: |body| {
            let text = body.json.to_string();
            let marks = text.matches("\"cache_control\"").count();
            let on_thinking = messages(body)
                .iter()
                .flat_map(|m| list(&m["content"]))
                .any(|b| b.get("cache_control").is_some() && super::text(&b["type"]).contains("thinking"));
            (marks > 4 || on_thinking).then(|| format!("{marks} marks"))
        },
    },
    Law {
        says: "a tool has a name of letters, digits, _ and -, and the schema of an object, unless it is the vendor's; the choice names one of them",
        broken: |body| {
            let tools = list(&body.json["tools"]);
            // A tool of the vendor has a type.
            let wrong = |t: &&Value| {
                t["type"].is_null() && (!is_word(&t["name"], 128) || t["input_schema"]["type"] != "object")
            };
            let choice = &body.json["tool_choice"];
            let named = choice.get("name").is_none_or(|name| tools.iter().any(|t| &t["name"] == name));
            let lonely = (!choice.is_null() && tools.is_empty()) || !named;
            tools.iter().find(wrong).or(Some(choice).filter(|_| lonely)).map(ToString::to_string)
        },
    },
    Law {
        says: "a picture is base64 with its type, or an address",
        broken: |body| {
            let all = messages(body).iter().flat_map(|m| list(&m["content"]));
            let nested = all.clone().flat_map(|b| list(&b["content"]));
            let wrong = |b: &&Value| {
                let source = &b["source"];
                let bytes = source["type"] == "base64" && is_base64(&source["data"]);
                let typed = text(&source["media_type"]).starts_with("image/");
                let address = source["type"] == "url" && text(&source["url"]).starts_with("https://");
                b["type"] == "image" && !(bytes && typed) && !address
            };
            all.chain(nested).find(wrong).map(ToString::to_string)
        },
    },
];

fn messages(body: &Body) -> &[Value] {
    list(&body.json["messages"])
}

fn blocks<'m>(message: &'m Value, kind: &'static str) -> impl Iterator<Item = &'m Value> {
    list(&message["content"]).iter().filter(move |b| b["type"] == kind)
}

fn forced(body: &Body) -> bool {
    matches!(text(&body.json["tool_choice"]["type"]), "any" | "tool")
}
