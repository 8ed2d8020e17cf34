//! Single requests: what each protocol can be asked, one wish at a time and several together.

mod anthropic;
mod bedrock;
mod google;
mod ollama;
mod openai_chat;
mod responses;
mod server_tools;

use agent_core::{
    ApiProtocol, Content, History, ModelConfig, ModelRequest, ResponseFormat, StreamProvider as _,
    ThinkingLevel,
};
use serde_json::json;

use super::files;
use super::past::{self, Past};
use super::tools::{self, PIXEL};

/// A request under a name.
pub(super) struct Scene {
    pub(super) what: String,
    pub(super) request: ModelRequest,
}

/// The requests of a protocol.
pub(super) fn all(api: ApiProtocol) -> anyhow::Result<Vec<Scene>> {
    let make = match api {
        ApiProtocol::GoogleGenerativeAi => gemini,
        ApiProtocol::GoogleVertex => vertex,
        ApiProtocol::AzureOpenAiResponses => azure,
        _ => gpt_responses,
    };
    let mut scenes = match api {
        ApiProtocol::AnthropicMessages => anthropic::scenes(claude),
        ApiProtocol::AnthropicVertex => anthropic::scenes(vertex_claude),
        ApiProtocol::BedrockConverseStream => bedrock::scenes(),
        ApiProtocol::OllamaChat => ollama::scenes(),
        ApiProtocol::GoogleGenerativeAi => google::scenes(gemini),
        ApiProtocol::GoogleVertex => google::scenes(vertex),
        ApiProtocol::OpenAiResponses => responses::scenes(gpt_responses),
        ApiProtocol::AzureOpenAiResponses => responses::scenes(azure),
        _ => openai_chat::scenes(),
    }?;
    scenes.extend(server_tools::scenes(api, make)?);
    Ok(scenes)
}

/// A request of its own name, changed as wished.
fn scene(
    what: impl Into<String>,
    model: &ModelConfig,
    history: History,
    change: impl FnOnce(&mut ModelRequest),
) -> Scene {
    let mut request = ModelRequest::new(model.clone(), history);
    change(&mut request);
    Scene { what: what.into(), request }
}

/// The requests that every protocol receives. The first model thinks, the second does not read pictures, the third is of
/// another vendor.
fn common(
    thinks: &ModelConfig,
    blind: &ModelConfig,
    strangers: &[(&str, ModelConfig)],
) -> anyhow::Result<Vec<Scene>> {
    let mut scenes = vec![
        scene("nothing-but-a-question", thinks, Past::question()?, |_| {}),
        scene("every-option", thinks, Past::question()?, |r| {
            r.system_prompt = "Be brief. „Kurz“ 🙂".into();
            r.options.max_tokens = Some(777);
            r.options.temperature = Some(0.25);
            r.options.stop_sequences = vec!["STOP".to_owned(), "\n\n".to_owned()];
            r.session_id = Some("session-".repeat(12));
            r.tools = tools::definitions();
        }),
        scene("blank-system-prompt", thinks, Past::question()?, |r| r.system_prompt = " \n".into()),
        scene("temperature-0", thinks, Past::question()?, |r| r.options.temperature = Some(0.0)),
        scene("thinking-and-temperature", thinks, Past::question()?, |r| {
            r.options.temperature = Some(0.7);
            r.options.thinking_level = ThinkingLevel::Medium;
        }),
        scene("own-history", thinks, past::with_tools(thinks)?.end()?, |r| r.tools = tools::definitions()),
        scene("own-history-thinking", thinks, past::with_tools(thinks)?.end()?, |r| {
            r.tools = tools::definitions();
            r.options.thinking_level = ThinkingLevel::High;
            r.system_prompt = "Plan well.".into();
        }),
        scene("own-history-without-tools", thinks, past::with_tools(thinks)?.end()?, |_| {}),
        scene("own-strange-history", thinks, past::own_strange(thinks)?.end()?, |r| {
            r.tools = tools::definitions();
        }),
        scene("files", thinks, files::with_files(thinks)?.end()?, |r| r.tools = tools::definitions()),
        scene("failed-replies", thinks, past::broken(thinks)?.end()?, |r| r.tools = tools::definitions()),
        scene("empty-texts", thinks, past::empty(thinks)?.end()?, |r| r.tools = tools::definitions()),
        scene("no-pictures", blind, past::with_tools(blind)?.end()?, |r| r.tools = tools::definitions()),
        scene("picture-only", thinks, picture_only(thinks)?, |_| {}),
        scene("schema", thinks, Past::question()?, |r| r.options.response_format = schema(true)),
        scene("loose-schema-with-tools", thinks, Past::question()?, |r| {
            r.options.response_format = schema(false);
            r.tools = tools::definitions();
        }),
        scene("answer-of-a-type", thinks, Past::question()?, |r| {
            r.options.response_format = ResponseFormat::of::<Trip>()
        }),
        scene("answer-of-a-type-with-tools", thinks, Past::question()?, |r| {
            r.options.response_format = ResponseFormat::of::<Trip>();
            r.tools = tools::definitions();
        }),
        scene("json-object", thinks, Past::question()?, |r| {
            r.options.response_format = ResponseFormat::JsonObject
        }),
    ];
    let search = agent_providers::ProviderRegistry::default().tool_search(thinks);
    for (name, author) in std::iter::once(("own", thinks)).chain(strangers.iter().map(|(name, m)| (*name, m)))
    {
        let history = past::with_search(author)?.end()?;
        scenes.push(scene(
            if name == "own" { "own-deferred-tools".to_owned() } else { format!("deferred-tools-of-{name}") },
            thinks,
            history,
            |r| {
                r.tools = tools::with_deferred(search);
            },
        ));
    }
    for level in LEVELS {
        scenes.push(scene(format!("thinking-{}", level.as_str()), thinks, Past::question()?, |r| {
            r.options.thinking_level = *level;
        }));
    }
    for (name, stranger) in strangers {
        for (what, history) in [
            ("history", past::with_tools(stranger)?),
            ("strange-history", past::strange(stranger)?),
            ("empty-texts", past::empty(stranger)?),
            ("files", files::with_files(stranger)?),
        ] {
            let whole = history.end()?;
            scenes.push(scene(format!("{what}-of-{name}"), thinks, whole.clone(), |r| {
                r.tools = tools::definitions();
                r.options.thinking_level = ThinkingLevel::Low;
            }));
            scenes.push(scene(format!("{what}-of-{name}-thoughts-shown"), thinks, whole, |r| {
                r.options.foreign_thinking_as_text = true;
            }));
        }
    }
    Ok(scenes)
}

