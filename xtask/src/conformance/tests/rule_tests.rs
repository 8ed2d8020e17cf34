#![expect(clippy::needless_pass_by_value, reason = "the tables read better")]

use agent_core::{ErrorKind, StopReason};
use serde_json::{Value, json};

use super::*;
use crate::conformance::manifest::Expected;
use crate::conformance::rules::{WantedEnd, contradiction, wanted};

fn expected(value: Value) -> Expected {
    serde_json::from_value(value).unwrap()
}

#[track_caller]
fn check_end(protocol: &str, value: Value, end: WantedEnd) {
    assert_eq!(wanted(protocol, &expected(value)).0.end, end);
}

fn complete(reason: StopReason) -> WantedEnd {
    WantedEnd::Complete(reason, None)
}

fn failed(kind: ErrorKind) -> WantedEnd {
    WantedEnd::Failed(kind, None)
}

#[test]
fn stop_words_become_ours() {
    check_end("anthropic", json!({"stop_reason": "end_turn"}), complete(StopReason::Stop));
    check_end("anthropic", json!({"stop_reason": "max_tokens"}), complete(StopReason::Length));
    check_end("openai-chat", json!({"stop_reason": "length"}), complete(StopReason::Length));
    let sequence = WantedEnd::Complete(StopReason::Stop, Some("END".to_owned()));
    check_end("anthropic", json!({"stop_reason": "stop_sequence", "stop_sequence": "END"}), sequence);
}

#[test]
fn the_words_of_responses_become_ours() {
    let word = |word: &str| json!({"stop_reason": word, "complete": true});
    check_end("openai-responses", word("completed"), complete(StopReason::Stop));
    check_end("openai-responses", word("incomplete:max_output_tokens"), complete(StopReason::Length));
    check_end("azure-responses", word("incomplete:content_filter"), failed(ErrorKind::Api));
    check_end("openai-responses", word("failed"), failed(ErrorKind::Network));
    let named = WantedEnd::Failed(ErrorKind::Api, Some("queued".to_owned()));
    check_end("openai-responses", word("queued"), named);
}

#[test]
fn calls_decide_between_stop_and_tool_use_but_not_over_length() {
    let call = json!([{"id": "a", "name": "b"}]);
    check_end("ollama", json!({"stop_reason": "stop", "tool_calls": call}), complete(StopReason::ToolUse));
    check_end("ollama", json!({"stop_reason": "length", "tool_calls": call}), complete(StopReason::Length));
    check_end("openai-chat", json!({"stop_reason": "tool_calls"}), complete(StopReason::Stop));
    check_end("openai-chat", json!({"tool_calls": call, "complete": true}), complete(StopReason::ToolUse));
}

#[test]
fn a_refusal_a_cut_and_an_unknown_word_are_errors() {
    check_end("anthropic", json!({"stop_reason": "refusal", "complete": true}), failed(ErrorKind::Api));
    let refusal = WantedEnd::Failed(ErrorKind::Api, Some("no".to_owned()));
    check_end("openai-chat", json!({"stop_reason": "stop", "refusal": "no", "complete": true}), refusal);
    check_end("anthropic", json!({"text": "a", "complete": false}), failed(ErrorKind::Network));
    check_end("openai-chat", json!({"stop_reason": "network_error"}), failed(ErrorKind::Network));
    let unmarked = WantedEnd::Unmarked(StopReason::Stop, None);
    check_end("anthropic", json!({"stop_reason": "end_turn", "complete": false}), unmarked);
    let unknown = WantedEnd::Failed(ErrorKind::Api, Some("tired".to_owned()));
    check_end("openai-chat", json!({"stop_reason": "tired", "complete": true}), unknown);
}

#[track_caller]
fn check_kind(protocol: &str, error: Value, kind: ErrorKind) {
    check_end(protocol, json!({"error": error, "complete": false}), failed(kind));
}

