//! Everything but the conversation.

use agent_core::{
    CacheConfig, ErrorKind, ResponseFormat, ThinkingForm, ThinkingLevel, ToolChoice, ToolDefinition,
};

use super::*;

fn question(change: impl FnOnce(&mut ModelRequest)) -> ModelRequest {
    let mut request = with(model(), history(vec![Message::user("hi")]));
    change(&mut request);
    request
}

fn tools(request: &mut ModelRequest) {
    request.tools = vec![ToolDefinition::new("look", "Looks", json!({"type": "object"}))].into();
}

/// REQ-123.
#[test]
fn a_request_says_everything_before_the_conversation() {
    let request = question(|r| {
        r.system_prompt = "Be brief.".into();
        tools(r);
        r.options.max_tokens = Some(50);
        r.options.thinking_level = ThinkingLevel::High;
        r.options.tool_choice = ToolChoice::Tool("look".into());
        r.session_id = Some("s".repeat(80));
        r.options.response_format =
            ResponseFormat::JsonSchema { name: "n".into(), schema: json!({"type": "object"}), strict: true };
    });
    insta::assert_snapshot!(String::from_utf8(body(&request).unwrap()).unwrap(), @r#"{"model":"gpt-test","stream":true,"store":false,"include":["reasoning.encrypted_content"],"max_output_tokens":50,"reasoning":{"effort":"high","summary":"auto"},"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}},"tool_choice":{"type":"function","name":"look"},"prompt_cache_key":"ssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss","tools":[{"type":"function","name":"look","description":"Looks","parameters":{"type":"object","properties":{}},"strict":false}],"instructions":"Be brief.","input":[{"role":"user","content":"hi"}]}"#);
}

/// REQ-123.
#[test]
fn nothing_is_said_that_need_not_be() {
    let mut request = question(|_| {});
    request.model = ModelConfig::new(ApiProtocol::OpenAiResponses, "vllm", "m").with_limits(0, 0).into();
    assert_eq!(
        String::from_utf8(body(&request).unwrap()).unwrap(),
        r#"{"model":"m","stream":true,"store":false,"input":[{"role":"user","content":"hi"}]}"#
    );
}

#[track_caller]
fn check(change: impl FnOnce(&mut ModelRequest), member: &str, expect: Value) {
    let sent = json_of(&question(change));
    assert_eq!(sent.get(member).cloned().unwrap_or_default(), expect);
}

fn thinks(request: &mut ModelRequest, form: ThinkingForm, level: ThinkingLevel) {
    request.model = model().with_thinking_form(form, []).into();
    request.options.thinking_level = level;
}

/// REQ-130, B-024.
#[test]
fn thinking_is_asked_for_by_effort_and_comes_back_encrypted() {
    let asked = |word: &str| json!({"effort": word, "summary": "auto"});
    check(|r| thinks(r, ThinkingForm::Effort, ThinkingLevel::Minimal), "reasoning", asked("low"));
    check(|r| thinks(r, ThinkingForm::Effort, ThinkingLevel::XHigh), "reasoning", asked("high"));
    check(|r| thinks(r, ThinkingForm::Budget, ThinkingLevel::Medium), "reasoning", asked("medium"));
    check(|r| thinks(r, ThinkingForm::Toggle, ThinkingLevel::Low), "reasoning", asked("low"));
    check(|r| thinks(r, ThinkingForm::Effort, ThinkingLevel::Off), "reasoning", json!(null));
    check(|r| thinks(r, ThinkingForm::None, ThinkingLevel::High), "reasoning", json!(null));
    let encrypted = json!(["reasoning.encrypted_content"]);
    check(|r| thinks(r, ThinkingForm::Effort, ThinkingLevel::Off), "include", encrypted);
    check(|r| thinks(r, ThinkingForm::None, ThinkingLevel::High), "include", json!(null));
    let known = |r: &mut ModelRequest| {
        r.model = ModelConfig::openai_responses("gpt-4.1", "GPT", "k").into();
        r.options.thinking_level = ThinkingLevel::High;
    };
    check(known, "include", json!(null));
}

#[test]
fn the_mode_and_the_context_of_reasoning_are_sent_when_set() {
    use agent_core::model::{ReasoningContext, ReasoningMode};
    let options = |r: &mut ModelRequest| {
        thinks(r, ThinkingForm::Effort, ThinkingLevel::Off);
        r.options.reasoning.mode = Some(ReasoningMode::Pro);
        r.options.reasoning.context = Some(ReasoningContext::AllTurns);
    };
    check(options, "reasoning", json!({"mode": "pro", "context": "all_turns"}));
    let with_effort = |r: &mut ModelRequest| {
        thinks(r, ThinkingForm::Effort, ThinkingLevel::Low);
        r.options.reasoning.mode = Some(ReasoningMode::Standard);
    };
    check(with_effort, "reasoning", json!({"effort": "low", "summary": "auto", "mode": "standard"}));
    let without_thinking = |r: &mut ModelRequest| {
        thinks(r, ThinkingForm::None, ThinkingLevel::High);
        r.options.reasoning.mode = Some(ReasoningMode::Pro);
    };
    check(without_thinking, "reasoning", json!(null));
}

/// B-149.
#[test]
fn a_temperature_is_not_sent_with_thinking() {
    check(|r| r.options.temperature = Some(0.5), "temperature", json!(0.5));
    check(|r| r.options.temperature = Some(f32::NAN), "temperature", json!(null));
    let both = |r: &mut ModelRequest| {
        r.options.temperature = Some(0.5);
        r.options.thinking_level = ThinkingLevel::Low;
    };
    check(both, "temperature", json!(null));
}

#[test]
fn the_limit_of_the_output_is_never_below_what_the_api_takes() {
    check(|r| r.options.max_tokens = Some(1), "max_output_tokens", json!(16));
    check(|r| r.options.max_tokens = Some(17), "max_output_tokens", json!(17));
    check(|_| {}, "max_output_tokens", Value::Null);
}

#[test]
fn the_form_of_the_answer_and_the_choice_of_tools_are_said() {
    check(
        |r| r.options.response_format = ResponseFormat::JsonObject,
        "text",
        json!({"format": {"type": "json_object"}}),
    );
    let schema = |r: &mut ModelRequest| {
        r.options.response_format =
            ResponseFormat::JsonSchema { name: "n".into(), schema: json!({}), strict: false };
    };
    let format = json!({"type": "json_schema", "name": "n", "schema": {}, "strict": false});
    check(schema, "text", json!({ "format": format }));
    let choose = |choice: ToolChoice| {
        move |r: &mut ModelRequest| {
            tools(r);
            r.options.tool_choice = choice;
        }
    };
    check(choose(ToolChoice::Auto), "tool_choice", json!(null));
    check(choose(ToolChoice::None), "tool_choice", json!("none"));
    check(choose(ToolChoice::Required), "tool_choice", json!("required"));
}

#[test]
fn a_session_names_the_cache_unless_caching_is_off() {
    check(|r| r.session_id = Some("s".into()), "prompt_cache_key", json!("s"));
    check(|r| r.session_id = Some(String::new()), "prompt_cache_key", json!(null));
    let off = |r: &mut ModelRequest| {
        r.session_id = Some("s".into());
        r.options.cache_config = CacheConfig::disabled();
    };
    check(off, "prompt_cache_key", json!(null));
}

#[test]
fn what_the_protocol_cannot_say_is_refused_before_anything_is_sent() {
    for request in [
        question(|r| r.options.stop_sequences = vec!["END".into()]),
        question(|r| r.options.tool_choice = ToolChoice::Required),
    ] {
        let error = body(&request).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Other);
        assert!(error.context().unwrap().advice.is_some());
    }
}

#[test]
fn a_server_that_does_not_know_a_member_is_spared_it() {
    let mut dialect = agent_core::ChatDialect::default();
    (dialect.store, dialect.strict_tools) = (Some(false), Some(false));
    let sent = json_of(&question(|r| {
        tools(r);
        r.model = model().with_dialect(dialect).into();
    }));
    assert!(sent.get("store").is_none() && sent["tools"][0].get("strict").is_none());
}

#[test]
fn the_system_prompt_goes_where_the_server_takes_it() {
    let sent = |model: ModelConfig| {
        json_of(&question(|r| {
            r.model = model.into();
            r.system_prompt = "Be brief.".into();
        }))
    };
    let xai = sent(ModelConfig::new(ApiProtocol::OpenAiResponses, "xai", "grok-4.3").with_api_key("k"));
    assert!(xai.get("instructions").is_none());
    assert_eq!(xai["input"][0], json!({"role": "system", "content": "Be brief."}));
    let by_host =
        ModelConfig::new(ApiProtocol::OpenAiResponses, "mine", "m").with_base_url("https://api.x.ai/v1");
    assert_eq!(sent(by_host)["input"].as_array().unwrap().len(), 2);
    assert_eq!(sent(model())["instructions"], "Be brief.");
}
