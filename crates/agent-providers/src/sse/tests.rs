//! Framing cases, and the law that the way the bytes are split does not matter.

use super::*;
use proptest::prelude::*;

type Seen = Vec<(Option<String>, String)>;

fn decode(pieces: &[&[u8]]) -> Seen {
    let mut decoder = SseDecoder::new(1 << 20);
    let mut seen = Seen::new();
    let mut on = |frame: Frame<'_>| -> Result<Flow, ()> {
        seen.push((frame.event.map(str::to_owned), frame.data.to_owned()));
        Ok(Flow::More)
    };
    for piece in pieces {
        decoder.feed(piece, &mut on).unwrap();
    }
    decoder.end(&mut on).unwrap();
    seen
}

/// Whole, in single bytes, and cut in two at every place.
#[track_caller]
fn check(stream: &[u8], expect: &[(Option<&str>, &str)]) {
    let expect: Seen = expect.iter().map(|(e, d)| (e.map(str::to_owned), (*d).to_owned())).collect();
    assert_eq!(decode(&[stream]), expect, "whole: {:?}", String::from_utf8_lossy(stream));
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(decode(&bytes), expect, "in single bytes");
    for at in 0..=stream.len() {
        let (a, b) = stream.split_at(at);
        assert_eq!(decode(&[a, b]), expect, "cut at {at}");
    }
}

/// B-121.
#[test]
fn framing_follows_the_standard_however_the_bytes_are_split() {
    check(b"data: a\n\ndata: b\n\n", &[(None, "a"), (None, "b")]);
    check(b"data: a\r\n\r\ndata: b\r\n\r\n", &[(None, "a"), (None, "b")]);
    check(b"data: a\r\rdata: b\r\r", &[(None, "a"), (None, "b")]);
    check(b"data: a\r\n\ndata: b\n\r\n", &[(None, "a"), (None, "b")]);
    check(b"\xEF\xBB\xBFdata: a\n\n", &[(None, "a")]);
    check(b": comment\n\n:\n\ndata: a\n: in between\n\n", &[(None, "a")]);
    check(b"data: a\ndata: b\ndata: c\n\n", &[(None, "a\nb\nc")]);
    check(b"event: ping\ndata: {}\n\ndata: x\n\n", &[(Some("ping"), "{}"), (None, "x")]);
    check(b"event: ping\n\ndata: x\n\n", &[(None, "x")]);
    check(b"data:a\ndata:  b\n\n", &[(None, "a\n b")]);
    check(b"data\ndata\n\n", &[(None, "\n")]);
    check(b"data\n\n", &[(None, "")]);
    check(b"database: 1\nevents: 2\ndata: x\n\n", &[(None, "x")]);
    check(b"id: 1\0\nretry: 10\ndata: x\n\n", &[(None, "x")]);
    check("data: grüße 🎉\n\n".as_bytes(), &[(None, "grüße 🎉")]);
    check(b"data: a\n\ndata: last", &[(None, "a"), (None, "last")]);
    check(b"data: a\n\ndata: last\n", &[(None, "a"), (None, "last")]);
    check(b"\n\n\r\n\n", &[]);
    check(b"data: \xff\n\n", &[(None, "\u{FFFD}")]);
    check(b"data: one\n\nevent: x\ndata: two\ndata: 3", &[(None, "one"), (Some("x"), "two\n3")]);
}

#[test]
fn a_reader_that_is_done_gets_nothing_more() {
    let mut decoder = SseDecoder::new(100);
    let mut count = 0;
    let mut on = |_: Frame<'_>| -> Result<Flow, ()> {
        count += 1;
        Ok(Flow::Done)
    };
    assert_eq!(decoder.feed(b"data: a\n\ndata: b\n\n", &mut on).unwrap(), Flow::Done);
    assert_eq!(count, 1);
}

