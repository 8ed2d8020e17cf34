//! Whatever comes, the decoder neither panics nor mixes blocks, and ends.

use proptest::prelude::*;

use super::*;
use crate::sse::SseDecoder;

#[test]
fn what_is_no_event_is_an_error_that_may_be_retried() {
    for data in ["nonsense", "[1,2]", "\"text\"", "{\"type\":", "12"] {
        let error = read_texts(&[data]).end.unwrap_err();
        assert!(error.is_retryable(), "{data}: {error}");
    }
}

#[test]
fn marks_that_the_vendor_does_not_send_are_passed_over() {
    let done = completed(json!([message("m", "a")])).to_string();
    let read = read_texts(&["", "{\"type\":\"keepalive\"}", &done]);
    assert_eq!((read.log.snapshot().text().as_str(), read.log.unrecognised()), ("a", 0));
}

#[test]
fn events_that_fit_no_item_are_counted_and_the_reply_goes_on() {
    let read = read(&[
        done(0, message("m", "a")),
        text_delta(0, "late"),
        added(1, call("fc_1", "call_1", "")),
        text_delta(1, "text for a call"),
        json!({"type": "response.output_item.added"}),
        json!({"type": "response.output_item.done"}),
        json!({"type": "response.content_part.done", "output_index": 0, "part": {"type": "of_next_year"}}),
        json!({"type": "response.output_text.annotation.added", "output_index": 0, "annotation": {}}),
        completed(json!([])),
    ]);
    assert_eq!(read.log.snapshot().text(), "a");
    assert_eq!(read.log.unrecognised(), 5);
    assert!(read.end.is_ok());
}

#[test]
fn items_and_parts_do_not_pile_up_without_end() {
    let items: Vec<Value> = (0..5_000).map(|n| added(n, json!({"type": "message"}))).collect();
    assert!(read(&items).end.unwrap_err().to_string().contains("more than 4096"));
    let part = |n: u64| json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": n, "delta": "x"});
    let parts: Vec<Value> = (0..5_000).map(part).collect();
    assert!(read(&parts).end.unwrap_err().to_string().contains("more than 4096"));
}

/// B-146.
#[test]
fn half_an_emoji_at_the_end_of_a_delta_is_joined_with_its_other_half() {
    let frame = |text: &str| {
        format!(
            r#"{{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"{text}"}}"#
        )
    };
    let end = completed(json!([])).to_string();
    let read = read_texts(&[&frame(r"a\ud83c"), &frame(r"\udf89b"), &end]);
    assert_eq!(read.log.snapshot().text(), "a🎉b");
}

