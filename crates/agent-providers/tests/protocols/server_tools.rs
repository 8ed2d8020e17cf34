//! The tools of the vendors, through every protocol: each is on the wire in the vendor's own form, or is refused before
//! anything is sent.

use std::sync::{Arc, Mutex};

use agent_core::model::{
    CodeExecution, ComputerUse, FileSearch, ImageGeneration, Mcp, McpApproval, SearchContext, ServerTool,
    ServerToolError, TextEditor, ToolSearch, ToolSearchVariant, UserLocation, WebFetch, WebSearch,
};
use agent_core::{ErrorKind, ModelRequest, Received, ToolCallers, ToolChoice, ToolDefinition};
use agent_providers::ProviderRegistry;
use serde_json::{Value, json};

use crate::eight::{
    ANTHROPIC, AZURE, BEDROCK, CHAT, EVERY, GEMINI, RESPONSES, Said, VERTEX, VERTEX_CLAUDE, Vendor,
};
use crate::support::{Act, Asked, Server, call, head, hello, piece};

const NOVA: Vendor = Vendor { model: "amazon.nova-2-lite-v1:0", name: "nova", ..BEDROCK };
const TOKEN: &str = "s3cret-token-of-mcp";

fn mcp() -> Mcp {
    Mcp::new("docs", "https://mcp.example.org/sse").with_authorization(TOKEN).with_allowed_tools(["find"])
}

fn definition(name: &str) -> ToolDefinition {
    ToolDefinition::new(name, "Does it.", json!({"type": "object", "properties": {}}))
}

/// Sends a request with these tools of the vendor and these local tools.
async fn send(
    vendor: Vendor,
    tools: Vec<ServerTool>,
    local: Vec<ToolDefinition>,
) -> Result<Asked, agent_core::ProviderError> {
    let server = Server::start(vec![vendor.answer(&Said::text("done"))]).await;
    let mut request = hello(vendor.at(&format!("http://{}", server.address)));
    request.model = Arc::new(agent_core::ModelConfig::clone(&request.model).with_header("x-test", "1"));
    request.options.server_tools = tools;
    request.options.cache_config = agent_core::CacheConfig::disabled();
    request.tools = local.into();
    let end = call(&ProviderRegistry::default(), &request).await.end;
    let asked = server.asked();
    match end {
        Ok(_) => Ok(asked.into_iter().next().unwrap()),
        Err(error) => {
            assert!(asked.is_empty(), "{}: it was sent: {error}", vendor.name);
            Err(error)
        }
    }
}

/// Shows the vendor's tools of a body, and whatever else of it belongs to them.
fn tools_of(vendor: Vendor, body: &Value) -> Value {
    if vendor.api == agent_core::ApiProtocol::BedrockConverseStream {
        return body["toolConfig"]["tools"].clone();
    }
    if vendor == CHAT { body["web_search_options"].clone() } else { body["tools"].clone() }
}

