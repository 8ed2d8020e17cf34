//! What `docs/tools/mcp.md` tells a newcomer to do.

use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::{BasicAgent, Message, ModelConfig};
use agent_tools::mcp::{McpConfig, McpServers, McpTransport, StartPolicy, WithMcp as _};
use serde_json::{Value, json};

use crate::support::server::MODE;

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tools/mcp.md");
    std::fs::read_to_string(path).unwrap()
}

/// The blocks of JSON in a section of the page.
fn files(heading: &str) -> Vec<Value> {
    let page = page();
    let section =
        page.split_once(&format!("\n## {heading}\n")).unwrap().1.split("\n## ").next().unwrap().to_owned();
    let blocks = section.split("```json\n").skip(1).map(|rest| rest.split_once("```").unwrap().0.to_owned());
    blocks.map(|block| serde_json::from_str(&block).unwrap()).collect()
}

/// REQ-176. The steps of the page, with this program in the place of the server that would have to be fetched.
#[tokio::test]
async fn who_does_what_the_page_says_has_an_agent_that_uses_the_server() {
    let mut file = files("Getting started").remove(0);
    let (name, entry) = file["mcpServers"].as_object_mut().unwrap().iter_mut().next().unwrap();
    let prefix = name.clone();
    entry["command"] = json!(std::env::current_exe().unwrap());
    entry["args"] = json!(["support::server::process", "--exact", "--nocapture"]);
    entry["env"] = json!({ MODE: "sdk" });

    let config = McpConfig::parse(&file.to_string(), |_| None).unwrap();
    assert!(config.problems().is_empty(), "{:?}", config.problems());
    let servers = McpServers::start(config.into_servers(), StartPolicy::Report).await.unwrap();
    assert_eq!(servers.failures().count(), 0);
    let model = ScriptedProvider::new([
        ScriptedReply::call("1", &format!("{prefix}__echo"), json!({"text": "from the page"})),
        ScriptedReply::text("Done."),
    ]);
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(model).with_mcp_servers(&servers);
    agent.prompt("Go.").unwrap().collect().await;
    let said = agent.messages().iter().any(|message| {
        message.as_llm().is_some_and(|m| {
            matches!(m, Message::ToolResult(r) if !r.is_error) && m.text() == "from the page"
        })
    });
    assert!(said, "{:?}", agent.messages());
    servers.close().await;
}

/// REQ-176. Every file on the page is one that the program reads without a complaint.
#[tokio::test]
async fn the_files_on_the_page_are_read_as_it_says() {
    let variable = |name: &str| Some(format!("<{name}>"));
    for heading in ["Getting started", "The file"] {
        for file in files(heading) {
            let config = McpConfig::parse(&file.to_string(), variable).unwrap();
            assert!(config.problems().is_empty(), "{:?}", config.problems());
            assert_eq!(config.servers().len(), file["mcpServers"].as_object().unwrap().len());
        }
    }
    let config = McpConfig::parse(&files("The file")[0].to_string(), variable).unwrap();
    let kinds: Vec<bool> =
        config.servers().iter().map(|s| matches!(s.transport(), McpTransport::Stdio(_))).collect();
    assert_eq!(kinds, [true, false]);
}