#[test]
fn a_status_becomes_a_kind() {
    check_kind("anthropic", json!({"status": 401}), ErrorKind::Auth);
    check_kind("anthropic", json!({"status": 404}), ErrorKind::ModelNotFound);
    check_kind("anthropic", json!({"status": 529, "type": "overloaded_error"}), ErrorKind::Network);
    check_kind("openai-chat", json!({"status": 429, "message": "slow down"}), ErrorKind::RateLimited);
    check_kind("openai-chat", json!({"status": 429, "code": "insufficient_quota"}), ErrorKind::Quota);
    check_kind("openai-chat", json!({"status": 413, "body": ""}), ErrorKind::ContextOverflow);
    check_kind("openai-chat", json!({"status": 413, "code": "rate_limit_exceeded"}), ErrorKind::Api);
    check_kind("openai-chat", json!({"status": 400, "type": "invalid_model"}), ErrorKind::ModelNotFound);
    check_kind(
        "openai-chat",
        json!({"status": 400, "message": "Incorrect API key provided"}),
        ErrorKind::Auth,
    );
    check_kind(
        "anthropic",
        json!({"status": 400, "message": "Your credit balance is too low"}),
        ErrorKind::Quota,
    );
    let told = json!({"status": 500, "headers": {"x-should-retry": "false"}});
    check_kind("anthropic", told, ErrorKind::Api);
    check_kind(
        "openai-chat",
        json!({"status": 400, "code": "context_length_exceeded"}),
        ErrorKind::ContextOverflow,
    );
    check_kind("openai-chat", json!({"status": 400, "message": "bad field"}), ErrorKind::Api);
}

#[test]
fn an_error_inside_of_a_stream_is_read_by_type_and_code() {
    check_kind("anthropic", json!({"status": 200, "type": "overloaded_error"}), ErrorKind::Network);
    check_kind("openai-chat", json!({"status": null, "type": "server_error"}), ErrorKind::Network);
    check_kind("openai-chat", json!({"status": null, "code": "429"}), ErrorKind::RateLimited);
    check_kind("openai-chat", json!({"status": null, "type": "invalid_request_error"}), ErrorKind::Api);
    check_kind("ollama", json!({"status": -1, "message": "unexpected EOF"}), ErrorKind::Network);
    check_kind("openai-responses", json!({"code": "server_error"}), ErrorKind::Network);
    check_kind("openai-responses", json!({"code": "invalid_prompt"}), ErrorKind::Api);
    check_kind("azure-responses", json!({"message": "?"}), ErrorKind::Network);
}

#[test]
fn the_names_of_aws_become_kinds() {
    let named = |code: &str| json!({"status": null, "code": code});
    check_kind("bedrock", named("throttlingException"), ErrorKind::RateLimited);
    check_kind("bedrock", named("modelStreamErrorException"), ErrorKind::Network);
    check_kind("bedrock", named("validationException"), ErrorKind::Api);
    check_kind("bedrock", json!({"message": "Checksum mismatch"}), ErrorKind::Network);
    let long = json!({"code": "validationException", "message": "Input is too long for requested model."});
    check_kind("bedrock", long, ErrorKind::ContextOverflow);
    check_kind("bedrock", json!({"status": 400, "code": "ServiceQuotaExceededException"}), ErrorKind::Quota);
    let invalid = "The provided model identifier is invalid.";
    check_kind("bedrock", json!({"status": 400, "message": invalid}), ErrorKind::ModelNotFound);
    check_end(
        "bedrock",
        json!({"stop_reason": "guardrail_intervened", "complete": true}),
        failed(ErrorKind::Api),
    );
    check_end(
        "bedrock",
        json!({"stop_reason": "malformed_tool_use", "complete": true}),
        failed(ErrorKind::Network),
    );
}

