use std::collections::BTreeSet;

use agent_core::{ApiProtocol, ThinkingForm, ThinkingLevel, Usage};

use super::*;

#[test]
fn the_checked_in_list_is_read_and_every_entry_is_whole() {
    let parsed = Catalogue::from_json(BUILTIN).unwrap();
    assert_eq!(parsed.models(), models());
    assert!(models().len() >= 25);
    let mut seen = BTreeSet::new();
    for facts in models() {
        let what = format!("{}/{}", facts.provider, facts.id);
        assert!(seen.insert(what.clone()), "{what} twice");
        assert!(facts.max_tokens != Some(0) && facts.context_window != Some(0), "{what}");
        if let (Some(limit), Some(window)) = (facts.max_tokens, facts.context_window) {
            assert!(limit <= window, "{what}");
        }
        assert!(facts.source.split(' ').all(|s| s.starts_with("https://")), "{what}");
        assert!(facts.as_of.len() == "2026-11-21".len(), "{what}");
        assert!(!facts.name.is_empty(), "{what}");
        assert!(!facts.thinking_levels.contains(&ThinkingLevel::Off), "{what}");
        assert!(facts.cost.input <= facts.cost.output, "{what}: an answer costs no less than a prompt");
        assert!(facts.cost.cache_read <= facts.cost.input, "{what}");
        assert!(facts.thinking != Some(ThinkingForm::Budget) || facts.max_tokens >= Some(2_048), "{what}");
        if facts.provider == "anthropic" {
            assert_eq!(facts.api, ApiProtocol::AnthropicMessages, "{what}");
            // The vendor's rule: a cache write costs a quarter more than a prompt token.
            assert_eq!(facts.cost.cache_write * 4, facts.cost.input * 5, "{what}");
        }
    }
}

#[test]
fn searches_of_the_web_cost_what_the_vendors_charge() {
    for facts in models() {
        let charges = match facts.api {
            ApiProtocol::AnthropicMessages => true,
            ApiProtocol::OpenAiResponses => facts.provider == "openai",
            _ => false,
        };
        let expected = if charges && facts.cost.is_known() { 10_000_000 } else { 0 };
        assert_eq!(facts.cost.web_search, expected, "{}/{}", facts.provider, facts.id);
    }
    let model = configure(ModelConfig::anthropic("claude-sonnet-5", "Sonnet", "key"));
    let usage = Usage::default().with_server_tool_calls(3, 3);
    assert_eq!(usage.cost(&model.cost).total, 30_000, "three cents");
}

#[track_caller]
fn check_find(provider: &str, id: &str, expect: Option<&str>) {
    assert_eq!(find(provider, id).map(|f| f.id.as_str()), expect, "{provider}/{id}");
}

#[test]
fn an_id_is_found_with_its_date_its_tag_or_as_it_is() {
    check_find("anthropic", "claude-haiku-4-5", Some("claude-haiku-4-5"));
    check_find("anthropic", "claude-haiku-4-5-20251001", Some("claude-haiku-4-5"));
    check_find("anthropic", "claude-sonnet-5-20260601", Some("claude-sonnet-5"));
    check_find("anthropic", "claude-sonnet-5-latest", Some("claude-sonnet-5"));
    check_find("openai", "gpt-4.1-2025-04-14", Some("gpt-4.1"));
    check_find("openai", "gpt-4o-mini-2024-07-18", Some("gpt-4o-mini"));
    check_find("google", "gemini-2.5-pro", Some("gemini-2.5-pro"));
    check_find("google_vertex", "gemini-2.5-flash@20250617", Some("gemini-2.5-flash"));
    check_find("ollama", "qwen3-coder:30b", Some("qwen3-coder:30b"));
    check_find("ollama", "qwen3-coder:30b-a3b-q4_K_M", Some("qwen3-coder:30b"));
    check_find("ollama", "qwen3:8b", Some("qwen3"));
    for id in [
        "anthropic.claude-sonnet-4-5",
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "global.anthropic.claude-sonnet-4-5-20250929-v1",
        "arn:aws:bedrock:us-east-1:1:inference-profile/eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
    ] {
        check_find("bedrock", id, Some("anthropic.claude-sonnet-4-5"));
    }
    check_find("bedrock", "us.amazon.nova-2-lite-v1:0", Some("amazon.nova-2-lite"));
}

#[test]
fn another_model_is_not_taken_for_a_known_one() {
    check_find("anthropic", "claude-sonnet-4-9", None);
    check_find("anthropic", "claude-opus-5-6", None);
    check_find("openai", "gpt-4o-mini-audio-preview", None);
    check_find("openai", "gpt-3", None);
    check_find("openrouter", "gpt-4.1", None);
    check_find("ollama", "qwen3-embedding", None);
    check_find("anthropic", "", None);
    check_find("bedrock", "mars.anthropic.claude-sonnet-4-5", None);
    check_find("bedrock", "anthropic.claude-v2", None);
    check_find("bedrock", "", None);
}

#[test]
fn a_configuration_is_filled_and_what_it_says_of_the_caller_stays() {
    let before =
        ModelConfig::anthropic("claude-haiku-5-5", "Mine", "key").with_base_url("http://localhost:1");
    let model = configure(before);
    assert_eq!(
        (model.context_window, model.max_tokens, model.images),
        (Some(1_000_000), Some(128_000), true)
    );
    assert_eq!(model.thinking, ThinkingForm::Adaptive);
    assert_eq!((&*model.name, model.base_url.as_deref()), ("Mine", Some("http://localhost:1")));
    assert!(model.api_key.is_some());

    let unknown = ModelConfig::anthropic("claude-of-next-year", "Mine", "key");
    assert_eq!(configure(unknown.clone()), unknown);
    let known = find("groq", "openai/gpt-oss-20b").unwrap().to_model();
    assert_eq!((&*known.provider, known.context_window), ("groq", Some(131_072)));
}

