//! Servers in an agent.

use agent_core::compat::SeedVerbs as _;
use std::sync::Arc;
use std::time::Duration;

use agent_core::testing::{ScriptedProvider, ScriptedReply, assert_well_formed};
use agent_core::{AgentEvent, BasicAgent, Message, ModelConfig, SystemEnvironment, tool_fn};
use agent_tools::mcp::{McpError, McpServer, McpServers, Restart, StartPolicy, WithMcp as _};
use serde_json::json;

use crate::support::http_server::HttpServer;
use crate::support::server::{FOLDER, MODE};
use crate::support::{child, child_in, kill, lines, pids, runs, until};

fn agent(model: &ScriptedProvider) -> BasicAgent {
    BasicAgent::new(ModelConfig::default())
        .with_provider(model.clone())
        .with_environment(Arc::new(SystemEnvironment))
}

fn names(agent: &BasicAgent) -> Vec<String> {
    agent.tools().iter().map(|tool| tool.name().to_owned()).collect()
}

/// Runs to the end and gives the events and the results of calls: text, and whether it is an error.
async fn run(agent: &BasicAgent) -> (Vec<AgentEvent>, Vec<(String, bool)>) {
    let before = agent.messages().len();
    let events = agent.prompt("Go.").unwrap().collect().await;
    assert_well_formed(&events);
    let messages = agent.messages();
    let results = messages.iter().skip(before).filter_map(|message| match message.as_llm() {
        Some(Message::ToolResult(result)) => {
            Some((Message::ToolResult(result.clone()).text(), result.is_error))
        }
        _ => None,
    });
    (events, results.collect())
}

/// REQ-117, REQ-119, REQ-168.
#[tokio::test]
async fn an_agent_calls_a_tool_of_a_child_in_its_turn() {
    let model = ScriptedProvider::new([
        ScriptedReply::call("1", "echo", json!({"text": "hello"})),
        ScriptedReply::text("Done."),
    ]);
    let program = std::env::current_exe().unwrap();
    let args = ["support::server::process", "--exact", "--nocapture"];
    let agent = agent(&model).with_mcp_server_stdio(program, args, [(MODE, "sdk")]).await.unwrap();
    assert_eq!(names(&agent).len(), 17);
    let (_, results) = run(&agent).await;
    assert_eq!(results, [("hello".to_owned(), false)]);
    let told = model.requests()[0].tools.definitions().to_vec();
    assert_eq!((told[0].name.as_str(), told[0].description.as_str()), ("echo", "Does echo."));
    assert_eq!(told[0].parameters["required"], json!(["text"]));
}

/// REQ-133.
#[tokio::test]
async fn an_agent_uses_a_server_over_http_with_a_prefix() {
    let server = HttpServer::start().await;
    let model = ScriptedProvider::new([
        ScriptedReply::call("1", "web__echo", json!({"text": "hello"})),
        ScriptedReply::text("Done."),
    ]);
    let spec = McpServer::http("web", server.url()).with_prefix("web");
    let agent = agent(&model).with_mcp_server(spec).await.unwrap();
    assert!(names(&agent).iter().all(|name| name.starts_with("web__")), "{:?}", names(&agent));
    assert_eq!(run(&agent).await.1, [("hello".to_owned(), false)]);
    let plain = self::agent(&model).with_mcp_server_http(server.url()).await.unwrap();
    assert!(names(&plain).contains(&"echo".to_owned()));
}

