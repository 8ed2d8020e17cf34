//! Deferred calls in every protocol: the preliminary result stays as it was sent, and the result follows as a user message.

use agent_core::{
    AgentMessage, ApiProtocol, AssistantMessage, CacheConfig, CacheStrategy, Content, DeferredCall, Entry,
    History, Message, ModelConfig, ModelRequest, Splice, StopReason, StreamProvider as _, ToolDefinition,
    ToolResultMessage,
};
use agent_providers::ProviderRegistry;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::eight::{EVERY, Vendor};
use crate::reading::{assert_paired, items, pictures};

/// One pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[derive(Debug, Clone)]
enum Act {
    Say,
    Reply,
    /// A reply with two calls, of which the first is deferred.
    Begin,
    /// The oldest waiting call gets its result, perhaps with a picture, perhaps as a failure.
    Complete {
        picture: bool,
        failed: bool,
    },
    Drop(usize, usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        Just(Act::Say),
        Just(Act::Reply),
        Just(Act::Begin),
        Just(Act::Begin),
        (any::<bool>(), any::<bool>()).prop_map(|(picture, failed)| Act::Complete { picture, failed }),
        (any::<bool>(), any::<bool>()).prop_map(|(picture, failed)| Act::Complete { picture, failed }),
        (1..12_usize, 0..4_usize).prop_map(|(from, len)| Act::Drop(from, len)),
    ]
}

fn reply(content: Vec<Content>, stop: StopReason) -> AgentMessage {
    let mut reply = AssistantMessage::new("elsewhere", "other", stop);
    reply.content = content;
    Message::from(reply).into()
}

fn result(id: &str, text: &str, handle: Option<&str>) -> Entry {
    let mut result = ToolResultMessage::new(id.into(), "render".into(), vec![Content::text(text)]);
    result.deferred = handle.map(Into::into);
    Entry::from(AgentMessage::from(Message::from(result)))
}

fn perform(history: &mut History, act: &Act, number: usize) {
    match act {
        Act::Say => history.push(AgentMessage::user(format!("say {number}"))).unwrap(),
        Act::Reply => {
            history.push(reply(vec![Content::text(format!("reply {number}"))], StopReason::Stop)).unwrap();
        }
        Act::Begin => {
            let ids = [format!("call_{number}_1"), format!("call_{number}_2")];
            let calls = ids
                .iter()
                .map(|id| Content::tool_call(id.as_str(), "render", json!({"n": number})))
                .collect();
            let results = vec![
                result(&ids[0], "still running", Some(&format!("job-{number}"))),
                result(&ids[1], "rendered", None),
            ];
            history.push_exchange(Entry::from(reply(calls, StopReason::ToolUse)), results).unwrap();
        }
        Act::Complete { picture, failed } => {
            let Some(call) = history.deferred().into_iter().next() else { return };
            let mut content = vec![Content::text(format!("result {number}"))];
            if *picture {
                content.push(Content::image(PIXEL, "image/png"));
            }
            history.push(Message::from(call.completed(content, *failed, Value::Null)).into()).unwrap();
        }
        Act::Drop(from, len) => {
            let splice = Splice { from: *from, to: from + len, messages: vec![] };
            if let Ok(short) = history.spliced(&[splice]) {
                *history = short;
            }
        }
    }
}

fn body(vendor: Vendor, history: &History) -> Vec<u8> {
    let mut request = ModelRequest::new(vendor.at("http://unused"), history.clone());
    request.options.cache_config =
        CacheConfig { strategy: CacheStrategy::Disabled, ..CacheConfig::default() };
    ProviderRegistry::default().body(&request).unwrap()
}

/// The blocks of a body with the role of their message, in order. Messages that are merged differently have the same.
fn blocks(body: &Value) -> Vec<String> {
    let list = ["messages", "contents", "input"].iter().find_map(|key| body[*key].as_array()).unwrap();
    let mut out = Vec::new();
    for message in list {
        let role = message["role"].as_str().unwrap_or_default();
        match ["content", "parts"].iter().find_map(|key| message[*key].as_array()) {
            Some(parts) => out.extend(parts.iter().map(|part| format!("{role}: {part}"))),
            None => out.push(message.to_string()),
        }
    }
    out
}

fn check(vendor: Vendor, history: &History) -> Result<Vec<String>, TestCaseError> {
    let bytes = body(vendor, history);
    prop_assert_eq!(&bytes, &body(vendor, history), "{}: the same request, other bytes", vendor.name);
    // A copy without cached forms is encoded alike.
    let (copy, repairs) = History::repaired(history.to_vec());
    prop_assert_eq!(repairs, vec![]);
    prop_assert_eq!(&bytes, &body(vendor, &copy), "{}: a copy, other bytes", vendor.name);
    let json: Value = serde_json::from_slice(&bytes).unwrap();
    assert_paired(&items(vendor.api, &json), vendor.name);
    let shown = history.llm_messages().flat_map(Message::content).filter(|c| matches!(c, Content::Image(_)));
    prop_assert_eq!(pictures(vendor.api, &json), shown.count(), "{}: pictures", vendor.name);
    Ok(blocks(&json))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Random conversations with deferred calls and compactions: in each protocol every call has exactly one result, and
    /// a later result changes nothing before it.
    #[test]
    fn every_protocol_encodes_deferred_calls_without_an_orphan(acts in prop::collection::vec(act(), 1..20)) {
        for vendor in EVERY {
            let mut history = History::new();
            history.push(AgentMessage::user("task")).unwrap();
            let mut before = check(vendor, &history)?;
            for (number, act) in acts.iter().enumerate() {
                perform(&mut history, act, number);
                let after = check(vendor, &history)?;
                if !matches!(act, Act::Drop(..)) {
                    prop_assert_eq!(&before[..], &after[..before.len()], "{}: {:?}", vendor.name, act);
                }
                before = after;
            }
        }
    }
}

