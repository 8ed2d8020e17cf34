//! Frames of one value a line.

use super::*;

fn decode(pieces: &[&[u8]]) -> Vec<String> {
    let mut decoder = LineDecoder::new(1_000);
    let mut seen = Vec::new();
    let mut on = |frame: Frame<'_>| -> Result<Flow, ()> {
        seen.push(frame.data.to_owned());
        Ok(Flow::More)
    };
    for piece in pieces {
        decoder.feed(piece, &mut on).unwrap();
    }
    decoder.end(&mut on).unwrap();
    seen
}

/// B-121.
#[test]
fn lines_are_frames_however_they_are_split() {
    let stream = "\u{FEFF}{\"a\":1}\r\n\n  \n{\"b\":\"ü\"}\r{\"c\":3}".as_bytes();
    let expect = ["{\"a\":1}", "{\"b\":\"ü\"}", "{\"c\":3}"];
    assert_eq!(decode(&[stream]), expect);
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(decode(&bytes), expect);
    for at in 0..=stream.len() {
        let (a, b) = stream.split_at(at);
        assert_eq!(decode(&[a, b]), expect, "cut at {at}");
    }
}

#[test]
fn a_line_over_the_bound_is_an_error() {
    let mut on = |_: Frame<'_>| -> Result<Flow, ()> { Ok(Flow::More) };
    let fed = LineDecoder::new(10).feed(&[b'x'; 11], &mut on);
    assert!(matches!(fed, Err(Cut::TooLong(TooLong { limit: 10 }))));
}
