//! Options and breakpoints of the prompt cache.

use agent_core::{CacheConfig, CacheStrategy, CacheTtl, ToolDefinition};

use super::*;

/// A conversation with a call and its result, which ends with a question.
fn talk(id: &str, config: CacheConfig) -> ModelRequest {
    let result = ToolResultMessage::new("a".into(), "look".into(), vec![Content::text("out")]);
    let history = history(vec![
        Message::user("one"),
        reply(vec![call("a", "{}", json!({}))]),
        result.into(),
        Message::user("two"),
    ]);
    let mut request = with(ModelConfig::openai_responses(id, id, "sk-test"), history);
    request.system_prompt = "Be brief.".into();
    request.tools = vec![ToolDefinition::new("look", "Looks.", json!({"type": "object"}))].into();
    request.options.cache_config = config;
    request
}

#[track_caller]
fn check_options(id: &str, config: CacheConfig, expect: Value) {
    let sent = json_of(&talk(id, config));
    assert_eq!(sent.get("prompt_cache_options").cloned().unwrap_or_default(), expect, "{id} {config:?}");
}

#[test]
fn options_are_sent_where_they_differ_from_the_defaults_and_are_understood() {
    let config = CacheConfig::default;
    for (asked, expect) in [
        (config(), json!(null)),
        (config().with_ttl(CacheTtl::OneHour), json!(null)),
        (config().with_ttl(CacheTtl::TwelveHours), json!({"ttl": "12h"})),
        (
            config().with_ttl(CacheTtl::TwelveHours).with_messages_ttl(CacheTtl::ThirtyMinutes),
            json!({"ttl": "12h"}),
        ),
        (config().with_explicit_breakpoints(), json!({"mode": "explicit"})),
        (
            config().with_ttl(CacheTtl::TwelveHours).with_explicit_breakpoints(),
            json!({"mode": "explicit", "ttl": "12h"}),
        ),
        (CacheConfig { enabled: false, ..config().with_ttl(CacheTtl::TwelveHours) }, json!(null)),
    ] {
        check_options("gpt-5.6-sol", asked, expect);
        // Older models refuse the member.
        check_options("gpt-5.5", asked, json!(null));
    }
    let mut other = talk("gpt-5.6-sol", config().with_ttl(CacheTtl::TwelveHours));
    other.model = ModelConfig::new(ApiProtocol::OpenAiResponses, "mine", "gpt-5.6-sol")
        .with_base_url("http://localhost:1")
        .into();
    assert!(json_of(&other).get("prompt_cache_options").is_none(), "only the vendor has them");
}

#[test]
fn explicit_breakpoints_end_the_system_prompt_and_the_message_before_the_last() {
    let plain = json_of(&talk("gpt-5.6-sol", CacheConfig::default()));
    assert!(!plain.to_string().contains("prompt_cache_breakpoint"), "{plain}");
    assert_eq!(plain["instructions"], "Be brief.");

    let sent = json_of(&talk("gpt-5.6-sol", CacheConfig::default().with_explicit_breakpoints()));
    let marked = |text: &str| json!([{"type": "input_text", "text": text, "prompt_cache_breakpoint": {"mode": "explicit"}}]);
    assert_eq!(
        sent["input"],
        json!([
            {"role": "system", "content": marked("Be brief.")},
            {"role": "user", "content": [{"type": "input_text", "text": "one"}]},
            {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": marked("out")},
            {"role": "user", "content": [{"type": "input_text", "text": "two"}]},
        ])
    );
    assert!(sent.get("instructions").is_none());

    let longer = CacheConfig::default()
        .with_ttl(CacheTtl::TwelveHours)
        .with_messages_ttl(CacheTtl::ThirtyMinutes)
        .with_explicit_breakpoints();
    let sent = json_of(&talk("gpt-5.6-sol", longer));
    assert_eq!(sent["prompt_cache_options"], json!({"mode": "explicit"}));
    let of_system = &sent["input"][0]["content"][0]["prompt_cache_breakpoint"];
    assert_eq!(*of_system, json!({"mode": "explicit", "ttl": "12h"}));

    let strategy = CacheStrategy::Manual { cache_system: true, cache_tools: true, cache_messages: false };
    let config = CacheConfig { strategy, ..CacheConfig::default().with_explicit_breakpoints() };
    let sent = json_of(&talk("gpt-5.6-sol", config));
    assert_eq!(sent.to_string().matches("prompt_cache_breakpoint").count(), 1, "{sent}");
}

#[test]
fn a_request_names_the_reply_to_compare_with() {
    let config = CacheConfig::default().with_diagnostics();
    check_options("gpt-5.6-sol", config, json!(null));
    let mut answer = AssistantMessage::new("openai", "gpt-5.6-sol", StopReason::Stop);
    answer.api = Some(ApiProtocol::OpenAiResponses);
    answer.content = vec![Content::text("x")];
    answer.response_id = Some("resp_1".into());
    let mut request = talk("gpt-5.6-sol", config);
    request.history = history(vec![Message::user("one"), answer.into(), Message::user("two")]);
    assert_eq!(json_of(&request)["prompt_cache_options"], json!({"comparison_response_id": "resp_1"}));
    request.options.cache_config = CacheConfig::default();
    assert!(json_of(&request).get("prompt_cache_options").is_none());
}
