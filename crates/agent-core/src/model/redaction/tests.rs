use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use proptest::prelude::*;

use super::*;

const KEY: &str = "k/ey +w?ith=s&igns%41<é>\"\\9";

fn redactor(secret: &str) -> Redactor {
    Redactor::new([Secret::new(secret)])
}

/// Every byte in percent encoding, with digits of this kind.
fn percent(text: &str, upper: bool) -> String {
    let digits = |byte| if upper { format!("%{byte:02X}") } else { format!("%{byte:02x}") };
    text.bytes().map(digits).collect()
}

/// The bytes that are not letters or digits in percent encoding.
fn some_percent(text: &str) -> String {
    let written = |byte: u8| {
        if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(written).collect()
}

fn encodings(secret: &str) -> Vec<(&'static str, String)> {
    let html = secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    let json = serde_json::to_string(secret).unwrap();
    let json = json.trim_start_matches('"');
    let json = json.strip_suffix('"').unwrap().to_owned();
    vec![
        ("raw", secret.to_owned()),
        ("percent", some_percent(secret)),
        ("percent in small letters", percent(secret, false)),
        ("percent of all", percent(secret, true)),
        ("form", some_percent(secret).replace("%20", "+")),
        ("percent twice", some_percent(&some_percent(secret))),
        ("percent three times", some_percent(&some_percent(&some_percent(secret)))),
        ("json", json.clone()),
        ("json with slashes", json.replace('/', "\\/")),
        ("json in json", json.replace('\\', "\\\\").replace('"', "\\\"")),
        ("unicode escapes", secret.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()),
        ("unicode escapes in capitals", secret.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect()),
        ("html", html.clone()),
        ("html with numbers", secret.chars().map(|c| format!("&#{};", u32::from(c))).collect()),
        (
            "html with hexadecimal numbers",
            secret.chars().map(|c| format!("&#x{:X};", u32::from(c))).collect(),
        ),
        ("an address in html", html.replace("&amp;", "&amp;amp;")),
        ("hex", secret.bytes().map(|byte| format!("{byte:02x}")).collect()),
        ("hex in capitals", secret.bytes().map(|byte| format!("{byte:02X}")).collect()),
        ("base64", STANDARD.encode(secret)),
        ("base64 without padding", STANDARD_NO_PAD.encode(secret)),
        ("base64 for addresses", URL_SAFE.encode(secret)),
        ("base64 for addresses without padding", URL_SAFE_NO_PAD.encode(secret)),
        ("base64 in an address", some_percent(&STANDARD.encode(secret))),
    ]
}

/// Attack 11.
#[test]
fn a_credential_is_found_in_every_encoding() {
    for secret in [KEY, "abcdefgh", "sk-proj-0123456789_abcDEF", "pass%2Fword+1", "ключ-с-пробелом и"]
    {
        for (name, written) in encodings(secret) {
            let text = format!("before ({written}) after");
            assert_eq!(redactor(secret).redact(&text), "before (****) after", "{name} of {secret}: {text}");
        }
    }
}

/// Attack 11.
#[test]
fn a_credential_is_found_inside_of_a_base64_text() {
    for user in ["", "u", "us", "use", "user"] {
        for after in ["", ";", ";x", ";xy"] {
            for engine in [&STANDARD, &URL_SAFE] {
                let whole = engine.encode(format!("{user}:sk-proj-0123456789{after}"));
                let shown = redactor("sk-proj-0123456789").redact(&format!("Basic {whole}!"));
                assert!(shown.contains("****"), "{user}, {after}: {shown}");
                for start in 0..whole.len() - 4 {
                    let part = &whole[start..start + 4];
                    let is_key = STANDARD.decode(part.replace('-', "+").replace('_', "/"));
                    let is_key = is_key
                        .is_ok_and(|part| "sk-proj-0123456789".contains(&*String::from_utf8_lossy(&part)));
                    assert!(start % 4 != 0 || !is_key || !shown.contains(part), "{part} in {shown}");
                }
            }
        }
    }
}

#[test]
fn ordinary_texts_stay_as_they_are() {
    let redactor = redactor("sk-0123456789");
    for text in ["", "100 % & more; \\ \\u12 %zz &#xx; &unknown; %u12", "é\u{1f600}&#128512;", "sk-012345678"]
    {
        assert_eq!(redactor.redact(text), text);
    }
    assert_eq!(Redactor::new([Secret::new("abc"), Secret::new("")]).redact("abc"), "abc");
    assert_eq!(Redactor::default().redact("abc"), "abc");
    assert!(!format!("{redactor:?}").contains("sk-"));
}

#[test]
fn several_credentials_and_neighbours_are_each_replaced() {
    let redactor = Redactor::new([Secret::new("first-key"), Secret::new("first-key-is-longer")]);
    assert_eq!(redactor.redact("first-key-is-longer, first-key, first-key"), "****, ****, ****");
    assert_eq!(redactor.redact("first-keyfirst-key"), "********");
}

#[test]
fn the_beginning_of_a_credential_at_a_cut_is_replaced() {
    let redactor = redactor("sk-0123456789");
    let cut = |text: &str| redactor.redact_until(text, TextEnd::Cut);
    assert_eq!(cut("key=sk-0123"), "key=****");
    assert_eq!(cut("key=%73%6b%2d0123"), "key=****");
    assert_eq!(cut("key=sk-"), "key=sk-");
    assert_eq!(cut("sk-0123 and more"), "sk-0123 and more");
    assert_eq!(redactor.redact("key=sk-0123"), "key=sk-0123");
}

/// A hostile server knows the credential and can repeat its beginning.
#[test]
fn the_time_is_linear_in_the_text() {
    let secret = format!("{}b", "a".repeat(1_000));
    let redactor = redactor(&secret);
    for text in ["a".repeat(2_000_000), "%61".repeat(700_000), "%2525".repeat(400_000), "&".repeat(2_000_000)]
    {
        assert_eq!(redactor.redact(&text).len(), text.len());
    }
}

proptest! {
    /// Attack 11: encoders differ in the characters that they encode.
    #[test]
    fn a_credential_is_found_when_any_of_its_characters_are_encoded(
        secret in "[!-~]{8,40}",
        choices in prop::collection::vec(0..8_u8, 40),
    ) {
        let written: String = secret.bytes().zip(choices).map(|(byte, choice)| match choice {
            // A literal sign that begins an escape sequence is encoded by every encoder.
            _ if byte == b'%' => "%25".to_owned(),
            _ if byte == b'\\' => "%5C".to_owned(),
            _ if byte == b'&' => "%26".to_owned(),
            0 => format!("%{byte:02x}"),
            1 => format!("%{byte:02X}"),
            _ => char::from(byte).to_string(),
        }).collect();
        prop_assert_eq!(redactor(&secret).redact(&format!("<{written}>")), "<****>");
    }

    #[test]
    fn any_text_is_redacted_without_a_panic(secret in ".{0,12}", text in ".{0,60}", escapes in "[%\\\\&#xu0-9a-f;]{0,60}") {
        for text in [text, escapes] {
            let redactor = redactor(&secret);
            let _ = (redactor.redact(&text), redactor.redact_until(&text, TextEnd::Cut));
        }
    }
}
