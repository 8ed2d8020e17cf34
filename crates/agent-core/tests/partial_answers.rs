//! Typed answers while they arrive, with the scripted model.
#![cfg(feature = "partial-answers")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail loudly"
)]

use agent_core::agent::{PartialReader, PartialValue};
use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::{
    AgentError, AgentEvent, AgentHandle, AnswerForm, BasicAgent, ModelConfig, event_channel, tool_fn,
};
use proptest::prelude::*;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
struct City {
    name: String,
    inhabitants: u64,
    districts: Vec<String>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct SomeCity {
    name: Option<String>,
    inhabitants: Option<u64>,
    #[serde(default)]
    districts: Vec<String>,
}

const OSLO: &str = r#"{"name": "Os\"lo", "inhabitants": 717710, "districts": ["Frogner", "Sagene"]}"#;

fn agent(replies: impl IntoIterator<Item = ScriptedReply>) -> BasicAgent {
    BasicAgent::new(ModelConfig::default()).with_provider(ScriptedProvider::new(replies).exhaustive())
}

async fn partials<T: JsonSchema + DeserializeOwned + Send + 'static>(
    agent: &AgentHandle,
) -> (Vec<PartialValue<T>>, Result<T, AgentError>) {
    let mut run = agent.request("Go.").typed::<T>().start().unwrap();
    let mut values = Vec::new();
    while let Some(value) = run.next_partial().await {
        values.push(value);
    }
    (values, run.answer().await)
}

/// The values that arrive of one text, by the character.
async fn of_text<T: JsonSchema + DeserializeOwned + Send + 'static>(text: &str) -> Vec<Value> {
    let agent = agent([ScriptedReply::text(text).in_pieces_of(1)]);
    let mut events = agent.prompt("Go.").unwrap();
    let mut reader = PartialReader::new(&AnswerForm::<T>::new());
    let mut values = Vec::new();
    while let Some(event) = events.recv().await {
        values.extend(reader.apply(&event).map(|partial| partial.json));
    }
    values
}

#[tokio::test]
async fn members_elements_and_texts_arrive_in_order_and_a_number_only_whole() {
    let agent = agent([ScriptedReply::text(OSLO).in_pieces_of(1)]);
    let (values, answer) = partials::<City>(&agent).await;
    let city = City {
        name: "Os\"lo".into(),
        inhabitants: 717_710,
        districts: vec!["Frogner".into(), "Sagene".into()],
    };
    assert_eq!(answer.unwrap(), city);
    assert_eq!(values.first().unwrap().json, json!({"name": ""}));
    assert_eq!(values.last().unwrap().value.as_ref(), Some(&city));
    assert_eq!(values.last().unwrap().json, serde_json::from_str::<Value>(OSLO).unwrap());
    let numbers: Vec<&Value> = values.iter().filter_map(|v| v.json.get("inhabitants")).collect();
    assert!(!numbers.is_empty() && numbers.iter().all(|n| **n == json!(717_710)), "{numbers:?}");
    let names: Vec<&str> = values.iter().filter_map(|v| v.json["name"].as_str()).collect();
    assert!(names.contains(&"Os") && names.iter().all(|name| "Os\"lo".starts_with(name)), "{names:?}");
    assert!(values.iter().any(|v| v.json["districts"] == json!(["Frogner", "Sa"])), "{values:?}");
    // The type lacks required members until they arrive; a type without such members is readable at once.
    assert_eq!(values[0].value, None);
    let some = values[0].read::<SomeCity>().unwrap();
    assert_eq!(some, SomeCity { name: Some(String::new()), inhabitants: None, districts: Vec::new() });
}