/// Every level.
const LEVELS: &[ThinkingLevel] = &[
    ThinkingLevel::Off,
    ThinkingLevel::Minimal,
    ThinkingLevel::Low,
    ThinkingLevel::Medium,
    ThinkingLevel::High,
    ThinkingLevel::XHigh,
];

/// A type with bounds, options and alternatives.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[expect(dead_code, reason = "only its schema counts")]
struct Trip {
    /// A title.
    #[schemars(length(min = 1, max = 80))]
    title: String,
    nights: u8,
    guide: Option<String>,
    #[schemars(length(max = 9))]
    legs: Vec<Leg>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[expect(dead_code, reason = "only its schema counts")]
enum Leg {
    OnFoot,
    ByShip { name: String, berths: Option<u32> },
}

fn picture_only(author: &ModelConfig) -> anyhow::Result<History> {
    let picture = || Content::image(PIXEL, "image/png");
    Ok(Past::by(author)
        .user(vec![picture(), picture()])?
        .exchange(
            vec![Content::tool_call("call_p", "draw-chart", json!({"series": []}))],
            vec![(vec![picture(), picture()], false)],
        )?
        .open_end())
}

fn schema(strict: bool) -> ResponseFormat {
    ResponseFormat::JsonSchema {
        name: "weather_report".to_owned(),
        schema: json!({
            "type": "object",
            "properties": {
                "town": {"type": "string"},
                "days": {"type": "array", "items": {"type": "object",
                    "properties": {"°C": {"type": "number"}}, "required": ["°C"], "additionalProperties": false}}
            },
            "required": ["town", "days"],
            "additionalProperties": false
        }),
        strict,
    }
}

/// A model that the catalogue may know.
fn known(model: ModelConfig) -> ModelConfig {
    agent_providers::catalogue::configure(model)
}

pub(super) fn claude(id: &str) -> ModelConfig {
    known(ModelConfig::anthropic(id, id, "key-for-loopback"))
}

pub(super) fn on_bedrock(id: &str) -> ModelConfig {
    known(ModelConfig::bedrock("eu-central-1", id).with_api_key("key-for-loopback"))
}

pub(super) fn gpt(id: &str) -> ModelConfig {
    known(ModelConfig::openai(id, id, "key-for-loopback"))
}

pub(super) fn chat(vendor: &str, id: &str) -> ModelConfig {
    let model = ModelConfig::new(ApiProtocol::OpenAiCompletions, vendor, id);
    known(model.with_api_key("key-for-loopback"))
}

pub(super) fn gpt_responses(id: &str) -> ModelConfig {
    known(ModelConfig::openai_responses(id, id, "key-for-loopback"))
}

/// A deployment that has the name of its model.
pub(super) fn azure(id: &str) -> ModelConfig {
    let mut model = gpt_responses(id);
    model.api = ApiProtocol::AzureOpenAiResponses;
    "azure".clone_into(&mut model.provider);
    model
}

pub(super) fn llama(id: &str) -> ModelConfig {
    known(ModelConfig::ollama(id))
}

pub(super) fn gemini(id: &str) -> ModelConfig {
    known(ModelConfig::google(id, id, "key-for-loopback"))
}

/// Claude on Vertex AI.
pub(super) fn vertex_claude(id: &str) -> ModelConfig {
    known(
        ModelConfig::vertex_claude("loopback-project", "europe-west4", id).with_api_key("token-for-loopback"),
    )
}

pub(super) fn vertex(id: &str) -> ModelConfig {
    known(ModelConfig::vertex("loopback-project", "europe-west4", id).with_api_key("token-for-loopback"))
}
