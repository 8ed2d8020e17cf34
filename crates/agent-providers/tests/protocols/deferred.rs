//! Deferred calls in every protocol: the preliminary result stays as it was sent, and the result follows as a user message.

use agent_core::{
    AgentMessage, AssistantMessage, CacheConfig, CacheStrategy, Content, DeferredCall, Entry, History,
    Message, ModelRequest, Splice, StopReason, StreamProvider as _, ToolResultMessage,
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