#[test]
fn the_result_names_its_call_in_every_protocol() {
    for vendor in EVERY {
        let mut history = History::new();
        history.push(AgentMessage::user("task")).unwrap();
        perform(&mut history, &Act::Begin, 1);
        perform(&mut history, &Act::Complete { picture: true, failed: false }, 2);
        let body = String::from_utf8(body(vendor, &history)).unwrap();
        let at = |text: &str| body.find(text).unwrap_or_else(|| panic!("{}: {text}: {body}", vendor.name));
        assert!(at("still running") < at("Result of the call `render` (handle `job-1`):"), "{}", vendor.name);
        assert!(at("(handle `job-1`)") < at("result 2"), "{}", vendor.name);
        assert!(!body.contains("\"deferred\""), "{}", vendor.name);
    }
    let call = DeferredCall::new("c1", "render", "job-1");
    assert_eq!(call.state, agent_core::DeferredState::Running);
}

/// The model that knows async tools.
const NATIVE: &str = "gpt-6-astra";

/// A request to it. With `declared` the tool is declared as one that can be deferred.
fn native(history: &History, declared: bool) -> ModelRequest {
    let model = ModelConfig::openai_responses(NATIVE, NATIVE, "sk-secret").with_images(true);
    let mut request = ModelRequest::new(model, history.clone());
    request.options.cache_config =
        CacheConfig { strategy: CacheStrategy::Disabled, ..CacheConfig::default() };
    request.tools = ["render", "look"]
        .map(|name| ToolDefinition::new(name, "Works", json!({"type": "object"})))
        .to_vec()
        .into();
    if declared {
        request.options.async_tools.insert("render".to_owned());
    }
    request
}

