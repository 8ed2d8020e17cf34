//! What the vendors' APIs demand of a body beyond the types of its fields, as a table of laws. An API refuses a body
//! that breaks one, or quietly misreads it.
//!
//! Sources: the vendors' API pages. The laws read the body as it arrived and share no code with the encoders.

mod anthropic;
mod bedrock;
mod chat;
mod google;
mod ollama;
mod responses;

use agent_core::ApiProtocol;
use serde_json::Value;

use super::Body;

/// A law: what it says, and where a body breaks it.
pub(super) struct Law {
    pub(super) says: &'static str,
    pub(super) broken: fn(&Body) -> Option<String>,
}

/// Returns whether an id of a call is one that the model itself wrote, which goes back whatever the rules for others are.
fn is_own_id(body: &Body, id: &Value) -> bool {
    body.own_ids.iter().any(|own| own == text(id))
}

/// Laws of every protocol.
const COMMON: &[Law] = &[
    Law {
        says: "the ids of the model's own calls go back byte for byte",
        broken: |body| {
            let written = body.json.to_string();
            let missing = |id: &&String| !written.contains(&Value::from(id.as_str()).to_string());
            body.own_ids.iter().find(missing).cloned()
        },
    },
    Law {
        says: "a model without eyes gets no picture",
        broken: |body| {
            let pictures = body.json.to_string();
            let blind = body.what == "no-pictures";
            (blind && pictures.contains(super::tools::PIXEL)).then(|| "a picture".to_owned())
        },
    },
    Law {
        says: "what failed or was aborted is shown to nobody",
        broken: |body| {
            let text = String::from_utf8_lossy(&body.bytes);
            ["Half of", "I was about to", "call_half"]
                .into_iter()
                .find(|w| text.contains(w))
                .map(str::to_owned)
        },
    },
    Law {
        says: "what nobody but its author may see stays with its author",
        broken: |body| {
            let handed_over = body.what.contains("-of-") && !body.what.contains("thoughts-shown");
            let text = String::from_utf8_lossy(&body.bytes);
            let secret = ["c2lnbmF0dXJl", "d2l0aGhlbGQ=", "That was all.", "srvtoolu_1", "Nothing to say."];
            secret.into_iter().find(|s| handed_over && text.contains(s)).map(str::to_owned)
        },
    },
];

/// Laws of the protocols that have messages under this name.
const MESSAGES: &[Law] = &[
    Law {
        says: "the body is an object that names its model, streams, and says everything else before its messages",
        broken: |body| {
            let text = String::from_utf8_lossy(&body.bytes);
            let in_the_url = body.api == ApiProtocol::AnthropicVertex;
            let begins = if in_the_url {
                text.starts_with("{\"anthropic_version\":\"vertex-2023-10-16\",")
            } else {
                text.starts_with("{\"model\":")
            };
            let key = format!(",\"{}\":", conversation_key(body));
            let last = text.rfind(&format!("{key}["));
            let last = last.is_some_and(|at| closes_at_the_end(&text[at + key.len()..]));
            let streams = body.json["stream"] == true;
            let method = format!("/models/{}:streamRawPredict", body.model);
            let named = if in_the_url {
                body.json.get("model").is_none() && body.path.ends_with(&method)
            } else {
                body.json["model"] == body.model.as_str()
            };
            let streams = streams && named;
            (!(begins && last && streams)).then(|| "the head of the body".to_owned())
        },
    },
    Law {
        says: "the conversation is not empty, and the model is the one who speaks next",
        broken: |body| {
            let last = conversation(body).last();
            let role = last.map(|m| if m["role"].is_null() { &m["type"] } else { &m["role"] });
            let open = |r: &Value| r == "user" || r == "tool" || r == "function_call_output";
            (!role.is_some_and(open)).then(|| format!("the last message: {role:?}"))
        },
    },
    Law {
        says: "no text is blank",
        broken: |body| {
            let texts = conversation(body).iter().flat_map(|m| list(&m["content"]));
            let nested = texts.clone().flat_map(|b| list(&b["content"]));
            let system = list(&body.json["system"]).iter();
            texts
                .chain(nested)
                .chain(system)
                .find(|b| text(&b["type"]).ends_with("text") && blank(&b["text"]))
                .map(ToString::to_string)
        },
    },
    Law {
        says: "no list that may be left out is empty",
        broken: |body| {
            let empty = |key: &&str| body.json.get(*key).is_some_and(|v| v == &Value::Array(Vec::new()));
            ["tools", "stop", "stop_sequences", "system"].into_iter().find(empty).map(str::to_owned)
        },
    },
    Law {
        says: "the text of the last message arrives as it was written",
        broken: |body| {
            let asked = body.what.starts_with("run") || body.what.starts_with("relay");
            let open = ["picture-only", "results-after-thought", "results-without-thought"];
            let whole = body.json[conversation_key(body)].to_string().contains("👩‍👩‍👧");
            (!asked && !open.contains(&body.what.as_str()) && !whole).then(|| "the question".to_owned())
        },
    },
];

/// The laws of a protocol, with those of all.
pub(super) fn of(api: ApiProtocol) -> impl Iterator<Item = &'static Law> {
    let own = match api {
        ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex => google::LAWS,
        ApiProtocol::AnthropicMessages | ApiProtocol::AnthropicVertex => anthropic::LAWS,
        ApiProtocol::BedrockConverseStream => bedrock::LAWS,
        ApiProtocol::OllamaChat => ollama::LAWS,
        ApiProtocol::OpenAiResponses | ApiProtocol::AzureOpenAiResponses => responses::LAWS,
        _ => chat::LAWS,
    };
    // Where the path names the model, a conversation is built in another way too.
    let in_the_path = matches!(
        api,
        ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex | ApiProtocol::BedrockConverseStream
    );
    COMMON.iter().chain(if in_the_path { &[] } else { MESSAGES }).chain(own)
}

/// The laws that a body breaks, each with the place.
pub(super) fn broken(body: &Body) -> Vec<String> {
    let found = |law: &'static Law| (law.broken)(body).map(|place| format!("{}: {place}", law.says));
    of(body.api).filter_map(found).collect()
}

/// The member that holds the conversation.
fn conversation_key(body: &Body) -> &'static str {
    match body.api {
        ApiProtocol::OpenAiResponses | ApiProtocol::AzureOpenAiResponses => "input",
        ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex => "contents",
        _ => "messages",
    }
}

fn conversation(body: &Body) -> &[Value] {
    list(&body.json[conversation_key(body)])
}

/// Whether the list that begins here ends where the body ends.
fn closes_at_the_end(text: &str) -> bool {
    text.strip_suffix('}').is_some_and(|list| serde_json::from_str::<Vec<Value>>(list).is_ok())
}

/// The items of a list; none of what is no list.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether it is a text of nothing, or no text.
fn blank(value: &Value) -> bool {
    text(value).trim().is_empty()
}

/// Whether it is made of letters, digits, `_` and `-`, at least one and at most so many.
fn is_word(value: &Value, most: usize) -> bool {
    let word = text(value);
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    (1..=most).contains(&word.len()) && word.bytes().all(fits)
}

fn is_base64(value: &Value) -> bool {
    let data = text(value);
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
    !data.is_empty() && data.len().is_multiple_of(4) && data.bytes().all(fits)
}
