use super::*;

const BODY: &str = "event: a\r\ndata: {\"x\":\"né\\u00e9 🌊\"}\r\n\r\ndata: [DONE]\n\n";

#[test]
fn every_cut_is_the_same_body() {
    for body in [BODY.as_bytes(), b"", b"x", "🌊".repeat(5_000).as_bytes()] {
        for cut in cuts::all(body) {
            assert_eq!(cut.pieces.concat(), body, "{}", cut.name);
            assert!(cut.pieces.iter().all(|p| !p.is_empty()), "{}", cut.name);
        }
    }
}

#[test]
fn a_body_is_sent_whole_and_in_at_least_three_other_ways() {
    let cuts = cuts::all(BODY.as_bytes());
    assert_eq!(cuts[0].pieces.len(), 1);
    assert!(cuts.len() >= 4);
    assert!(cuts[1..].iter().all(|c| c.pieces.len() > 2));
}

#[test]
fn the_hostile_places_are_there() {
    let named = |name: &str| cuts::all(BODY.as_bytes()).into_iter().find(|c| c.name == name).unwrap().pieces;
    let ends_with = |pieces: &[Vec<u8>], end: &[u8]| pieces.iter().any(|p| p.ends_with(end));
    let seams = named("at seams");
    assert!(ends_with(&seams, b"\r"), "between CR and LF");
    assert!(ends_with(&seams, "🌊".as_bytes().get(..1).unwrap()), "inside of a character");
    assert!(ends_with(&named("mid line"), b"\\"), "behind a backslash");
    assert!(ends_with(&named("mid line"), b"eve"), "inside of a field name");
    assert!(named("single bytes").iter().all(|p| p.len() == 1));
}

#[test]
fn a_large_body_is_not_sent_in_a_million_chunks() {
    let body = vec![b'a'; 1 << 20];
    let most = cuts::all(&body).iter().map(|c| c.pieces.len()).max().unwrap();
    assert!(most < 200_000, "{most}");
}

/// The pieces of the delivery with pauses, as text.
fn paused(body: &[u8]) -> Option<Vec<String>> {
    let cut = cuts::paused(body)?;
    assert_eq!(cut.pieces.concat(), body);
    assert!(!cut.pause.is_zero());
    Some(cut.pieces.iter().map(|piece| String::from_utf8_lossy(piece).into_owned()).collect())
}

#[test]
fn the_server_pauses_behind_each_reason_to_stop_that_something_follows() {
    let body =
        "data: {\"finish_reason\":null}\n\ndata: {\"finish_reason\":\"stop\"}\n\ndata: {\"usage\":1}\n\n";
    let pieces = paused(body.as_bytes()).unwrap();
    assert_eq!(pieces.len(), 2);
    assert_eq!(pieces[1], "data: {\"usage\":1}\n\n");
    let crlf = "data: {\"finishReason\": \"STOP\"}\r\n\r\n".repeat(3);
    assert_eq!(paused(crlf.as_bytes()).unwrap().len(), 3, "no pause behind the last");
    assert_eq!(paused("{\"done_reason\":\"stop\"}\n{\"more\":1}\n".as_bytes()).unwrap().len(), 2);
    for body in ["data: {\"stop_reason\":null}\n\ndata: 1\n\n", "{\"finishReason\":\"STOP\"}", ""] {
        assert_eq!(paused(body.as_bytes()), None, "{body}");
    }
}

#[test]
fn the_frames_of_an_event_stream_are_told_by_their_lengths() {
    let frame = |payload: &str| {
        let length = u32::try_from(payload.len() + 4).unwrap();
        [length.to_be_bytes().as_slice(), payload.as_bytes()].concat()
    };
    let [stop, tokens] = [frame("{\"stopReason\":\"end_turn\"}\n\n"), frame("{\"usage\":{}}")];
    let body = [frame("hello"), stop, tokens.clone()].concat();
    let pieces = cuts::paused(&body).unwrap().pieces;
    assert_eq!((pieces.len(), &pieces[1]), (2, &tokens));
    // A length beyond the end, or below that of itself, is not followed.
    for length in [u32::MAX, 0, 3] {
        assert!(cuts::paused(&[length.to_be_bytes().as_slice(), b"stopReason"].concat()).is_none());
    }
}
