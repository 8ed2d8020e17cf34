//! OpenAI Responses, there and on Azure.

use agent_core::{Content, ModelConfig, ThinkingForm, ThinkingLevel, ToolChoice};

use super::{LEVELS, Scene, chat, claude, common, gpt, llama, scene};
use crate::requests::past::{self, Past};
use crate::requests::tools;

/// The scenes, with models from `make`.
pub(super) fn scenes(make: fn(&str) -> ModelConfig) -> anyhow::Result<Vec<Scene>> {
    let reasons = make("gpt-5.5");
    let plain = make("gpt-4.1");
    let blind = make("gpt-4o-mini").with_images(false);
    let strangers = [
        ("anthropic", claude("claude-sonnet-4-5")),
        ("chat", gpt("gpt-5.5")),
        ("deepseek", chat("deepseek", "deepseek-v4-pro")),
        ("ollama", llama("qwen3-vl")),
        ("another-gpt", make("gpt-5.4")),
    ];
    let mut scenes = common(&reasons, &blind, &strangers)?;
    for scene in &mut scenes {
        // The protocol has none and returns an error before a request is sent.
        scene.request.options.stop_sequences.clear();
    }
    for (what, choice) in [
        ("none", ToolChoice::None),
        ("required", ToolChoice::Required),
        ("tool", ToolChoice::Tool("plan_trip".to_owned())),
    ] {
        scenes.push(scene(format!("choice-{what}"), &plain, Past::question()?, |r| {
            r.options.tool_choice = choice;
            r.tools = tools::definitions();
        }));
    }
    scenes.push(scene("plain-model", &plain, past::with_tools(&plain)?.end()?, |r| {
        r.system_prompt = "Be brief.".into();
        r.tools = tools::definitions();
        r.options.thinking_level = ThinkingLevel::High;
        r.options.temperature = Some(1.5);
    }));
    let pictures = vec![Content::image_url("https://example.org/a.png"), Content::text("What is it?")];
    scenes.push(scene("picture-by-address", &plain, Past::by(&plain).user(pictures)?.end()?, |_| {}));
    let full = make("some-later-gpt").with_thinking_form(ThinkingForm::Effort, LEVELS);
    for level in [ThinkingLevel::Minimal, ThinkingLevel::XHigh] {
        scenes.push(scene(format!("full-model-{}", level.as_str()), &full, Past::question()?, |r| {
            r.options.thinking_level = level;
        }));
    }
    scenes.push(scene("smallest-answer", &plain, Past::question()?, |r| r.options.max_tokens = Some(1)));
    Ok(scenes)
}
