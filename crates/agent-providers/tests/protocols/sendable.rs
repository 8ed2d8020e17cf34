//! A conversation is always sendable: random histories, encoded for every protocol, keep the rules of its vendor.

use agent_core::{
    AgentMessage, ApiProtocol, AssistantMessage, Content, DocumentContent, FileSource, History, Message,
    ModelConfig, ModelRequest, StopReason, StreamProvider as _, ToolResultMessage,
};
use agent_providers::ProviderRegistry;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::eight::EVERY;

/// One pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// The beginning of a PNG without a header.
const DAMAGED: &str = "iVBORw0KGgoAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// A PNG of 9,000 pixels a side.
const WIDE: &str = "iVBORw0KGgoAAAANSUhEUgAAIygAACMoCAYAAAAfFcSJ";

fn block() -> impl Strategy<Value = Content> {
    prop_oneof![
        "[a-z \n]{0,12}".prop_map(Content::text),
        Just(Content::text(" \n")),
        Just(Content::image(PIXEL, "image/png")),
        Just(Content::image(PIXEL, "image/jpeg")),
        Just(Content::image(DAMAGED, "image/png")),
        Just(Content::image(WIDE, "image/png")),
        Just(Content::image("", "image/png")),
        Just(Content::image("QUJD", "image/tiff")),
        Just(Content::image_url("https://h/picture")),
        Just(Content::document(DocumentContent::pdf(""))),
        Just(Content::document(DocumentContent::new(FileSource::Base64 {
            data: "QUJD".into(),
            mime_type: "application/x-odd".into(),
        }))),
    ]
}

fn blocks() -> impl Strategy<Value = Vec<Content>> {
    proptest::collection::vec(block(), 0..4)
}

/// A message, or a reply with its results.
fn turn() -> impl Strategy<Value = Vec<Message>> {
    let name = prop_oneof![
        Just("look".to_owned()),
        Just("functions.look".to_owned()),
        Just("no such tool".to_owned()),
        Just(String::new()),
        Just("n".repeat(90)),
        Just("größe/öffnen".to_owned()),
    ];
    let id = prop_oneof!["[a-z]{1,8}", "call_[0-9|:.é]{1,70}", Just("x".repeat(90))];
    let call = (id, name, any::<bool>(), blocks());
    let end = prop_oneof![Just(StopReason::Stop), Just(StopReason::Error), Just(StopReason::Aborted)];
    prop_oneof![
        blocks().prop_map(|content| vec![Message::user_content(content)]),
        (blocks(), end).prop_map(|(content, end)| {
            let mut reply = AssistantMessage::new("other", "m", end);
            reply.content = content;
            vec![reply.into()]
        }),
        (blocks(), proptest::collection::vec(call, 1..4)).prop_map(|(content, calls)| {
            let mut reply = AssistantMessage::new("other", "m", StopReason::ToolUse);
            reply.content = content;
            let mut results = Vec::new();
            for (id, name, is_error, content) in calls {
                reply.content.push(Content::tool_call(&*id, &*name, json!({"a": 1})));
                let mut result = ToolResultMessage::new((&*id).into(), (&*name).into(), content);
                result.is_error = is_error;
                results.push(Message::from(result));
            }
            std::iter::once(Message::from(reply)).chain(results).collect()
        }),
    ]
}

/// Calls `check` with every object of a value.
fn each(value: &Value, check: &mut impl FnMut(&serde_json::Map<String, Value>)) {
    match value {
        Value::Object(object) => {
            check(object);
            object.values().for_each(|inner| each(inner, check));
        }
        Value::Array(list) => list.iter().for_each(|inner| each(inner, check)),
        _ => {}
    }
}

fn is_name(api: ApiProtocol, name: &str) -> bool {
    let dotted = matches!(api, ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex);
    let fits =
        |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || dotted && (c == '.' || c == ':');
    (1..=64).contains(&name.len()) && name.chars().all(fits)
}

fn check(model: &ModelConfig, body: &Value) {
    let api = model.api;
    let list = ["messages", "contents", "input"].iter().find_map(|name| body[name].as_array()).unwrap();
    each(&json!(list), &mut |object| {
        let named = ["function", "toolUse", "functionCall", "functionResponse"];
        let inner = named.iter().filter_map(|member| object.get(*member)?.get("name"));
        let own = object.get("name").filter(|_| {
            matches!(object.get("type").and_then(Value::as_str), Some("tool_use" | "function_call"))
        });
        for name in inner.chain(own).chain(object.get("tool_name")) {
            assert!(is_name(api, name.as_str().unwrap()), "{api}: the name {name}");
        }
        for id in ["id", "tool_use_id", "tool_call_id", "toolUseId", "call_id"] {
            let Some(id) = object.get(id).and_then(Value::as_str) else { continue };
            let word = id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
            assert!(word && (1..=64).contains(&id.len()), "{api}: the id {id}");
        }
        let text = object.get("text").and_then(Value::as_str);
        assert!(text.is_none_or(|text| !text.trim().is_empty()), "{api}: a blank text in {object:?}");
        if object.get("role").and_then(Value::as_str) == Some("user") {
            for member in ["content", "parts"] {
                let is_empty = match object.get(member) {
                    Some(Value::Array(parts)) => parts.is_empty(),
                    Some(Value::String(text)) => text.trim().is_empty() && object.get("images").is_none(),
                    _ => false,
                };
                assert!(!is_empty, "{api}: an empty message of the user");
            }
        }
    });
    let text = body.to_string();
    assert!(!text.contains(DAMAGED) && !text.contains("image/tiff;base64"), "{api}: {text}");
    // A picture has the type of its bytes.
    assert!(!text.contains("image/jpeg"), "{api}: {text}");
    let limits_size = matches!(
        api,
        ApiProtocol::AnthropicMessages | ApiProtocol::AnthropicVertex | ApiProtocol::BedrockConverseStream
    );
    assert!(!limits_size || !text.contains(WIDE), "{api}: {text}");
    let alternates = api == ApiProtocol::BedrockConverseStream || model.provider == "local";
    let roles: Vec<&str> = list.iter().map(|message| message["role"].as_str().unwrap_or_default()).collect();
    if alternates {
        assert!(!roles.windows(2).any(|pair| pair == ["user", "user"]), "{api}: {roles:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn every_history_is_sendable_to_every_vendor(turns in proptest::collection::vec(turn(), 1..7)) {
        let mut messages: Vec<AgentMessage> = turns.into_iter().flatten().map(AgentMessage::from).collect();
        messages.push(AgentMessage::user("and now?"));
        let history = History::repaired(messages).0;
        let registry = ProviderRegistry::default();
        let models = EVERY.iter().map(|vendor| vendor.at("http://127.0.0.1:1"));
        for model in models.chain([ModelConfig::local("http://127.0.0.1:1/v1", "m", "").with_images(true)]) {
            let request = ModelRequest::new(model.clone(), history.clone());
            let body = registry.body(&request);
            prop_assert!(body.is_some(), "{} has no body", model.api);
            check(&model, &serde_json::from_slice(&body.unwrap()).unwrap());
        }
    }
}
