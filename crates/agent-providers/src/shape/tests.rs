//! What fits a shape, and what is read of it.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const FRAME: &str = r#"{"a":"first","text":"Hello","b":[1,"x"]}"#;

fn learned(frame: &str, text: &str) -> Shape<u8> {
    let at = frame.find(text).unwrap();
    let mut shape = Shape::default();
    shape.keep(frame, "text", &frame[at..at + text.len()], 7);
    shape
}

#[track_caller]
fn check(shape: &Shape<u8>, frame: &str, expect: Option<&str>) {
    let read = shape.read(frame);
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
    check(&shape, r#"{"a":"first","text":"Hello","b":[1,"x"]} "#, None);
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
fn noise_of_any_length_fits() {
    let noisy =
        |text: &str, noise: &str| json!({"text": text, "usage": null, "obfuscation": noise}).to_string();
    let frame = noisy("Hello", "a1b2");
    let shape = learned(&frame, "Hello");
    check(&shape, &noisy("Hi", ""), Some("Hi"));
    check(&shape, &noisy("Hi", "0123456789"), Some("Hi"));
    check(&shape, &noisy("Hi", "a\"b"), None);
    check(&shape, r#"{"text":"Hi","usage":null,"obfuscation":"x","more":1}"#, None);
    check(&shape, r#"{"text":"Hi","usage":null,"obfuscation":"x"#, None);
}

#[test]
fn nothing_is_learned_from_what_does_not_stand_in_the_frame() {
    let mut shape = learned(FRAME, "Hello");
    shape.keep(FRAME, "text", &String::from("Hello"), 7);
    check(&shape, FRAME, None);
    check(&learned(FRAME, "text\":\"Hel"), FRAME, None);
    let mut shape = learned(FRAME, "Hello");
    shape.keep(FRAME, "text", "", 7);
    check(&shape, FRAME, None);
    let large = format!(r#"{{"a":"{}","text":"Hello"}}"#, "x".repeat(MAX_KEPT));
    check(&learned(&large, "Hello"), &large, None);
}

#[test]
fn a_string_with_escapes_is_found_by_its_name() {
    #[track_caller]
    fn check_learned(frame: &str, text: &str, other: Option<&str>) {
        let mut shape = Shape::default();
        shape.keep(frame, "text", text, 7);
        check(&shape, &frame.replace("\\n", "-"), other);
    }
    check_learned(r#"{"a":1,"text":"x\ny"}"#, "x\ny", Some("x-y"));
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
        let frame = r#"{"a":1,"t":"Hello","obfuscation":"zz","b":2}"#;
        let shape = learned(frame, "Hello");
        let string = if raw { format!("\"{text}{tail}\"") } else { json!(text).to_string() };
        let other = format!(r#"{{"a":1,"t":{string},"obfuscation":"z{tail}","b":2}}"#);
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
fn the_first_frame_is_only_met_and_the_second_one_is_learned() {
    let mut shape: Shape<u8> = Shape::default();
    shape.learn(FRAME, "text", &FRAME[21..26], 7);
    check(&shape, FRAME, None);
    shape.learn(FRAME, "text", &FRAME[21..26], 7);
    check(&shape, FRAME, Some("Hello"));
}

#[cfg(feature = "openai-chat")]
#[test]
fn shapes_of_earlier_replies_are_found_and_only_the_newest_are_kept() {
    let shapes: Shapes<u8> = Shapes::new();
    let frame = |n: usize, text: &str| format!(r#"{{"n":{n},"text":"{text}"}}"#);
    let learn = |n: usize| {
        let frame = frame(n, "Hello");
        let at = frame.find("Hello").unwrap();
        shapes.learn(&frame, "text", &frame[at..at + 5], 7)
    };
    let found = |n: usize| shapes.find(&frame(n, "x")).map(|shape| shape.read(&frame(n, "x")).is_some());
    assert_eq!(found(0), None);
    for n in 0..=MAX_SHARED {
        check(&learn(n).unwrap(), &frame(n, "Hi"), Some("Hi"));
    }
    assert_eq!(found(0), None);
    assert!((1..=MAX_SHARED).all(|n| found(n) == Some(true)));
    assert!(shapes.learn(&frame(1, "Hello"), "text", "Hello", 7).is_none(), "it does not stand in the frame");
    assert_eq!(found(1), Some(true));
}
