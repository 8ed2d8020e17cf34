//! Three hundred tools of a server, with and without a search for tools.

use std::sync::Arc;

use agent_core::testing::{ScriptedProvider, ScriptedReply, assert_well_formed};
use agent_core::{
    BasicAgent, DeferTools, ModelConfig, OwnedStreamEvent, StopReason, SystemEnvironment, TOOL_SEARCH,
    ToolLoading, ToolSearchForm,
};
use agent_tools::mcp::{McpConfig, McpServers, StartPolicy, WithMcp as _};
use serde_json::json;

use crate::support::{child, server, until};

const TOOL: &str = "test__approve_vacation_request";

fn agent(model: &ScriptedProvider) -> BasicAgent {
    BasicAgent::new(ModelConfig::default())
        .with_provider(model.clone())
        .with_environment(Arc::new(SystemEnvironment))
}

/// A reply in which the vendor has searched.
fn searched_by_vendor() -> ScriptedReply {
    let data = json!({"type": "tool_search_tool_result", "tool_use_id": "s1", "content": {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": TOOL}],
    }});
    ScriptedReply::new()
        .and_event(OwnedStreamEvent::Opaque { index: 0, kind: "tool_search_tool_result".to_owned(), data })
        .and_event(OwnedStreamEvent::BlockEnd { index: 0 })
        .stopping(StopReason::Paused)
}

/// The tokens of the tool list in the first and in the last request, and the answer of the tool.
async fn figures(servers: &McpServers, way: ToolSearchForm, policy: DeferTools) -> (u64, u64) {
    let call = ScriptedReply::call("b", TOOL, json!({"id": "v-7"}));
    let search = match way {
        ToolSearchForm::Vendor => searched_by_vendor(),
        _ => ScriptedReply::call("a", TOOL_SEARCH, json!({"query": "approve a vacation request"})),
    };
    let mut replies = vec![search, call, "Approved.".into()];
    if policy == DeferTools::Never {
        replies.remove(0);
    }
    let model = ScriptedProvider::new(replies).exhaustive().with_tool_search(way);
    let agent = agent(&model).with_mcp_servers(servers).configure(|c| c.policy.defer_tools = policy);
    assert_well_formed(&agent.prompt("Approve the vacation v-7.").unwrap().collect().await);
    let answer = format!("{} {}", TOOL.trim_start_matches("test__"), json!({"id": "v-7"}));
    assert!(agent.messages().iter().any(|message| message.text() == answer), "{way:?}: the tool was called");
    if way != ToolSearchForm::Vendor && policy != DeferTools::Never {
        let found = agent.messages().iter().find(|m| m.text().starts_with("Found")).unwrap().text();
        assert!(found.lines().nth(1).unwrap().contains(TOOL), "the right tool is the first: {found}");
    }
    let requests = model.requests();
    let tokens = |request: &agent_core::ModelRequest| request.tools.tokens();
    (tokens(&requests[0]), tokens(requests.last().unwrap()))
}

/// Run with `--nocapture` to print the figures of `docs/guides/many-tools.md`.
#[tokio::test]
async fn three_hundred_tools_cost_little_and_the_right_one_is_found_and_called() {
    let server = || child("many").with_prefix("test").deferred();
    let servers = McpServers::start([server()], StartPolicy::Fail).await.unwrap();
    let (whole, _) = figures(&servers, ToolSearchForm::Listed, DeferTools::Never).await;
    println!("300 tools, all loaded: {whole} tokens");
    for way in [ToolSearchForm::Listed, ToolSearchForm::FromResults, ToolSearchForm::Vendor] {
        let (first, last) = figures(&servers, way, DeferTools::Marked).await;
        println!("300 tools, deferred, {way:?}: {first} tokens before the search, {last} after it");
        assert!(first * 100 <= whole, "{first} of {whole}");
        assert!(last * 50 <= whole, "{last} of {whole}");
        assert_eq!(first == last, way != ToolSearchForm::Listed, "only a list grows");
    }
    servers.close().await;
}

/// A tool that a server adds while a conversation lasts can be found in the next run.
#[tokio::test]
async fn a_tool_that_a_server_adds_later_is_deferred_and_found() {
    let model = ScriptedProvider::new([
        ScriptedReply::call("1", "grow", json!({})),
        "It grows.".into(),
        ScriptedReply::call("2", TOOL_SEARCH, json!({"query": "grown", "limit": 1})),
        ScriptedReply::call("3", "grown", json!({})),
        "It has grown.".into(),
    ])
    .exhaustive();
    let agent = agent(&model).with_mcp_server(child("sdk").deferred()).await.unwrap();
    agent.prompt("Go.").unwrap().collect().await;
    until("the new tool", || agent.state().tools.iter().any(|tool| tool.name() == "grown")).await;
    assert!(agent.state().tools.iter().all(|tool| tool.loading() == ToolLoading::Deferred));
    agent.prompt("And now?").unwrap().collect().await;
    let names = |at: usize| -> Vec<String> {
        model.requests()[at].tools.definitions().iter().map(|tool| tool.name.clone()).collect()
    };
    assert_eq!(names(0), [TOOL_SEARCH]);
    assert_eq!(names(2), [TOOL_SEARCH, "grow"]);
    assert_eq!(names(4), [TOOL_SEARCH, "grow", "grown"]);
    assert!(agent.messages().iter().any(|message| message.text() == "grown"));
}

/// The keys of the configuration file.
#[tokio::test]
async fn a_file_defers_the_tools_of_a_server_and_selects_some_of_them() {
    let file = json!({"mcpServers": {"test": {
        "command": "${EXE}",
        "args": ["support::server::process", "--exact", "--nocapture"],
        "env": {server::MODE: "sdk"},
        "deferred": true,
        "tools": ["echo", "grow"],
    }}});
    let exe = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    let config = McpConfig::parse(&file.to_string(), |name| (name == "EXE").then(|| exe.clone())).unwrap();
    assert_eq!(config.problems().len(), 0, "{:?}", config.problems());
    let servers = McpServers::start(config.into_servers(), StartPolicy::Fail).await.unwrap();
    let agent = agent(&ScriptedProvider::texts(["Hello."])).with_mcp_servers(&servers);
    let tools = agent.state().tools;
    let mut names: Vec<&str> = tools.iter().map(|tool| tool.name()).collect();
    names.sort_unstable();
    assert_eq!(names, ["test__echo", "test__grow"]);
    assert!(tools.iter().all(|tool| tool.loading() == ToolLoading::Deferred));
    servers.close().await;
}
