//! Gemini, by the Gemini API and by Vertex AI.

use agent_core::{Content, ModelConfig, ResponseFormat, ThinkingBudgets, ThinkingLevel, ToolChoice};
use serde_json::json;

use super::{LEVELS, Scene, chat, claude, common, gpt, llama, scene, schema};
use crate::requests::past::{self, Past};
use crate::requests::tools;

pub(super) fn scenes(model: fn(&str) -> ModelConfig) -> anyhow::Result<Vec<Scene>> {
    let budget = model("gemini-2.5-flash");
    let third = model("gemini-3.5-flash");
    let blind = model("gemini-2.5-flash-lite").with_images(false);
    let strangers = [
        ("anthropic", claude("claude-sonnet-4-5")),
        ("openai", gpt("gpt-5.5")),
        ("deepseek", chat("deepseek", "deepseek-v4-pro")),
        ("ollama", llama("qwen3-vl")),
        ("another-gemini", model("gemini-3.1-pro-preview")),
    ];
    let mut scenes = common(&budget, &blind, &strangers)?;

    // Each way of thinking, and each way of not doing so.
    for id in [
        "gemini-3.8-flash",
        "gemini-3.5-flash",
        "gemini-3.1-pro-preview",
        "gemini-2.5-pro",
        "gemini-2.5-flash-lite",
        "gemini-2.0-flash",
        "gemini-3-unheard",
        "gemini-2.5-flash-image",
    ] {
        let model = model(id);
        for level in LEVELS {
            let name = format!("{id}-thinking-{}", level.as_str());
            scenes.push(scene(name, &model, past::with_tools(&model)?.end()?, |r| {
                r.options.thinking_level = *level;
                r.options.temperature = Some(1.0);
                r.tools = tools::definitions();
            }));
        }
        scenes.push(scene(format!("{id}-schema-with-tools"), &model, Past::question()?, |r| {
            r.options.response_format = schema(true);
            r.tools = tools::definitions();
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

    // The history that Gemini 3 receives: from other providers and from itself.
    for (name, stranger) in &strangers {
        let histories =
            [("history", past::with_tools(stranger)?), ("strange-history", past::strange(stranger)?)];
        for (what, history) in histories {
            let name = format!("third-{what}-of-{name}");
            scenes.push(scene(name, &third, history.end()?, |r| r.tools = tools::definitions()));
        }
    }
    scenes.push(scene("third-own-history", &third, past::with_tools(&third)?.end()?, |r| {
        r.tools = tools::definitions();
    }));
    scenes.push(scene("third-own-strange-history", &third, past::own_strange(&third)?.end()?, |r| {
        r.tools = tools::definitions();
    }));
    let numbered = |prefix: &str| {
        let call = Content::tool_call(format!("{prefix}0"), "note", json!({}));
        Past::by(&third)
            .user(vec![Content::text("Note this.")])?
            .exchange(vec![call], vec![(vec![Content::text("kept")], false)])?
            .end()
    };
    for prefix in ["google-fc-", "vertex-fc-"] {
        scenes.push(scene(format!("{prefix}ids"), &third, numbered(prefix)?, |r| {
            r.tools = tools::definitions();
        }));
    }

    // Whether tools are to be called.
    for (what, choice) in [
        ("none", ToolChoice::None),
        ("required", ToolChoice::Required),
        ("tool", ToolChoice::Tool("plan_trip".to_owned())),
    ] {
        for (form, format) in [("free", ResponseFormat::Text), ("schema", schema(true))] {
            scenes.push(scene(format!("choice-{what}-{form}"), &budget, Past::question()?, |r| {
                r.options.tool_choice = choice.clone();
                r.options.response_format = format.clone();
                r.tools = tools::definitions();
            }));
        }
    }
    scenes.push(scene("json-object-with-tools", &budget, Past::question()?, |r| {
        r.options.response_format = ResponseFormat::JsonObject;
        r.tools = tools::definitions();
    }));

    let pictures = vec![
        Content::image_url("https://example.org/a.png?size=small"),
        Content::image(tools::PIXEL, "image/png"),
        Content::text("Which is which?"),
    ];
    scenes.push(scene("pictures", &budget, Past::by(&budget).user(pictures)?.end()?, |_| {}));
    // A conversation that was cut at its front begins with a reply, and two replies may follow each other.
    let reply = Past::by(&budget).reply(vec![Content::text("As I said.")])?;
    let twice = reply.reply(vec![Content::text("And once more.")])?;
    scenes.push(scene("begins-with-a-reply", &budget, twice.end()?, |_| {}));
    Ok(scenes)
}
