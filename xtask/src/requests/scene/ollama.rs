//! Ollama's native chat.

use agent_core::{ThinkingLevel, ToolChoice};

use super::{LEVELS, Scene, chat, claude, common, gpt, llama, scene};
use crate::requests::past::{self, Past};
use crate::requests::tools;

pub(super) fn scenes() -> anyhow::Result<Vec<Scene>> {
    let toggle = llama("qwen3-vl");
    let effort = llama("gpt-oss:20b");
    let plain = llama("gemma3");
    let blind = llama("qwen3-coder:30b");
    let strangers = [
        ("anthropic", claude("claude-sonnet-4-5")),
        ("openai", gpt("gpt-5.5")),
        ("deepseek", chat("deepseek", "deepseek-v4-pro")),
        ("another-llama", llama("gemma3")),
    ];
    let mut scenes = common(&toggle, &blind, &strangers)?;
    for level in LEVELS {
        scenes.push(scene(format!("effort-{}", level.as_str()), &effort, Past::question()?, |r| {
            r.options.thinking_level = *level;
        }));
    }
    scenes.push(scene("no-thinking", &plain, past::with_tools(&plain)?.end()?, |r| {
        r.options.thinking_level = ThinkingLevel::High;
        r.tools = tools::definitions();
    }));
    scenes.push(scene("choice-none", &plain, Past::question()?, |r| {
        r.options.tool_choice = ToolChoice::None;
        r.tools = tools::definitions();
    }));
    scenes.push(scene(
        "server-decides-the-limits",
        &plain.clone().with_limits(0, 0),
        Past::question()?,
        |_| {},
    ));
    Ok(scenes)
}
