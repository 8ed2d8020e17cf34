//! Models, keys and levels.

use serde_json::json;

use super::{
    AnthropicAuth, ApiProtocol, CacheConfig, CacheStrategy, ChatDialect, MAX_PROTOCOL_NAME, ModelConfig,
    ResponseFormat, Secret, ThinkingBudgets, ThinkingForm, ThinkingLevel, ToolChoice,
};
use crate::history::History;
use crate::provider::ModelRequest;

const KEY: &str = "sk-test-0123456789";

#[test]
fn no_debug_text_holds_a_secret() {
    let model = ModelConfig::anthropic("claude", "Claude", KEY).with_header("x-other", KEY);
    let mut request = ModelRequest::new(model.clone(), History::new());
    request.api_key = Some(Secret::new(KEY));
    request.options.headers.insert("authorization".into(), Some(KEY.into()));
    for text in [
        format!("{model:?}"),
        format!("{model:#?}"),
        format!("{request:?}"),
        format!("{:?}", Secret::new(KEY)),
    ] {
        assert!(!text.contains(KEY) && !text.contains("0123"), "{text}");
    }
    assert!(format!("{model:?}").contains("x-other"), "the names of headers are shown");
}

#[test]
fn no_debug_text_holds_a_secret_that_is_part_of_an_address() {
    for (address, shown) in [
        ("https://user:sk-0123@host.example:8080/v1", "https://host.example:8080/v1"),
        ("https://host.example/v1?key=sk-0123#sk-0123", "https://host.example/v1"),
        ("sk-0123@host.example/v1", "host.example/v1"),
        ("http://localhost:11434", "http://localhost:11434"),
    ] {
        let text = format!("{:?}", ModelConfig::local(address, "m", "k"));
        assert!(!text.contains("0123") && text.contains(&format!("\"{shown}\"")), "{text}");
    }
}

#[test]
fn a_secret_is_taken_out_of_texts_unless_it_is_too_short_to_be_one() {
    let text = format!("bad key {KEY}, again {KEY}!");
    assert_eq!(Secret::new(KEY).redact(&text), "bad key ****, again ****!");
    assert_eq!(Secret::new("").redact("abc"), "abc");
    assert_eq!(Secret::new("abc").redact("abcabc"), "abcabc");
    assert!(Secret::new("").is_empty() && !Secret::new("x").is_empty());
}

#[test]
fn the_key_of_a_call_wins_over_that_of_the_model_and_an_empty_key_is_none() {
    let mut request = ModelRequest::new(ModelConfig::openai("gpt", "GPT", "model"), History::new());
    assert_eq!(request.key().map(Secret::expose), Some("model"));
    request.api_key = Some(Secret::new("call"));
    assert_eq!(request.key().map(Secret::expose), Some("call"));
    assert_eq!(ModelConfig::local("http://localhost:1/v1", "m", "").api_key, None);
}

/// REQ-014.
#[test]
fn caching_is_on_and_automatic_unless_said_otherwise() {
    assert_eq!(
        serde_json::to_value(CacheConfig::default()).unwrap(),
        json!({"enabled": true, "strategy": "auto"})
    );
    assert_eq!(serde_json::to_value(CacheStrategy::Disabled).unwrap(), json!("disabled"));
    let manual = CacheStrategy::Manual { cache_system: true, cache_tools: false, cache_messages: true };
    let shape = json!({"manual": {"cache_system": true, "cache_tools": false, "cache_messages": true}});
    assert_eq!(serde_json::to_value(manual).unwrap(), shape);
    assert_eq!(serde_json::from_value::<CacheStrategy>(shape).unwrap(), manual);
}

#[test]
fn lifetimes_of_caches_have_the_vendors_names() {
    use crate::model::CacheTtl::{FiveMinutes, OneHour, ThirtyMinutes, TwelveHours};
    let all = [FiveMinutes, ThirtyMinutes, OneHour, TwelveHours];
    for (ttl, (name, minutes)) in all.into_iter().zip([("5m", 5), ("30m", 30), ("1h", 60), ("12h", 720)]) {
        assert_eq!((serde_json::to_value(ttl).unwrap(), ttl.as_str()), (json!(name), name));
        assert_eq!(ttl.duration().as_secs(), minutes * 60);
    }
    assert!(all.is_sorted());
    let config = CacheConfig::default()
        .with_ttl(OneHour)
        .with_messages_ttl(FiveMinutes)
        .with_explicit_breakpoints()
        .with_diagnostics();
    let shape = json!({"enabled": true, "strategy": "auto", "ttl": "1h", "messages_ttl": "5m",
        "breakpoints": "explicit", "diagnostics": "on"});
    assert_eq!(serde_json::to_value(config).unwrap(), shape);
    assert_eq!(serde_json::from_value::<CacheConfig>(shape).unwrap(), config);
    let old = json!({"enabled": true, "strategy": "auto"});
    assert_eq!(serde_json::from_value::<CacheConfig>(old).unwrap(), CacheConfig::default());
}

