//! The tools of the vendors and their shortening of long conversations, through each protocol that has any.

use agent_core::model::{
    ClearResults, CodeExecution, ComputerEnvironment, ComputerUse, FileSearch, ImageGeneration, Mcp,
    SearchContext, ServerTool, TextEditor, ToolSearch, ToolSearchVariant, UserLocation, VendorContext,
    WebFetch, WebSearch,
};
use agent_core::{ApiProtocol, ModelConfig, ModelRequest, ToolCallers, ToolChoice, ToolDefinition};
use serde_json::json;

use super::{Scene, claude, gpt, on_bedrock, scene};
use crate::requests::past::{self, Past};
use crate::requests::tools;

/// A wish of a scene.
type Wish = (&'static str, Vec<ServerTool>);

/// The scenes of a protocol. `make` creates its models.
pub(super) fn scenes(api: ApiProtocol, make: fn(&str) -> ModelConfig) -> anyhow::Result<Vec<Scene>> {
    let (model, wishes) = match api {
        ApiProtocol::AnthropicMessages => (claude("claude-sonnet-4-6"), of_anthropic()),
        ApiProtocol::OpenAiResponses | ApiProtocol::AzureOpenAiResponses => (make("gpt-5.5"), of_openai()),
        ApiProtocol::GoogleGenerativeAi => (make("gemini-3.5-flash"), of_gemini()),
        ApiProtocol::GoogleVertex => (make("gemini-2.5-flash"), of_vertex()),
        ApiProtocol::BedrockConverseStream => (on_bedrock("us.amazon.nova-2-lite-v1:0"), of_nova()),
        ApiProtocol::OpenAiCompletions => (gpt("gpt-5.5"), of_chat()),
        _ => return Ok(Vec::new()),
    };
    let mut scenes = Vec::new();
    for (what, server_tools) in wishes {
        let wish = |r: &mut ModelRequest| r.options.server_tools.clone_from(&server_tools);
        scenes.push(scene(format!("server-tools-{what}"), &model, Past::question()?, wish));
        let history = past::with_tools(&model)?.end()?;
        scenes.push(scene(format!("server-tools-{what}-and-functions"), &model, history, |r| {
            wish(r);
            r.tools = tools::definitions();
        }));
    }
    if api == ApiProtocol::AnthropicMessages {
        scenes.push(scene("server-tools-local", &model, Past::question()?, |r| {
            r.options.server_tools = vec![ServerTool::Bash, TextEditor::new().into(), ServerTool::Memory];
            r.tools = locals(&["bash", "str_replace_based_edit_tool", "memory", "look"], ToolCallers::Model);
        }));
        scenes.push(scene("server-tools-beta-computer", &model, Past::question()?, |r| {
            r.options.server_tools = vec![ComputerUse::new(1_280, 800).with_zoom().into()];
            r.tools = locals(&["computer"], ToolCallers::Model);
        }));
    }
    if matches!(api, ApiProtocol::OpenAiResponses | ApiProtocol::AzureOpenAiResponses) {
        let wish = |r: &mut ModelRequest| {
            r.options.server_tools = vec![ServerTool::Bash, ServerTool::ApplyPatch];
            r.tools = locals(&["bash", "apply_patch", "look"], ToolCallers::Model);
        };
        scenes.push(scene("server-tools-local", &model, Past::question()?, |r| {
            wish(r);
            r.options.tool_choice = ToolChoice::Tool("bash".into());
        }));
        for (what, author) in [("same", &model), ("other", &claude("claude-sonnet-4-6"))] {
            let history = past::with_commands(author)?.end()?;
            scenes.push(scene(format!("server-tools-local-results-{what}"), &model, history, wish));
        }
    }
    if !matches!(api, ApiProtocol::BedrockConverseStream | ApiProtocol::OpenAiCompletions) {
        scenes.extend(with_screen(api, make)?);
    }
    if matches!(api, ApiProtocol::AnthropicMessages | ApiProtocol::OpenAiResponses) {
        for (what, callers) in [("code", ToolCallers::Code), ("model-and-code", ToolCallers::ModelAndCode)] {
            scenes.push(scene(format!("server-tools-called-by-{what}"), &model, Past::question()?, |r| {
                r.options.server_tools = vec![CodeExecution::new().into()];
                r.tools = locals(&["sales"], callers);
            }));
        }
        scenes.push(scene("server-tools-demanded", &model, Past::question()?, |r| {
            r.options.server_tools = vec![WebSearch::new().into()];
            r.options.tool_choice = ToolChoice::Required;
        }));
    }
    let (what, context) = match api {
        ApiProtocol::AnthropicMessages => {
            let clear = ClearResults::at(30_000).keeping(5).with_at_least(4_000).except("memory");
            let context = VendorContext::compacting_at(60_000).with_instructions("Keep names.");
            ("vendor-context-beta", context.with_clearing(clear))
        }
        ApiProtocol::OpenAiResponses | ApiProtocol::AzureOpenAiResponses => {
            ("vendor-context", VendorContext::compacting_at(60_000))
        }
        _ => return Ok(scenes),
    };
    scenes.push(scene(what, &model, past::with_tools(&model)?.end()?, |r| {
        r.options.vendor_context = Some(context);
        r.tools = tools::definitions();
    }));
    Ok(scenes)
}

/// Actions on a computer: of each of the vendor's models itself, and of another vendor's.
fn with_screen(api: ApiProtocol, make: fn(&str) -> ModelConfig) -> anyhow::Result<Vec<Scene>> {
    let computer = ComputerUse::new(1_280, 800);
    let linux = computer.clone().with_environment(ComputerEnvironment::Linux);
    let (models, other) = match api {
        ApiProtocol::AnthropicMessages => {
            (vec![("claude-sonnet-4-6", computer)], ModelConfig::openai_responses("gpt-5.5", "GPT", "key"))
        }
        ApiProtocol::OpenAiResponses | ApiProtocol::AzureOpenAiResponses => {
            (vec![("gpt-5.5", computer), ("computer-use-preview", linux)], claude("claude-sonnet-4-6"))
        }
        _ => {
            let without = linux.with_excluded_actions(["drag_and_drop"]);
            let models =
                vec![("gemini-2.5-computer-use-preview-10-2025", computer), ("gemini-3.5-flash", without)];
            (models, claude("claude-sonnet-4-6"))
        }
    };
    let mut scenes = Vec::new();
    for (id, computer) in models {
        let model = if api == ApiProtocol::AnthropicMessages { claude(id) } else { make(id) };
        for (what, author) in [("same", &model), ("other", &other)] {
            let history = past::with_screen(author)?.end()?;
            let beta = if api == ApiProtocol::AnthropicMessages { "beta-" } else { "" };
            scenes.push(scene(format!("server-tools-{beta}computer-{id}-{what}"), &model, history, |r| {
                r.options.server_tools = vec![computer.clone().into()];
                r.tools = locals(&["computer", "look"], ToolCallers::Model);
            }));
        }
    }
    Ok(scenes)
}

fn locals(names: &[&str], callers: ToolCallers) -> agent_core::ToolDefinitions {
    let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    let definition = |name: &&str| {
        ToolDefinition::new(*name, format!("Does {name}."), schema.clone()).with_callers(callers)
    };
    names.iter().map(definition).collect()
}

fn place() -> UserLocation {
    UserLocation::country("AT").with_city("Graz").with_region("Styria").with_timezone("Europe/Vienna")
}

fn mcp() -> Mcp {
    Mcp::new("docs", "https://mcp.example.org/sse").with_authorization("token-for-loopback")
}

fn of_anthropic() -> Vec<Wish> {
    let search = WebSearch::new().with_max_uses(3).with_user_location(place());
    vec![
        ("web-search", vec![search.clone().with_allowed_domains(["docs.rs"]).into()]),
        (
            "web-search-newest",
            vec![search.with_blocked_domains(["a.org"]).with_version("web_search_20260318").into()],
        ),
        (
            "web-fetch",
            vec![WebFetch::new().with_citations().with_max_uses(2).with_max_content_tokens(9_000).into()],
        ),
        ("web-fetch-newest", vec![WebFetch::new().with_version("web_fetch_20260318").into()]),
        ("code", vec![CodeExecution::new().into()]),
        ("code-in-container", vec![CodeExecution::new().with_container("container_1").into()]),
        ("code-newest", vec![CodeExecution::new().with_version("code_execution_20260521").into()]),
        ("tool-search", vec![ToolSearch::default().into()]),
        ("tool-search-regex", vec![ToolSearch::new(ToolSearchVariant::Regex).into()]),
        ("beta-mcp", vec![mcp().with_allowed_tools(["find"]).into(), Mcp::new("b", "https://b.org").into()]),
    ]
}

fn of_openai() -> Vec<Wish> {
    let search = WebSearch::new().with_allowed_domains(["docs.rs"]).with_user_location(place());
    vec![
        ("web-search", vec![search.with_context(SearchContext::Low).into()]),
        ("code", vec![CodeExecution::new().with_files(["file_1"]).into()]),
        ("code-in-container", vec![CodeExecution::new().with_container("cntr_1").into()]),
        ("file-search", vec![FileSearch::new(["vs_1"]).with_max_results(5).into()]),
        (
            "image",
            vec![
                ImageGeneration::new()
                    .with_model("gpt-image-2")
                    .with_size("1024x1024")
                    .with_quality("high")
                    .with_background("transparent")
                    .with_output_format("png")
                    .into(),
            ],
        ),
        ("mcp", vec![mcp().with_allowed_tools(["find"]).into()]),
        ("tool-search", vec![ToolSearch::default().into()]),
        (
            "several",
            vec![WebSearch::new().into(), CodeExecution::new().into(), FileSearch::new(["v"]).into()],
        ),
    ]
}

fn of_gemini() -> Vec<Wish> {
    vec![
        ("web-search", vec![WebSearch::new().into()]),
        ("web-fetch", vec![WebFetch::new().into(), WebSearch::new().into()]),
        ("code", vec![CodeExecution::new().into()]),
        ("file-search", vec![FileSearch::new(["fileSearchStores/one"]).with_max_results(5).into()]),
        ("mcp", vec![mcp().into()]),
    ]
}

fn of_vertex() -> Vec<Wish> {
    vec![
        ("web-search", vec![WebSearch::new().with_blocked_domains(["example.org"]).into()]),
        ("web-fetch", vec![WebFetch::new().into()]),
        ("code", vec![CodeExecution::new().into()]),
    ]
}

fn of_nova() -> Vec<Wish> {
    vec![("both", vec![WebSearch::new().into(), CodeExecution::new().into()])]
}

fn of_chat() -> Vec<Wish> {
    let search = WebSearch::new().with_context(SearchContext::High).with_user_location(place());
    vec![("web-search", vec![search.into()])]
}
