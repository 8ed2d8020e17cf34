//! Gemini, by the Gemini API and by Vertex AI.

use serde_json::Value;

use super::{Law, blank, closes_at_the_end, is_base64, is_own_id, is_word, list, text};
use crate::requests::Body;

/// What the vendor documents for calls that it did not sign.
const SKIP_CHECK: &str = "skip_thought_signature_validator";

pub(super) const LAWS: &[Law] = &[
    Law {
        says: "everything else is said before the contents, and the address names model and method",
        broken: |body| {
            let whole = String::from_utf8_lossy(&body.bytes);
            let last = whole.rfind("\"contents\":[").is_some_and(|at| closes_at_the_end(&whole[at + 11..]));
            let method = format!("/{}:streamGenerateContent?alt=sse", body.model);
            let named = body.path.is_empty() || body.path.ends_with(&method);
            (!last || !named).then(|| body.path.clone())
        },
    },
    Law {
        says: "contents are the user's or the model's, begin and end with the user's, and hold a part at least",
        broken: |body| {
            let known = |c: &Value| c["role"] == "user" || c["role"] == "model";
            let ends = [contents(body).first(), contents(body).last()];
            let bad_end = ends.into_iter().any(|c| c.is_none_or(|c| c["role"] != "user"));
            let bad = contents(body).iter().find(|c| !known(c) || list(&c["parts"]).is_empty());
            bad.map(ToString::to_string).or_else(|| bad_end.then(|| "an end".to_owned()))
        },
    },
    Law {
        says: "no two contents of the model follow each other",
        broken: |body| {
            let model = |c: &Value| c["role"] == "model";
            contents(body).windows(2).find(|pair| pair.iter().all(model)).map(|pair| pair[1].to_string())
        },
    },
    Law {
        says: "a part holds one thing, and a text that is not signed is not blank",
        broken: |body| {
            let wrong = |p: &&Value| {
                let about = ["thought", "thoughtSignature"];
                let data: Vec<&String> = p
                    .as_object()
                    .into_iter()
                    .flat_map(|o| o.keys())
                    .filter(|k| !about.contains(&k.as_str()))
                    .collect();
                data.len() != 1
                    || (data[0] == "text" && blank(&p["text"]) && p.get("thoughtSignature").is_none())
            };
            parts(body).find(wrong).map(ToString::to_string)
        },
    },
    Law {
        says: "calls are followed by one content with one response for each, in order, with the same name and id",
        broken: |body| {
            let next = contents(body).iter().skip(1).map(Some).chain([None]);
            let told = |c: Option<&Value>, key: &str| -> Vec<(String, String)> {
                let of = |p: &Value| (p[key]["name"].to_string(), p[key]["id"].to_string());
                let parts = c.map(|c| list(&c["parts"])).unwrap_or_default();
                parts.iter().filter(|p| p.get(key).is_some()).map(of).collect()
            };
            let wrong = |(content, next): &(&Value, Option<&Value>)| {
                told(Some(content), "functionCall") != told(*next, "functionResponse")
            };
            let first = contents(body).first().map(|c| told(Some(c), "functionResponse")).unwrap_or_default();
            let found = contents(body).iter().zip(next).find(wrong).map(|(c, _)| c.to_string());
            found.or_else(|| (!first.is_empty()).then(|| format!("{first:?}")))
        },
    },
    Law {
        says: "no two calls of the conversation have the same id, and none was made up",
        broken: |body| {
            let mut ids: Vec<&str> =
                parts(body).map(|p| text(&p["functionCall"]["id"])).filter(|id| !id.is_empty()).collect();
            ids.sort_unstable();
            let twice = ids.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
            let made = ids.iter().find(|id| id.starts_with("google-fc-") || id.starts_with("vertex-fc-"));
            twice.or(made.copied()).map(str::to_owned)
        },
    },
    Law {
        says: "a call has a name that the API takes and an object, a response an object with its output or an error",
        broken: |body| {
            let named = |v: &Value| {
                let name = text(&v["name"]);
                let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
                let id = v.get("id").is_none_or(|id| is_word(id, 64) || is_own_id(body, id));
                first && id && is_word(&Value::String(name.replace(['.', ':'], "_")), 64)
            };
            let wrong = |p: &&Value| {
                let (call, response) = (&p["functionCall"], &p["functionResponse"]);
                let bad_call = call.is_object() && !(named(call) && call["args"].is_object());
                let said = &response["response"];
                let one = said.as_object().is_some_and(|o| o.len() == 1)
                    && (said["output"].is_string() || said["error"].is_string());
                let acted = controls_a_computer(body)
                    && said.as_object().is_some_and(|o| {
                        o.iter().all(|(key, value)| ACTED.contains(&key.as_str()) && value.is_string())
                    });
                bad_call || (response.is_object() && !(named(response) && (one || acted)))
            };
            parts(body).find(wrong).map(ToString::to_string)
        },
    },
    Law {
        says: "the first call of a step is signed for Gemini 3, and nothing is signed by the wrong one",
        broken: |body| {
            let third = body.model.starts_with("gemini-3");
            let skips = parts(body).find(|p| p["thoughtSignature"] == SKIP_CHECK);
            let unsigned = contents(body).iter().find(|c| {
                let mut calls = list(&c["parts"]).iter().filter(|p| p.get("functionCall").is_some());
                calls.next().is_some_and(|first| first.get("thoughtSignature").is_none())
            });
            let found = if third { unsigned } else { skips };
            found.map(ToString::to_string)
        },
    },
    Law {
        says: "thinking stands in the model's contents only, and is marked as such",
        broken: |body| {
            let others = contents(body).iter().filter(|c| c["role"] != "model");
            let marked = |p: &&Value| p.get("thought").is_some() || p.get("thoughtSignature").is_some();
            others.flat_map(|c| list(&c["parts"])).find(marked).map(ToString::to_string)
        },
    },
    Law {
        says: "how much to think is told by a word to Gemini 3 and by a budget below the limit before",
        broken: |body| {
            let config = &body.json["generationConfig"];
            let (thinking, most) = (&config["thinkingConfig"], config["maxOutputTokens"].as_u64());
            let budget = thinking.get("thinkingBudget").map(Value::as_u64);
            let level = thinking.get("thinkingLevel").map(text);
            let third = body.model.starts_with("gemini-3");
            let word =
                level.is_none_or(|l| third && matches!(l, "MINIMAL" | "LOW" | "MEDIUM" | "HIGH" | "XHIGH"));
            let number =
                budget.is_none_or(|b| !third && b.is_some() && most.is_none_or(|most| b <= Some(most)));
            let one = !(budget.is_some() && level.is_some());
            let none = thinking.is_null() || !body.model.starts_with("gemini-2.0");
            (!(word && number && one && none && most.is_none_or(|m| m > 0))).then(|| config.to_string())
        },
    },
    Law {
        says: "a JSON answer and functions are asked for together of Gemini 3 only",
        broken: |body| {
            let json = body.json["generationConfig"].get("responseMimeType").is_some();
            let both = json && body.json.get("tools").is_some();
            (both && !body.model.starts_with("gemini-3")).then(|| body.json["generationConfig"].to_string())
        },
    },
    Law {
        says: "a function has a name and the schema of an object; the choice names one of them",
        broken: |body| {
            let functions: Vec<&Value> =
                list(&body.json["tools"]).iter().flat_map(|t| list(&t["functionDeclarations"])).collect();
            let wrong = functions
                .iter()
                .find(|f| !is_word(&f["name"], 64) || f["parametersJsonSchema"]["type"] != "object");
            let calling = &body.json["toolConfig"]["functionCallingConfig"];
            let lost = |n: &&Value| !functions.iter().any(|f| &f["name"] == *n);
            let stray = list(&calling["allowedFunctionNames"]).iter().find(lost);
            let lonely = (!calling.is_null() && functions.is_empty()).then_some(calling);
            let is_empty = |t: &Value| {
                t.as_object().is_none_or(serde_json::Map::is_empty)
                    || t.get("functionDeclarations").is_some_and(|f| list(f).is_empty())
            };
            let tools = body.json.get("tools");
            let empty = tools.filter(|tools| list(tools).is_empty() || list(tools).iter().any(is_empty));
            wrong.copied().or(stray).or(lonely).or(empty).map(ToString::to_string)
        },
    },
    Law {
        says: "a file is base64 with its type, or has an address or an id",
        broken: |body| {
            let inside = parts(body).flat_map(|p| list(&p["functionResponse"]["parts"]));
            let wrong = |p: &&Value| {
                let (inline, file) = (&p["inlineData"], &p["fileData"]);
                let kind = text(&inline["mimeType"]);
                let typed =
                    ["image/", "application/", "audio/", "video/"].iter().any(|k| kind.starts_with(k));
                let bytes = inline.is_null() || (typed && is_base64(&inline["data"]));
                let uri = text(&file["fileUri"]);
                let address = file.is_null() || uri.starts_with("https://") || uri.starts_with("file-");
                !(bytes && address)
            };
            parts(body).chain(inside).find(wrong).map(ToString::to_string)
        },
    },
    Law {
        says: "pictures stand inside of a response for Gemini 3 and models that control a computer only",
        broken: |body| {
            let found = parts(body).find(|p| p["functionResponse"].get("parts").is_some());
            let takes_them = body.model.starts_with("gemini-3") || body.model.contains("computer-use");
            found.filter(|_| !takes_them).map(ToString::to_string)
        },
    },
    Law {
        says: "the text of the last content arrives as it was written",
        broken: |body| {
            let asked = body.what.starts_with("run") || body.what.starts_with("relay");
            let whole = body.json["contents"].to_string().contains("👩‍👩‍👧");
            (!asked && body.what != "picture-only" && !whole).then(|| "the question".to_owned())
        },
    },
];

/// The members of the response to an action on a computer.
const ACTED: [&str; 4] = ["url", "result", "error", "safety_acknowledgement"];

fn controls_a_computer(body: &Body) -> bool {
    list(&body.json["tools"]).iter().any(|tool| tool.get("computerUse").is_some())
}

fn contents(body: &Body) -> &[Value] {
    list(&body.json["contents"])
}

fn parts(body: &Body) -> impl Iterator<Item = &Value> {
    contents(body).iter().flat_map(|c| list(&c["parts"]))
}