#[test]
fn cached_tokens_are_taken_out_of_the_input_of_chat_and_of_nobody_elses() {
    let value = json!({"stop_reason": "stop", "usage": {"input": 100, "output": 5, "cache_read": 60}});
    let (chat, fired) = wanted("openai-chat", &expected(value.clone()));
    assert_eq!(
        (chat.usage.input, chat.usage.cache_read, chat.usage.reasoning),
        (Some(40), Some(60), Some(0))
    );
    assert!(fired.iter().any(|rule| rule.contains("cached")));
    assert_eq!(wanted("anthropic", &expected(value)).0.usage.input, Some(100));
}

#[test]
fn reasoning_that_is_counted_beside_the_output_is_added_to_it_where_the_total_shows_so() {
    let value = |total: u64| {
        let usage = json!({"input": 10, "output": 5, "reasoning": 7});
        json!({"stop_reason": "stop", "usage": usage, "usage_raw": {"total_tokens": total}})
    };
    assert_eq!(wanted("openai-chat", &expected(value(22))).0.usage.output, Some(12));
    assert_eq!(wanted("openai-chat", &expected(value(15))).0.usage.output, Some(5));
}

#[test]
fn an_answer_in_which_the_sdk_finds_nothing_is_an_error_and_an_empty_reply_is_none() {
    check_end("openai-chat", json!({"complete": true}), failed(ErrorKind::Api));
    check_end("openai-chat", json!({"complete": true, "usage": {"output": 0}}), complete(StopReason::Stop));
}

#[test]
fn what_a_failed_reply_does_not_count_is_not_compared() {
    let value = json!({"error": {"status": 500}, "complete": false, "usage": {"input": null}});
    assert_eq!(wanted("anthropic", &expected(value)).0.usage.input, None);
}

#[test]
fn no_rule_touches_a_text_a_name_or_an_argument() {
    let value = json!({
        "text": "a", "thinking": "b", "stop_reason": "stop", "complete": true,
        "tool_calls": [{"id": "i", "name": "n", "arguments": {"x": 1}, "arguments_raw": "{\"x\": 1}"}],
        "partial_tool_calls": [{"id": "p", "name": "q"}],
    });
    for (protocol, _) in play::PROTOCOLS {
        let before = expected(value.clone());
        let after = wanted(protocol, &before).0;
        assert_eq!((after.text, after.thinking), (before.text, before.thinking));
        assert_eq!((after.calls, after.partial_calls), (before.tool_calls, before.partial_tool_calls));
    }
}

#[test]
fn what_gemini_says_of_an_end_becomes_ours() {
    check_end("gemini", json!({"stop_reason": "STOP", "complete": true}), complete(StopReason::Stop));
    check_end("vertex", json!({"stop_reason": "MAX_TOKENS", "complete": true}), complete(StopReason::Length));
    check_end(
        "gemini",
        json!({"stop_reason": "SAFETY", "complete": true}),
        WantedEnd::Failed(ErrorKind::Api, Some("SAFETY".to_owned())),
    );
    check_end(
        "gemini",
        json!({"stop_reason": "MALFORMED_FUNCTION_CALL", "complete": true}),
        failed(ErrorKind::Network),
    );
    check_end(
        "vertex",
        json!({"prompt_feedback": {"block_reason": "MODEL_ARMOR"}, "complete": true}),
        WantedEnd::Failed(ErrorKind::Api, Some("MODEL_ARMOR".to_owned())),
    );
    // The SDK cannot tell a stream that was cut; the stop word is the end mark.
    check_end("gemini", json!({"text": "half", "complete": null}), failed(ErrorKind::Network));
}

