//! Reading of token counts.

use serde::Deserialize;

use super::*;

fn read(json: &str) -> Tokens {
    serde_json::from_str(json).unwrap()
}

#[test]
fn a_count_is_a_number_or_a_string_of_digits() {
    assert_eq!(read("12"), Tokens::Known(12));
    assert_eq!(read("4.9"), Tokens::Known(4));
    assert_eq!(read("0"), Tokens::Known(0));
    assert_eq!(read("\"5\""), Tokens::Known(5));
    assert_eq!(read("null"), Tokens::Absent);
}

#[test]
fn other_values_are_unreadable_and_no_error() {
    for json in ["true", "false", "[1, {}]", "{\"a\": [1]}", "\"many\"", "\"\"", "-3", "-0.5", "1e300"] {
        assert_eq!(read(json), Tokens::Unreadable, "{json}");
    }
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Some2 {
    a: Tokens,
    b: Counts<Inner>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Inner {
    c: Tokens,
}

#[test]
fn an_object_of_another_type_does_not_harm_its_neighbours() {
    let read = |json: &str| serde_json::from_str::<Some2>(json).unwrap();
    assert_eq!(read(r#"{"a": 1, "b": {"c": 2}}"#).b, Counts::Given(Inner { c: Tokens::Known(2) }));
    for value in ["true", "1", "-1", "1.5", "\"none\"", "[{\"c\": 2}]"] {
        let read = read(&format!("{{\"b\": {value}, \"a\": 1}}"));
        assert_eq!((read.a, read.b), (Tokens::Known(1), Counts::Unreadable), "{value}");
    }
    for value in ["null", "[]"] {
        assert_eq!(read(&format!("{{\"b\": {value}}}")).b, Counts::Absent, "{value}");
    }
}

#[test]
fn unreadable_counts_are_counted() {
    assert_eq!(unreadable(&[Tokens::Absent, Tokens::Unreadable, Tokens::Known(1), Tokens::Unreadable]), 2);
    assert_eq!(largest(&[Tokens::Absent, Tokens::Known(3), Tokens::Unreadable, Tokens::Known(2)]), Some(3));
    assert_eq!(largest(&[Tokens::Absent, Tokens::Unreadable]), None);
}
