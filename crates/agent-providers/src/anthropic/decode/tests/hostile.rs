//! Whatever comes, the decoder neither panics nor loses the rule that a block's events name a block.

use proptest::prelude::*;

use super::*;

#[test]
fn unknown_events_and_deltas_are_counted_and_the_reply_goes_on() {
    let frames = around(
        &[
            r#"{"type":"of_next_year","x":1}"#.to_owned(),
            begin(0, json!({"type": "text", "text": "a"})),
            delta(0, json!({"type": "citations_delta"})),
            delta(0, json!({"type": "of_next_year"})),
            delta(9, json!({"type": "input_json_delta", "partial_json": "{"})),
            r#"{"type":"content_block_start","index":3}"#.to_owned(),
            r#"{"type":"content_block_delta","index":0}"#.to_owned(),
            end(77),
            end(0),
        ],
        "end_turn",
    );
    let read = read(&refs(&frames));
    assert!(read.end.is_ok());
    assert_eq!(read.log.unrecognised(), 6);
    assert_eq!(read.log.snapshot().text(), "a");
}

#[test]
fn text_whose_start_is_missing_is_still_text() {
    let frames = around(&[delta(0, json!({"type": "text_delta", "text": "hi"})), end(0)], "end_turn");
    assert_eq!(read(&refs(&frames)).log.snapshot().text(), "hi");
}

#[test]
fn a_block_that_begins_anew_at_an_open_place_ends_the_first() {
    let text = |t: &str| begin(0, json!({"type": "text", "text": t}));
    let read = read(&refs(&around(&[text("a"), text("b")], "end_turn")));
    assert_eq!(read.log.content().len(), 2);
}

#[test]
fn a_server_tools_input_that_is_no_json_is_counted_and_the_block_kept() {
    let frames = around(
        &[
            begin(0, json!({"type": "server_tool_use", "id": "s", "input": {}})),
            delta(0, json!({"type": "input_json_delta", "partial_json": "{\"cut"})),
            end(0),
        ],
        "end_turn",
    );
    let read = read(&refs(&frames));
    assert_eq!((read.log.unrecognised(), read.log.content().len()), (1, 1));
}

#[test]
fn blocks_that_are_never_closed_do_not_pile_up_without_end() {
    let frames: Vec<String> = (0..1_000).map(|i| begin(i, json!({"type": "text", "text": ""}))).collect();
    let read = read(&refs(&around(&frames, "end_turn")));
    assert!(read.end.unwrap_err().to_string().contains("more than 256 blocks"));
    assert!(read.events.len() < 300);
}

#[test]
fn what_is_no_event_is_an_error_that_may_be_retried() {
    for data in ["", "nonsense", "[1,2]", "\"text\"", "{\"type\":", "12"] {
        let error = read(&[START, data]).end.unwrap_err();
        assert!(error.is_retryable(), "{data}: {error}");
    }
}

/// Splits the pieces of a text, of thinking and of arguments at other places.
fn stream_of(text: &[String], thinking: &[String], arguments: &[String]) -> Vec<String> {
    let mut frames = vec![begin(0, json!({"type": "thinking", "thinking": "", "signature": ""}))];
    frames.extend(thinking.iter().map(|t| delta(0, json!({"type": "thinking_delta", "thinking": t}))));
    frames.push(end(0));
    frames.push(begin(1, json!({"type": "text", "text": ""})));
    frames.extend(text.iter().map(|t| delta(1, json!({"type": "text_delta", "text": t}))));
    frames.push(end(1));
    frames.push(begin(2, json!({"type": "tool_use", "id": "t", "name": "n", "input": {}})));
    frames.extend(arguments.iter().map(|t| delta(2, json!({"type": "input_json_delta", "partial_json": t}))));
    frames.push(end(2));
    around(&frames, "tool_use")
}

fn pieces() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec("\\PC{0,6}", 0..6)
}

/// JSON that looks like the vendor's at some places.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("message_start"),
        Just("content_block_start"),
        Just("content_block_delta"),
        Just("content_block_stop"),
        Just("message_delta"),
        Just("message_stop"),
        Just("error"),
        Just("ping"),
        Just("text"),
        Just("text_delta"),
        Just("tool_use"),
        Just("thinking"),
        Just("input_json_delta"),
        Just("redacted_thinking"),
        Just("citations_delta"),
        Just("compaction_delta"),
        Just("server_tool_use"),
        Just("end_turn"),
        Just("refusal"),
    ];
    let key = prop_oneof![
        Just("type"),
        Just("index"),
        Just("message"),
        Just("content_block"),
        Just("delta"),
        Just("usage"),
        Just("error"),
        Just("text"),
        Just("input"),
        Just("partial_json"),
        Just("id"),
        Just("content"),
        Just("stop_reason"),
        Just("input_tokens"),
        Just("citation"),
        Just("citations"),
        Just("details"),
        Just("stop_details"),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0_u64..3).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            proptest::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|m| Value::Object(m.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
        ]
    })
}

proptest! {
    /// B-116.
    #[test]
    fn however_a_reply_is_cut_into_deltas_it_is_the_same_reply(
        text in pieces(), thinking in pieces(), arguments in pieces(),
    ) {
        let cut = read(&refs(&stream_of(&text, &thinking, &arguments)));
        let whole = read(&refs(&stream_of(&[text.concat()], &[thinking.concat()], &[arguments.concat()])));
        prop_assert_eq!(cut.log.content(), whole.log.content());
        prop_assert_eq!(cut.log.snapshot().text(), text.concat());
        prop_assert_eq!(cut.log.usage(), whole.log.usage());
        let call = cut.log.content().last().and_then(|c| c.as_tool_call().cloned()).unwrap();
        prop_assert_eq!(call.arguments.text(), arguments.concat());
    }

    #[test]
    fn no_frame_makes_the_decoder_panic(frames in proptest::collection::vec(any_json(), 0..6), tail in "\\PC{0,20}") {
        let mut texts: Vec<String> = frames.iter().map(ToString::to_string).collect();
        texts.insert(0, START.to_owned());
        texts.push(tail);
        let read = read(&refs(&texts));
        // Every block that ended had begun, and numbers grow by one.
        let mut begun = 0;
        for event in &read.events {
            if let Event::TextStart { index } | Event::ThinkingStart { index } | Event::ToolCallStart { index, .. } = event {
                prop_assert!(*index >= begun);
                begun = *index;
            }
        }
        let mut decoder = Decoder::new(&request());
        let _ = decoder.whole(&texts.join(""), &mut |_| {});
        let _ = decoder.whole(&texts[texts.len() / 2], &mut |_| {});
    }
}
