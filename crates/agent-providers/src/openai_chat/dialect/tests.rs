//! Who speaks how.

use super::*;
use agent_core::{ApiProtocol, ChatDialect};

fn model(provider: &str, base: Option<&str>) -> ModelConfig {
    let mut model = ModelConfig::new(ApiProtocol::OpenAiCompletions, provider, "m");
    model.base_url = base.map(str::to_owned);
    model
}

/// B-157.
#[test]
fn a_vendor_is_known_by_its_address_before_its_name() {
    let fields = |provider, base| {
        let d = Dialect::of(&model(provider, base));
        (d.max_tokens, d.auth, d.thinking)
    };
    let openai = (Cow::Borrowed("max_completion_tokens"), Auth::Bearer, ThinkingFormat::OpenAi);
    let unknown = (Cow::Borrowed("max_tokens"), Auth::OptionalBearer, ThinkingFormat::OpenAi);
    let zai = (Cow::Borrowed("max_tokens"), Auth::Bearer, ThinkingFormat::Zai);
    assert_eq!(fields("openai", None), openai);
    assert_eq!(fields("whoever", Some("https://eu.api.openai.com/v1")), openai);
    assert_eq!(fields("openai", Some("https://proxy.example/v1")), openai);
    assert_eq!(fields("openai", Some("https://api.z.ai/api/paas/v4")), zai);
    assert_eq!(fields("local", Some("http://localhost:8080/v1")), unknown);
    assert_eq!(fields("local", Some("https://notapi.openai.com.example/v1")), unknown);
    assert_eq!(fields("local", Some("https://evilapi.z.ai/v1")), unknown);
}

/// REQ-147, B-157.
#[test]
fn a_set_field_wins_and_an_unset_one_is_detected() {
    let mut model = model("mistral", None);
    let mut set = ChatDialect::default();
    set.max_tokens_field = Some("max_completion_tokens".into());
    set.tool_result_name = Some(true);
    set.reasoning_field = Some(ReasoningField::Reasoning);
    set.max_tool_call_id = Some(30);
    model.dialect = set;
    let dialect = Dialect::of(&model);
    assert_eq!(dialect.max_tokens, "max_completion_tokens");
    assert_eq!(dialect.ids, Ids::Word(30));
    assert_eq!(dialect.replay, Replay::Field("reasoning"));
    assert!(dialect.tool_result_name && !dialect.usage_in_stream, "the second is detected");
}

/// The field is no part of a tool message for most servers, and optional for Mistral.
#[test]
fn a_tools_name_stands_beside_its_result_only_where_that_is_set() {
    for v in VENDORS {
        assert!(!Dialect::of(&model(v.name, None)).tool_result_name, "{}", v.name);
    }
}

#[test]
fn every_vendor_has_an_address_of_its_own_and_is_found_by_it() {
    for v in VENDORS {
        assert_eq!(Dialect::of(&model(v.name, None)).base, v.base);
        let found = vendor(&model("x", Some(v.base))).map(|v| v.name);
        assert_eq!(found, Some(v.name), "{}", v.base);
    }
}

/// B-147.
#[test]
fn cache_markers_go_to_anthropic_models_behind_openrouter_only() {
    let marks = |id: &str| Dialect::of(&ModelConfig::openrouter(id, "k")).cache_markers;
    assert!(marks("anthropic/claude-sonnet-4.6") && !marks("openai/gpt-5"));
    let mut model = ModelConfig::openrouter("anthropic/claude-sonnet-4.6", "k");
    model.prompt_cache = false;
    assert!(!Dialect::of(&model).cache_markers);
}
