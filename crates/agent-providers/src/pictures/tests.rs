//! Which pictures are sent.

use agent_core::{AgentMessage, ApiProtocol, AssistantMessage, StopReason, ToolResultMessage};

use super::*;

/// One pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().chain([&0, &0]).take(3).fold(0_u32, |bits, b| bits << 8 | u32::from(*b));
        for n in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * n) & 63) as usize];
            out.push(if n <= three.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

fn png(width: u32, height: u32, more: usize) -> String {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.extend(width.to_be_bytes());
    bytes.extend(height.to_be_bytes());
    bytes.extend(vec![7; more + 5]);
    encode(&bytes)
}

fn jpeg(preview: usize) -> Vec<u8> {
    let mut bytes = vec![0xFF, 0xD8];
    for _ in 0..preview {
        bytes.extend([0xFF, 0xE1, 0x80, 0x00]);
        bytes.extend(vec![1; 0x7FFE]);
    }
    bytes.extend([0xFF, 0xC0, 0, 11, 8, 0x10, 0x00, 0x20, 0x00, 1, 0, 0, 0]);
    bytes
}

fn model(api: ApiProtocol) -> ModelConfig {
    let mut model = ModelConfig::default();
    (model.api, model.images) = (api, true);
    model
}

fn fault_text(api: ApiProtocol, data: &str, kind: &str) -> Option<String> {
    let image = ImageContent::Base64 { data: data.to_owned(), mime_type: kind.to_owned() };
    fault(&image, &model(api)).map(Cow::into_owned)
}

const CLAUDE: ApiProtocol = ApiProtocol::AnthropicMessages;
const CHAT: ApiProtocol = ApiProtocol::OpenAiCompletions;
const GOOGLE: ApiProtocol = ApiProtocol::GoogleGenerativeAi;

#[test]
fn sizes_are_read_from_the_bytes() {
    let webp = |head: &[u8]| encode(&[b"RIFF\x20\0\0\0WEBP", head].concat());
    for (data, expect) in [
        (PIXEL.to_owned(), Seen::Valid(PNG, Some((1, 1)))),
        (png(9_000, 20, 0), Seen::Valid(PNG, Some((9_000, 20)))),
        (encode(b"GIF89a\x03\0\x04\0\0\0"), Seen::Valid(GIF, Some((3, 4)))),
        (webp(b"VP8X\x0a\0\0\0\0\0\0\0\x02\0\0\x03\0\0"), Seen::Valid(WEBP, Some((3, 4)))),
        (webp(b"VP8L\x0a\0\0\0\x2f\x02\xc0\0\0\0\0\0"), Seen::Valid(WEBP, Some((3, 4)))),
        (webp(b"VP8 \x0a\0\0\0\0\0\0\x9d\x01\x2a\x03\0\x04\0"), Seen::Valid(WEBP, Some((3, 4)))),
        (encode(&jpeg(0)), Seen::Valid(JPEG, Some((0x2000, 0x1000)))),
        (encode(&jpeg(3)), Seen::Valid(JPEG, Some((0x2000, 0x1000)))),
        // A preview that is longer than what is read.
        (encode(&jpeg(12)), Seen::Valid(JPEG, None)),
        (encode(&[b"\x89PNG\r\n\x1a\n".as_slice(), &[0; 200]].concat()), Seen::Broken(PNG)),
        (png(0, 20, 0), Seen::Broken(PNG)),
        ("iVBORw0KGgo=".to_owned(), Seen::Broken(PNG)),
        (encode(&jpeg(0)[..8]), Seen::Broken(JPEG)),
        (encode(b"GIF89a"), Seen::Broken(GIF)),
        ("QUJD".to_owned(), Seen::Other),
        ("!".to_owned(), Seen::Other),
    ] {
        assert_eq!(recognize(&data), expect, "{}", &data[..data.len().min(60)]);
    }
}

#[test]
fn a_picture_that_an_api_refuses_is_left_out_with_the_reason() {
    let broken = encode(&[b"\x89PNG\r\n\x1a\n".as_slice(), &[0; 200]].concat());
    let large = png(1_024, 1_024, 6 << 20);
    for (api, data, kind, expect) in [
        (CLAUDE, PIXEL, "image/png", None),
        (CLAUDE, &*broken, "image/png", Some("damaged")),
        (CLAUDE, "", "image/png", Some("empty")),
        (CLAUDE, &*large, "image/png", Some("6.2 MB, and this API takes at most 3.9 MB")),
        (CHAT, &*large, "image/png", None),
        (CLAUDE, &*png(8_000, 1, 0), "image/png", None),
        (CLAUDE, &*png(8_001, 1, 0), "image/png", Some("8001 x 1 pixels")),
        (CHAT, &*png(8_001, 1, 0), "image/png", None),
        (
            CLAUDE,
            "QUJD",
            "image/tiff",
            Some("its type is image/tiff, and this API takes png, jpeg, gif, webp"),
        ),
        (CLAUDE, "QUJD", "image/jpg; x=y", None),
        (GOOGLE, &*encode(b"GIF89a\x03\0\x04\0\0\0"), "image/png", Some("image/gif")),
        (GOOGLE, "QUJD", "image/heic", None),
        (CHAT, "QUJD", "image/svg+xml", Some("image/svg+xml")),
    ] {
        let found = fault_text(api, data, kind);
        match expect {
            None => assert_eq!(found, None),
            Some(part) => {
                assert!(found.as_ref().is_some_and(|t| t.contains(part)), "{found:?} has not {part}")
            }
        }
    }
    let address = ImageContent::Url { url: "https://h/x.png".into() };
    assert!(fault(&address, &model(ApiProtocol::OllamaChat)).is_some());
    assert!(fault(&address, &model(ApiProtocol::BedrockConverseStream)).is_some());
    assert_eq!(fault(&address, &model(CHAT)), None);
}

#[test]
fn the_media_type_is_that_of_the_bytes() {
    assert_eq!(media_type(PIXEL, "image/jpeg"), "image/png");
    assert_eq!(media_type("QUJD", "image/jpeg"), "image/jpeg");
}

fn with_pictures(count: usize, data: &str) -> ModelRequest {
    let mut messages = Vec::new();
    for n in 0..count {
        let id = format!("c{n}");
        let mut reply = AssistantMessage::new("p", "m", StopReason::ToolUse);
        reply.content.push(Content::tool_call(&*id, "look", serde_json::json!({})));
        messages.push(AgentMessage::from(Message::from(reply)));
        let content = vec![Content::image(data, "image/png")];
        messages.push(Message::from(ToolResultMessage::new((&*id).into(), "look".into(), content)).into());
    }
    ModelRequest::new(model(CLAUDE), History::repaired(messages).0)
}

fn left(history: &History) -> (usize, Option<bool>) {
    let is_image = |m: &Message| matches!(m.content().first(), Some(Content::Image(_)));
    let mut kept = history.llm_messages().filter(|m| m.as_tool_result().is_some()).map(is_image);
    (history.pictures(), kept.next())
}

#[test]
fn the_oldest_of_too_many_pictures_are_left_out() {
    assert!(thin(&with_pictures(100, PIXEL)).is_none());
    for (count, kept) in [(101, 81), (120, 100), (121, 81)] {
        let history = thin(&with_pictures(count, PIXEL)).unwrap();
        assert_eq!(left(&history), (kept, Some(false)), "{count}");
        assert_eq!(history.len(), 2 * count);
    }
    // More than twenty have a smaller maximum of pixels.
    let wide = png(2_001, 10, 0);
    assert!(thin(&with_pictures(20, &wide)).is_none());
    assert_eq!(left(&thin(&with_pictures(21, &wide)).unwrap()).0, 0);
    assert!(thin(&with_pictures(21, &png(2_000, 10, 0))).is_none());
}
