//! Steering while a reply arrives over WebSocket.

use agent_core::compat::SeedVerbs as _;
use agent_core::testing::ScriptedTool;
use agent_core::{AgentEvent, AgentMessage, BasicAgent, Ended, Message, SteeringPolicy};
use serde_json::{Value, json};

use crate::server::{Asked, Fault, Server, Upgrade};
use crate::steered::Steered;
use crate::{model, previous, provider, sent_items};

const STEER: &str = "In French, please.";

/// Prompts an agent and steers it when its first reply has begun. Returns the conversation as roles and texts.
async fn steered(server: &Server, agent: &BasicAgent) -> Vec<(String, String)> {
    let mut run = agent.prompt("hello").unwrap();
    let mut ended = None;
    let mut is_steered = false;
    while let Some(event) = run.recv().await {
        match event {
            AgentEvent::MessageStart { message, .. } if message.role() == "assistant" && !is_steered => {
                is_steered = true;
                agent.steer(AgentMessage::user(STEER));
            }
            AgentEvent::AgentEnd(end) => ended = Some(end.ended),
            _ => {}
        }
    }
    assert_eq!(ended, Some(Ended::Completed), "{:?}", server.problems());
    said(agent)
}

fn said(agent: &BasicAgent) -> Vec<(String, String)> {
    agent.messages().iter().map(|message| (message.role().to_owned(), message.text())).collect()
}

fn conversation(lines: &[(&str, &str)]) -> Vec<(String, String)> {
    lines.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect()
}

fn agent(server: &Server) -> BasicAgent {
    BasicAgent::new(model(server))
        .with_provider(provider())
        .with_tools(vec![std::sync::Arc::new(ScriptedTool::saying("look", "seen")) as _])
}

fn is_steer(asked: &Asked) -> bool {
    asked.body["type"] == "response.steer"
}

/// The number of times that the server has the message in a conversation.
fn times(whole: &[Value]) -> usize {
    whole.iter().filter(|item| item.to_string().contains(STEER)).count()
}

#[tokio::test]
async fn a_steered_reply_ends_early_and_the_next_one_begins_without_a_request() {
    for how in [Steered::Early, Steered::AtItsEnd] {
        let server = Server::start(0, Upgrade::Open, [(1, Fault::Steered(how))]).await;
        let agent = agent(&server);
        let lines = [("user", "hello"), ("assistant", "text 1"), ("user", STEER), ("assistant", "text 2")];
        assert_eq!(steered(&server, &agent).await, conversation(&lines), "{how:?}");

        let asked = server.asked();
        assert_eq!(server.problems(), Vec::<String>::new());
        assert_eq!((asked.len(), is_steer(&asked[1]), times(&asked[1].whole)), (2, true, 1), "{how:?}");
        let usage = agent
            .messages()
            .iter()
            .filter_map(|m| m.as_llm()?.as_assistant().map(|r| r.usage.input))
            .sum::<u64>();
        assert_eq!(usage, 1 + 3, "each reply has its own usage");

        // The conversation goes on over the same connection, with its new item only.
        agent.prompt("more").unwrap().collect().await;
        let asked = server.asked();
        assert_eq!(server.problems(), Vec::<String>::new());
        assert_eq!((previous(&asked[2]), sent_items(&asked[2]), asked[2].connection), (Some("resp_2"), 1, 0));
        assert_eq!((asked[2].whole.len(), times(&asked[2].whole)), (5, 1), "{how:?}");
    }
}

#[tokio::test]
async fn a_reply_that_is_steered_before_its_first_item_is_empty() {
    let server = Server::start(0, Upgrade::Open, [(1, Fault::Steered(Steered::AtOnce))]).await;
    let agent = agent(&server);
    let lines = [("user", "hello"), ("assistant", ""), ("user", STEER), ("assistant", "text 2")];
    assert_eq!(steered(&server, &agent).await, conversation(&lines));
    assert_eq!((server.problems(), server.asked().len()), (vec![], 2));
}

