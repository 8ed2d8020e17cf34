//! What is sent, and when an earlier reply stands for the beginning of the input.

use std::sync::Arc;

use agent_core::{History, ModelConfig, ModelRequest};
use serde_json::{Value, json};

use super::chain::Chain;
use super::message::Body;

fn body(input: &str) -> Body {
    Body { head: br#""model":"m","#.to_vec(), input: input.as_bytes().to_vec(), continues: true }
}

fn request() -> ModelRequest {
    let mut history = History::new();
    history.push("a \u{e9}".into()).unwrap();
    ModelRequest::new(ModelConfig::openai_responses("gpt-5.5", "GPT", "sk-x"), history)
}

#[test]
fn only_a_request_that_begins_with_the_reply_continues_it() {
    let chain = Chain::after(&body(r#"[{"a":1}]"#), "resp_1".into(), br#"{"b":2}"#).unwrap();
    let new = |input: &str| chain.new_items(&body(input)).map(<[u8]>::to_vec);
    assert_eq!(new(r#"[{"a":1},{"b":2},{"c":3},{"d":4}]"#).unwrap(), br#"{"c":3},{"d":4}"#);
    for other in [
        // Nothing new, less than the reply, another reply, another beginning, a reply that only begins alike.
        r#"[{"a":1},{"b":2}]"#,
        r#"[{"a":1}]"#,
        r#"[{"a":1},{"b":3},{"c":3}]"#,
        r#"[{"a":0},{"b":2},{"c":3}]"#,
        r#"[{"a":1},{"b":22},{"c":3}]"#,
        "[]",
    ] {
        assert_eq!(new(other), None, "{other}");
    }
    let mut changed = body(r#"[{"a":1},{"b":2},{"c":3}]"#);
    changed.head = br#""model":"n","#.to_vec();
    assert_eq!(chain.new_items(&changed), None);
    let mut own = body(r#"[{"a":1},{"b":2},{"c":3}]"#);
    own.continues = false;
    assert_eq!(chain.new_items(&own), None);
    assert_eq!(Chain::after(&own, "resp_1".into(), b"{}"), None);
}

#[test]
fn a_message_has_the_members_of_a_body_and_its_envelope() {
    let body = Body::of(&request()).unwrap();
    let read = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    let whole = read(body.message(None, None));
    let mut http: Value = serde_json::from_slice(&super::super::body(&request()).unwrap()).unwrap();
    http.as_object_mut().unwrap().shift_remove("stream");
    http["type"] = "response.create".into();
    assert_eq!(whole, http);
    let part = read(body.message(Some("lane-1"), Some(("resp_1", br#"{"x":1}"#))));
    http["stream_id"] = "lane-1".into();
    http["previous_response_id"] = "resp_1".into();
    http["input"] = json!([{"x": 1}]);
    assert_eq!(part, http);
}

/// A hook can name the conversation itself. Then nothing is added to it.
#[test]
fn a_hook_that_names_an_earlier_reply_is_obeyed() {
    let mut request = request();
    request.options.request_hook = Some(Arc::new(|body: &Value| {
        let mut body = body.clone();
        body["previous_response_id"] = "resp_own".into();
        body["background"] = true.into();
        Some(body)
    }));
    let body = Body::of(&request).unwrap();
    assert!(!body.continues);
    let sent: Value = serde_json::from_str(&body.message(None, None)).unwrap();
    assert_eq!((&sent["previous_response_id"], sent.get("background")), (&json!("resp_own"), None));
    assert!(sent.get("stream").is_none());
}