fn native_body(history: &History, declared: bool) -> Value {
    let bytes = ProviderRegistry::default().body(&native(history, declared)).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn native_items(history: &History, declared: bool) -> Vec<Value> {
    native_body(history, declared)["input"].as_array().unwrap().clone()
}

/// Makes each reply with calls one of the model that knows async tools, whose calls need no output at once.
fn own(history: &History) -> History {
    let messages = history.to_vec().into_iter().map(|message| {
        let Some(Message::Assistant(reply)) = message.as_llm() else { return message };
        let mut reply = reply.clone();
        "openai".clone_into(&mut reply.provider);
        NATIVE.clone_into(&mut reply.model);
        reply.api = Some(ApiProtocol::OpenAiResponses);
        for block in &mut reply.content {
            if let Content::ToolCall(call) = block {
                let id = format!("fc_{}", call.id.as_str());
                call.signature = Some(json!({"id": id, "async": true}).to_string());
            }
        }
        Message::from(reply).into()
    });
    let (own, repairs) = History::repaired(messages);
    assert!(repairs.is_empty(), "{repairs:?}");
    own
}

/// Checks the rules of the API: an output behind its call and once; a call without an output only if it is async.
fn assert_valid(items: &[Value]) {
    let (mut open, mut seen) = (Vec::new(), std::collections::BTreeSet::new());
    for item in items {
        let id = item["call_id"].as_str().unwrap_or_default().to_owned();
        match item["type"].as_str().unwrap_or_default() {
            "function_call" => {
                assert!(seen.insert(id.clone()), "the call {id} comes twice");
                open.push((id, item["async"] == true));
            }
            "function_call_output" => {
                let at = open.iter().position(|(call, _)| *call == id);
                open.remove(at.unwrap_or_else(|| panic!("an output of no open call: {id}")));
            }
            _ => assert!(open.iter().all(|(_, is_async)| *is_async), "no output yet: {open:?}"),
        }
    }
    assert!(open.iter().all(|(_, is_async)| *is_async), "no output: {open:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Random conversations of the model that knows async tools, with compactions and hand-off in both directions.
    #[test]
    fn async_calls_have_at_most_one_output_and_requests_keep_their_beginning(acts in prop::collection::vec(act(), 1..20)) {
        let mut history = History::new();
        history.push(AgentMessage::user("task")).unwrap();
        let mut before = native_items(&history, true);
        for (number, act) in acts.iter().enumerate() {
            perform(&mut history, act, number);
            history = own(&history);
            let after = native_items(&history, true);
            assert_valid(&after);
            if !matches!(act, Act::Drop(..)) {
                prop_assert_eq!(&before[..], &after[..before.len()], "{:?}", act);
            }
            // Not declared any more: the calls have their preliminary outputs.
            let plain = native_items(&history, false);
            assert!(plain.iter().all(|item| item.get("async").is_none()));
            assert_valid(&plain);
            // The session after a restart.
            let stored = serde_json::to_string(&history.to_vec()).unwrap();
            let messages: Vec<AgentMessage> = serde_json::from_str(&stored).unwrap();
            let (restored, repairs) = History::repaired(messages);
            prop_assert_eq!(repairs, vec![]);
            prop_assert_eq!(&after, &native_items(&restored, true));
            for vendor in EVERY {
                check(vendor, &history)?;
            }
            before = after;
        }
    }
}

#[test]
fn an_async_call_gets_its_output_in_a_later_item() {
    let mut history = History::new();
    history.push(AgentMessage::user("task")).unwrap();
    perform(&mut history, &Act::Begin, 1);
    let begun = own(&history);
    let tools = native_body(&begun, true)["tools"].clone();
    assert_eq!((&tools[0]["async"], tools[1].get("async")), (&json!(true), None));
    assert!(native_body(&begun, false)["tools"][0].get("async").is_none());
    let items = native_items(&begun, true);
    let call = |n: u8| {
        json!({"type": "function_call", "id": format!("fc_call_1_{n}"), "call_id": format!("call_1_{n}"),
            "name": "render", "arguments": "{\"n\":1}", "async": true})
    };
    let expected = json!([
        {"role": "user", "content": "task"},
        call(1),
        call(2),
        {"type": "function_call_output", "call_id": "call_1_2", "output": "rendered"},
        {"role": "user", "content": [
            {"type": "input_text", "text": "Preliminary result of the call `render`:\n"},
            {"type": "input_text", "text": "still running"},
        ]},
    ]);
    assert_eq!(Value::Array(items), expected);

    perform(&mut history, &Act::Reply, 2);
    perform(&mut history, &Act::Complete { picture: true, failed: false }, 3);
    let items = native_items(&own(&history), true);
    assert_eq!(items.last().unwrap()["type"], "function_call_output");
    assert_eq!(items.last().unwrap()["call_id"], "call_1_1");
    let output = items.last().unwrap()["output"].clone();
    assert_eq!(output[0], json!({"type": "input_text", "text": "result 3"}));
    assert_eq!((&output[1]["type"], output.as_array().unwrap().len()), (&json!("input_image"), 2));

    // A call of another model is sent with its preliminary output, and its result as a message.
    let items = native_items(&history, true);
    assert_valid(&items);
    assert!(items.iter().all(|item| item.get("async").is_none()));
    assert_eq!(items.last().unwrap()["role"], "user");

    // The call is removed: what remains is text.
    let splice = Splice { from: 1, to: 4, messages: vec![] };
    let short = own(&history).spliced(&[splice]).unwrap();
    let items = native_items(&short, true);
    assert_valid(&items);
    assert!(items.iter().all(|item| item.get("type").is_none()), "{items:?}");
}

#[test]
fn a_failed_async_call_says_so_in_its_output() {
    let mut history = History::new();
    history.push(AgentMessage::user("task")).unwrap();
    perform(&mut history, &Act::Begin, 1);
    perform(&mut history, &Act::Complete { picture: false, failed: true }, 2);
    let items = native_items(&own(&history), true);
    let output = items.last().unwrap()["output"].as_str().unwrap();
    assert!(output.starts_with("The call `render` (handle `job-1`) failed:"), "{output}");
}

/// Other models of the vendor, Azure and other servers do not know async tools, unless the configuration says so.
#[test]
fn only_servers_that_know_async_tools_are_sent_them() {
    let history = own(&{
        let mut history = History::new();
        history.push(AgentMessage::user("task")).unwrap();
        perform(&mut history, &Act::Begin, 1);
        history
    });
    let sent = |model: ModelConfig| {
        let mut request = native(&history, true);
        request.model = model.into();
        request.options.async_tools.insert("look".to_owned());
        let body = ProviderRegistry::default().body(&request).unwrap();
        String::from_utf8(body).unwrap().contains("\"async\":true")
    };
    let at = |id: &str, base: &str, provider: &str| {
        let mut model = ModelConfig::openai_responses(id, id, "sk-secret").with_base_url(base);
        provider.clone_into(&mut model.provider);
        model
    };
    assert!(sent(at(NATIVE, "https://api.openai.com/v1", "openai")));
    assert!(!sent(at("gpt-5.5", "https://api.openai.com/v1", "openai")));
    assert!(!sent(at(NATIVE, "http://localhost:1234/v1", "local")));
    assert!(!sent(ModelConfig::azure("https://r.openai.azure.com", NATIVE, "0a1b")));
    let mut known = at(NATIVE, "http://localhost:1234/v1", "local");
    known.dialect.async_tools = Some(true);
    assert!(sent(known));
    let mut refused = at(NATIVE, "https://api.openai.com/v1", "openai");
    refused.dialect.async_tools = Some(false);
    assert!(!sent(refused));
}
