//! Schemas of types, and the reading of answers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{AnswerFault, AnswerForm};
use crate::model::ResponseFormat;

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct City {
    /// In English.
    name: String,
    inhabitants: u32,
    #[serde(default)]
    twins: Vec<Twin>,
    mayor: Option<String>,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Twin {
    #[schemars(length(min = 2), regex(pattern = "^[A-Z]"))]
    name: String,
    since: Since,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Since {
    Year(u16),
    Unknown,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
enum Sum {
    Number(f64),
    Of(Vec<Sum>),
}

fn sent<T: JsonSchema + serde::de::DeserializeOwned>() -> (Value, bool) {
    match AnswerForm::<T>::new().format() {
        ResponseFormat::JsonSchema { schema, strict, .. } => (schema, strict),
        other => panic!("{other:?}"),
    }
}

/// Every rule that vendors which enforce schemas state of each part of one.
fn assert_closed(schema: &Value, at: &str) {
    let members = schema.as_object().unwrap_or_else(|| panic!("{at}: {schema}"));
    if members.contains_key("$ref") {
        assert_eq!(members.len(), 1, "{at}: nothing may stand beside a reference: {schema}");
        return;
    }
    for banned in
        ["oneOf", "allOf", "not", "const", "default", "title", "prefixItems", "$schema", "uniqueItems"]
    {
        assert!(!members.contains_key(banned), "{at}: {banned}");
    }
    if schema["type"] == "object" {
        assert_eq!(schema["additionalProperties"], false, "{at}");
        let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(json!(names), schema["required"], "{at}");
    }
    for (name, part) in schema["properties"].as_object().into_iter().flatten() {
        assert_closed(part, &format!("{at}.{name}"));
    }
    for (name, part) in schema["$defs"].as_object().into_iter().flatten() {
        assert_closed(part, &format!("{at}#{name}"));
    }
    for part in schema["anyOf"].as_array().into_iter().flatten() {
        assert_closed(part, &format!("{at}|"));
    }
    if let Some(items) = members.get("items") {
        assert_closed(items, &format!("{at}[]"));
    }
}

#[test]
fn the_schema_of_a_type_is_closed_and_demands_every_member() {
    let (schema, strict) = sent::<City>();
    assert!(strict);
    assert_closed(&schema, "City");
    assert_eq!(schema["required"], json!(["name", "inhabitants", "twins", "mayor"]));
    assert_eq!(schema["properties"]["name"], json!({"type": "string", "description": "In English."}));
    assert_eq!(schema["properties"]["mayor"]["type"], json!(["string", "null"]));
    assert_eq!(schema["properties"]["inhabitants"], json!({"type": "integer", "minimum": 0}));
    let twin = &schema["properties"]["twins"]["items"]["properties"];
    assert_eq!(
        twin["name"],
        json!({"type": "string", "pattern": "^[A-Z]", "description": "{minLength: 2}"}),
        "what no grammar enforces is told"
    );
    assert_eq!(twin["since"]["anyOf"][0], json!({"type": "string", "enum": ["unknown"]}));
}

#[test]
fn a_type_that_holds_itself_and_one_that_is_no_object_are_wrapped_and_read_back() {
    let (schema, strict) = sent::<Sum>();
    assert!(strict, "{schema}");
    assert_closed(&schema, "Sum");
    assert_eq!((&schema["type"], &schema["required"]), (&json!("object"), &json!(["value"])));
    let form = AnswerForm::<Sum>::new();
    let sum = form.read(r#"{"value": {"Of": [{"Number": 1.5}, {"Of": []}]}}"#).unwrap();
    assert_eq!(sum, Sum::Of(vec![Sum::Number(1.5), Sum::Of(vec![])]));
    // A model that was not held to the form may leave the wrapping out.
    assert_eq!(form.read(r#"{"Number": 2}"#).unwrap(), Sum::Number(2.0));
    assert_eq!(AnswerForm::<Vec<u8>>::new().read(r#"{"value": [1, 2]}"#).unwrap(), [1, 2]);
    assert!(AnswerForm::<bool>::new().read("true").unwrap());
    assert!(form.read(r#"{"value": {"Of": [{"Number": "x"}]}}"#).is_err());
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Tree {
    name: String,
    /// Below it.
    below: Vec<Tree>,
    /// What it grew from.
    seed: Option<Box<Tree>>,
    /// Beside it.
    pair: Pair,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Pair {
    /// The other one.
    other: Option<Box<Tree>>,
}

#[test]
fn references_stand_alone_and_lead_to_what_is_there() {
    let (schema, strict) = sent::<Tree>();
    assert!(strict, "{schema}");
    assert_closed(&schema, "Tree");
    let text = schema.to_string();
    for name in text.split("\"$ref\":\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(schema.pointer(name.trim_start_matches('#')).is_some(), "{name} in {text}");
    }
    let tree = AnswerForm::<Tree>::new().read(
        r#"{"name": "a", "below": [{"name": "b", "below": [], "seed": null, "pair": {"other": null}}],
            "seed": null, "pair": {"other": null}}"#,
    );
    assert_eq!(tree.unwrap().below[0].name, "b");
}

#[test]
fn what_cannot_be_closed_is_asked_for_without_being_enforced() {
    #[derive(Deserialize, JsonSchema)]
    struct Open {
        #[expect(dead_code, reason = "only its schema counts")]
        map: BTreeMap<String, u8>,
    }
    #[derive(Deserialize, JsonSchema)]
    struct Any {
        #[expect(dead_code, reason = "only its schema counts")]
        value: Value,
    }
    #[derive(Deserialize, JsonSchema)]
    struct Pair {
        #[expect(dead_code, reason = "only its schema counts")]
        pair: (u8, String),
    }
    for (schema, strict) in [sent::<Open>(), sent::<Any>(), sent::<Pair>(), sent::<Value>()] {
        assert!(!strict, "{schema}");
        assert_eq!(schema["type"], "object");
    }
    assert_eq!(AnswerForm::<Value>::new().read(r#"{"value": {"a": 1}}"#).unwrap(), json!({"a": 1}));
}

#[test]
fn the_name_of_a_form_is_one_that_vendors_take() {
    let name = |form: ResponseFormat| match form {
        ResponseFormat::JsonSchema { name, .. } => name,
        other => panic!("{other:?}"),
    };
    assert_eq!(name(AnswerForm::<City>::new().format()), "City");
    assert_eq!(name(AnswerForm::<City>::new().named("Stadt, größte").format()), "Stadt__gr__te");
    assert_eq!(name(AnswerForm::<City>::new().named("").format()), "answer");
    assert_eq!(name(AnswerForm::<City>::new().named(&"x".repeat(70)).format()).len(), 64);
    let strange = name(AnswerForm::<Vec<Option<City>>>::new().format());
    assert!(strange.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'), "{strange}");
}

#[track_caller]
fn check_read(text: &str, expect: Result<&str, fn(&AnswerFault) -> bool>) {
    let read = AnswerForm::<Twin>::new().read(text);
    match (read, expect) {
        (Ok(twin), Ok(name)) => assert_eq!(twin, Twin { name: name.into(), since: Since::Unknown }),
        (Err(error), Err(is)) => {
            assert!(is(&error.fault), "{error}");
            assert!(error.to_string().contains(&error.received));
        }
        (read, _) => panic!("{text:?} gave {read:?}"),
    }
}

#[test]
fn an_answer_is_read_from_what_models_put_around_it() {
    check_read(r#"{"name": "Bonn", "since": "unknown"}"#, Ok("Bonn"));
    check_read(" \n{\"name\": \"Bonn\", \"since\": \"unknown\"}\n ", Ok("Bonn"));
    check_read("```json\n{\"name\": \"Bonn\", \"since\": \"unknown\"}\n```", Ok("Bonn"));
    check_read("Here it is:\n```\n{\"name\": \"Bonn\", \"since\": \"unknown\"}\n```\nDone.", Ok("Bonn"));
    check_read("Sure! {\"name\": \"B```n\", \"since\": \"unknown\"} Anything else?", Ok("B```n"));
    check_read("", Err(|f| matches!(f, AnswerFault::Empty)));
    check_read(" \n", Err(|f| matches!(f, AnswerFault::Empty)));
    check_read("I cannot say.", Err(|f| matches!(f, AnswerFault::NotJson { .. })));
    check_read("{\"name\": \"Bonn\", \"since\": \"unkn", Err(|f| matches!(f, AnswerFault::NotJson { .. })));
    check_read(
        "{\"name\": \"B\"}",
        Err(|f| matches!(f, AnswerFault::DoesNotFit { faults } if faults.len() == 2)),
    );
    check_read("[]", Err(|f| matches!(f, AnswerFault::DoesNotFit { .. })));
}

#[test]
fn a_type_may_refuse_what_its_schema_allows() {
    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(try_from = "u8")]
    struct Odd;
    impl TryFrom<u8> for Odd {
        type Error = String;
        fn try_from(n: u8) -> Result<Self, String> {
            if n % 2 == 1 { Ok(Self) } else { Err(format!("{n} is even")) }
        }
    }
    let form = AnswerForm::<Odd>::new();
    assert!(form.read("3").is_ok());
    let error = form.read(r#"{"value": 4}"#).unwrap_err();
    assert_eq!(error.fault, AnswerFault::Refused { reason: "4 is even".into() });
}

#[test]
fn the_correction_lists_every_fault_and_the_error_shows_no_more_than_its_bound() {
    let error =
        AnswerForm::<Twin>::new().read(&format!("{{\"name\": \"{}\"}}", "é".repeat(9_000))).unwrap_err();
    let told = error.correction();
    assert!(
        told.contains("since") && told.contains("pattern") == error.to_string().contains("pattern"),
        "{told}"
    );
    assert!(error.received.len() < 2_100, "{}", error.received.len());
}
