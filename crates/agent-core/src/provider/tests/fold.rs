//! From a stream to a message.

use std::cell::Cell;
use std::cmp::Ordering;

use proptest::prelude::*;
use serde_json::json;

use crate::message::{Citation, CitationSource, Content, StopReason, Usage};
use crate::provider::fold::BlockIndex;
use crate::provider::{Completion, MAX_REPLY_BYTES, ReplyLimit, ReplyLog, StreamEvent};

thread_local! {
    static COMPARISONS: Cell<u64> = const { Cell::new(0) };
}

impl PartialEq for BlockIndex {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for BlockIndex {}

impl PartialOrd for BlockIndex {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for BlockIndex {
    fn cmp(&self, other: &Self) -> Ordering {
        COMPARISONS.set(COMPARISONS.get() + 1);
        self.0.cmp(&other.0)
    }
}

fn log_of(events: &[StreamEvent<'_>]) -> ReplyLog {
    let mut log = ReplyLog::new();
    for event in events {
        log.push(event);
    }
    log
}

fn text(index: u32, delta: &str) -> StreamEvent<'_> {
    StreamEvent::TextDelta { index, delta }
}

fn call<'a>(index: u32, id: &'a str, name: &'a str) -> StreamEvent<'a> {
    StreamEvent::ToolCallStart { index, id, name }
}

fn args(index: u32, delta: &str) -> StreamEvent<'_> {
    StreamEvent::ToolCallDelta { index, delta }
}

/// B-012.
#[test]
fn a_snapshot_never_changes() {
    let mut log = ReplyLog::new();
    let mut snapshots = vec![log.snapshot()];
    for piece in ["a", "b", "c"] {
        log.push(&text(0, piece));
        snapshots.push(log.snapshot());
    }
    log.push(&call(1, "c1", "bash"));
    log.push(&StreamEvent::Opaque { index: 2, kind: "k", data: &json!(1) });
    let texts: Vec<String> = snapshots.iter().map(super::super::MessageSnapshot::text).collect();
    assert_eq!(texts, ["", "a", "ab", "abc"]);
    assert!(snapshots.iter().all(|s| s.content().len() <= 1));
    assert_eq!(log.snapshot().content().len(), 3);
    assert_eq!(snapshots[2].to_message().text(), "ab");
    assert_ne!(snapshots[1], snapshots[2]);
    assert_eq!(snapshots[1], log_of(&[text(0, "a")]).snapshot());
}

/// B-116.
#[test]
fn blocks_that_arrive_mixed_are_put_together_in_order() {
    let log = log_of(&[
        StreamEvent::Start { response_id: Some("r1"), model: Some("m1") },
        call(2, "c1", "bash"),
        StreamEvent::ThinkingStart { index: 0 },
        StreamEvent::ThinkingDelta { index: 0, delta: "hm" },
        args(2, "{\"a\""),
        text(1, "He"),
        StreamEvent::ThinkingSignature { index: 0, delta: "si" },
        StreamEvent::ThinkingSignature { index: 0, delta: "g" },
        text(1, "llo"),
        args(2, ":1}"),
        StreamEvent::BlockEnd { index: 0 },
        StreamEvent::BlockEnd { index: 1 },
        StreamEvent::BlockEnd { index: 2 },
        StreamEvent::RedactedThinking { index: 3, data: "opaque" },
        StreamEvent::Opaque { index: 4, kind: "web", data: &json!({"q": 1}) },
        StreamEvent::Unrecognised { name: "new" },
        StreamEvent::Usage(Usage::new(1, 0, 0, 0)),
        StreamEvent::Usage(Usage::new(1, 5, 0, 0)),
    ]);
    let blocks = [
        Content::thinking("hm", Some("sig".into())),
        Content::text("Hello"),
        Content::tool_call("c1", "bash", json!({"a": 1})),
        Content::redacted_thinking("opaque"),
        Content::opaque("web", json!({"q": 1})),
    ];
    assert_eq!(log.content(), blocks);
    assert_eq!(log.partial_content(), blocks);
    assert_eq!((log.response_id().as_deref(), log.model().as_deref()), (Some("r1"), Some("m1")));
    assert_eq!((log.usage().output, log.unrecognised()), (5, 1));
    let message = log.finish("p", "asked", &Completion::new(StopReason::ToolUse));
    assert_eq!((message.provider.as_str(), message.model.as_str()), ("p", "asked"));
    assert_eq!((message.usage.total_tokens, message.response_id.as_deref()), (6, Some("r1")));
}

#[test]
fn an_id_or_name_that_comes_late_is_taken_and_one_that_comes_again_is_not() {
    let log = log_of(&[
        call(0, "", ""),
        args(0, "{"),
        call(0, "", "bash"),
        call(0, "c1", ""),
        args(0, "}"),
        call(0, "c2", "other"),
    ]);
    assert_eq!(log.content(), [Content::tool_call("c1", "bash", json!({}))]);
    // A later answer of the server does not take away what an earlier one said.
    let start = |response_id, model| StreamEvent::Start { response_id, model };
    let log = log_of(&[start(Some("r1"), None), start(None, Some("m1"))]);
    assert_eq!((log.response_id().as_deref(), log.model().as_deref()), (Some("r1"), Some("m1")));
}

#[test]
fn a_delta_without_a_start_opens_its_block_and_an_end_without_one_opens_none() {
    let log = log_of(&[
        StreamEvent::BlockEnd { index: 7 },
        text(1, "b"),
        StreamEvent::TextSignature { index: 1, delta: "s" },
        args(2, "{}"),
    ]);
    let blocks = log.content();
    assert_eq!(blocks.len(), 2);
    assert_eq!(blocks[0].as_text(), Some("b"));
    assert!(blocks[1].as_tool_call().is_some());
    assert_eq!(log_of(&[StreamEvent::TextStart { index: 0 }]).content(), [], "an empty block is none");
}

/// B-063.
#[test]
fn of_a_reply_that_broke_off_only_what_can_be_seen_and_used_stays() {
    let log = log_of(&[
        StreamEvent::TextStart { index: 0 },
        text(0, " \n"),
        StreamEvent::ThinkingStart { index: 1 },
        call(2, "c1", ""),
        StreamEvent::BlockEnd { index: 2 },
    ]);
    assert_eq!(log.partial_content(), []);

    let log = log_of(&[
        text(0, "Half a sen"),
        call(1, "c1", "bash"),
        args(1, "{}"),
        StreamEvent::BlockEnd { index: 1 },
        call(2, "c2", "bash"),
        args(2, "{\"a"),
    ]);
    assert_eq!(
        log.partial_content(),
        [Content::text("Half a sen"), Content::tool_call("c1", "bash", json!({}))]
    );
    let open = log.open_calls();
    assert_eq!(
        open.iter().map(|c| (c.id.as_str(), c.arguments.text())).collect::<Vec<_>>(),
        [("c2", "{\"a")]
    );
    assert_eq!(log.content().len(), 3, "the whole of what arrived is still there");
}

/// B-126.
#[test]
fn a_reply_with_calls_stopped_for_them_and_one_without_did_not() {
    let with = log_of(&[call(0, "c1", "bash"), StreamEvent::BlockEnd { index: 0 }]);
    let without = log_of(&[text(0, "x")]);
    let ends = |log: &ReplyLog, reason| log.finish("p", "m", &Completion::new(reason)).stop_reason;
    assert_eq!(ends(&with, StopReason::Stop), StopReason::ToolUse);
    assert_eq!(ends(&with, StopReason::Length), StopReason::Length);
    assert_eq!(ends(&with, StopReason::Paused), StopReason::ToolUse, "the results continue it");
    assert_eq!(ends(&without, StopReason::Paused), StopReason::Paused);
    assert_eq!(ends(&without, StopReason::ToolUse), StopReason::Stop);
    assert_eq!(ends(&without, StopReason::Length), StopReason::Length);
}

proptest! {
    /// B-116, B-012.
    #[test]
    fn any_deltas_of_any_blocks_add_up_and_early_snapshots_stay(pieces in prop::collection::vec((0..4_u32, "\\PC{0,4}"), 0..60)) {
        let mut log = ReplyLog::new();
        let mut whole = [const { String::new() }; 4];
        let mut seen = Vec::new();
        for (index, delta) in &pieces {
            log.push(&text(*index, delta));
            whole[*index as usize].push_str(delta);
            seen.push((log.snapshot(), whole.concat()));
        }
        for (snapshot, text) in seen {
            prop_assert_eq!(snapshot.text(), text);
        }
        let texts: Vec<&str> = whole.iter().map(String::as_str).filter(|t| !t.is_empty()).collect();
        let content = log.content();
        prop_assert_eq!(content.iter().filter_map(Content::as_text).collect::<Vec<_>>(), texts);
    }
}

/// It is kept as long as its conversation.
#[test]
fn a_reply_holds_no_more_room_than_its_blocks_take() {
    let mut log = ReplyLog::new();
    log.push(&StreamEvent::ToolCallStart { index: 0, id: "a", name: "f" });
    for delta in ["{\"path\":", "\"x\"", "}"] {
        log.push(&StreamEvent::ToolCallDelta { index: 0, delta });
    }
    log.push(&StreamEvent::BlockEnd { index: 0 });
    for content in [log.content(), log.partial_content(), log.snapshot().content()] {
        assert_eq!((content.len(), content.capacity()), (1, 1));
    }
}

/// The shapes of a reply with many blocks: one after the other, all open at once with interleaved deltas, and in the
/// opposite order.
fn shapes(blocks: u32) -> [Vec<StreamEvent<'static>>; 3] {
    let whole = |index| [call(index, "c", "bash"), args(index, "{}"), StreamEvent::BlockEnd { index }];
    let rounds = |piece: fn(u32) -> StreamEvent<'static>| (0..blocks).map(piece);
    let interleaved = rounds(|index| call(index, "c", "bash"))
        .chain(rounds(|index| args(index, "{")))
        .chain(rounds(|index| args(index, "}")))
        .chain(rounds(|index| StreamEvent::BlockEnd { index }));
    [
        (0..blocks).flat_map(whole).collect(),
        interleaved.collect(),
        (0..blocks).rev().flat_map(whole).collect(),
    ]
}

/// B-123.
#[test]
fn the_work_of_a_reply_grows_linearly_with_its_events_whatever_their_blocks() {
    let comparisons = |events: &[StreamEvent<'_>], blocks: usize| {
        COMPARISONS.set(0);
        let log = log_of(events);
        let snapshot = log.snapshot();
        assert_eq!(snapshot.content().len(), blocks);
        assert_eq!(log.partial_content().len(), blocks);
        assert_eq!(log.finish("p", "m", &Completion::new(StopReason::Stop)).content.len(), blocks);
        assert!(log.open_calls().is_empty());
        COMPARISONS.get()
    };
    for (n, events) in shapes(200).iter().enumerate() {
        // A lookup in an ordered map of 200 blocks takes at most 30 comparisons.
        let count = comparisons(events, 200);
        assert!(
            count <= 30 * events.len() as u64,
            "shape {n}: {count} comparisons for {} events",
            events.len()
        );
    }
}

#[test]
fn citations_belong_to_their_text() {
    let citation = |url: &str| Citation::new(CitationSource::Url { url: url.into() });
    let mut log = ReplyLog::new();
    for event in [
        StreamEvent::TextDelta { index: 0, delta: "So " },
        StreamEvent::Citation { index: 0, citation: &citation("a") },
        StreamEvent::TextDelta { index: 1, delta: "it is." },
        StreamEvent::Citation { index: 1, citation: &citation("b") },
        StreamEvent::TextDelta { index: 0, delta: "far" },
        StreamEvent::Citation { index: 0, citation: &citation("c") },
    ] {
        log.push(&event);
    }
    let of = |content: &Content| match content {
        Content::Text(text) => (text.text.clone(), text.citations.clone()),
        other => panic!("{other:?}"),
    };
    let found: Vec<_> = log.content().iter().map(of).collect();
    assert_eq!(
        found,
        [
            ("So far".to_owned(), vec![citation("a"), citation("c")]),
            ("it is.".to_owned(), vec![citation("b")])
        ]
    );
    // A snapshot of an earlier moment has those of that moment.
    let mut log = ReplyLog::new();
    log.push(&StreamEvent::TextDelta { index: 0, delta: "So" });
    let before = log.snapshot();
    log.push(&StreamEvent::Citation { index: 0, citation: &citation("a") });
    assert!(of(&before.content()[0]).1.is_empty());
    assert_eq!(of(&log.snapshot().content()[0]).1.len(), 1);
}

#[test]
fn citations_count_towards_the_size_of_a_reply() {
    let huge = Citation::new(CitationSource::Other).with_cited_text("x".repeat(MAX_REPLY_BYTES - 64));
    let mut log = ReplyLog::new();
    log.push(&StreamEvent::Citation { index: 0, citation: &huge });
    assert_eq!(log.exceeded(), None);
    log.push(&StreamEvent::Citation { index: 0, citation: &huge });
    assert_eq!(log.exceeded(), Some(ReplyLimit::Bytes));
}
