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