#[test]
fn an_event_over_the_bound_is_an_error_in_one_line_and_in_many() {
    let mut on = |_: Frame<'_>| -> Result<Flow, ()> { Ok(Flow::More) };
    let line = format!("data: {}\n\n", "x".repeat(200));
    assert!(matches!(
        SseDecoder::new(100).feed(line.as_bytes(), &mut on),
        Err(Cut::TooLong(TooLong { limit: 100 }))
    ));
    let mut decoder = SseDecoder::new(100);
    let fed = (0..20).try_for_each(|_| decoder.feed(b"data: ten bytes..\n", &mut on).map(|_| ()));
    assert!(matches!(fed, Err(Cut::TooLong(_))));
    let mut decoder = SseDecoder::new(100);
    let fed = (0..200).try_for_each(|_| decoder.feed(b"x", &mut on).map(|_| ()));
    assert!(matches!(fed, Err(Cut::TooLong(_))));
}

#[test]
fn a_long_line_in_small_pieces_is_joined() {
    let line = format!("data: {}\n\n", "y".repeat(700_000));
    let pieces: Vec<&[u8]> = line.as_bytes().chunks(1_460).collect();
    let seen = decode(&pieces);
    assert_eq!((seen.len(), seen[0].1.len()), (1, 700_000));
}

#[test]
fn a_data_line_within_one_piece_is_borrowed_from_it() {
    let piece = b"data: abc\n\n";
    let mut inside = false;
    let mut on = |frame: Frame<'_>| -> Result<Flow, ()> {
        inside = piece.as_ptr_range().contains(&frame.data.as_ptr());
        Ok(Flow::More)
    };
    SseDecoder::new(100).feed(piece, &mut on).unwrap();
    assert!(inside);
}

proptest! {
    /// B-121.
    #[test]
    fn any_split_of_any_bytes_gives_the_same_events(
        stream in prop::collection::vec(prop_oneof![
            Just(&b"data: "[..]), Just(&b"data"[..]), Just(&b"event: e"[..]), Just(&b"\n"[..]), Just(&b"\r"[..]),
            Just(&b"\r\n"[..]), Just(&b":"[..]), Just("é🎉".as_bytes()), Just(&b"\xF0\x9F"[..]), Just(&b"x y"[..]),
        ], 0..40).prop_map(|parts| parts.concat()),
        cuts in prop::collection::vec(0.0_f64..1.0, 0..8),
    ) {
        let mut at: Vec<usize> = cuts.iter().map(|c| (c * stream.len() as f64) as usize).collect();
        at.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for to in at.into_iter().chain([stream.len()]) {
            pieces.push(&stream[from..to]);
            from = to;
        }
        prop_assert_eq!(decode(&pieces), decode(&[&stream]));
    }
}

#[track_caller]
fn check_bare(stream: &[u8], expect: &[&str]) {
    for at in 0..=stream.len() {
        let (a, b) = stream.split_at(at);
        let mut decoder = SseDecoder::new(1 << 20).with_bare_json();
        let mut seen = Vec::new();
        let mut on = |frame: Frame<'_>| -> Result<Flow, ()> {
            seen.push(frame.data.to_owned());
            Ok(Flow::More)
        };
        decoder.feed(a, &mut on).unwrap();
        decoder.feed(b, &mut on).unwrap();
        decoder.end(&mut on).unwrap();
        assert_eq!(seen, expect, "cut at {at}: {:?}", String::from_utf8_lossy(stream));
    }
}

/// B-121.
#[test]
fn json_without_a_field_name_counts_where_it_is_asked_for() {
    check_bare(b"data: a\n\n{\n \"e\": 1\n}\n", &["a", "{\n \"e\": 1\n}"]);
    check_bare(b"data: a\r\n\r\n[{\"e\": 1}]", &["a", "[{\"e\": 1}]"]);
    check_bare(b"{\"e\":\ndata: 1}\n\ndata: b\n\n", &["{\"e\":\ndata: 1}", "b"]);
    check_bare(b"data: {\ndata: }\n{\n\n", &["{\n}"]);
    check(b"data: a\n\n{\n \"e\": 1\n}\n", &[(None, "a")]);
}
