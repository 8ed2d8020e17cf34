//! What fits a shape, and what is read of it.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const FRAME: &str = r#"{"a":"first","text":"Hello","b":[1,"x"]}"#;

const VARYING: Varying = Varying { unread: &["created", "noise", "list"], repeated: &["same"] };

fn learned(frame: &str, text: &str) -> Shape<u8> {
    let at = frame.find(text).unwrap();
    keep(frame, &frame[at..at + text.len()])
}

/// The shape of the second of two equal frames.
fn keep(frame: &str, text: &str) -> Shape<u8> {
    let mut shape = Shape::new(&VARYING);
    shape.learn(frame, "text", text, 7);
    shape.learn(frame, "text", text, 7);
    shape
}

#[track_caller]
fn check(shape: &Shape<u8>, frame: &str, expect: Option<&str>) {
    let read = shape.clone().read(frame);
    assert_eq!(read.as_ref().map(|(kind, text)| (*kind, &**text)), expect.map(|text| (7, text)), "{frame}");
}

#[test]
fn only_a_frame_that_differs_in_the_one_string_fits() {
    let shape = learned(FRAME, "Hello");
    check(&shape, FRAME, Some("Hello"));
    check(&shape, r#"{"a":"first","text":"","b":[1,"x"]}"#, Some(""));
    check(
        &shape,
        r#"{"a":"first","text":"caf\u00e9 \"au lait\"\n","b":[1,"x"]}"#,
        Some("café \"au lait\"\n"),
    );
    check(&shape, r#"{"a":"other","text":"Hello","b":[1,"x"]}"#, None);
    check(&shape, r#"{"a":"first","text":"Hello","b":[1,"y"]}"#, None);
    check(&shape, r#"{"a":"first","text":"Hello","c":1,"b":[1,"x"]}"#, None);
    check(&shape, r#"{"a":"first","text":"x","text":"Hello","b":[1,"x"]}"#, None);
    check(&shape, r#"{"a":"first","text":"Hello\","b":[1,"x"]}"#, None);
    check(&shape, r#"{"a":"first","text":"Hel"#, None);
    check(&shape, "", None);
}

#[test]
fn a_string_that_is_no_json_string_does_not_fit() {
    let shape = learned(FRAME, "Hello");
    check(&shape, "{\"a\":\"first\",\"text\":\"He\nllo\",\"b\":[1,\"x\"]}", None);
    check(&shape, "{\"a\":\"first\",\"text\":\"He\\\nllo\",\"b\":[1,\"x\"]}", None);
    check(&shape, r#"{"a":"first","text":"\ud83c","b":[1,"x"]}"#, None);
    check(&shape, r#"{"a":"first","text":"\x","b":[1,"x"]}"#, None);
}

#[test]
fn members_that_are_not_read_may_hold_any_value() {
    let frame = |text: &str, value: &str| format!(r#"{{"text":"{text}","noise":{value},"b":null}}"#);
    let shape = learned(&frame("Hello", "\"a1b2\""), "Hello");
    for value in [
        "\"\"",
        "\"a\\\"b\"",
        "0",
        "7",
        "-0.5e3",
        "null",
        "true",
        "[]",
        "[1,[2],{\"x\":\"]\"}]",
        "{\"a\": 1}",
        " 5",
    ] {
        check(&shape, &frame("Hi", value), Some("Hi"));
    }
    for value in ["", "\"", "\"\\x\"", "007", "1,2", "[1", "[1,]", "{\"a\"}", "nul", "1\"", "1}"] {
        check(&shape, &frame("Hi", value), None);
    }
    check(&shape, r#"{"text":"Hi","noise":"x","b":null,"more":1}"#, None);
    check(&shape, r#"{"text":"Hi","noise":"x"#, None);
    let nested =
        |list: &str| format!(r#"{{"a":[{{"list":{list},"text":"Hello"}}],"created": {}}}"#, list.len());
    check(&learned(&nested("[1]"), "Hello"), &nested("[[],12.5]"), Some("Hello"));
}

#[test]
fn padding_with_spaces_fits() {
    let shape = learned(FRAME, "Hello");
    let shape_of_padded = learned(r#"{"a":"first","text":"Hello","b":[1,"x"]    } "#, "Hello");
    for padding in ["", " ", "       "] {
        for (shape, end) in [(&shape, ""), (&shape_of_padded, ""), (&shape, "  ")] {
            check(shape, &format!(r#"{{"a":"first","text":"Hi","b":[1,"x"]{padding}}}{end}"#), Some("Hi"));
        }
    }
    check(&shape, r#"{"a":"first","text":"Hi","b":[1,"x" ]}"#, None);
    check(&shape, r#"{"a":"first","text":"Hi","b":[1,"x"]}x"#, None);
    check(&shape, r#"{"a":"first","text":"Hi","b":[1,"x"]}}"#, None);
    check(&shape, r#"{"a":"first","text":"Hi","b":[1,"x"]"#, None);
}

#[test]
fn a_member_that_repeated_the_text_has_to_repeat_it() {
    let frame =
        |same: &str, text: &str| format!(r#"{{"same":"{same}","text":"{text}","b":{{"same":"{text}"}}}}"#);
    let shape = learned(&frame("a", "Hello"), "Hello");
    check(&shape, &frame("a", "Hi"), Some("Hi"));
    check(&shape, &frame("b", "Hi"), None);
    check(&shape, r#"{"same":"a","text":"Hi","b":{"same":"Hello"}}"#, None);
    check(&shape, r#"{"same":"a","text":"Hi","b":{"same":"Hi-"}}"#, None);
    // The text is found by its place, although another member with the same string stands before it.
    let first = frame("Hello", "Hello");
    let at = first.rfind("\"text\":\"").unwrap() + 8;
    let shape = keep(&first, &first[at..at + 5]);
    check(&shape, &frame("Hi", "Hi"), Some("Hi"));
    check(&shape, &frame("Hello", "Hi"), None);
    let escaped = keep(&frame("x\\ny", "x\\ny"), "x\ny");
    check(&escaped, &frame("\\t", "\\t"), Some("\t"));
    check(&escaped, &frame("\\t", "\\u0009"), None);
}

#[test]
fn nothing_is_learned_from_what_does_not_stand_in_the_frame() {
    check(&keep(FRAME, &String::from("Hello")), FRAME, Some("Hello"));
    check(&keep(FRAME, &String::from("Hi")), FRAME, None);
    check(&learned(FRAME, "text\":\"Hel"), FRAME, None);
    check(&learned(FRAME, "Hell"), FRAME, None);
    check(&learned(FRAME, "text"), FRAME, None);
    check(&keep(FRAME, ""), FRAME, None);
    let large = format!(r#"{{"a":"{}","text":"Hello"}}"#, "x".repeat(MAX_FRAME));
    check(&learned(&large, "Hello"), &large, None);
    let mut forgotten = learned(FRAME, "Hello");
    forgotten.forget();
    check(&forgotten, FRAME, None);
}

#[test]
fn a_string_with_escapes_is_found_by_its_name() {
    #[track_caller]
    fn check_learned(frame: &str, text: &str, other: Option<&str>) {
        check(&keep(frame, text), &frame.replace("\\n", "-"), other);
    }
    check_learned(r#"{"a":1,"text":"x\ny"}"#, "x\ny", Some("x-y"));
    check_learned(r#"{"a":1,"text": "x\ny"}"#, "x\ny", Some("x-y"));
    check_learned(r#"{"a":1,"text":"x\ny"}"#, "x", None);
    check_learned(r#"{"a":{"text":"x\ny"},"text":"x\ny"}"#, "x\ny", None);
    check_learned(r#"{"a\"text":"x\ny","text" : "x\ny"}"#, "x\ny", None);
    check_learned(r#"{"a\"text":"x\ny"}"#, "x\ny", None);
    check_learned(r#"{"text" : "x\ny"}"#, "x\ny", None);
}

proptest! {
    /// The end of a string is where reading byte by byte finds it.
    #[test]
    fn the_end_of_a_string_is_found_as_byte_by_byte(text in r#"[a-z\\"\x00-\x22\u{80}\u{ff}é€🎉]{0,40}"#) {
        let (mut at, mut expect, mut escaped) = (0, None, false);
        while let Some(byte) = text.as_bytes().get(at) {
            match byte {
                b'"' => {
                    expect = Some((at, escaped));
                    break;
                }
                b'\\' => (escaped, at) = (true, at + 1),
                0..0x20 => break,
                _ => {}
            }
            at += 1;
        }
        prop_assert_eq!(string(&text), expect);
    }

    /// Whatever the frame: if it fits, reading it in full gives the same string, and nothing else has changed.
    #[test]
    fn what_fits_is_what_reading_in_full_gives(
        tail in r#"["\\,:{}nu0-9a-e\n]{0,12}"#,
        text in ".{0,12}",
        raw in any::<bool>(),
    ) {
        let frame = r#"{"a":1,"t":"Hello","noise":"zz","b":2}"#;
        let mut shape = learned(frame, "Hello");
        let string = if raw { format!("\"{text}{tail}\"") } else { json!(text).to_string() };
        let other = format!(r#"{{"a":1,"t":{string},"noise":"z{tail}","b":2}}"#);
        match (shape.read(&other), serde_json::from_str::<Value>(&other)) {
            (Some((7, text)), Ok(full)) => {
                prop_assert_eq!(&full["t"], &json!(text));
                prop_assert_eq!(full.as_object().unwrap().len(), 4);
            }
            (Some(_), full) => prop_assert!(false, "{} {:?}", other, full),
            (None, Ok(_)) if !raw && !tail.contains(['"', '\\', '\n']) => prop_assert!(false, "{}", other),
            (None, _) => {}
        }
    }
}

#[test]
fn the_second_frame_is_learned_and_no_longer_after_many_that_fit_nothing() {
    let mut shape: Shape<u8> = Shape::default();
    let frame = |n: usize| FRAME.replace("first", &n.to_string());
    let mut learn = |n: usize| {
        let frame = frame(n);
        let at = frame.find("Hello").unwrap();
        shape.learn(&frame, "text", &frame[at..at + 5], 7);
        shape.read(&frame).is_some()
    };
    assert!(!learn(0), "the first frame is not learned");
    assert!(learn(0));
    assert!((1..100).all(&mut learn), "each shape fitted a frame");
    let learn_only = |shape: &mut Shape<u8>, n: usize| {
        let frame = frame(n);
        let at = frame.find("Hello").unwrap();
        shape.learn(&frame, "text", &frame[at..at + 5], 7);
    };
    (0..usize::from(MAX_MISSES)).for_each(|n| learn_only(&mut shape, n));
    check(&shape, &frame(usize::from(MAX_MISSES) - 1), Some("Hello"));
    learn_only(&mut shape, 99);
    check(&shape, &frame(99), None);
}
