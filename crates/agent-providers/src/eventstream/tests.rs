use agent_core::{Completion, ErrorKind, EventSink, ProviderError, StreamEvent};
use proptest::prelude::*;

use super::*;
use crate::protocol::{Decode, Flow, Frame};

/// A frame with these headers of text.
pub(crate) fn frame(headers: &[(&str, &str)], payload: &str) -> Vec<u8> {
    let text = |t: &str| HeaderValue::String(t.to_owned().into());
    let headers = headers.iter().map(|(name, value)| Header::new((*name).to_owned(), text(value))).collect();
    let mut out = Vec::new();
    let message = Message::new_from_parts(headers, payload.as_bytes().to_vec());
    aws_smithy_eventstream::frame::write_message_to(&message, &mut out).unwrap();
    out
}

/// An event of this name.
pub(crate) fn event(name: &str, payload: &str) -> Vec<u8> {
    frame(
        &[(":message-type", "event"), (":event-type", name), (":content-type", "application/json")],
        payload,
    )
}

fn decode(pieces: &[&[u8]]) -> Result<(Vec<Message>, usize), FrameError> {
    let mut decoder = FrameDecoder::new(1 << 16);
    let mut messages = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        while let Some(message) = decoder.next(&mut rest)? {
            messages.push(message);
        }
        assert!(rest.is_empty(), "what is no whole frame is kept");
    }
    Ok((messages, decoder.pending()))
}

#[track_caller]
fn refuses(bytes: &[u8], says: &str) {
    let error = decode(&[bytes]).unwrap_err();
    assert!(error.to_string().contains(says), "{error}");
}

/// B-159.
#[test]
fn frames_are_found_wherever_the_bytes_are_cut() {
    let bytes = [event("a", "{\"text\":\"zwölf 🙂\"}"), event("b", ""), frame(&[], "x")].concat();
    let whole = decode(&[&bytes]).unwrap();
    assert_eq!((whole.0.len(), whole.1), (3, 0));
    for at in 0..=bytes.len() {
        let (one, two) = bytes.split_at(at);
        assert_eq!(decode(&[one, two]).unwrap(), whole, "cut at {at}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(decode(&single).unwrap(), whole);
}

#[test]
fn a_frame_that_was_changed_on_the_way_is_refused() {
    let good = event("a", "{\"text\":\"abc\"}");
    let changed = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    refuses(&changed(0), "checksum over the lengths");
    refuses(&changed(6), "checksum over the lengths");
    refuses(&changed(9), "checksum over the lengths");
    refuses(&changed(good.len() - 8), "corrupt");
    refuses(&changed(good.len() - 1), "corrupt");
}

/// A prelude with a right checksum over wrong lengths.
fn prelude(length: u32, headers: u32) -> Vec<u8> {
    let mut bytes = [length.to_be_bytes(), headers.to_be_bytes()].concat();
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    bytes
}

#[test]
fn lengths_that_cannot_be_are_refused_before_the_frame_is_there() {
    refuses(&prelude(15, 0), "15 bytes of which 0");
    refuses(&prelude(16, 1), "16 bytes of which 1");
    refuses(&prelude(100, 85), "100 bytes of which 85");
    refuses(&prelude((200 << 10) + 16, 200 << 10), "204816 bytes");
    refuses(&prelude((1 << 16) + 1, 0), "has 65537 bytes; at most 65536 are taken");
    refuses(&prelude(u32::MAX, 0), "at most 65536");
}

#[test]
fn a_header_that_stands_twice_is_refused() {
    refuses(&frame(&[("a", "1"), ("b", "1"), ("a", "2")], ""), "the header \"a\" twice");
}

#[test]
fn a_frame_that_does_not_end_stays_pending() {
    let bytes = event("a", "{}");
    assert_eq!(decode(&[&bytes[..bytes.len() - 1]]).unwrap(), (vec![], bytes.len() - 1));
    assert_eq!(decode(&[&bytes[..5]]).unwrap(), (vec![], 5));
}

/// Writes down what it is given.
#[derive(Default)]
struct Notes(Vec<String>);

impl Decode for Notes {
    fn push(&mut self, frame: Frame<'_>, _: &mut EventSink<'_>) -> Result<Flow, ProviderError> {
        self.0.push(format!("{:?} {}", frame.event, frame.data));
        Ok(if frame.event == Some("last") { Flow::Done } else { Flow::More })
    }

    fn whole(&mut self, _: &str, _: &mut EventSink<'_>) -> Result<(), ProviderError> {
        Ok(())
    }

    fn finish(&mut self, _: &mut EventSink<'_>) -> Result<Completion, ProviderError> {
        Err(ProviderError::Cancelled)
    }
}

fn read_all(bytes: &[u8]) -> (Vec<String>, Result<Flow, ProviderError>, Vec<String>) {
    let (mut notes, mut unknown) = (Notes::default(), Vec::new());
    let mut sink = |event: StreamEvent<'_>| {
        if let StreamEvent::Unrecognised { name } = event {
            unknown.push(name.to_owned());
        }
    };
    let end = read(&mut FrameDecoder::new(1 << 16), bytes, &mut notes, &mut sink);
    (notes.0, end, unknown)
}

#[test]
fn the_head_of_a_frame_says_what_it_is() {
    let bytes = [
        event("first", "{}"),
        frame(&[], "bare"),
        frame(&[(":message-type", "of-next-year")], ""),
        event("last", "{}"),
        event("never read", "{}"),
    ];
    let (said, end, unknown) = read_all(&bytes.concat());
    assert_eq!(said, ["Some(\"first\") {}", "None bare", "Some(\"last\") {}"]);
    assert_eq!(end.unwrap(), Flow::Done);
    assert_eq!(unknown, ["of-next-year"]);
}

#[test]
fn exceptions_and_errors_end_the_stream_with_their_text() {
    let exception =
        frame(&[(":message-type", "exception"), (":exception-type", "oddException")], "{\"m\":1}");
    let (_, end, _) = read_all(&exception);
    let error = end.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Network);
    assert!(error.to_string().contains("oddException: {\"m\":1}"), "{error}");
    let error =
        frame(&[(":message-type", "error"), (":error-code", "Broken"), (":error-message", "went away")], "");
    assert!(read_all(&error).1.unwrap_err().to_string().contains("Broken: went away"));
}

