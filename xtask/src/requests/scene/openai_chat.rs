//! Chat Completions: OpenAI, and the dialects of those who speak it.

use agent_core::{
    ChatDialect, Content, ModelConfig, ResponseFormat, ThinkingForm, ThinkingFormat, ThinkingLevel,
    ToolChoice,
};
use serde_json::json;

use super::{LEVELS, Scene, chat, claude, common, gpt, llama, scene, schema};
use crate::requests::past::{self, Past};
use crate::requests::tools;

pub(super) fn scenes() -> anyhow::Result<Vec<Scene>> {
    let reasons = gpt("gpt-5.5");
    let plain = gpt("gpt-4.1");
    let blind = gpt("gpt-4o-mini").with_images(false);
    let strangers = [
        ("anthropic", claude("claude-sonnet-4-5")),
        ("mistral", chat("mistral", "devstral-2512")),
        ("ollama", llama("qwen3-vl")),
        ("another-gpt", gpt("gpt-5.4")),
    ];
    let mut scenes = common(&reasons, &blind, &strangers)?;

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
    scenes.push(scene("choice-without-tools", &plain, Past::question()?, |r| {
        r.options.tool_choice = ToolChoice::Required;
    }));
    scenes.push(scene("plain-model", &plain, past::with_tools(&plain)?.end()?, |r| {
        r.system_prompt = "Be brief.".into();
        r.tools = tools::definitions();
        r.options.thinking_level = ThinkingLevel::High;
        r.options.temperature = Some(1.5);
    }));
    let pictures = vec![Content::image_url("https://example.org/a.png"), Content::text("What is it?")];
    scenes.push(scene("picture-by-address", &plain, Past::by(&plain).user(pictures)?.end()?, |_| {}));
    scenes.push(scene("levels-of-a-full-model", &every_level(), Past::question()?, |r| {
        r.options.thinking_level = ThinkingLevel::Minimal;
    }));
    for model in vendors() {
        of_vendor(&model, &mut scenes)?;
    }
    switches(&mut scenes)?;
    Ok(scenes)
}

/// A model that is configured to accept every level.
fn every_level() -> ModelConfig {
    gpt("some-later-gpt").with_thinking_form(ThinkingForm::Effort, LEVELS)
}

/// A model of each vendor that wants something to be different, and one of no particular vendor.
fn vendors() -> Vec<ModelConfig> {
    vec![
        chat("deepseek", "deepseek-v4-pro"),
        chat("deepseek", "deepseek-flash"),
        chat("groq", "openai/gpt-oss-120b"),
        chat("groq", "llama-3.3-70b-versatile"),
        chat("mistral", "devstral-2512"),
        chat("xai", "grok-4.3"),
        chat("openrouter", "anthropic/claude-sonnet-4.5").with_thinking_form(ThinkingForm::Budget, []),
        chat("openrouter", "openai/gpt-5.5").with_thinking_form(ThinkingForm::Effort, []),
        chat("cerebras", "zai-glm-4.7"),
        chat("zai", "glm-5.3"),
        chat("moonshot", "kimi-k2.6"),
        chat("qwen", "qwen3-max").with_thinking_form(ThinkingForm::Toggle, []),
        chat("azure", "my-deployment").with_thinking_form(ThinkingForm::Effort, []),
        chat("vllm", "some/model").with_thinking_form(ThinkingForm::Toggle, []),
        chat("llamacpp", "some.gguf"),
    ]
}

fn of_vendor(model: &ModelConfig, scenes: &mut Vec<Scene>) -> anyhow::Result<()> {
    scenes.push(scene("bare", model, Past::question()?, |_| {}));
    scenes.push(scene("own-history", model, past::with_tools(model)?.end()?, |r| {
        r.system_prompt = "Be brief.".into();
        r.tools = tools::definitions();
        r.options.thinking_level = ThinkingLevel::High;
        r.options.max_tokens = Some(2_000);
    }));
    scenes.push(scene("own-history-off", model, past::with_tools(model)?.end()?, |r| {
        r.tools = tools::definitions();
        r.options.tool_choice = ToolChoice::Required;
        r.options.temperature = Some(0.5);
        r.session_id = Some("a-session".to_owned());
    }));
    let stranger = claude("claude-sonnet-4-5");
    scenes.push(scene(
        "history-of-anthropic-thoughts-shown",
        model,
        past::with_tools(&stranger)?.end()?,
        |r| {
            r.tools = tools::definitions();
            r.options.foreign_thinking_as_text = true;
        },
    ));
    scenes.push(scene("strange-history", model, past::own_strange(model)?.end()?, |r| {
        r.tools = tools::definitions();
    }));
    scenes.push(scene("empty-texts", model, past::empty(model)?.end()?, |r| r.tools = tools::definitions()));
    scenes.push(scene("schema", model, Past::question()?, |r| r.options.response_format = schema(true)));
    scenes.push(scene("json-object", model, Past::question()?, |r| {
        r.options.response_format = ResponseFormat::JsonObject;
    }));
    Ok(())
}

/// Sets what a server wants to be different.
type Deviation = fn(&mut ChatDialect);

/// Deviations that a caller can ask for by hand.
fn switches(scenes: &mut Vec<Scene>) -> anyhow::Result<()> {
    let change = |change: Deviation| {
        let mut dialect = ChatDialect::default();
        change(&mut dialect);
        chat("llamacpp", "some.gguf").with_thinking_form(ThinkingForm::Toggle, []).with_dialect(dialect)
    };
    let table: [(&str, Deviation); 6] = [
        ("bridge", |d| d.assistant_after_tool_result = Some(true)),
        ("template-switch", |d| d.thinking_format = Some(ThinkingFormat::QwenTemplate)),
        ("developer-role", |d| d.developer_role = Some(true)),
        ("no-usage", |d| d.usage_in_stream = Some(false)),
        ("short-ids", |d| d.max_tool_call_id = Some(20)),
        ("strict-tools-and-store", |d| {
            d.strict_tools = Some(true);
            d.store = Some(true);
            d.prompt_cache_key = Some(true);
        }),
    ];
    for (what, set) in table {
        let model = change(set);
        let history = past::strange(&claude("claude-sonnet-4-5"))?
            .exchange(
                vec![Content::tool_call("call_z", "note", json!({}))],
                vec![(vec![Content::text("kept")], false)],
            )?
            .end()?;
        scenes.push(scene(what, &model, history, |r| {
            r.system_prompt = "Be brief.".into();
            r.tools = tools::definitions();
            r.options.thinking_level = ThinkingLevel::Medium;
            r.session_id = Some("a-session".to_owned());
        }));
    }
    Ok(())
}
