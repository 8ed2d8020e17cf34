use proptest::prelude::*;
use serde_json::{Value, json};

use crate::prefix::json::{elements, members, path};

#[test]
fn members_and_elements_are_found_where_they_stand() {
    let text = br#"{"a":[1,{"b":"x,]}"},"q\"\\"],"c":null,"d":{"e":-1.5e3}}"#;
    let found: Vec<(String, &str)> =
        members(text).into_iter().map(|(name, at)| (name, std::str::from_utf8(&text[at]).unwrap())).collect();
    let expect = [("a", r#"[1,{"b":"x,]}"},"q\"\\"]"#), ("c", "null"), ("d", r#"{"e":-1.5e3}"#)];
    assert_eq!(found, expect.map(|(name, value)| (name.to_owned(), value)));
    let list = found[0].1.as_bytes();
    let parts: Vec<&[u8]> = elements(list).into_iter().map(|at| &list[at]).collect();
    assert_eq!(parts, [&b"1"[..], br#"{"b":"x,]}"}"#, br#""q\"\\""#]);
    assert!(members(b"{}").is_empty() && elements(b"[]").is_empty());
}

#[test]
fn a_path_names_the_value_in_which_a_byte_stands() {
    #[track_caller]
    fn check(text: &str, mark: &str, expect: &str) {
        assert_eq!(path(text.as_bytes(), text.find(mark).unwrap()), expect);
    }
    let text = r#"[{"role":"user","content":[{"text":"aX"},{"input":{"path":"bY"}}]},"cZ",7]"#;
    check(text, "X", "[0].content[0].text");
    check(text, "Y", "[0].content[1].input.path");
    check(text, "Z", "[1]");
    check(text, "7", "[2]");
    check(text, "role", "[0]");
    check("\"only X\"", "X", "");
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..5)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Whatever the value, its parts are found as a reader of JSON finds them.
    #[test]
    fn parts_are_those_that_a_reader_finds(list in prop::collection::vec(value(), 0..6)) {
        let text = serde_json::to_vec(&list).unwrap();
        let found: Vec<Value> =
            elements(&text).into_iter().map(|at| serde_json::from_slice(&text[at]).unwrap()).collect();
        prop_assert_eq!(found, list.clone());
        let text = serde_json::to_vec(&json!({"first": list, "second": 1})).unwrap();
        let found = members(&text);
        prop_assert_eq!(found.len(), 2);
        prop_assert_eq!(serde_json::from_slice::<Value>(&text[found[0].1.clone()]).unwrap(), Value::from(list));
    }

    /// What is no JSON gives fewer places, and no panic.
    #[test]
    fn no_text_makes_it_panic(text in prop::collection::vec(any::<u8>(), 0..80), byte in 0..100_usize) {
        let _ = (members(&text), elements(&text), path(&text, byte));
    }

    #[test]
    fn no_text_with_brackets_makes_it_panic(text in r#"[\[\]{}",:\\a 1]{0,60}"#, byte in 0..80_usize) {
        let text = text.as_bytes();
        for at in elements(text).into_iter().chain(members(text).into_iter().map(|(_, at)| at)) {
            prop_assert!(text.get(at).is_some());
        }
        let _ = path(text, byte);
    }
}