#[tokio::test]
async fn each_tool_is_sent_in_the_form_of_each_vendor() {
    let place = || UserLocation::country("AT").with_city("Graz").with_timezone("Europe/Vienna");
    let rows: Vec<(Vendor, ServerTool, Value)> = vec![
        (
            ANTHROPIC,
            WebSearch::new()
                .with_max_uses(3)
                .with_allowed_domains(["docs.rs"])
                .with_user_location(place())
                .into(),
            json!([{"type": "web_search_20250305", "name": "web_search", "max_uses": 3,
                "allowed_domains": ["docs.rs"],
                "user_location": {"type": "approximate", "city": "Graz", "country": "AT",
                    "timezone": "Europe/Vienna"}}]),
        ),
        (
            VERTEX_CLAUDE,
            WebSearch::new().with_blocked_domains(["example.org"]).into(),
            json!([{"type": "web_search_20250305", "name": "web_search", "blocked_domains": ["example.org"]}]),
        ),
        (
            ANTHROPIC,
            WebSearch::new().with_version("web_search_20260318").into(),
            json!([{"type": "web_search_20260318", "name": "web_search"}]),
        ),
        (
            ANTHROPIC,
            WebFetch::new().with_citations().with_max_uses(2).with_max_content_tokens(9_000).into(),
            json!([{"type": "web_fetch_20250910", "name": "web_fetch", "max_uses": 2,
                "citations": {"enabled": true}, "max_content_tokens": 9_000}]),
        ),
        (
            ANTHROPIC,
            CodeExecution::new().into(),
            json!([{"type": "code_execution_20250825", "name": "code_execution"}]),
        ),
        (
            ANTHROPIC,
            ToolSearch::default().into(),
            json!([{"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}]),
        ),
        (
            ANTHROPIC,
            ToolSearch::new(ToolSearchVariant::Regex).into(),
            json!([{"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}]),
        ),
        (
            ANTHROPIC,
            mcp().into(),
            json!([{"type": "mcp_toolset", "mcp_server_name": "docs", "default_config": {"enabled": false},
                "configs": {"find": {"enabled": true}}}]),
        ),
        (
            ANTHROPIC,
            ServerTool::Vendor(json!({"type": "new_2027", "name": "new"})),
            json!([{"type": "new_2027", "name": "new"}]),
        ),
        (
            RESPONSES,
            WebSearch::new()
                .with_allowed_domains(["docs.rs"])
                .with_context(SearchContext::High)
                .with_user_location(place())
                .into(),
            json!([{"type": "web_search", "filters": {"allowed_domains": ["docs.rs"]},
                "search_context_size": "high",
                "user_location": {"type": "approximate", "city": "Graz", "country": "AT",
                    "timezone": "Europe/Vienna"}}]),
        ),
        (AZURE, WebSearch::new().into(), json!([{"type": "web_search"}])),
        (
            RESPONSES,
            CodeExecution::new().with_files(["file_1"]).into(),
            json!([{"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file_1"]}}]),
        ),
        (
            AZURE,
            CodeExecution::new().with_container("cntr_1").into(),
            json!([{"type": "code_interpreter", "container": "cntr_1"}]),
        ),
        (
            RESPONSES,
            FileSearch::new(["vs_1"]).with_max_results(4).into(),
            json!([{"type": "file_search", "vector_store_ids": ["vs_1"], "max_num_results": 4}]),
        ),
        (
            RESPONSES,
            ImageGeneration::new().with_size("1024x1024").with_quality("high").into(),
            json!([{"type": "image_generation", "size": "1024x1024", "quality": "high"}]),
        ),
        (
            RESPONSES,
            mcp().with_approval(McpApproval::Always).into(),
            json!([{"type": "mcp", "server_label": "docs", "server_url": "https://mcp.example.org/sse",
                "authorization": TOKEN, "allowed_tools": ["find"], "require_approval": "always"}]),
        ),
        (RESPONSES, ToolSearch::default().into(), json!([{"type": "tool_search"}])),
        (GEMINI, WebSearch::new().into(), json!([{"googleSearch": {}}])),
        (
            VERTEX,
            WebSearch::new().with_blocked_domains(["example.org"]).into(),
            json!([{"googleSearch": {"excludeDomains": ["example.org"]}}]),
        ),
        (GEMINI, WebFetch::new().into(), json!([{"urlContext": {}}])),
        (VERTEX, CodeExecution::new().into(), json!([{"codeExecution": {}}])),
        (
            GEMINI,
            FileSearch::new(["fileSearchStores/one"]).with_max_results(5).into(),
            json!([{"fileSearch": {"fileSearchStoreNames": ["fileSearchStores/one"], "topK": 5}}]),
        ),
        (
            GEMINI,
            Mcp::new("docs", "https://mcp.example.org/sse").with_authorization(TOKEN).into(),
            json!([{"mcpServers": [{"name": "docs", "streamableHttpTransport": {
                "url": "https://mcp.example.org/sse", "headers": {"Authorization": format!("Bearer {TOKEN}")}}}]}]),
        ),
        (NOVA, WebSearch::new().into(), json!([{"systemTool": {"name": "nova_grounding"}}])),
        (NOVA, CodeExecution::new().into(), json!([{"systemTool": {"name": "nova_code_interpreter"}}])),
        (
            CHAT,
            WebSearch::new()
                .with_context(SearchContext::Low)
                .with_user_location(UserLocation::country("AT"))
                .into(),
            json!({"search_context_size": "low",
                "user_location": {"type": "approximate", "approximate": {"country": "AT"}}}),
        ),
    ];
    for (vendor, tool, expected) in rows {
        let asked = send(vendor, vec![tool.clone()], vec![]).await;
        let asked = asked.unwrap_or_else(|error| panic!("{} {tool:?}: {error}", vendor.name));
        assert_eq!(tools_of(vendor, &asked.json()), expected, "{} {tool:?}", vendor.name);
        let needs_beta = vendor == VERTEX_CLAUDE;
        assert_eq!(asked.headers.contains("web-search-2025-03-05"), needs_beta, "{}", asked.headers);
    }
}

#[tokio::test]
async fn a_tool_that_a_protocol_does_not_have_is_refused_before_the_request() {
    let tools: Vec<ServerTool> = vec![
        WebSearch::new().into(),
        WebFetch::new().into(),
        CodeExecution::new().into(),
        FileSearch::new(["store"]).into(),
        ImageGeneration::new().into(),
        ComputerUse::new(1_024, 768).into(),
        Mcp::new("docs", "https://mcp.example.org").into(),
        ServerTool::Bash,
        ServerTool::ApplyPatch,
        TextEditor::new().into(),
        ServerTool::Memory,
        ToolSearch::default().into(),
        ServerTool::Vendor(json!({"type": "new"})),
    ];
    let local = ["bash", "apply_patch", "memory", "computer", "str_replace_based_edit_tool"];
    let (mut sent, mut refused) = (0, 0);
    for vendor in EVERY {
        for tool in &tools {
            let fits = tool.check(&vendor.at("http://unused"));
            let end = send(vendor, vec![tool.clone()], local.map(definition).into()).await;
            match (fits, end) {
                (Ok(()), Ok(_)) => sent += 1,
                (Err(fault), Err(error)) => {
                    refused += 1;
                    assert_eq!(error.kind(), ErrorKind::Other);
                    let context = error.context().unwrap();
                    let source = context.source.as_ref().unwrap().downcast_ref::<ServerToolError>();
                    assert_eq!(source, Some(&fault), "{}", vendor.name);
                    let said = error.to_string();
                    assert!(said.contains(tool.name()) && said.contains(vendor.api.as_str()), "{said}");
                    assert_eq!(context.advice.as_deref(), Some(fault.advice()));
                }
                (fits, end) => panic!("{} {tool:?}: {fits:?} {:?}", vendor.name, end.map(|a| a.body)),
            }
        }
    }
    assert_eq!((sent, refused), (52, 65));
}

/// The program executes the tool, so the vendor's definition takes the place of the local one.
#[tokio::test]
async fn a_local_tool_is_declared_in_the_vendors_form() {
    let tools = vec![
        ServerTool::Bash,
        TextEditor::new().with_max_characters(10_000).into(),
        ServerTool::Memory,
        ComputerUse::new(1_280, 800).with_display(1).with_zoom().into(),
    ];
    let names = ["bash", "look", "str_replace_based_edit_tool", "memory", "computer"];
    let asked = send(ANTHROPIC, tools.clone(), names.map(definition).into()).await.unwrap();
    assert_eq!(
        asked.json()["tools"],
        json!([
            {"type": "bash_20250124", "name": "bash"},
            {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 10_000},
            {"type": "memory_20250818", "name": "memory"},
            {"type": "computer_20251124", "name": "computer", "display_width_px": 1_280,
                "display_height_px": 800, "display_number": 1, "enable_zoom": true},
            {"name": "look", "description": "Does it.", "input_schema": {"type": "object", "properties": {}}},
        ])
    );
    assert!(asked.headers.contains("computer-use-2025-11-24"), "{}", asked.headers);
    for tool in tools {
        let error = send(ANTHROPIC, vec![tool.clone()], vec![definition("look")]).await.unwrap_err();
        assert!(error.to_string().contains(tool.local_name().unwrap()), "{error}");
    }
}

#[tokio::test]
async fn tools_of_the_vendor_and_of_the_program_are_in_one_request() {
    let both = |vendor, tools| send(vendor, tools, vec![definition("look")]);
    let code = || vec![CodeExecution::new().into(), WebSearch::new().into()];
    let asked = both(ANTHROPIC, code()).await.unwrap().json();
    assert_eq!(asked["tools"].as_array().unwrap().len(), 3);
    let asked = both(RESPONSES, code()).await.unwrap().json();
    assert_eq!(asked["tools"].as_array().unwrap().len(), 3);
    assert_eq!(asked["include"], json!(["reasoning.encrypted_content", "code_interpreter_call.outputs"]));
    let asked = both(GEMINI, code()).await.unwrap().json();
    assert_eq!(asked["tools"].as_array().unwrap().len(), 3);
    assert_eq!(asked["toolConfig"], json!({"includeServerSideToolInvocations": true}));
    assert_eq!(both(VERTEX, code()).await.unwrap().json().get("toolConfig"), None);
    let asked = both(NOVA, code()).await.unwrap().json();
    assert_eq!(asked["toolConfig"]["tools"].as_array().unwrap().len(), 3);
    let asked = both(CHAT, vec![WebSearch::new().into(), ServerTool::Vendor(json!({"type": "new"}))]);
    let asked = asked.await.unwrap().json();
    assert_eq!(asked["tools"][1], json!({"type": "new"}));
    assert_eq!(asked["web_search_options"], json!({}));
}

#[tokio::test]
async fn a_request_can_demand_a_call_of_one_of_the_vendors_tools() {
    for (vendor, expected) in [(ANTHROPIC, json!({"type": "any"})), (RESPONSES, json!("required"))] {
        let server = Server::start(vec![vendor.answer(&Said::text("done"))]).await;
        let mut request = hello(vendor.at(&format!("http://{}", server.address)));
        request.options.tool_choice = ToolChoice::Required;
        request.options.server_tools = vec![WebSearch::new().into()];
        call(&ProviderRegistry::default(), &request).await.end.unwrap();
        assert_eq!(server.asked()[0].json()["tool_choice"], expected);
    }
}

#[tokio::test]
async fn the_token_of_an_mcp_server_is_sent_and_nowhere_else() {
    for vendor in [ANTHROPIC, RESPONSES, GEMINI] {
        let mut server_tool = mcp();
        if vendor == GEMINI {
            server_tool.allowed_tools = vec![];
        }
        let refusal =
            format!(r#"{{"error":{{"type":"invalid_request_error","message":"bad token {TOKEN}"}}}}"#);
        let script = vec![head(400, "application/json"), piece(&refusal), Act::End];
        let server = Server::start(vec![script]).await;
        let mut request: ModelRequest = hello(vendor.at(&format!("http://{}", server.address)));
        request.options.server_tools = vec![server_tool.into()];
        let seen: Arc<Mutex<Vec<u8>>> = Arc::default();
        let (sent, received) = (Arc::clone(&seen), Arc::clone(&seen));
        let hooks = &mut request.options.wire_hooks;
        hooks.on_request = Some(Arc::new(move |r| sent.lock().unwrap().extend_from_slice(r.body)));
        hooks.on_response = Some(Arc::new(move |answer| {
            if let Received::Body(bytes) = answer.part {
                received.lock().unwrap().extend_from_slice(bytes);
            }
        }));
        let error = call(&ProviderRegistry::default(), &request).await.end.unwrap_err();
        let asked = &server.asked()[0];
        assert!(asked.body.contains(TOKEN), "{}", vendor.name);
        if vendor == ANTHROPIC {
            assert!(asked.headers.contains("mcp-client-2025-11-20"), "{}", asked.headers);
            assert_eq!(asked.json()["mcp_servers"][0]["authorization_token"], TOKEN);
        }
        for text in [format!("{error} {error:?}"), format!("{request:?} {:?}", request.options.server_tools)]
        {
            assert!(!text.contains(TOKEN), "{}: {text}", vendor.name);
        }
        let hooked = String::from_utf8(seen.lock().unwrap().clone()).unwrap();
        assert!(hooked.contains("mcp.example.org") && !hooked.contains(TOKEN), "{}: {hooked}", vendor.name);
    }
}

#[tokio::test]
async fn a_tool_for_code_alone_is_refused_where_there_is_no_code() {
    let local = |callers| vec![definition("sales").with_callers(callers)];
    for vendor in EVERY {
        let end = send(vendor, vec![], local(ToolCallers::Code)).await;
        if vendor == RESPONSES {
            let body = end.unwrap().json();
            assert_eq!(body["tools"][0], json!({"type": "programmatic_tool_calling"}));
            assert_eq!(body["tools"][1]["allowed_callers"], json!(["programmatic"]));
            continue;
        }
        let error = end.unwrap_err();
        assert!(error.to_string().contains("sales"), "{error}");
        // The model calls it itself where it may.
        let body = send(vendor, vec![], local(ToolCallers::ModelAndCode)).await.unwrap().body;
        assert!(!body.contains("allowed_callers"), "{}: {body}", vendor.name);
    }
    let code = vec![CodeExecution::new().with_version("code_execution_20260521").into()];
    let body = send(ANTHROPIC, code, local(ToolCallers::ModelAndCode)).await.unwrap().json();
    assert_eq!(body["tools"][1]["allowed_callers"], json!(["direct", "code_execution_20260521"]));
}