#[test]
fn the_details_of_googles_errors_say_more_than_the_status() {
    let error = |status: i64, detail: Value| json!({"status_code_or_error_code": status, "message": "quota, billing", "body": {"details": [detail]}});
    check_kind("gemini", error(429, json!({"retryDelay": "3s"})), ErrorKind::RateLimited);
    check_kind(
        "gemini",
        error(429, json!({"quotaId": "RequestsPerDay", "retryDelay": "3s"})),
        ErrorKind::Quota,
    );
    check_kind("gemini", error(429, json!({})), ErrorKind::Quota);
    check_kind("openai-chat", error(429, json!({"retryDelay": "3s"})), ErrorKind::Quota);
    check_kind("vertex", error(403, json!({"reason": "BILLING_DISABLED"})), ErrorKind::Quota);
    check_kind("vertex", error(499, json!({})), ErrorKind::Network);
    check_kind("gemini", error(400, json!({"reason": "API_KEY_INVALID"})), ErrorKind::Auth);
    check_kind("gemini", error(503, json!({})), ErrorKind::Network);
}

#[test]
fn gemini_counts_thinking_and_its_own_tools_beside_the_rest() {
    let said = json!({"stop_reason": "STOP", "usage": {"input": 100, "output": 10, "cache_read": 40, "reasoning": 5},
        "usage_raw": {"thoughts_token_count": 5, "tool_use_prompt_token_count": 7, "total_token_count": 122}});
    let wanted = wanted("gemini", &expected(said)).0.usage;
    assert_eq!(
        (wanted.input, wanted.output, wanted.cache_read, wanted.reasoning),
        (Some(67), Some(15), Some(40), Some(5))
    );
}

#[test]
fn pieces_of_arguments_are_put_together_in_their_places() {
    let piece = |path: &str, text: &str, more: bool| json!({"json_path": path, "string_value": text, "will_continue": more});
    let pieces = [
        piece("$.a[0].b", "x", true),
        piece("$.a[0].b", "y", false),
        piece("$.a[1].b", "z", false),
        json!({"json_path": "$.n", "number_value": 2.5}),
        json!({"json_path": "$.t", "bool_value": true}),
        json!({"json_path": "$.u"}),
    ];
    let said = json!({"stop_reason": "STOP", "tool_calls": [{"name": "f", "partial_args": pieces}]});
    let calls = wanted("vertex", &expected(said)).0.calls;
    assert_eq!(calls[0].arguments, json!({"a": [{"b": "xy"}, {"b": "z"}], "n": 2.5, "t": true, "u": null}));
}

#[test]
fn tokens_that_the_sdk_leaves_out_are_wanted() {
    let usage = |protocol: &str, value: Value| {
        let usage = wanted(protocol, &expected(value)).0.usage;
        [usage.input, usage.output, usage.cache_read, usage.cache_write].map(Option::unwrap)
    };
    let hidden = json!({"stop_reason": "stop", "usage": {"input": 35, "output": 12},
        "usage_raw": {"total_tokens": 109}});
    assert_eq!(usage("openai-chat", hidden), [35, 74, 0, 0]);
    let raw = json!({"input_tokens": 26, "output_tokens": 23, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 5});
    assert_eq!(usage("openai-chat", json!({"stop_reason": "stop", "usage_raw": raw})), [26, 23, 4, 5]);
    let calls = json!([{"type": "compaction", "input_tokens": 60_000, "output_tokens": 385},
        {"type": "message", "input_tokens": 10, "output_tokens": 5}]);
    let reply = json!({"stop_reason": "end_turn", "usage": {"input": 10, "output": 5}, "usage_raw": {"iterations": calls}});
    assert_eq!(usage("anthropic", reply), [60_010, 390, 0, 0]);
}

#[test]
fn a_total_that_is_not_the_sum_is_a_contradiction() {
    let said = |total: u64| expected(json!({"usage_raw": {"total_tokens": total}}));
    let found = agent_core::Usage::new(10, 5, 3, 2);
    assert_eq!(contradiction(&said(20), &found), None);
    assert!(contradiction(&said(21), &found).unwrap().contains("total is 21"));
    assert_eq!(contradiction(&said(21), &agent_core::Usage::default()), None, "a failed reply has no counts");
    assert_eq!(contradiction(&expected(json!({})), &found), None);
}