/// REQ-019.
#[test]
fn thinking_levels_are_lower_case_words_in_rising_order() {
    use ThinkingLevel::{High, Low, Medium, Minimal, Off, XHigh};
    let all = [Off, Minimal, Low, Medium, High, XHigh];
    for (level, text) in all.into_iter().zip(["off", "minimal", "low", "medium", "high", "xhigh"]) {
        assert_eq!((serde_json::to_value(level).unwrap(), level.as_str()), (json!(text), text));
        assert_eq!(serde_json::from_value::<ThinkingLevel>(json!(text)).unwrap(), level);
    }
    assert!(all.is_sorted());
    assert_eq!(ThinkingLevel::default(), Off);
}

#[track_caller]
fn clamps(level: ThinkingLevel, supported: &[ThinkingLevel], expect: ThinkingLevel) {
    assert_eq!(level.clamp_to(supported), expect);
}

#[test]
fn a_level_that_is_not_understood_becomes_the_next_higher_else_the_highest() {
    use ThinkingLevel::{High, Low, Medium, Minimal, Off, XHigh};
    clamps(Low, &[], Low);
    clamps(Low, &[Low, High], Low);
    clamps(Minimal, &[Low, High], Low);
    clamps(Medium, &[High, Low], High);
    clamps(XHigh, &[Low, High], High);
    clamps(Off, &[Low, High], Off);
}

#[test]
fn budgets_are_those_of_the_table() {
    let budgets = ThinkingBudgets::default();
    let of = |level| budgets.for_level(level);
    assert_eq!(of(ThinkingLevel::Off), None);
    assert_eq!(of(ThinkingLevel::Minimal), Some(128));
    assert_eq!(of(ThinkingLevel::Low), Some(512));
    assert_eq!(of(ThinkingLevel::Medium), Some(2_048));
    assert_eq!(of(ThinkingLevel::High), Some(8_192));
    assert_eq!(of(ThinkingLevel::XHigh), Some(16_384));
}

#[track_caller]
fn protocol(api: ApiProtocol, json: &str, provider_id: &str) {
    assert_eq!(serde_json::to_value(api).unwrap(), json);
    assert_eq!(serde_json::from_value::<ApiProtocol>(json!(json)).unwrap(), api);
    assert_eq!((api.as_str(), api.to_string().as_str(), api.provider_id()), (json, json, provider_id));
    assert!(api.feature().is_some_and(|feature| !feature.is_empty()));
}

#[test]
fn protocols_have_the_names_of_session_files() {
    protocol(ApiProtocol::AnthropicMessages, "anthropic_messages", "anthropic");
    protocol(ApiProtocol::OpenAiCompletions, "openai_completions", "openai");
    protocol(ApiProtocol::OpenAiResponses, "openai_responses", "openai_responses");
    protocol(ApiProtocol::AzureOpenAiResponses, "azure_openai_responses", "azure_openai");
    protocol(ApiProtocol::GoogleGenerativeAi, "google_generative_ai", "google");
    protocol(ApiProtocol::GoogleVertex, "google_vertex", "google_vertex");
    protocol(ApiProtocol::AnthropicVertex, "anthropic_vertex", "anthropic_vertex");
    protocol(ApiProtocol::BedrockConverseStream, "bedrock_converse_stream", "bedrock");
    protocol(ApiProtocol::OllamaChat, "ollama_chat", "ollama");
    assert_eq!(
        serde_json::from_value::<ApiProtocol>(json!("open_ai_completions")).unwrap(),
        ApiProtocol::OpenAiCompletions
    );
}

#[test]
fn a_custom_protocol_has_a_name_that_no_built_in_one_can_have() {
    let toy = ApiProtocol::custom("toy").unwrap();
    assert_eq!(
        (toy.as_str(), toy.to_string().as_str(), toy.provider_id()),
        ("custom:toy", "custom:toy", "toy")
    );
    assert_eq!(toy.feature(), None);
    assert_eq!(serde_json::to_value(toy).unwrap(), "custom:toy");
    assert_eq!(serde_json::from_value::<ApiProtocol>(json!("custom:toy")).unwrap(), toy);
    let model = ModelConfig::custom("toy", "acme", "toy-1").unwrap();
    assert_eq!((model.api, model.provider.as_str(), model.id.as_str()), (toy, "acme", "toy-1"));

    let same = ApiProtocol::custom("ollama_chat").unwrap();
    assert_ne!(same, ApiProtocol::OllamaChat);
    assert_eq!(serde_json::from_value::<ApiProtocol>(serde_json::to_value(same).unwrap()).unwrap(), same);
    assert_ne!(toy, same);

    let longest = "a".repeat(MAX_PROTOCOL_NAME);
    assert_eq!(ApiProtocol::custom(&longest).unwrap().provider_id(), longest);
    for wrong in ["", "Toy", "to y", "1toy", "custom:toy", "t\u{e4}", "_a", &format!("{longest}a")] {
        let error = ApiProtocol::custom(wrong).unwrap_err();
        assert!(error.to_string().contains(&format!("{wrong:?}")), "{error}");
        assert!(serde_json::from_value::<ApiProtocol>(json!(format!("custom:{wrong}"))).is_err(), "{wrong}");
    }
    assert!(serde_json::from_value::<ApiProtocol>(json!("toy")).is_err(), "a name needs its prefix");
    assert_eq!(size_of::<Option<ApiProtocol>>(), 32);
}

