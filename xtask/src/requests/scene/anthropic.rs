//! Anthropic Messages.

use agent_core::{
    ApiProtocol, CacheConfig, CacheStrategy, Content, ModelConfig, ResponseFormat, ThinkingBudgets,
    ThinkingLevel, ToolChoice,
};
use serde_json::json;

use super::{LEVELS, Scene, chat, common, gpt, llama, scene, schema};
use crate::requests::past::{self, Past};
use crate::requests::tools;

pub(super) fn scenes(claude: fn(&str) -> ModelConfig) -> anyhow::Result<Vec<Scene>> {
    let budget = claude("claude-sonnet-4-5");
    let adaptive = claude("claude-opus-4-8");
    let blind = claude("claude-haiku-4-5").with_images(false);
    let strangers = [
        ("openai", gpt("gpt-5.5")),
        ("deepseek", chat("deepseek", "deepseek-v4-pro")),
        ("ollama", llama("qwen3-vl")),
        ("another-claude", claude("claude-opus-5")),
    ];
    let mut scenes = common(&budget, &blind, &strangers)?;

    // Each way of thinking, and each way of not doing so.
    for id in [
        "claude-opus-4-8",
        "claude-sonnet-4-6",
        "claude-opus-5",
        "claude-sonnet-5-5",
        "claude-fable-5",
        "claude-haiku-5-5",
    ] {
        let model = claude(id);
        for level in LEVELS.iter().filter(|l| **l != ThinkingLevel::Minimal) {
            let name = format!("{id}-thinking-{}", level.as_str());
            scenes.push(scene(name, &model, past::with_tools(&model)?.end()?, |r| {
                r.options.thinking_level = *level;
                r.options.temperature = Some(1.0);
                r.tools = tools::definitions();
            }));
        }
        scenes.push(scene(format!("{id}-schema"), &model, Past::question()?, |r| {
            r.options.response_format = schema(true);
            r.options.thinking_level = ThinkingLevel::Medium;
        }));
    }
    scenes.push(scene("budget-above-the-limit", &budget, Past::question()?, |r| {
        r.options.max_tokens = Some(100);
        r.options.thinking_level = ThinkingLevel::High;
    }));
    scenes.push(scene("own-budgets", &budget, Past::question()?, |r| {
        r.options.thinking_level = ThinkingLevel::XHigh;
        r.options.thinking_budgets = ThinkingBudgets { xhigh: u32::MAX, ..ThinkingBudgets::default() };
    }));

    // Continues from results, with and without thinking.
    let call = || Content::tool_call("toolu_9", "note", json!({}));
    let result = || vec![(vec![Content::text("kept")], false)];
    let asked = || Past::by(&budget).user(vec![Content::text("Note this.")]);
    let thought = Content::thinking("I note it.", Some("c2ln".to_owned()));
    for (what, history) in [
        ("results-after-thought", asked()?.exchange(vec![thought, call()], result())?.open_end()),
        ("results-without-thought", asked()?.exchange(vec![call()], result())?.open_end()),
    ] {
        scenes.push(scene(what, &budget, history, |r| {
            r.options.thinking_level = ThinkingLevel::Medium;
            r.tools = tools::definitions();
        }));
    }

    // Whether tools are to be called.
    for (what, choice) in [
        ("none", ToolChoice::None),
        ("required", ToolChoice::Required),
        ("tool", ToolChoice::Tool("plan_trip".to_owned())),
    ] {
        for (thinks, model) in [("budget", &budget), ("adaptive", &adaptive)] {
            scenes.push(scene(format!("choice-{what}-{thinks}"), model, Past::question()?, |r| {
                r.options.tool_choice = choice.clone();
                r.tools = tools::definitions();
                r.options.thinking_level = ThinkingLevel::High;
            }));
        }
    }
    let no_native_schema = chat_speaker(&budget);
    scenes.push(scene("schema-by-tool", &no_native_schema, Past::question()?, |r| {
        r.options.response_format = schema(true);
        r.tools = tools::definitions();
    }));
    scenes.push(scene("json-object-with-tools", &budget, Past::question()?, |r| {
        r.options.response_format = ResponseFormat::JsonObject;
        r.tools = tools::definitions();
    }));
    let silent = past::with_tools(&no_native_schema)?.end()?;
    scenes.push(scene("another-speaker", &no_native_schema, silent, |r| {
        r.tools = tools::definitions();
    }));

    // Where prefixes may be cached.
    let manual = |cache_system, cache_tools, cache_messages| CacheConfig {
        strategy: CacheStrategy::Manual { cache_system, cache_tools, cache_messages },
        ..CacheConfig::default()
    };
    for (what, cache) in [
        ("off", CacheConfig::disabled()),
        ("system", manual(true, false, false)),
        ("tools", manual(false, true, false)),
        ("messages", manual(false, false, true)),
        ("all", CacheConfig::default()),
    ] {
        scenes.push(scene(format!("cache-{what}"), &budget, past::with_tools(&budget)?.end()?, |r| {
            r.options.cache_config = cache;
            r.system_prompt = "Be brief.".into();
            r.tools = tools::definitions();
        }));
    }
    let pictures = vec![
        Content::image_url("https://example.org/a.png"),
        Content::image(tools::PIXEL, "image/png"),
        Content::text("Which is which?"),
    ];
    scenes.push(scene("pictures", &budget, Past::by(&budget).user(pictures)?.end()?, |_| {}));
    // A conversation that was cut at its front begins with a reply.
    let reply = Past::by(&budget).reply(vec![Content::text("As I said.")])?;
    scenes.push(scene("begins-with-a-reply", &budget, reply.end()?, |_| {}));
    Ok(scenes)
}

/// A model that is not in the catalogue: of another vendor, where the protocol has others.
fn chat_speaker(claude: &ModelConfig) -> ModelConfig {
    let mut model = claude.clone();
    if claude.api != ApiProtocol::AnthropicVertex {
        model = ModelConfig::new(claude.api, "somebody", "").with_api_key("key-for-loopback");
    }
    model.id = "some-model".to_owned();
    model
}
