use std::sync::Mutex;

use agent_core::{History, ModelConfig};
use proptest::prelude::*;

use super::*;

/// Feeds an answer in pieces to a tap whose request had this key, and gives what was shown of it.
fn shown_of(key: &str, pieces: &[&[u8]]) -> Vec<u8> {
    let request = reqwest::Request::new(reqwest::Method::POST, "http://localhost/".parse().unwrap());
    shown_after(&request, key, pieces)
}

fn shown_after(sent: &reqwest::Request, key: &str, pieces: &[&[u8]]) -> Vec<u8> {
    let seen: Arc<Mutex<Vec<u8>>> = Arc::default();
    let mut request = ModelRequest::new(ModelConfig::openai("m", "M", key), History::new());
    let log = Arc::clone(&seen);
    request.options.wire_hooks.on_response = Some(Arc::new(move |part| {
        if let Received::Body(bytes) = part.part {
            log.lock().unwrap().extend_from_slice(bytes);
        }
    }));
    let tap = Tap::of(&request).unwrap();
    tap.sent(sent);
    let mut answering = tap.answered(200, &HeaderMap::new()).unwrap();
    for piece in pieces {
        answering.piece(piece);
    }
    answering.end(true);
    let seen = seen.lock().unwrap();
    seen.clone()
}

#[test]
fn a_key_is_hidden_however_the_answer_is_cut() {
    let key = "sk-abababac-1";
    let answer = format!("{{\"error\": \"wrong key {key}, said sk-abab{key}\"}}");
    let expect = "{\"error\": \"wrong key ****, said sk-abab****\"}";
    for at in 0..=answer.len() {
        for second in at..=answer.len() {
            let bytes = answer.as_bytes();
            let pieces = [&bytes[..at], &bytes[at..second], &bytes[second..]];
            assert_eq!(String::from_utf8(shown_of(key, &pieces)).unwrap(), expect, "{at} {second}");
        }
    }
}

#[test]
fn every_part_of_a_key_that_is_several_in_one_is_hidden() {
    let shown =
        shown_of("AKIDEXAMPLE00:its-secret-key:its-session", &[b"AKIDEXAMPLE00 its-session its-secret-key"]);
    assert_eq!(shown, b"**** **** ****");
    let file = r#"{"private_key": "-----BEGIN-----", "client_email": "me@example.org"}"#;
    assert_eq!(shown_of(file, &[b"-----BEGIN----- of me@example.org"]), b"**** of me@example.org");
}

#[test]
fn a_signature_is_hidden_and_the_words_around_it_are_not() {
    let mut sent = reqwest::Request::new(reqwest::Method::POST, "http://localhost/".parse().unwrap());
    let value = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE00/20261121/eu/bedrock/aws4_request, \
                 SignedHeaders=content-type;host, Signature=00112233445566778899";
    sent.headers_mut().insert("authorization", value.parse().unwrap());
    sent.headers_mut().insert("x-amz-security-token", "FwoGZXIvtoken".parse().unwrap());
    let said = b"The Signature 00112233445566778899 over the SignedHeaders content-type;host does not fit FwoGZXIvtoken";
    let shown = String::from_utf8(shown_after(&sent, "AKIDEXAMPLE00:secret00", &[said])).unwrap();
    assert_eq!(shown, "The Signature **** over the SignedHeaders content-type;host does not fit ****");
}

#[test]
fn a_key_that_is_cut_off_is_not_shown_and_what_is_too_short_to_be_one_is() {
    assert_eq!(shown_of("sk-very-secret", &[b"wrong key sk-very-sec"]), b"wrong key ****");
    assert_eq!(shown_of("sk-very-secret", &[b"wrong key sk-"]), b"wrong key sk-");
}

#[test]
fn telling_members_of_a_query_are_hidden_and_others_are_not() {
    let shown = |url: &str| address(&url.parse().unwrap());
    assert_eq!(
        shown("http://h/p?alt=sse&key=abc&api-version=1"),
        "http://h/p?alt=sse&key=****&api-version=1"
    );
    assert_eq!(shown("http://h/p?X-Amz-Signature=00&x"), "http://h/p?X-Amz-Signature=****&x");
    assert_eq!(shown("http://h/p"), "http://h/p");
}

proptest! {
    /// The law: what is shown is what came, in whatever pieces, when no credential is in it.
    #[test]
    fn any_bytes_in_any_pieces_are_shown_as_they_came(
        bytes in proptest::collection::vec(b'a'..b'd', 0..200),
        cuts in proptest::collection::vec(0_usize..200, 0..8),
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|c| *c < bytes.len()).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts {
            pieces.push(&bytes[from..cut]);
            from = cut;
        }
        pieces.push(&bytes[from..]);
        prop_assert_eq!(shown_of("aabbccddaabbccdd", &pieces), bytes);
    }
}
