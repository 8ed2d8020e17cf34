//! How replies end, and answers that came as one JSON body (D35).

use super::*;

fn whole(body: &Value) -> Read {
    run(|decoder, sink| decoder.whole(&body.to_string(), sink))
}

#[test]
fn a_whole_body_gives_what_a_stream_of_it_would_give() {
    let body = json!({"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-test", "error": null,
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "e"},
            message("msg_1", "Hello"),
            {"type": "mcp_call", "id": "mcp_1", "name": "x"},
            call("fc_1", "call_1", "{\"b\":1,\"a\":2}"),
        ],
        "usage": {"input_tokens": 3, "output_tokens": 4}});
    let read = whole(&body);
    let content = read.content();
    assert_eq!(content[1], Content::thinking("hm", Some("e".into())));
    assert_eq!(content[2].as_text(), Some("Hello"));
    assert!(matches!(&content[3], Content::Opaque(o) if o.data == body["output"][2]));
    assert_eq!(content[4].as_tool_call().unwrap().arguments.text(), "{\"b\":1,\"a\":2}");
    assert_eq!((read.log.usage().input, read.log.usage().output), (3, 4));
    assert_eq!(read.log.response_id().as_deref(), Some("resp_1"));
    assert_eq!(read.end.unwrap().stop_reason, StopReason::ToolUse);
}

#[test]
fn a_whole_body_that_is_no_reply_is_an_error() {
    let no = |body: Value| whole(&body).kind();
    assert_eq!(no(json!({"error": {"code": "invalid_api_key", "message": "no"}})), ErrorKind::Auth);
    assert_eq!(no(json!({"choices": []})), ErrorKind::Api);
    assert_eq!(no(json!({"output": [], "status": "queued"})), ErrorKind::Api);
    assert_eq!(no(json!([1])), ErrorKind::Api);
    let failed = json!({"output": [], "status": "failed", "error": {"code": "server_error", "message": "x"}});
    assert_eq!(no(failed), ErrorKind::Network);
}

#[track_caller]
fn check(frames: &[Value], kind: ErrorKind, says: &str) {
    let read = read(frames);
    assert_eq!(read.kind(), kind);
    let error = read.end.unwrap_err().to_string();
    assert!(error.contains(says), "{error}");
}

/// B-127, B-128, REQ-043.
#[test]
fn each_end_means_what_the_vendor_says() {
    let incomplete = |reason: Value| ended("incomplete", json!({"incomplete_details": {"reason": reason}}));
    let long = read(&[done(0, message("m", "a")), incomplete(json!("max_output_tokens"))]);
    assert_eq!(long.end.unwrap().stop_reason, StopReason::Length);
    check(&[incomplete(json!("content_filter"))], ErrorKind::Api, "content filter");
    check(&[incomplete(json!("boredom"))], ErrorKind::Api, "boredom");
    check(&[ended("failed", json!({"error": null}))], ErrorKind::Network, "failed");
    check(&[ended("cancelled", json!({}))], ErrorKind::Api, "cancelled");
    check(&[ended("done", json!({"status": "dreaming"}))], ErrorKind::Api, "dreaming");
    let refused = json!({"type": "response.refusal.delta", "output_index": 0, "delta": "I will "});
    let whole = json!({"type": "response.refusal.done", "output_index": 0, "refusal": "I will not."});
    check(&[refused, whole, completed(json!([]))], ErrorKind::Api, "I will not.");
    let item = json!({"type": "message", "content": [{"type": "refusal", "refusal": "No, no."}]});
    check(&[done(0, item), completed(json!([]))], ErrorKind::Api, "No, no.");
}

/// A status that was not brought up to date does not undo what the last event is called.
#[test]
fn a_stale_status_does_not_count() {
    let read = read(&[done(0, message("m", "a")), ended("completed", json!({"status": "in_progress"}))]);
    assert_eq!(read.end.unwrap().stop_reason, StopReason::Stop);
}

/// B-120.
#[test]
fn a_stream_without_its_last_event_may_be_tried_again_and_keeps_what_came() {
    let item = json!({"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "e"});
    let read = read(&[done(0, item), added(1, json!({"type": "message"})), text_delta(1, "half")]);
    assert_eq!(read.log.snapshot().text(), "half");
    assert!(read.end.unwrap_err().is_retryable());
}

/// REQ-167.
#[test]
fn an_error_event_of_either_form_ends_the_reply() {
    let event =
        |code: &str, text: &str| json!({"type": "error", "code": code, "message": text, "param": null});
    check(&[event("server_error", "It broke.")], ErrorKind::Network, "It broke.");
    check(&[event("rate_limit_exceeded", "Too fast.")], ErrorKind::RateLimited, "Too fast.");
    check(&[event("invalid_image", "No image.")], ErrorKind::Api, "No image.");
    check(&[event("429", "Too fast.")], ErrorKind::RateLimited, "Too fast.");
    check(&[event("500", "It broke.")], ErrorKind::Network, "It broke.");
    let inner = json!({"type": "error", "error": {"type": "insufficient_quota", "code": "insufficient_quota",
        "message": "No money."}});
    check(&[inner], ErrorKind::Quota, "No money.");
    let failed = json!({"error": {"code": "context_length_exceeded", "message": "Too long."}});
    check(&[ended("failed", failed)], ErrorKind::ContextOverflow, "Too long.");
    check(&[json!({"error": "just words"})], ErrorKind::Network, "just words");
    check(&[json!({"code": 429, "message": "Slow down."})], ErrorKind::RateLimited, "Slow down.");
    check(&[json!({"object": "error", "detail": "It broke."})], ErrorKind::Network, "It broke.");
}

/// Some servers write the status in another form than the vendor.
#[test]
fn a_status_is_read_in_the_forms_that_servers_write() {
    for status in ["completed", "complete", "Completed", "COMPLETE"] {
        for name in ["completed", "done", "complete"] {
            let end = ended(name, json!({"status": status, "output": [message("m", "a")]}));
            assert_eq!(read(&[end]).end.unwrap().stop_reason, StopReason::Stop, "{name} {status}");
        }
        let body = json!({"status": status, "output": [message("m", "a")]}).to_string();
        assert_eq!(run(|decoder, sink| decoder.whole(&body, sink)).end.unwrap().text(), "a", "{status}");
    }
    let end = ended("done", json!({"status": "canceled"}));
    check(&[end], ErrorKind::Api, "cancelled");
}

/// B-146.
#[test]
fn half_an_emoji_in_a_whole_body_is_replaced() {
    let body = r#"{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"a\ud83cb"}]}]}"#;
    let read = run(|decoder, sink| decoder.whole(body, sink));
    assert_eq!(read.log.snapshot().text(), "a\u{FFFD}b");
}
