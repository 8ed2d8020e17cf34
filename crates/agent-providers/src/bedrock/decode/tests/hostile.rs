//! Whatever comes, the decoder neither panics nor loses the rule that a block's events name a block.

use proptest::prelude::*;

use super::*;

#[test]
fn a_block_changes_its_kind_by_becoming_another_block() {
    let frames = around(
        vec![
            delta(0, json!({"reasoningContent": {"text": "hm"}})),
            delta(0, json!({"text": "Hi"})),
            begin(0, json!({"toolUse": {"toolUseId": "t", "name": "n"}})),
            delta(0, json!({"text": "and"})),
            end(0),
        ],
        "tool_use",
    );
    let read = read(&frames);
    assert_eq!(read.log.content().len(), 4);
    assert_eq!(read.log.snapshot().text(), "Hiand");
}

#[test]
fn an_empty_start_is_no_block() {
    let frames = around(vec![begin(0, json!({})), delta(0, json!({"text": "a"})), end(0)], "end_turn");
    assert_eq!(read(&frames).log.content(), [Content::text("a")]);
}

#[test]
fn a_server_tools_input_that_is_no_json_is_counted_and_the_block_kept() {
    let start = json!({"toolUse": {"toolUseId": "s", "name": "n", "type": "server_tool_use"}});
    let frames =
        around(vec![begin(0, start), delta(0, json!({"toolUse": {"input": "{\"cut"}})), end(0)], "end_turn");
    let read = read(&frames);
    assert_eq!((read.log.unrecognised(), read.log.content().len()), (1, 1));
}

#[test]
fn blocks_that_are_never_closed_do_not_pile_up_without_end() {
    let frames = (0..1_000).map(|at| delta(at, json!({"text": "a"}))).collect();
    let read = read(&around(frames, "end_turn"));
    assert!(read.end.unwrap_err().to_string().contains("more than 256 blocks"));
    assert!(read.events.len() < 600);
}

#[test]
fn what_is_no_event_is_an_error_that_may_be_retried() {
    for data in ["", "nonsense", "\"text\"", "{\"delta\":", "12"] {
        let frames = vec![(Some("contentBlockDelta"), data.to_owned())];
        let error = read(&frames).end.unwrap_err();
        assert!(error.is_retryable(), "{data}: {error}");
    }
}

fn stream_of(text: &[String], thinking: &[String], arguments: &[String]) -> Frames {
    let mut frames: Frames =
        thinking.iter().map(|t| delta(0, json!({"reasoningContent": {"text": t}}))).collect();
    frames.push(end(0));
    frames.extend(text.iter().map(|t| delta(1, json!({"text": t}))));
    frames.push(end(1));
    frames.push(begin(2, json!({"toolUse": {"toolUseId": "t", "name": "n"}})));
    frames.extend(arguments.iter().map(|t| delta(2, json!({"toolUse": {"input": t}}))));
    frames.push(end(2));
    around(frames, "tool_use")
}

fn pieces() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec("\\PC{0,6}", 0..6)
}

/// JSON that looks like the vendor's at some places.
fn any_json() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        Just("contentBlockIndex"),
        Just("delta"),
        Just("start"),
        Just("text"),
        Just("toolUse"),
        Just("toolUseId"),
        Just("toolResult"),
        Just("name"),
        Just("type"),
        Just("input"),
        Just("reasoningContent"),
        Just("reasoningText"),
        Just("signature"),
        Just("redactedContent"),
        Just("stopReason"),
        Just("usage"),
        Just("inputTokens"),
        Just("trace"),
        Just("output"),
        Just("message"),
        Just("content"),
        Just("contentBlockDelta"),
        Just("messageStop"),
        Just("throttlingException"),
        Just("p"),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0_u64..3).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(Value::from("server_tool_use")),
        Just(Value::from("end_turn")),
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

fn any_name() -> impl Strategy<Value = Option<&'static str>> {
    prop_oneof![
        Just(None),
        Just(Some("messageStart")),
        Just(Some("contentBlockStart")),
        Just(Some("contentBlockDelta")),
        Just(Some("contentBlockStop")),
        Just(Some("messageStop")),
        Just(Some("metadata")),
        Just(Some("ofNextYear")),
    ]
}

proptest! {
    /// B-116.
    #[test]
    fn however_a_reply_is_cut_into_deltas_it_is_the_same_reply(
        text in pieces(), thinking in pieces(), arguments in pieces(),
    ) {
        let cut = read(&stream_of(&text, &thinking, &arguments));
        let whole = read(&stream_of(&[text.concat()], &[thinking.concat()], &[arguments.concat()]));
        prop_assert_eq!(cut.log.content(), whole.log.content());
        prop_assert_eq!(cut.log.snapshot().text(), text.concat());
        prop_assert_eq!(cut.log.usage(), whole.log.usage());
        let call = cut.log.content().last().and_then(|c| c.as_tool_call().cloned()).unwrap();
        prop_assert_eq!(call.arguments.text(), arguments.concat());
    }

    #[test]
    fn no_event_makes_the_decoder_panic(
        events in proptest::collection::vec((any_name(), any_json()), 0..8), tail in "\\PC{0,20}",
    ) {
        let mut frames: Frames = events.into_iter().map(|(name, json)| (name, json.to_string())).collect();
        let body: String = frames.iter().map(|(_, data)| format!("{data}\n")).collect();
        let first = frames.first().map(|(_, data)| data.clone()).unwrap_or_default();
        frames.push((Some("contentBlockDelta"), tail));
        let read = read(&frames);
        // Numbers grow by one, and what ends had begun.
        let mut begun = 0;
        for event in &read.events {
            match event {
                Event::TextStart { index } | Event::ThinkingStart { index } | Event::ToolCallStart { index, .. } => {
                    prop_assert!(*index >= begun);
                    begun = *index;
                }
                _ => {}
            }
        }
        let mut decoder = Decoder::new(&request());
        let _ = decoder.whole(&body, &mut |_| {});
        let _ = decoder.whole(&first, &mut |_| {});
        let _ = decoder.failed(Frame { event: Some("someException"), data: &first });
    }
}
