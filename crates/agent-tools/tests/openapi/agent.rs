//! Through an agent.

use agent_core::compat::SeedVerbs as _;
use std::sync::Arc;

use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::{BasicAgent, Message, ModelConfig, SystemEnvironment};
use agent_tools::openapi::{OpenApiConfig, OperationFilter, WithOpenApi as _};
use serde_json::json;

use super::support::{CONSTRUCTS, MODERN, Server};

fn config(server: &Server) -> OpenApiConfig {
    OpenApiConfig::new().with_base_url(server.url())
}

/// REQ-158.
#[tokio::test]
async fn an_agent_gets_tools_from_a_text_a_file_and_an_address() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x.json"), MODERN).unwrap();
    let server = Server::answering(|_| axum::response::IntoResponse::into_response(MODERN)).await;
    let filter = || OperationFilter::by_operation_id(["search"]);
    let agent = BasicAgent::new(ModelConfig::default())
        .with_openapi_spec(MODERN, config(&server), filter())
        .unwrap()
        .with_openapi_file(folder.path().join("x.json"), config(&server).with_name_prefix("file"), filter())
        .await
        .unwrap()
        .with_openapi_url(
            format!("{}/x.json", server.url()),
            config(&server).with_name_prefix("url"),
            filter(),
        )
        .await
        .unwrap();
    let names: Vec<String> = agent.tools().iter().map(|tool| tool.name().to_owned()).collect();
    assert_eq!(names, ["search", "file__search", "url__search"]);
    assert!(
        BasicAgent::new(ModelConfig::default()).with_openapi_spec("{}", config(&server), filter()).is_err()
    );
}

#[tokio::test]
async fn names_that_other_tools_have_are_not_taken_twice() {
    let server = Server::start().await;
    let agent = BasicAgent::new(ModelConfig::default())
        .with_openapi_spec(MODERN, config(&server), OperationFilter::All)
        .unwrap();
    let agent = agent.with_openapi_spec(MODERN, config(&server), OperationFilter::All).unwrap();
    let names: std::collections::BTreeSet<String> =
        agent.tools().iter().map(|tool| tool.name().to_owned()).collect();
    assert_eq!(names.len(), 6);
}

/// REQ-154, REQ-158.
#[tokio::test]
async fn a_model_calls_an_operation_and_reads_the_answer() {
    let server = Server::start().await;
    let provider = ScriptedProvider::new([
        ScriptedReply::call("1", "getThing", json!({"thingId": "7"})),
        ScriptedReply::call("2", "getThing", json!({"thingId": "../secrets"})),
        ScriptedReply::text("done"),
    ]);
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(provider)
        .with_environment(Arc::new(SystemEnvironment))
        .with_openapi_spec(CONSTRUCTS, config(&server), OperationFilter::All)
        .unwrap();
    agent.chat("what is it?").await.unwrap();
    let results: Vec<String> = agent
        .messages()
        .iter()
        .filter_map(|message| match message.as_llm() {
            Some(Message::ToolResult(result)) => Some(format!("{} {:?}", result.is_error, result.content)),
            _ => None,
        })
        .collect();
    assert!(results[0].starts_with("false") && results[0].contains("→ 200 OK"), "{results:?}");
    assert!(results[1].starts_with("true") && results[1].contains("`thingId` has a slash"), "{results:?}");
    assert_eq!(server.take_all().len(), 1);
}
