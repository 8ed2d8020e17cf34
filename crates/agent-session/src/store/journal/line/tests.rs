use proptest::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};

use super::super::packed;
use super::super::seen::SeenTexts;
use crate::model::texts::pack;

fn any_json() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec!["$text", "$json", "$raw", "a", "b~/c", ""]).prop_map(str::to_owned);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(|n| json!(n)),
        any::<f64>().prop_map(|n| json!(n)),
        (0usize..3).prop_map(|n| json!("long text ".repeat(n * 12))),
        "[a-z\u{0}-\u{22}\\\\\u{7f}\u{2028}ü]{0,20}".prop_map(Value::String),
    ];
    leaf.prop_recursive(80, 120, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::vec((key.clone(), inner), 0..3)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

/// Every shape that serde has, around a value.
#[derive(Debug, Clone, Serialize)]
enum Shape {
    Unit,
    New(Value),
    Tuple(Value, u8),
    Fields { value: Value, option: Option<Box<Shape>> },
    Flat(Flat),
}

#[derive(Debug, Clone, Serialize)]
struct Flat {
    first: (i8, char),
    #[serde(flatten)]
    rest: Value,
}

fn shape() -> impl Strategy<Value = Shape> {
    let object = any_json().prop_map(|v| if v.is_object() { v } else { json!({ "value": v }) });
    let leaf = prop_oneof![
        Just(Shape::Unit),
        any_json().prop_map(Shape::New),
        (any_json(), any::<u8>()).prop_map(|(v, n)| Shape::Tuple(v, n)),
        object.prop_map(|rest| Shape::Flat(Flat { first: (-1, 'x'), rest })),
    ];
    leaf.prop_recursive(60, 80, 2, |inner| {
        (any_json(), prop::option::of(inner))
            .prop_map(|(value, o)| Shape::Fields { value, option: o.map(Box::new) })
    })
}

/// What `pack` makes of it, and what the serialiser writes.
fn both<T: Serialize>(value: &T) -> (String, String) {
    let mut seen = SeenTexts::default();
    let as_value = serde_json::to_value(value).unwrap();
    let packed = pack(as_value, &mut |text| seen.place_of(text).map(|n| json!(n)));
    let mut written = Vec::new();
    packed::write(&mut written, value, &mut SeenTexts::default()).unwrap();
    (packed.to_string(), String::from_utf8(written).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_line_is_written_as_if_it_were_packed_first(value in any_json(), shape in shape()) {
        let (packed, written) = both(&value);
        prop_assert_eq!(packed, written);
        let (packed, written) = both(&shape);
        prop_assert_eq!(packed, written);
    }
}

#[test]
fn variants_at_every_depth_are_written_as_if_they_were_packed_first() {
    let mut shape = Shape::New(json!({"$raw": ["x".repeat(200)]}));
    for n in 0..60 {
        let (packed, written) = both(&shape);
        assert_eq!(packed, written, "{n} levels");
        shape = Shape::Fields { value: json!([[{"$text": "y".repeat(100)}]]), option: Some(Box::new(shape)) };
    }
}

/// A text that was forgotten is written again, one that is alike at its ends is no reference to another.
#[test]
fn only_the_very_same_text_is_a_reference() {
    let mut seen = SeenTexts::default();
    let text = |n: usize| format!("{}{n:0>8}{}", "a".repeat(64), "z".repeat(64));
    assert_eq!(seen.place_of(&text(1)), None);
    assert_eq!(seen.place_of(&text(1)), Some(0));
    let (one, two) = (
        format!("{}1{}", "a".repeat(40), "a".repeat(200)),
        format!("{}2{}", "a".repeat(40), "a".repeat(200)),
    );
    assert_eq!((seen.place_of(&one), seen.place_of(&two)), (None, None));
    assert_eq!(seen.place_of(&two), Some(2));
    assert_eq!(seen.place_of(&one), None, "its place in the memory was taken");
    for n in 0..50 {
        seen.place_of(&format!("{n}{}", "x".repeat(100_000)));
    }
    assert_eq!(seen.place_of(&text(1)), None, "it was forgotten");
}
