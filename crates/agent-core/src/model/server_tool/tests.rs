use serde_json::json;

use super::*;
use crate::model::{ApiProtocol, ModelConfig};

fn model(api: ApiProtocol) -> ModelConfig {
    ModelConfig::new(api, "someone", "amazon.nova-2-lite-v1:0")
}

fn mcp() -> Mcp {
    Mcp::new("docs", "https://user:pass@mcp.example.org/sse?key=s3cret-key")
        .with_authorization("s3cret-token")
}

/// One of each tool, without options that only some protocols have.
fn each() -> [ServerTool; 13] {
    [
        WebSearch::new().into(),
        WebFetch::new().into(),
        CodeExecution::new().into(),
        FileSearch::new(["store"]).into(),
        ImageGeneration::new().into(),
        ComputerUse::new(1_024, 768).into(),
        mcp().into(),
        ServerTool::Bash,
        ServerTool::ApplyPatch,
        TextEditor::new().into(),
        ServerTool::Memory,
        ToolSearch::default().into(),
        ServerTool::Vendor(json!({"type": "new_tool"})),
    ]
}

#[test]
fn each_protocol_has_the_tools_of_its_row() {
    use ApiProtocol as Api;
    let rows = [
        (
            Api::AnthropicMessages,
            "web_search web_fetch code_execution computer_use mcp bash text_editor memory tool_search vendor",
        ),
        (Api::AnthropicVertex, "web_search computer_use bash text_editor memory tool_search vendor"),
        (
            Api::OpenAiResponses,
            "web_search code_execution file_search image_generation computer_use mcp bash apply_patch tool_search vendor",
        ),
        (
            Api::AzureOpenAiResponses,
            "web_search code_execution file_search image_generation computer_use mcp bash apply_patch tool_search vendor",
        ),
        (Api::GoogleGenerativeAi, "web_search web_fetch code_execution file_search computer_use mcp vendor"),
        (Api::GoogleVertex, "web_search web_fetch code_execution computer_use vendor"),
        (Api::BedrockConverseStream, "web_search code_execution vendor"),
        (Api::OpenAiCompletions, "web_search vendor"),
        (Api::OllamaChat, ""),
        (
            Api::custom("toy").unwrap(),
            "web_search web_fetch code_execution file_search image_generation computer_use mcp bash apply_patch \
             text_editor memory tool_search vendor",
        ),
    ];
    for (api, expected) in rows {
        let has = each().into_iter().filter(|tool| tool.check(&model(api)).is_ok());
        let names: Vec<&str> = has.map(|tool| tool.name()).collect();
        assert_eq!(names, expected.split_whitespace().collect::<Vec<_>>(), "{api}");
        for tool in each().iter().filter(|tool| !names.contains(&tool.name())) {
            let error = tool.check(&model(api)).unwrap_err();
            assert_eq!(error, ServerToolError::NoTool { tool: tool.name(), protocol: api });
            let text = error.to_string();
            assert!(text.contains(tool.name()) && text.contains(api.as_str()), "{text}");
        }
    }
    let claude = ModelConfig::new(Api::BedrockConverseStream, "bedrock", "anthropic.claude-sonnet-4-6");
    assert!(ServerTool::from(WebSearch::new()).check(&claude).is_err(), "only Amazon's models search");
}

#[test]
fn an_option_that_a_protocol_does_not_have_is_an_error() {
    use ApiProtocol as Api;
    let search = WebSearch::new();
    let computer = ComputerUse::new(800, 600);
    let rows: [(ServerTool, &str, &[Api]); 14] = [
        (computer.clone().with_display(1).into(), "display", &[Api::AnthropicMessages, Api::AnthropicVertex]),
        (computer.clone().with_zoom().into(), "zoom", &[Api::AnthropicMessages, Api::AnthropicVertex]),
        (
            computer.clone().with_environment(ComputerEnvironment::Linux).into(),
            "environment",
            &[Api::OpenAiResponses, Api::AzureOpenAiResponses, Api::GoogleGenerativeAi, Api::GoogleVertex],
        ),
        (
            computer.clone().with_excluded_actions(["drag_and_drop"]).into(),
            "excluded_actions",
            &[Api::GoogleGenerativeAi, Api::GoogleVertex],
        ),
        (search.clone().with_max_uses(2).into(), "max_uses", &[Api::AnthropicMessages, Api::AnthropicVertex]),
        (
            search.clone().with_allowed_domains(["docs.rs"]).into(),
            "allowed_domains",
            &[Api::AnthropicMessages, Api::AnthropicVertex, Api::OpenAiResponses, Api::AzureOpenAiResponses],
        ),
        (
            search.clone().with_blocked_domains(["example.org"]).into(),
            "blocked_domains",
            &[Api::AnthropicMessages, Api::AnthropicVertex, Api::GoogleVertex],
        ),
        (
            search.clone().with_user_location(UserLocation::country("AT")).into(),
            "user_location",
            &[
                Api::AnthropicMessages,
                Api::AnthropicVertex,
                Api::OpenAiResponses,
                Api::AzureOpenAiResponses,
                Api::OpenAiCompletions,
            ],
        ),
        (
            search.clone().with_context(SearchContext::Low).into(),
            "context",
            &[Api::OpenAiResponses, Api::AzureOpenAiResponses, Api::OpenAiCompletions],
        ),
        (
            search.with_version("web_search_20260318").into(),
            "version",
            &[Api::AnthropicMessages, Api::AnthropicVertex],
        ),
        (WebFetch::new().with_citations().into(), "citations", &[Api::AnthropicMessages]),
        (
            CodeExecution::new().with_files(["file_1"]).into(),
            "file_ids",
            &[Api::OpenAiResponses, Api::AzureOpenAiResponses],
        ),
        (
            mcp().with_approval(McpApproval::Always).into(),
            "approval",
            &[Api::OpenAiResponses, Api::AzureOpenAiResponses],
        ),
        (
            ToolSearch::new(ToolSearchVariant::Regex).into(),
            "variant",
            &[Api::AnthropicMessages, Api::AnthropicVertex],
        ),
    ];
    let all = [
        Api::AnthropicMessages,
        Api::AnthropicVertex,
        Api::OpenAiResponses,
        Api::AzureOpenAiResponses,
        Api::GoogleGenerativeAi,
        Api::GoogleVertex,
        Api::BedrockConverseStream,
        Api::OpenAiCompletions,
    ];
    for (tool, option, have) in rows {
        for api in all {
            match tool.check(&model(api)) {
                Ok(()) => assert!(have.contains(&api), "{option} {api}"),
                Err(ServerToolError::NoTool { .. }) => assert!(!have.contains(&api), "{option} {api}"),
                Err(error) => {
                    assert_eq!(error, ServerToolError::NoOption { tool: tool.name(), protocol: api, option });
                    assert!(!have.contains(&api), "{option} {api}");
                }
            }
        }
    }
}

