//! The quick reader and the general one read the same.

use proptest::prelude::*;

use super::*;

const USUAL: &[&str] = &[
    r#"{"id":"c","object":"chat.completion.chunk","created":1764000000,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null}"#,
    r#"{"id": "c", "choices": [{"index": 0, "delta": {"content": "caf\u00e9\n"}, "finish_reason": null}]}"#,
    r#"{"choices":[{"index":0,"delta":{"reasoning_content":"a","reasoning":"b","reasoning_text":"c"}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}},{"index":12,"function":{"arguments":"{\"x\""}}]},"finish_reason":null}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":null},"finish_reason":"tool_calls","done":true}],"error":null}"#,
    r#"{"choices":[{"index":1,"delta":{}}]}"#,
    r#"{"choices":[],"usage":{"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":1},"more":[{}]},"x":1}"#,
    r#"{"choices":[]}"#,
    r#"{"model":null}"#,
    "{}",
];

/// What is not usual is left to the general reader.
const UNUSUAL: &[&str] = &[
    "",
    "[]",
    "{",
    r#"{"choices":[]} "#,
    r#"{"choices":[],"choices":[]}"#,
    r#"{"choices":[],"usage":{"prompt_tokens":"x","completion_tokens":[]}}"#,
    r#"{"error":{"message":"no"}}"#,
    r#"{"choices":[{"index":0},{"index":1}]}"#,
    r#"{"choices":[{"index":00}]}"#,
    r#"{"choices":[{"index":0.5}]}"#,
    r#"{"choices":[{"delta":{"content":[{"text":"x"}]}}]}"#,
    r#"{"choices":[{"delta":{"content":"\ud83c"}}]}"#,
    r#"{"choices":[{"delta":{"content":"a","content":"b"}}]}"#,
    r#"{"choices":[{"message":{"content":"a"}}]}"#,
    r#"{"ch\u006fices":[]}"#,
    r#"{"choices":[],}"#,
];

/// A chunk that nothing came before.
fn chunk(json: &str) -> Option<Chunk<'_>> {
    whole(json).map(|(chunk, _)| chunk)
}

/// Both readers; the quick one may decline.
#[track_caller]
fn compare(json: &str) -> bool {
    let Some(quick) = chunk(json) else { return false };
    let general = serde_json::from_str::<Chunk<'_>>(json);
    assert_eq!(format!("{quick:?}"), format!("{:?}", general.unwrap()), "{json}");
    true
}

#[test]
fn usual_chunks_are_read_as_the_general_reader_reads_them() {
    for json in USUAL {
        assert!(compare(json), "{json}");
    }
}

#[test]
fn a_chunk_that_opens_like_one_before_it_is_read_from_its_choices_on() {
    let first = r#"{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"a"}}],"usage":null}"#;
    let (read, opening) = whole(first).unwrap();
    assert_eq!(read.id.as_str(), "c");
    let opening = opening.unwrap();
    let check = |json: &str, expect: Option<&str>| {
        let read = opening.behind(json).and_then(rest);
        assert_eq!(read.map(|chunk| format!("{:?}", chunk.choices)).as_deref(), expect, "{json}");
    };
    let choices = |json: &str| format!("{:?}", chunk(json).unwrap().choices);
    let second = r#"{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"b"}}]}"#;
    check(second, Some(&choices(second)));
    assert_eq!(opening.behind(r#"{"id":"d","model":"m","choices":[]}"#), None);
    assert_eq!(Opening::default().behind(second), None);
    for repeated in [
        r#"{"id":"c","model":"m","choices":[],"id":"d"}"#,
        r#"{"id":"c","model":"m","choices":[],"choices":[]}"#,
        r#"{"id":"c","model":"m",}"#,
        r#"{"id":"c","model":"m","choices":[]"#,
    ] {
        check(repeated, None);
    }
    // What is read in full each time stands before the choices.
    assert!(whole(r#"{"usage":{"prompt_tokens":1},"choices":[]}"#).unwrap().1.is_none());
    let long = format!(r#"{{"id":"{}","choices":[]}}"#, "x".repeat(MAX_OPENING));
    assert!(whole(&long).unwrap().1.is_none());
}

#[test]
fn whatever_is_unusual_is_left_to_the_general_reader() {
    for json in UNUSUAL {
        assert!(!compare(json), "{json}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// A usual chunk with some of it replaced, left out or put in again.
    #[test]
    fn a_changed_chunk_is_read_the_same_or_left_to_the_general_reader(
        which in 0..USUAL.len(),
        at in any::<prop::sample::Index>(),
        len in 0..12_usize,
        put in r#"["\\,:{}\[\]0-9.eE+\- \nnull]{0,4}|"content":"x",|true|-1|1e2"#,
    ) {
        let json = USUAL[which];
        let start = at.index(json.len());
        let end = (start + len).min(json.len());
        compare(&format!("{}{put}{}", &json[..start], &json[end..]));
        compare(&format!("{}{put}{}", &json[..end], &json[start..]));
    }
}
