//! AWS Bedrock ConverseStream.

use agent_core::{
    CacheConfig, CacheStrategy, Content, ResponseFormat, ThinkingForm, ThinkingLevel, ToolChoice,
};

use super::{LEVELS, Scene, chat, claude, common, gpt, llama, on_bedrock, scene, schema};
use crate::requests::past::{self, Past};
use crate::requests::tools;

pub(super) fn scenes() -> anyhow::Result<Vec<Scene>> {
    let budget = on_bedrock("eu.anthropic.claude-sonnet-4-5-20250929-v1:0");
    let adaptive = on_bedrock("global.anthropic.claude-opus-4-8");
    let nova = on_bedrock("us.amazon.nova-2-lite-v1:0");
    let open = on_bedrock("openai.gpt-oss-120b-1:0").with_thinking_form(ThinkingForm::Effort, []);
    let llama_model = on_bedrock("us.meta.llama4-maverick-17b-instruct-v1:0");
    let blind = on_bedrock("us.deepseek.r1-v1:0").with_images(false);
    let strangers = [
        ("anthropic", claude("claude-sonnet-4-5")),
        ("openai", gpt("gpt-5.5")),
        ("deepseek", chat("deepseek", "deepseek-v4-pro")),
        ("ollama", llama("qwen3-vl")),
        ("nova", nova.clone()),
    ];
    let mut scenes = common(&budget, &blind, &strangers)?;

    // Each way of thinking, and each way of not doing so.
    for (name, model) in
        [("adaptive", &adaptive), ("nova", &nova), ("open", &open), ("plain", &llama_model), ("r1", &blind)]
    {
        for level in LEVELS {
            let what = format!("{name}-thinking-{}", level.as_str());
            scenes.push(scene(what, model, past::with_tools(model)?.end()?, |r| {
                r.options.thinking_level = *level;
                r.options.temperature = Some(1.0);
                r.tools = tools::definitions();
                r.system_prompt = "Plan well.".into();
            }));
        }
        scenes.push(scene(format!("{name}-schema"), model, Past::question()?, |r| {
            r.options.response_format = schema(true);
        }));
    }

    // Whether tools are to be called.
    for (what, choice) in [
        ("none", ToolChoice::None),
        ("required", ToolChoice::Required),
        ("tool", ToolChoice::Tool("plan_trip".to_owned())),
    ] {
        for (thinks, model) in [("budget", &budget), ("nova", &nova)] {
            scenes.push(scene(format!("choice-{what}-{thinks}"), model, Past::question()?, |r| {
                r.options.tool_choice = choice.clone();
                r.tools = tools::definitions();
                r.options.thinking_level = ThinkingLevel::High;
            }));
        }
    }
    scenes.push(scene("json-object-with-tools", &budget, Past::question()?, |r| {
        r.options.response_format = ResponseFormat::JsonObject;
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
    let pictures = vec![Content::image(tools::PIXEL, "image/png"), Content::text("What is it?")];
    scenes.push(scene("pictures", &budget, Past::by(&budget).user(pictures)?.end()?, |_| {}));
    // A conversation that was cut at its front begins with a reply; what one side says twice is one message.
    let reply = Past::by(&budget).reply(vec![Content::text("As I said.")])?;
    scenes.push(scene("begins-with-a-reply", &budget, reply.end()?, |_| {}));
    let twice = past::with_tools(&budget)?.user(vec![Content::text("Well?")])?;
    scenes.push(scene("says-twice", &budget, twice.end()?, |r| r.tools = tools::definitions()));
    Ok(scenes)
}