#[test]
fn prices_are_micro_units_and_long_prompts_have_their_tier() {
    let prices = &find("anthropic", "claude-haiku-5-5").unwrap().cost;
    assert_eq!(Usage::new(100_000, 0, 0, 0).cost(prices).total, 10_000);
    assert_eq!(Usage::new(100_001, 0, 0, 0).cost(prices).total, 50_001);
    let prices = &find("google", "gemini-2.5-pro").unwrap().cost;
    assert_eq!(Usage::new(200_000, 1_000, 0, 0).cost(prices).total, 250_000 + 10_000);
    assert_eq!(Usage::new(1, 1_000, 200_000, 0).cost(prices).total, 50_000 + 15_000 + 3);
    let prices = &find("anthropic", "claude-sonnet-4-6").unwrap().cost;
    assert_eq!(Usage::new(1_000, 100, 10_000, 0).cost(prices).total, 3_000 + 1_500 + 3_000);
}

#[test]
fn a_list_of_ones_own_wins_and_a_broken_one_is_an_error() {
    let mine = r#"[{"provider":"anthropic","id":"claude-sonnet-4-6","name":"Ours","api":"anthropic_messages",
        "contextWindow":1000,"maxTokens":100,"asOf":"2026-11-21","source":"a contract"}]"#;
    let both = Catalogue::builtin().with(Catalogue::from_json(mine).unwrap());
    let facts = both.find("anthropic", "claude-sonnet-4-6").unwrap();
    assert_eq!((facts.context_window, &*facts.name), (Some(1_000), "Ours"));
    assert_eq!((facts.thinking, facts.thinking_off), (None, ThinkingOff::Unsaid));
    assert!(
        facts.forced_tools
            && facts.sampling
            && facts.thinking_budget
            && facts.json_schema.is_none()
            && facts.images.is_none()
    );
    assert_eq!(both.models().len(), models().len() + 1);
    assert_eq!(
        both.configure(ModelConfig::anthropic("claude-sonnet-4-6", "x", "k")).context_window,
        Some(1_000)
    );
    for broken in ["", "{}", "[1]", r#"[{"provider":"x"}]"#] {
        let error = Catalogue::from_json(broken).unwrap_err();
        assert!(error.to_string().contains("cannot be read"), "{error}");
    }
}

/// The names of chat models in the newest SDKs of the vendors.
#[test]
fn the_models_of_the_sdks_have_entries() {
    let of_provider = [
        (
            "openai",
            "gpt-6.2-astra gpt-6.2-sol gpt-6.1-sol gpt-6.1-terra gpt-6-astra gpt-6-sol gpt-6-luna gpt-5.6-luna o4-mini",
        ),
        (
            "anthropic",
            "claude-mythos-5-2 claude-fable-5-2 claude-opus-5-5 claude-sonnet-5-5 claude-haiku-5-5 claude-opus-4-1-20250805",
        ),
        (
            "google",
            "gemini-4-argon gemini-3.8-flash gemini-3.7-flash gemini-3-pro-preview gemini-3.1-flash-lite",
        ),
        (
            "bedrock",
            "us.amazon.nova-pro-v1:0 us.amazon.nova-premier-v1:0 us.anthropic.claude-sonnet-5-5-v1:0 anthropic.claude-opus-5 global.anthropic.claude-haiku-5-5",
        ),
        ("ollama", "gemma4:12b llama3.2 qwen3.6:27b gpt-oss:120b"),
    ];
    for (provider, ids) in of_provider {
        for id in ids.split(' ') {
            assert!(find(provider, id).is_some(), "{provider}/{id}");
        }
    }
    let known = find("openai", "gpt-6.2-sol").unwrap();
    assert_eq!((known.context_window, known.max_tokens), (Some(1_050_000), Some(128_000)));
    assert_eq!(Usage::new(1_000_000, 1_000, 0, 0).cost(&known.cost).total, 4_000_000 + 15_000);
}

/// An entry that states nothing but the name of a model leaves the configuration as it is.
#[test]
fn an_entry_without_facts_changes_nothing() {
    let bare = find("openai", "gpt-6-rosalind").unwrap();
    assert_eq!((bare.context_window, bare.max_tokens, bare.images), (None, None, None));
    let model = ModelConfig::openai_responses("gpt-6-rosalind", "R", "key");
    assert_eq!(configure(model.clone()), model);
    assert_eq!(complete(&model), None);
}

/// REQ-042.
#[test]
fn a_model_string_gets_the_protocol_of_its_entry() {
    let api = |text: &str| named(text).unwrap().api;
    assert_eq!(api("openai/gpt-6.2-sol"), ApiProtocol::OpenAiResponses);
    assert_eq!(api("openai/gpt-4.1"), ApiProtocol::OpenAiCompletions);
    assert_eq!(api("openai_responses/gpt-4.1"), ApiProtocol::OpenAiResponses);
    assert_eq!(api("openai/gpt-of-next-year"), ApiProtocol::OpenAiCompletions);
    assert_eq!(named("anthropic/claude-sonnet-5-5").unwrap().max_tokens, Some(128_000));
    assert!(named("nobody/x").is_err());
}
