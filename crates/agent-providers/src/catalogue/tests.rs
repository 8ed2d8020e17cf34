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
        assert!(facts.max_tokens > 0 && facts.max_tokens <= facts.context_window, "{what}");
        assert!(facts.source.split(' ').all(|s| s.starts_with("https://")), "{what}");
        assert!(facts.as_of.len() == "2026-11-21".len(), "{what}");
        assert!(!facts.name.is_empty(), "{what}");
        assert!(!facts.thinking_levels.contains(&ThinkingLevel::Off), "{what}");
        assert!(facts.cost.input <= facts.cost.output, "{what}: an answer costs no less than a prompt");
        assert!(facts.cost.cache_read <= facts.cost.input, "{what}");
        assert!(facts.thinking != ThinkingForm::Budget || facts.max_tokens >= 2_048, "{what}");
        if facts.provider == "anthropic" {
            assert_eq!(facts.api, ApiProtocol::AnthropicMessages, "{what}");
            // The vendor's rule: a cache write costs a quarter more than a prompt token.
            assert_eq!(facts.cost.cache_write * 4, facts.cost.input * 5, "{what}");
        }
    }
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
    check_find("openai", "gpt-4", None);
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
    assert_eq!((model.context_window, model.max_tokens, model.images), (1_000_000, 128_000, true));
    assert_eq!(model.thinking, ThinkingForm::Adaptive);
    assert_eq!((&*model.name, model.base_url.as_deref()), ("Mine", Some("http://localhost:1")));
    assert!(model.api_key.is_some());

    let unknown = ModelConfig::anthropic("claude-of-next-year", "Mine", "key");
    assert_eq!(configure(unknown.clone()), unknown);
    let known = find("groq", "openai/gpt-oss-20b").unwrap().to_model();
    assert_eq!((&*known.provider, known.context_window), ("groq", 131_072));
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
    assert_eq!((facts.context_window, &*facts.name), (1_000, "Ours"));
    assert_eq!((facts.thinking, facts.thinking_off), (ThinkingForm::None, ThinkingOff::Unsaid));
    assert!(facts.forced_tools && facts.sampling && facts.thinking_budget && !facts.json_schema);
    assert_eq!(both.models().len(), models().len() + 1);
    assert_eq!(both.configure(ModelConfig::anthropic("claude-sonnet-4-6", "x", "k")).context_window, 1_000);
    for broken in ["", "{}", "[1]", r#"[{"provider":"x"}]"#] {
        let error = Catalogue::from_json(broken).unwrap_err();
        assert!(error.to_string().contains("cannot be read"), "{error}");
    }
}