#[test]
fn only_gemini_controls_a_phone() {
    let tool = ServerTool::from(ComputerUse::new(400, 800).with_environment(ComputerEnvironment::Mobile));
    assert_eq!(tool.check(&model(ApiProtocol::GoogleGenerativeAi)), Ok(()));
    assert_eq!(tool.check(&model(ApiProtocol::GoogleVertex)), Ok(()));
    for protocol in [ApiProtocol::OpenAiResponses, ApiProtocol::AzureOpenAiResponses] {
        let option = "environment mobile";
        let expected = ServerToolError::NoOption { tool: "computer_use", protocol, option };
        assert_eq!(tool.check(&model(protocol)), Err(expected));
    }
}

#[test]
fn options_that_are_incomplete_or_contradict_each_other_are_an_error() {
    let claude = model(ApiProtocol::AnthropicMessages);
    let gpt = model(ApiProtocol::OpenAiResponses);
    let faults: [(&ModelConfig, ServerTool); 9] = [
        (&claude, WebSearch::new().with_allowed_domains(["a.org"]).with_blocked_domains(["b.org"]).into()),
        (&claude, WebSearch::new().with_version("web_fetch_20250910").into()),
        (&claude, WebFetch::new().with_version("web_fetch_latest").into()),
        (&claude, ComputerUse::new(0, 768).into()),
        (&claude, Mcp::new(" ", "https://mcp.example.org").into()),
        (&claude, Mcp::new("docs", "http://mcp.example.org").into()),
        (&gpt, CodeExecution::new().with_container("cntr_1").with_files(["file_1"]).into()),
        (&gpt, FileSearch::new(Vec::<String>::new()).into()),
        (&gpt, ServerTool::Vendor(json!("web_search"))),
    ];
    for (model, tool) in faults {
        let error = tool.check(model).unwrap_err();
        assert!(matches!(error, ServerToolError::Options { .. }), "{tool:?}: {error}");
        assert!(!error.advice().is_empty());
    }
}

#[test]
fn a_tool_is_in_a_request_once_and_a_local_one_needs_a_tool_that_executes_it() {
    let claude = model(ApiProtocol::AnthropicMessages);
    let check =
        |tools: &[ServerTool], local: &str| ServerTool::check_all(tools, &claude, |name| name == local);
    assert_eq!(
        check(&[WebSearch::new().into(), WebSearch::new().with_max_uses(1).into()], ""),
        Err(ServerToolError::Twice { tool: "web_search" })
    );
    assert!(check(&[mcp().into(), Mcp::new("other", "https://other.example.org").into()], "").is_ok());
    assert_eq!(check(&[mcp().into(), mcp().into()], ""), Err(ServerToolError::Twice { tool: "mcp" }));
    let locals = [
        (ServerTool::Bash, "bash"),
        (ServerTool::Memory, "memory"),
        (TextEditor::new().into(), "str_replace_based_edit_tool"),
        (ComputerUse::new(800, 600).into(), "computer"),
    ];
    for (tool, name) in locals {
        assert!(check(std::slice::from_ref(&tool), name).is_ok());
        let error = check(std::slice::from_ref(&tool), "").unwrap_err();
        assert_eq!(error, ServerToolError::NoLocalTool { tool: tool.name(), name });
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn a_token_is_neither_in_debug_output_nor_in_the_serialized_form() {
    let tool = ServerTool::from(mcp());
    let shown = format!("{tool:?}");
    assert!(!shown.contains("s3cret") && !shown.contains("pass"), "{shown}");
    assert!(shown.contains("mcp.example.org"), "{shown}");
    let stored = serde_json::to_string(&tool).unwrap();
    assert!(!stored.contains("s3cret-token"), "{stored}");
    let ServerTool::Mcp(read) = serde_json::from_str(&stored).unwrap() else { panic!("{stored}") };
    assert_eq!((read.label.as_str(), read.authorization), ("docs", None));
}

#[test]
fn every_tool_survives_json() {
    for tool in each().into_iter().filter(|tool| !matches!(tool, ServerTool::Mcp(_))) {
        let json = serde_json::to_value(&tool).unwrap();
        assert_eq!(json["type"], tool.name());
        assert_eq!(serde_json::from_value::<ServerTool>(json).unwrap(), tool);
    }
    assert_eq!(serde_json::to_value(ServerTool::Bash).unwrap(), json!({"type": "bash"}));
}
