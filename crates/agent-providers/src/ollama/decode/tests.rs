//! What lines amount to.

use agent_core::{AssistantMessage, Content, History, ModelConfig, OwnedStreamEvent, ReplyLog};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::lines::LineDecoder;

struct Read {
    end: Result<AssistantMessage, ProviderError>,
    log: ReplyLog,
}

fn decoder() -> Decoder {
    Decoder::new(&ModelRequest::new(ModelConfig::ollama("m"), History::new()))
}

fn read(lines: &[&str]) -> Read {
    let (mut decoder, mut log) = (decoder(), ReplyLog::new());
    let mut sink = |event: StreamEvent<'_>| log.push(&event);
    let mut pushed = Ok(Flow::More);
    for data in lines {
        pushed = decoder.push(Frame { event: None, data }, &mut sink);
        if !matches!(pushed, Ok(Flow::More)) {
            break;
        }
    }
    let end = pushed.and_then(|_| decoder.finish(&mut sink)).map(|c| log.finish("ollama", "m", &c));
    Read { end, log }
}

const SAID: &str = r#"{"model":"m","message":{"role":"assistant","content":"hi"},"done":false}"#;
const DONE: &str = r#"{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":7,"eval_count":3}"#;

/// D34.
#[test]
fn text_thinking_and_usage_are_read() {
    let thought = r#"{"model":"m","message":{"role":"assistant","content":"","thinking":"hm"},"done":false}"#;
    let message = read(&[thought, SAID, SAID, DONE]).end.unwrap();
    assert_eq!(message.content, [Content::thinking("hm", None), Content::text("hihi")]);
    assert_eq!((message.usage.input, message.usage.output, message.stop_reason), (7, 3, StopReason::Stop));
}

/// B-145, REQ-043.
#[test]
fn calls_come_whole_and_get_an_id_when_they_have_none() {
    let calls = json!({"message": {"role": "assistant", "content": "", "tool_calls": [
        {"function": {"name": "f", "arguments": {"b": 1, "a": [2]}}},
        {"id": "x", "function": {"name": "g", "arguments": {}}},
        {"id": "x", "function": {"name": "g"}}]}, "done": false});
    let message = read(&[&calls.to_string(), DONE]).end.unwrap();
    let calls: Vec<String> =
        message.tool_calls().map(|c| format!("{} {} {}", c.id, c.name, c.arguments.json_text())).collect();
    assert_eq!(calls, ["call_0_0 f {\"b\":1,\"a\":[2]}", "x g {}", "call_0_1 g {}"]);
    assert_eq!(message.stop_reason, StopReason::ToolUse);
}

#[test]
fn calls_beyond_the_limit_of_a_reply_are_its_error() {
    let call = json!({"function": {"name": "f", "arguments": {}}});
    let line = json!({"message": {"role": "assistant", "content": "", "tool_calls": vec![call; 5_000]}});
    let read = read(&[&line.to_string(), DONE]);
    assert!(read.end.unwrap_err().to_string().contains("more than 1024 tool calls"));
    assert_eq!(read.log.partial_content().len(), 1_024);
}