#[tokio::test]
async fn what_surrounds_the_json_of_a_model_is_ignored() {
    for (text, last) in [
        ("{\"a\": 1}", json!({"a": 1})),
        ("Here it is:\n```json\n{\"a\": [1, 2]}\n```\nAnything else?", json!({"a": [1, 2]})),
        ("The answer: {\"a\": \"x\"}", json!({"a": "x"})),
        ("  [1, -2.5e3, true]", json!([1, -2500.0, true])),
        (r#"{"a": {"b": [[], {}]}, "c": null}"#, json!({"a": {"b": [[], {}]}, "c": null})),
        (r#"{"twice": 1, "twice": 2}"#, json!({"twice": 2})),
    ] {
        assert_eq!(of_text::<Value>(text).await.last(), Some(&last), "{text}");
    }
    for text in ["", "No JSON at all.", "{", "[]", "{}", "\u{1F600}", "}{"] {
        assert_eq!(of_text::<Value>(text).await, Vec::<Value>::new(), "{text}");
    }
    // Deeper than 200 lists there are no more values, so that no recursion of the program depends on the text.
    let deep = of_text::<Value>(&"[".repeat(5_000)).await;
    assert!((1..200).contains(&deep.len()), "{}", deep.len());
}

#[tokio::test]
async fn a_type_that_is_wrapped_is_unwrapped() {
    let agent = agent([ScriptedReply::text(r#"{"value": [3, 4, 5]}"#).in_pieces_of(1)]);
    let (values, answer) = partials::<Vec<u8>>(&agent).await;
    let found: Vec<Vec<u8>> = values.into_iter().map(|v| v.value.unwrap()).collect();
    assert_eq!(found, [vec![], vec![3], vec![3, 4], vec![3, 4, 5]]);
    assert_eq!(answer.unwrap(), [3, 4, 5]);
}

#[tokio::test]
async fn after_an_answer_that_does_not_fit_the_next_one_begins_anew() {
    let bad = ScriptedReply::text(r#"{"name": "Bergen", "inhabitants": -1}"#).in_pieces_of(3);
    let agent = agent([bad, ScriptedReply::text(OSLO).in_pieces_of(3)]);
    let (values, answer) = partials::<City>(&agent).await;
    let names: Vec<&str> = values.iter().filter_map(|v| v.json["name"].as_str()).collect();
    let at = names.iter().position(|name| *name == "Bergen").unwrap();
    assert!(names[at..].contains(&"Os\"lo"), "{names:?}");
    assert_eq!(answer.unwrap().inhabitants, 717_710, "only a valid answer ends the request");
}

async fn events_of(agent: &BasicAgent) -> Vec<AgentEvent> {
    let mut receiver = agent.prompt("Go.").unwrap();
    let mut events = Vec::new();
    while let Some(event) = receiver.recv().await {
        events.push(event);
    }
    events
}

#[tokio::test]
async fn calls_on_the_way_and_the_texts_of_inner_loops_are_no_answers() {
    let inner = events_of(&agent([ScriptedReply::text(r#"{"name": "inner"}"#).in_pieces_of(1)])).await;
    let look = tool_fn("look", "", |_: Value, _| async { Ok("nothing") });
    let call = ScriptedReply::text("I look it up.").and_call("1", "look", json!({"name": "of the call"}));
    let outer = agent([call, ScriptedReply::text(OSLO).in_pieces_of(1)]).with_tool(look);
    let mut reader = PartialReader::new(&AnswerForm::<City>::new());
    let mut values = Vec::new();
    for (at, event) in events_of(&outer).await.iter().enumerate() {
        values.extend(reader.apply(event));
        // The events of an inner loop arrive between those of the outer one.
        if at == 3 {
            values.extend(inner.iter().filter_map(|event| reader.apply(event)));
        }
    }
    let names: Vec<&str> = values.iter().filter_map(|v| v.json["name"].as_str()).collect();
    assert!(names.iter().all(|name| "Os\"lo".starts_with(name)), "{names:?}");
    assert_eq!(values.last().unwrap().json["inhabitants"], 717_710);
    let again: Vec<_> = inner.iter().filter_map(|event| reader.apply(event)).collect();
    assert!(!again.is_empty(), "after the end of the outer loop, the next loop is read");
}

#[tokio::test]
async fn a_long_answer_is_not_read_again_for_each_piece() {
    let long = "x".repeat(20_000);
    let values = of_text::<Value>(&json!({ "text": long }).to_string()).await;
    assert!(values.len() < 600, "{}", values.len());
    assert_eq!(values.last().unwrap()["text"], json!(long));
}

#[tokio::test]
async fn with_a_sender_the_values_are_read_from_its_receiver() {
    let agent = agent([ScriptedReply::text(OSLO).in_pieces_of(1)]);
    let (tx, mut events) = event_channel();
    let form = AnswerForm::<City>::new();
    let mut reader = PartialReader::new(&form);
    let run = agent.request("Go.").answering(form).events_to(tx).start().unwrap();
    let mut last = None;
    while let Some(event) = events.recv().await {
        last = reader.apply(&event).or(last);
        if matches!(event, AgentEvent::AgentEnd(_)) {
            break;
        }
    }
    assert_eq!(last.unwrap().value, Some(run.answer().await.unwrap()));
}

/// Whether `part` can be the beginning of `whole`: nothing in it is wrong, and only something at the end is missing.
fn begins(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::String(part), Value::String(whole)) => whole.starts_with(part.as_str()),
        (Value::Array(part), Value::Array(whole)) => {
            part.len() <= whole.len() && part.iter().zip(whole).all(|(part, whole)| begins(part, whole))
        }
        (Value::Object(part), Value::Object(whole)) => {
            part.len() <= whole.len()
                && part.iter().zip(whole).all(|((a, part), (b, whole))| a == b && begins(part, whole))
        }
        _ => part == whole,
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9_f64).prop_map(|n| json!(n)),
        ".{0,12}".prop_map(Value::from),
        // Texts that look like the JSON around them.
        "[\\[\\]{}:,\"0-9.eE \\\\-]{0,12}".prop_map(Value::from),
    ];
    let inner = leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z\"\\\\é]{0,5}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[a-z]{1,5}", inner, 1..5)
        .prop_map(|members| Value::Object(members.into_iter().collect()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_value_is_a_beginning_of_the_answer_and_the_last_is_all_of_it(json in any_json(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&json) } else { serde_json::to_string(&json) }.unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let values = runtime.block_on(of_text::<Value>(&text));
        for pair in values.windows(2) {
            prop_assert!(begins(&pair[0], &pair[1]), "{} then {}", pair[0], pair[1]);
        }
        prop_assert_eq!(values.last(), Some(&json));
    }
}