/// B-146.
#[test]
fn half_an_emoji_in_an_item_of_any_kind_is_replaced() {
    let item =
        |item: &str| format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{item}}}"#);
    let end = completed(json!([])).to_string();
    let search = item(r#"{"type":"file_search_call","id":"fs_1","results":[{"text":"a\ud83cb"}]}"#);
    let kept = read_texts(&[&search, &end]).content();
    let expected = json!({"type": "file_search_call", "id": "fs_1", "results": [{"text": "a\u{FFFD}b"}]});
    assert_eq!(kept, [Content::opaque("file_search_call", expected)]);
    let said = item(r#"{"type":"message","content":[{"type":"output_text","text":"a\ud83cb"}]}"#);
    assert_eq!(read_texts(&[&said, &end]).log.snapshot().text(), "a\u{FFFD}b");
}

#[test]
fn an_item_of_an_unknown_form_is_counted_and_the_reply_goes_on() {
    let read = read(&[done(0, json!({"type": "message", "content": "a text"})), completed(json!([]))]);
    assert_eq!(read.log.unrecognised(), 1);
    assert!(read.end.is_ok());
}

/// Frames that differ in text, noise and number only are read the short way, with the same result.
#[test]
fn usual_deltas_are_read_the_short_way() {
    let frame = |n: usize, text: &str, noise: &str| {
        format!(
            r#"{{"type":"response.output_text.delta","sequence_number":{n},"item_id":"m","output_index":0,"content_index":0,"delta":"{text}","logprobs":[],"obfuscation":"{noise}"}}"#
        )
    };
    let mut decoder = decoder();
    let mut log = ReplyLog::new();
    let mut sink = |event: StreamEvent<'_>| log.push(&event);
    let mut push = |text: &str| decoder.push(Frame { event: None, data: text }, &mut sink).unwrap();
    push(&frame(9, "a", "xx"));
    push(&frame(10, "b\\n", "yyyyy"));
    push(&frame(11, "", ""));
    let short = decoder.shape.read(&frame(100, "c", "z")).is_some();
    assert!(short && log.snapshot().text() == "ab\n");
}

/// The bytes of a reply with everything in it.
fn stream() -> Vec<u8> {
    let frames = [
        json!({"type": "response.created", "response": {"id": "r"}}),
        added(0, json!({"type": "reasoning", "id": "rs_1", "summary": []})),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "hm 🤔"}),
        done(
            0,
            json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm 🤔"}],
            "encrypted_content": "e"}),
        ),
        added(1, json!({"type": "message", "id": "msg_1"})),
        text_delta(1, "Grüße "),
        added(2, call("fc_1", "call_1", "")),
        text_delta(1, "東京"),
        arguments(2, "{\"ü\":"),
        text_delta(1, "!"),
        arguments(2, "1}"),
        done(1, message("msg_1", "Grüße 東京!")),
        done(2, call("fc_1", "call_1", "{\"ü\":1}")),
        completed(json!([])),
    ];
    let mut out = String::new();
    for frame in frames {
        out.push_str(&format!("event: {}\r\ndata: {frame}\r\n\r\n", frame["type"].as_str().unwrap()));
    }
    out.into_bytes()
}

fn decode(pieces: &[&[u8]]) -> Read {
    run(|decoder, sink| {
        let mut sse = SseDecoder::new(1 << 20);
        let mut reader = |frame: Frame<'_>| decoder.push(frame, sink);
        for piece in pieces {
            match sse.feed(piece, &mut reader) {
                Ok(Flow::Done) => return Ok(()),
                Ok(Flow::More) => {}
                Err(crate::lines::Cut::Reader(error)) => return Err(error),
                Err(_) => break,
            }
        }
        Ok(())
    })
}

proptest! {
    /// B-121.
    #[test]
    fn any_split_gives_the_same_events(mut cuts in proptest::collection::vec(0_usize..4_000, 0..12)) {
        let bytes = stream();
        cuts.retain(|cut| *cut < bytes.len());
        cuts.sort_unstable();
        cuts.insert(0, 0);
        cuts.push(bytes.len());
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
        let (cut, whole) = (decode(&pieces), decode(&[&bytes]));
        prop_assert_eq!(&cut.events, &whole.events);
        prop_assert_eq!(cut.end.unwrap().content, whole.end.unwrap().content);
    }

    #[test]
    fn any_bytes_at_all_end(bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0_usize..4_000) {
        let mut stream = stream();
        let at = at.min(stream.len());
        stream.splice(at..at, bytes);
        let read = decode(&[&stream]);
        prop_assert!(read.events.len() < 1_000);
    }

    #[test]
    fn any_order_of_events_ends(order in proptest::collection::vec(0_usize..20, 0..40)) {
        let text = String::from_utf8(stream()).unwrap();
        let frames: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("data: ")).collect();
        let chosen: Vec<&str> = order.iter().filter_map(|n| frames.get(*n)).copied().collect();
        let read = read_texts(&chosen);
        let ends = read.events.iter().filter_map(|event| match event {
            OwnedStreamEvent::BlockEnd { index } => Some(*index),
            _ => None,
        });
        let mut ends: Vec<u32> = ends.collect();
        let count = ends.len();
        ends.sort_unstable();
        ends.dedup();
        prop_assert_eq!(ends.len(), count, "a block ends once");
    }
}