/// REQ-147.
#[test]
fn a_model_says_where_it_is_and_how_its_server_differs() {
    let mut dialect = ChatDialect::default();
    assert_eq!(serde_json::to_value(&dialect).unwrap(), json!({}), "nothing is said, so all is found out");
    dialect.developer_role = Some(false);
    dialect.reasoning_effort = Some(true);
    let model = ModelConfig::local("http://localhost:8080/v1", "m", "k")
        .with_dialect(dialect)
        .with_max_tokens_field("max_completion_tokens")
        .with_header("x-a", "1")
        .without_header("x-b");
    assert_eq!(model.base_url.as_deref(), Some("http://localhost:8080/v1"));
    assert_eq!(model.dialect.max_tokens_field.as_deref(), Some("max_completion_tokens"));
    assert_eq!((model.dialect.developer_role, model.dialect.reasoning_effort), (Some(false), Some(true)));
    assert_eq!(
        model.headers.into_iter().collect::<Vec<_>>(),
        [("x-a".into(), Some("1".into())), ("x-b".into(), None)]
    );
}

#[track_caller]
fn made(model: &ModelConfig, api: ApiProtocol, provider: &str) {
    assert_eq!((model.api, model.provider.as_str()), (api, provider));
    assert_eq!((model.context_window, model.max_tokens), (None, None), "no limit is invented");
}

#[test]
fn each_protocol_has_a_constructor() {
    made(&ModelConfig::anthropic("m", "M", KEY), ApiProtocol::AnthropicMessages, "anthropic");
    made(&ModelConfig::openai("m", "M", KEY), ApiProtocol::OpenAiCompletions, "openai");
    made(&ModelConfig::openrouter("m", KEY), ApiProtocol::OpenAiCompletions, "openrouter");
    made(&ModelConfig::local("http://h/v1", "m", ""), ApiProtocol::OpenAiCompletions, "local");
    made(&ModelConfig::openai_responses("m", "M", KEY), ApiProtocol::OpenAiResponses, "openai");
    made(&ModelConfig::azure("https://h", "m", KEY), ApiProtocol::AzureOpenAiResponses, "azure");
    made(&ModelConfig::google("m", "M", KEY), ApiProtocol::GoogleGenerativeAi, "google");
    made(&ModelConfig::vertex("p", "r", "m"), ApiProtocol::GoogleVertex, "google_vertex");
    made(&ModelConfig::vertex_claude("p", "r", "m"), ApiProtocol::AnthropicVertex, "anthropic_vertex");
    made(&ModelConfig::bedrock("r", "m"), ApiProtocol::BedrockConverseStream, "bedrock");
    made(&ModelConfig::ollama("m"), ApiProtocol::OllamaChat, "ollama");
    let default = ModelConfig::default();
    assert_eq!((default.context_window, default.max_tokens), (Some(32_768), Some(8_192)));
    let unknown = default.with_limits(0, 0);
    assert_eq!((unknown.context_window, unknown.max_tokens), (None, None));
    let plain = ModelConfig::new(ApiProtocol::OpenAiCompletions, "groq", "llama").with_limits(8_000, 1_000);
    assert_eq!(
        (plain.name.as_str(), plain.max_tokens, plain.thinking),
        ("llama", Some(1_000), ThinkingForm::None)
    );
    assert_eq!(plain.anthropic_auth, AnthropicAuth::ApiKey, "nothing but the caller chooses another one");
}

#[test]
fn choices_and_formats_have_stable_names() {
    assert_eq!(serde_json::to_value(ToolChoice::default()).unwrap(), "auto");
    assert_eq!(serde_json::to_value(ToolChoice::Tool("bash".into())).unwrap(), json!({"tool": "bash"}));
    assert_eq!(serde_json::to_value(ResponseFormat::default()).unwrap(), json!({"type": "text"}));
    let format = ResponseFormat::JsonSchema { name: "n".into(), schema: json!({}), strict: true };
    assert_eq!(
        serde_json::to_value(format).unwrap(),
        json!({"type": "json_schema", "name": "n", "schema": {}, "strict": true})
    );
}

#[test]
fn the_greatest_level_is_named_and_gives_way() {
    use ThinkingLevel::{High, Max, XHigh};
    assert_eq!((Max.as_str(), serde_json::to_value(Max).unwrap()), ("max", json!("max")));
    assert_eq!(Max.clamp_to(&[High, XHigh]), XHigh);
    assert_eq!(Max.clamp_to(&[]), Max);
    let budgets = ThinkingBudgets::default();
    assert_eq!(budgets.for_level(Max), budgets.for_level(XHigh));
}
