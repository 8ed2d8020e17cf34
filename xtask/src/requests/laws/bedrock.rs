//! AWS Bedrock ConverseStream.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Law, blank, closes_at_the_end, is_base64, is_own_id, is_word, list, text};
use crate::requests::Body;

/// The kinds of block that are sent.
const KINDS: &[&str] = &[
    "text",
    "image",
    "toolUse",
    "toolResult",
    "reasoningContent",
    "cachePoint",
    "document",
    "searchResult",
    "audio",
    "video",
    "citationsContent",
];

pub(super) const LAWS: &[Law] = &[
    Law {
        says: "the conversation begins with the user, and the two roles take turns",
        broken: |body| {
            let roles: Vec<&str> = messages(body).iter().map(|m| text(&m["role"])).collect();
            let wrong = |(n, role): (usize, &&str)| *role != if n % 2 == 0 { "user" } else { "assistant" };
            roles.iter().enumerate().any(wrong).then(|| format!("{roles:?}"))
        },
    },
    Law {
        says: "the user speaks last, and what was said last arrives as it was written",
        broken: |body| {
            let last = messages(body).last();
            let open = ["run", "relay", "picture-only"].iter().any(|w| body.what.starts_with(w));
            let whole = open || body.json["messages"].to_string().contains("👩‍👩‍👧");
            let good = whole && last.is_some_and(|m| m["role"] == "user");
            (!good).then(|| format!("{last:?}"))
        },
    },
    Law {
        says: "everything else is said before the messages, and no list that may be left out is empty",
        broken: |body| {
            let text = String::from_utf8_lossy(&body.bytes);
            let last = text.rfind(",\"messages\":[").is_some_and(|at| closes_at_the_end(&text[at + 12..]));
            let lists = [&body.json["system"], &body.json["toolConfig"]["tools"]];
            let empty = lists.iter().any(|l| l.as_array().is_some_and(Vec::is_empty));
            (!last || empty).then(|| "the head of the body".to_owned())
        },
    },
    Law {
        says: "a block has one member, of a kind that is known, and no list of blocks is empty",
        broken: |body| {
            let known = |b: &Value| {
                let members =
                    b.as_object().map(|m| m.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
                matches!(members.as_slice(), [one] if KINDS.contains(&one.as_str()))
            };
            let wrong = |m: &&Value| list(&m["content"]).is_empty() || !list(&m["content"]).iter().all(known);
            messages(body).iter().find(wrong).map(ToString::to_string)
        },
    },
    Law {
        says: "no two documents of the conversation have the same name",
        broken: |body| {
            let in_results = of(body, "toolResult").flat_map(|r| list(&r["content"]));
            let named = all(body).chain(in_results).filter_map(|b| b.pointer("/document/name"));
            let mut names = BTreeSet::new();
            named.map(|name| text(name).to_lowercase()).find(|name| !names.insert(name.clone()))
        },
    },
    Law {
        says: "no text is blank",
        broken: |body| {
            let nested = of(body, "toolResult").flat_map(|r| list(&r["content"]));
            let system = list(&body.json["system"]).iter();
            all(body)
                .chain(nested)
                .chain(system)
                .find(|b| b.get("text").is_some_and(blank))
                .map(ToString::to_string)
        },
    },
    Law {
        says: "a turn with calls is followed by one with a result for each, in order, before everything else",
        broken: |body| {
            let next = messages(body).iter().skip(1).map(Some).chain([None]);
            let wrong = |(message, next): &(&Value, Option<&Value>)| {
                let calls = ids(message, "toolUse");
                let results = next.map(|m| ids(m, "toolResult")).unwrap_or_default();
                let first = next.map(|m| list(&m["content"])).unwrap_or_default();
                let early = first.iter().take(results.len()).all(|b| b.get("toolResult").is_some());
                message["role"] == "assistant" && (calls != results || !early)
            };
            messages(body).iter().zip(next).find(wrong).map(|(m, _)| m.to_string())
        },
    },
    Law {
        says: "no two calls of the conversation have the same id",
        broken: |body| {
            let mut ids: Vec<String> = messages(body).iter().flat_map(|m| ids(m, "toolUse")).collect();
            ids.sort_unstable();
            ids.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone())
        },
    },
    Law {
        says: "a call has an id and a name of letters, digits, _ and -, and an object as input",
        broken: |body| {
            let wrong = |c: &&Value| {
                !(is_word(&c["toolUseId"], 64) || is_own_id(body, &c["toolUseId"]))
                    || !is_word(&c["name"], 64)
                    || !c["input"].is_object()
            };
            of(body, "toolUse").find(wrong).map(ToString::to_string)
        },
    },
    Law {
        says: "a result has a status and at least one block, and an error only text",
        broken: |body| {
            let wrong = |r: &&Value| {
                let content = list(&r["content"]);
                let status = text(&r["status"]);
                let textual = content.iter().all(|b| b.get("text").is_some());
                content.is_empty()
                    || !matches!(status, "success" | "error")
                    || (status == "error" && !textual)
            };
            of(body, "toolResult").find(wrong).map(ToString::to_string)
        },
    },
    Law {
        says: "reasoning stands in replies only and never at the end of one; Claude's is signed, DeepSeek's is left out",
        broken: |body| {
            let unsigned = |b: &Value| {
                let reasoning = &b["reasoningContent"];
                b.get("reasoningContent").is_some()
                    && blank(&reasoning["reasoningText"]["signature"])
                    && blank(&reasoning["redactedContent"])
            };
            let wrong = |m: &&Value| {
                let content = list(&m["content"]);
                let thinks = |b: &Value| b.get("reasoningContent").is_some();
                let any = content.iter().any(thinks);
                content.last().is_some_and(thinks)
                    || (any && (m["role"] != "assistant" || body.model.contains("deepseek")))
                    || (body.model.contains("claude") && content.iter().any(unsigned))
            };
            messages(body).iter().find(wrong).map(ToString::to_string)
        },
    },
    Law {
        says: "a budget is at least 1024 and below maxTokens, without a temperature or a forced call",
        broken: |body| {
            let thinking = &body.json["additionalModelRequestFields"]["thinking"];
            let config = &body.json["inferenceConfig"];
            let budget = thinking["budget_tokens"].as_u64()?;
            let most = config["maxTokens"].as_u64().unwrap_or(u64::MAX);
            let beside = config.get("temperature").is_some() || forced(body);
            (budget < 1_024 || budget >= most || beside).then(|| format!("{thinking} {config}"))
        },
    },
    Law {
        says: "no model is told to think in the words of another vendor",
        broken: |body| {
            let fields = body.json["additionalModelRequestFields"].as_object()?;
            let owner = |key: &String| match key.as_str() {
                "thinking" | "output_config" => body.model.contains("claude"),
                "reasoningConfig" => body.model.contains("nova"),
                "reasoning_effort" => !body.model.contains("claude") && !body.model.contains("nova"),
                _ => false,
            };
            fields.keys().find(|key| !owner(key)).cloned()
        },
    },
    Law {
        says: "at most four cache points, each behind another block, and only for models that take them",
        broken: |body| {
            let count = body.json.to_string().matches("\"cachePoint\"").count();
            let lists = [&body.json["system"], &body.json["toolConfig"]["tools"]];
            let contents = messages(body).iter().map(|m| &m["content"]);
            let first = |l: &Value| list(l).first().is_some_and(|b| b.get("cachePoint").is_some());
            let lonely = lists.into_iter().chain(contents).any(first);
            let taken = body.model.contains("claude") || body.model.contains("nova");
            (count > 4 || lonely || (count > 0 && !taken)).then(|| format!("{count} points"))
        },
    },
    Law {
        says: "a tool has a name of letters, digits, _ and -, and the schema of an object; the choice names one of them",
        broken: |body| {
            let config = &body.json["toolConfig"];
            let specs: Vec<&Value> =
                list(&config["tools"]).iter().filter_map(|t| t.get("toolSpec")).collect();
            let wrong =
                |s: &&&Value| !is_word(&s["name"], 64) || s["inputSchema"]["json"]["type"] != "object";
            let choice = &config["toolChoice"];
            let named =
                choice["tool"].get("name").is_none_or(|name| specs.iter().any(|s| &s["name"] == name));
            let lonely = !config.is_null() && list(&config["tools"]).is_empty() || !named;
            specs.iter().find(wrong).map(ToString::to_string).or(lonely.then(|| config.to_string()))
        },
    },
    Law {
        says: "a conversation with calls comes with tools",
        broken: |body| {
            let calls = of(body, "toolUse").next().is_some();
            (calls && body.json.get("toolConfig").is_none()).then(|| "no toolConfig".to_owned())
        },
    },
    Law {
        says: "a picture is base64 of one of the four kinds",
        broken: |body| {
            let nested = of(body, "toolResult").flat_map(|r| list(&r["content"]));
            let pictures = all(body).chain(nested).filter_map(|b| b.get("image"));
            let wrong = |i: &&Value| {
                let known = matches!(text(&i["format"]), "png" | "jpeg" | "gif" | "webp");
                !known || !is_base64(&i["source"]["bytes"])
            };
            let mut pictures = pictures;
            pictures.find(wrong).map(ToString::to_string)
        },
    },
    Law {
        says: "the path names the model, as one segment",
        broken: |body| {
            let id = body.path.strip_prefix("/model/").and_then(|p| p.strip_suffix("/converse-stream"));
            let plain = id.is_some_and(|id| id.replace("%3A", ":") == body.model && !id.contains('/'));
            (!plain).then(|| body.path.clone())
        },
    },
];

fn messages(body: &Body) -> &[Value] {
    list(&body.json["messages"])
}

fn all(body: &Body) -> impl Iterator<Item = &Value> {
    messages(body).iter().flat_map(|m| list(&m["content"]))
}

/// The blocks of a kind that the model or its user made; what a server's tool did is its vendor's affair.
fn of<'b>(body: &'b Body, kind: &'static str) -> impl Iterator<Item = &'b Value> {
    all(body).filter_map(move |b| b.get(kind)).filter(|b| !of_a_server(b))
}

fn ids(message: &Value, kind: &str) -> Vec<String> {
    let blocks = list(&message["content"]).iter().filter_map(|b| b.get(kind)).filter(|b| !of_a_server(b));
    blocks.map(|b| text(&b["toolUseId"]).to_owned()).collect()
}

fn of_a_server(block: &Value) -> bool {
    block.get("type").is_some()
}

fn forced(body: &Body) -> bool {
    !body.json["toolConfig"]["toolChoice"].is_null()
}