#[test]
fn what_is_no_frame_may_be_tried_again_and_what_is_too_long_may_not() {
    let kind = |bytes: &[u8]| read_all(bytes).1.unwrap_err().kind();
    assert_eq!(kind(b"HTTP/1.1 200 OK\r\n"), ErrorKind::Network);
    assert_eq!(kind(&prelude(1 << 20, 0)), ErrorKind::Other);
}

proptest! {
    /// B-121.
    #[test]
    fn any_split_gives_the_same_frames(
        payloads in proptest::collection::vec("\\PC{0,40}", 1..5),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let bytes: Vec<u8> = payloads.iter().flat_map(|p| event("e", p)).collect();
        let mut places: Vec<usize> = cuts.iter().map(|c| c.index(bytes.len())).collect();
        places.sort_unstable();
        let mut pieces = Vec::new();
        let mut start = 0;
        for place in places.into_iter().chain([bytes.len()]) {
            pieces.push(&bytes[start..place]);
            start = place;
        }
        prop_assert_eq!(decode(&pieces).unwrap(), decode(&[&bytes]).unwrap());
    }

    #[test]
    fn any_bytes_end_in_frames_or_an_error(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        lengths in proptest::option::of((0_u32..300, 0_u32..300)),
    ) {
        let mut all = lengths.map(|(length, headers)| prelude(length, headers)).unwrap_or_default();
        all.extend_from_slice(&bytes);
        let one = decode(&[&all]).map_err(|e| e.to_string());
        let single: Vec<&[u8]> = all.chunks(1).collect();
        prop_assert_eq!(one, decode(&single).map_err(|e| e.to_string()));
    }

    /// Whatever the headers hold, neither the SDK's crate nor ours panics or reads beyond them, and ours reads no frame
    /// that the SDK's refuses.
    #[test]
    fn any_headers_with_right_checksums_are_read_or_refused(
        headers in proptest::collection::vec(any::<u8>(), 0..60), payload in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let length = u32::try_from(headers.len() + payload.len() + SMALLEST).unwrap();
        let mut bytes = prelude(length, u32::try_from(headers.len()).unwrap());
        bytes.extend_from_slice(&headers);
        bytes.extend_from_slice(&payload);
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
        let read = decode(&[&bytes]);
        let borrowed = read::borrowed(&bytes);
        if let Ok((messages, pending)) = &read {
            prop_assert_eq!((messages.len(), *pending), (1, 0));
            prop_assert_eq!(messages[0].payload().as_ref(), payload.as_slice());
        } else {
            prop_assert_eq!(borrowed, None);
        }
    }

    /// What is read without copying is what the SDK's crate reads; a frame that was changed is left to it.
    #[test]
    fn a_frame_is_read_the_same_with_and_without_copying(
        headers in proptest::collection::btree_map("[a-z:é]{1,9}", "\\PC{0,12}", 0..6),
        payload in "\\PC{0,40}",
        changed in proptest::option::of((any::<prop::sample::Index>(), 1..=u8::MAX)),
    ) {
        let headers: Vec<(&str, &str)> = headers.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let mut bytes = frame(&headers, &payload);
        if let Some((at, change)) = changed {
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            prop_assert_eq!(read::borrowed(&bytes), None);
        } else if let Some((read, found)) = read::borrowed(&bytes) {
            let used: Vec<_> = read.into_iter().filter(|(name, _)| !name.is_empty()).collect();
            prop_assert_eq!((used, found), (headers, payload.as_bytes()));
        } else {
            prop_assert!(headers.len() > 4, "{headers:?}");
        }
    }
}