/// REQ-143.
#[tokio::test]
async fn progress_of_a_server_is_an_event_of_the_run() {
    let model = ScriptedProvider::new([
        ScriptedReply::call("1", "slow", json!({"steps": 3})),
        ScriptedReply::text("Done."),
    ]);
    let agent = agent(&model).with_mcp_server(child("sdk")).await.unwrap();
    let (events, _) = run(&agent).await;
    let said: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::ProgressMessage { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(said, ["step 1 (1/3)", "step 2 (2/3)", "step 3 (3/3)"]);
}

/// B-086, B-087.
#[tokio::test]
async fn arguments_are_checked_and_put_right_before_the_server_sees_them() {
    let folder = tempfile::tempdir().unwrap();
    let model = ScriptedProvider::new([
        ScriptedReply::call("1", "echo", json!({"txt": "hello"})),
        ScriptedReply::call("2", "slow", json!({"steps": "2"})),
        ScriptedReply::text("Done."),
    ]);
    let agent = agent(&model).with_mcp_server(child_in(folder.path())).await.unwrap();
    let (_, results) = run(&agent).await;
    assert!(results[0].1 && results[0].0.contains("text"), "{results:?}");
    assert_eq!(results[1], ("done".to_owned(), false));
    assert_eq!(lines(folder.path(), "calls"), ["slow"]);
}

#[tokio::test]
async fn tools_that_a_server_adds_are_there_in_the_next_run() {
    let model = ScriptedProvider::new([
        ScriptedReply::call("1", "grow", json!({})),
        ScriptedReply::text("Done."),
        ScriptedReply::call("2", "grown", json!({})),
        ScriptedReply::text("Done."),
    ]);
    let own =
        tool_fn("own", "Mine.", |_: serde_json::Map<String, serde_json::Value>, _| async { Ok("mine") });
    let agent = agent(&model).with_mcp_server(child("sdk")).await.unwrap().with_tool(own);
    run(&agent).await;
    until("the new tool", || names(&agent).contains(&"grown".to_owned())).await;
    assert_eq!(names(&agent)[..3], ["echo", "grown", "slow"]);
    assert_eq!(names(&agent).last().unwrap(), "own", "other tools stay where they are");
    let (_, results) = run(&agent).await;
    assert_eq!(results, [("grown".to_owned(), false)]);
    let told = |n: usize| model.requests()[n].tools.definitions().len();
    assert_eq!((told(0), told(1), told(2)), (18, 18, 19), "the open run keeps what it began with");
}

#[tokio::test]
async fn a_restart_with_the_same_tools_changes_nothing_for_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let model = ScriptedProvider::new([
        ScriptedReply::call("1", "echo", json!({"text": "back"})),
        ScriptedReply::text("Done."),
    ]);
    let restart = Restart::new(3, Duration::from_millis(10), Duration::from_millis(100));
    let agent = agent(&model).with_mcp_server(child_in(folder.path()).with_restart(restart)).await.unwrap();
    let before = agent.tools();
    let pid = pids(folder.path(), "starts")[0];
    kill(pid);
    until("the end of the process", || !runs(pid)).await;
    let (_, results) = run(&agent).await;
    assert_eq!(results, [("back".to_owned(), false)]);
    assert_eq!(pids(folder.path(), "starts").len(), 2);
    let after = agent.tools();
    assert!(before.iter().zip(&after).all(|(before, after)| Arc::ptr_eq(before, after)));
}

#[tokio::test]
async fn tools_that_the_caller_took_out_do_not_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let servers = McpServers::start([child_in(folder.path())], StartPolicy::Fail).await.unwrap();
    let model = ScriptedProvider::texts(["a"]);
    let mut without = agent(&model).with_mcp_servers(&servers);
    let with = agent(&model).with_mcp_servers(&servers);
    without.set_tools(Vec::new());
    let client = servers.clients().next().unwrap();
    client.call_tool("grow", json!({})).await.unwrap();
    until("the new tool", || names(&with).contains(&"grown".to_owned())).await;
    assert_eq!(names(&without), Vec::<String>::new());
}

#[tokio::test]
async fn a_server_ends_with_the_agent_that_used_it() {
    let folder = tempfile::tempdir().unwrap();
    let agent =
        agent(&ScriptedProvider::texts(["a"])).with_mcp_server(child_in(folder.path())).await.unwrap();
    let pid = pids(folder.path(), "starts")[0];
    assert!(runs(pid));
    drop(agent);
    until("the end of the process", || !runs(pid)).await;
}

/// Each of the three speaks only when all have been started.
#[tokio::test]
async fn servers_are_started_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let server = |prefix: &str| child("meet").with_env(FOLDER, folder.path()).with_prefix(prefix);
    let servers =
        McpServers::start([server("a"), server("b"), server("c")], StartPolicy::Fail).await.unwrap();
    let agent = agent(&ScriptedProvider::texts(["a"])).with_mcp_servers(&servers);
    assert_eq!(names(&agent).len(), 3 * 17);
    assert_eq!(names(&agent)[0], "a__echo");
    servers.close().await;
    assert!(!pids(folder.path(), "starts").iter().any(|pid| runs(*pid)));
}

#[tokio::test]
async fn a_server_that_fails_is_reported_and_the_others_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let all = || {
        [
            McpServer::stdio("missing", "no-such-program"),
            child_in(folder.path()),
            child("hang").with_connect_timeout(Duration::from_secs(2)),
            child("raw_list"),
        ]
    };
    let servers = McpServers::start(all(), StartPolicy::Report).await.unwrap();
    let reports: Vec<String> = servers
        .reports()
        .iter()
        .map(|report| match &report.outcome {
            Ok(started) => format!("{} {} {}", report.server, started.tools, started.skipped.len()),
            Err(McpError::Io { .. }) => format!("{} io", report.server),
            Err(McpError::Timeout { .. }) => format!("{} timeout", report.server),
            Err(other) => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(reports, ["missing io", "test 17 0", "test timeout", "test 4 3"]);
    assert_eq!(servers.failures().count(), 2);
    assert_eq!(servers.clients().count(), 2);

    let error = McpServers::start(all(), StartPolicy::Fail).await.unwrap_err();
    assert_eq!(error.server(), "missing");
    let second = pids(folder.path(), "starts")[1];
    assert!(!runs(second), "what had started is ended again");
}

#[tokio::test]
async fn tools_of_two_servers_with_one_name_are_both_there() {
    let servers = McpServers::start([child("raw_list"), child("raw_list")], StartPolicy::Fail).await.unwrap();
    let agent = agent(&ScriptedProvider::texts(["a"])).with_mcp_servers(&servers);
    let names = names(&agent);
    let unique: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!(unique.len(), 8, "{names:?}");
}