/// REQ-043, B-127, B-120.
#[test]
fn only_a_line_that_is_done_for_a_known_reason_completes_the_reply() {
    let done = |reason: &str| format!(r#"{{"done":true,"done_reason":"{reason}"}}"#);
    assert_eq!(read(&[SAID, &done("length")]).end.unwrap().stop_reason, StopReason::Length);
    assert_eq!(read(&[SAID, r#"{"done":true}"#]).end.unwrap().stop_reason, StopReason::Stop);
    let error = read(&[SAID, &done("chickens")]).end.unwrap_err();
    assert!(error.to_string().contains("chickens") && error.kind() == ErrorKind::Api);
    let cut = read(&[SAID]);
    assert_eq!(cut.end.unwrap_err().kind(), ErrorKind::Network);
    assert_eq!(cut.log.snapshot().text(), "hi");
}

#[test]
fn an_error_line_is_an_error() {
    let error = read(&[SAID, r#"{"error":"runner stopped"}"#]).end.unwrap_err();
    assert_eq!(
        (error.kind(), error.context().unwrap().message.as_str()),
        (ErrorKind::Network, "runner stopped")
    );
}

#[test]
fn an_error_without_a_wrapper_is_an_error() {
    let error = read(&[SAID, r#"{"code":429,"message":"slow down"}"#]).end.unwrap_err();
    assert_eq!(
        (error.kind(), error.context().unwrap().message.as_str()),
        (ErrorKind::RateLimited, "slow down")
    );
    let odd = read(&[SAID, r#"{"error":{"code":503}}"#, DONE]).end.unwrap_err();
    assert!(odd.is_retryable() && odd.to_string().contains("503"), "{odd}");
    assert!(read(&[SAID, r#"{"error":null}"#, DONE]).end.is_ok());
}

#[test]
fn a_line_of_no_known_form_is_counted() {
    let read = read(&[SAID, r#"{"queue":3}"#, r#"{"done":false}"#, DONE]);
    assert_eq!(read.log.unrecognised(), 2);
    assert!(read.end.is_ok());
}

/// B-146.
#[test]
fn an_emoji_cut_in_two_is_joined() {
    let half = |text: &str| format!(r#"{{"message":{{"content":"{text}"}},"done":false}}"#);
    assert_eq!(read(&[&half("\\ud83c"), &half("\\udf89"), DONE]).end.unwrap().text(), "🎉");
}

/// D35.
#[test]
fn a_whole_body_may_be_one_value_or_several_lines() {
    for body in [DONE.replace("\"content\":\"\"", "\"content\":\"hi\""), format!("{SAID}\n{DONE}\n")] {
        let (mut decoder, mut log) = (decoder(), ReplyLog::new());
        let mut sink = |event: StreamEvent<'_>| log.push(&event);
        decoder.whole(&body, &mut sink).unwrap();
        let completion = decoder.finish(&mut sink).unwrap();
        assert_eq!(log.finish("p", "m", &completion).text(), "hi", "{body}");
    }
    assert!(decoder().whole("{\"done\":", &mut |_| {}).is_err());
    assert!(decoder().whole("", &mut |_| {}).is_err());
}

fn stream(pieces: &[&[u8]]) -> (Vec<OwnedStreamEvent>, Result<Completion, String>) {
    let (mut framer, mut decoder, mut events) = (LineDecoder::new(1 << 20), decoder(), Vec::new());
    let mut sink = |event: StreamEvent<'_>| events.push(OwnedStreamEvent::from(event));
    let mut reader = |frame: Frame<'_>| decoder.push(frame, &mut sink);
    let mut refused = false;
    for piece in pieces {
        refused |= framer.feed(piece, &mut reader).is_err();
    }
    refused |= framer.end(&mut reader).is_err();
    let end = decoder.finish(&mut sink).map_err(|e| e.to_string());
    (events, if refused { Err("refused".into()) } else { end })
}

proptest! {
    /// B-121.
    #[test]
    fn any_split_gives_the_same_events(cuts in prop::collection::vec(0.0_f64..1.0, 0..8)) {
        let said = SAID.replace("hi", "Grüße 🎉");
        let half = |text: &str| SAID.replace("hi", text);
        let recorded = [said.as_str(), &half("\\ud83c"), &half("\\udf89"), DONE].join("\r\n") + "\n";
        let bytes = recorded.as_bytes();
        let mut at: Vec<usize> = cuts.iter().map(|c| (c * bytes.len() as f64) as usize).collect();
        at.sort_unstable();
        let (mut pieces, mut from) = (Vec::new(), 0);
        for to in at.into_iter().chain([bytes.len()]) {
            pieces.push(&bytes[from..to]);
            from = to;
        }
        let whole = stream(&[bytes]);
        prop_assert!(whole.1.is_ok());
        prop_assert_eq!(stream(&pieces), whole);
    }

    #[test]
    fn any_line_is_survived(line in "[\\[\\]{}\":,a-z0-9\\\\ ]{0,60}", text: String) {
        read(&[&line, &text, &format!("{{\"message\":{line}}}"), DONE]);
    }
}

#[test]
fn token_counts_that_are_no_numbers_do_not_fail_the_reply() {
    for odd in ["true", "[1]", "{\"n\":1}", "\"many\"", "-1"] {
        let last = DONE.replace("\"prompt_eval_count\":7", &format!("\"prompt_eval_count\":{odd}"));
        let read = read(&[SAID, &last]);
        let usage = read.end.unwrap().usage;
        assert_eq!((usage.input, usage.output, read.log.unrecognised()), (0, 3, 1), "{odd}");
    }
}