#[tokio::test]
async fn a_refused_message_enters_with_the_next_request() {
    for how in [Steered::Refused, Steered::Returned] {
        let server = Server::start(0, Upgrade::Open, [(1, Fault::Steered(how))]).await;
        let agent = agent(&server);
        let lines = [("user", "hello"), ("assistant", "text 1"), ("user", STEER), ("assistant", "text 3")];
        assert_eq!(steered(&server, &agent).await, conversation(&lines), "{how:?}");
        let asked = server.asked();
        assert_eq!((server.problems(), asked.len()), (vec![], 3));
        assert_eq!((previous(&asked[2]), sent_items(&asked[2]), asked[2].connection), (Some("resp_1"), 1, 0));
        assert_eq!((asked[2].whole.len(), times(&asked[2].whole)), (3, 1), "{how:?}");
    }
}

/// The server would put the message before the outputs of the calls. Without its connection it forgets the message, and the
/// whole conversation is sent in the order of the history.
#[tokio::test]
async fn a_reply_with_calls_continues_over_another_connection() {
    let server = Server::start(1, Upgrade::Open, [(1, Fault::Steered(Steered::Pending))]).await;
    let agent = agent(&server);
    let lines = steered(&server, &agent).await;
    let roles: Vec<&str> = lines.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "toolResult", "user", "assistant"]);
    let asked = server.asked();
    assert_eq!((server.problems(), asked.len()), (vec![], 3));
    assert_eq!((previous(&asked[2]), sent_items(&asked[2]), asked[2].connection), (None, 4, 1));
    assert_eq!(times(&asked[2].whole), 1);
    let kinds: Vec<&str> = asked[2].whole.iter().map(|i| i["type"].as_str().unwrap_or("message")).collect();
    assert_eq!(kinds, ["message", "function_call", "function_call_output", "message"]);
}

#[tokio::test]
async fn a_connection_that_ends_before_the_next_reply_loses_nothing() {
    let server = Server::start(0, Upgrade::Open, [(1, Fault::Steered(Steered::Cut))]).await;
    let agent = agent(&server);
    let lines = [("user", "hello"), ("assistant", "text 1"), ("user", STEER), ("assistant", "text 3")];
    assert_eq!(steered(&server, &agent).await, conversation(&lines));
    let asked = server.asked();
    assert_eq!((server.problems(), asked.len()), (vec![], 3));
    assert_eq!((previous(&asked[2]), sent_items(&asked[2]), asked[2].connection), (None, 3, 1));
}

/// The user withdraws the message after the server has it: the next reply of the server belongs to no request.
#[tokio::test]
async fn a_withdrawn_message_is_not_part_of_the_conversation() {
    let server = Server::start(0, Upgrade::Open, [(1, Fault::Steered(Steered::AtItsEnd))]).await;
    let agent = agent(&server);
    let mut run = agent.prompt("hello").unwrap();
    while let Some(event) = run.recv().await {
        if let AgentEvent::MessageStart { message, .. } = event
            && message.role() == "assistant"
        {
            agent.steer(AgentMessage::user(STEER));
            agent.clear_all_queues();
        }
    }
    assert_eq!(said(&agent), conversation(&[("user", "hello"), ("assistant", "text 1")]));
    agent.prompt("more").unwrap().collect().await;
    let asked = server.asked();
    let last = asked.last().unwrap();
    assert_eq!(server.problems(), Vec::<String>::new());
    assert_eq!((times(&last.whole), last.body["input"].as_array().map(Vec::len)), (0, Some(3)));
    assert_eq!(said(&agent).last().map(|(role, _)| role.as_str()), Some("assistant"));
}

#[tokio::test]
async fn steering_that_waits_for_the_turn_is_not_sent_into_the_reply() {
    let wait = std::sync::Arc::new(tokio::sync::Notify::new());
    let server = Server::start(0, Upgrade::Open, [(1, Fault::Wait(wait.clone()))]).await;
    let agent = agent(&server).configure(|c| c.policy.steering_policy = SteeringPolicy::AfterTurn);
    let run = agent.prompt("hello").unwrap();
    while server.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    agent.steer(AgentMessage::user(STEER));
    wait.notify_one();
    run.collect().await;
    let asked = server.asked();
    assert_eq!((asked.len(), asked.iter().any(is_steer), server.problems()), (2, false, vec![]));
    assert_eq!(asked[1].body["input"], json!([{"role": "user", "content": STEER}]));
    let users = agent.messages().iter().filter(|m| matches!(m.as_llm(), Some(Message::User(_)))).count();
    assert_eq!(users, 2);
}
