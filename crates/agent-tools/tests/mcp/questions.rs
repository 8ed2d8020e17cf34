//! Questions of servers as a list.

use std::time::Duration;

use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::{BasicAgent, Message, ModelConfig};
use agent_tools::mcp::{
    ElicitationAnswer, McpClient, OpenElicitation, QuestionError, Questions, WithMcp as _,
};
use serde_json::{Value, json};

use crate::support::{PATIENCE, call, child, connect, text};

/// Waits until something is open.
async fn first(questions: &Questions) -> OpenElicitation {
    let waiting = async {
        loop {
            if let Some(open) = questions.open().into_iter().next() {
                return open;
            }
            questions.changed().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap()
}

async fn asking(questions: &Questions) -> McpClient {
    connect(child("sdk").with_elicitation(questions.handler())).await
}

#[tokio::test]
async fn a_question_is_data_and_is_answered_from_somewhere_else() {
    let questions = Questions::new(PATIENCE);
    let client = asking(&questions).await;
    let desk = questions.clone();
    let elsewhere = tokio::spawn(async move {
        // Over the wire and back, as to another process.
        let sent = serde_json::to_value(first(&desk).await).unwrap();
        let open: OpenElicitation = serde_json::from_value(sent.clone()).unwrap();
        let answer: ElicitationAnswer =
            serde_json::from_value(json!({"action": "accept", "content": {"branch": "next"}})).unwrap();
        desk.answer(open.id, answer).unwrap();
        (sent, open.id)
    });
    let told: Value = serde_json::from_str(&text(call(&client, "ask", json!({})).await)).unwrap();
    assert_eq!(told, json!({"action": "accept", "content": {"branch": "next", "depth": 3}}));
    let (sent, id) = elsewhere.await.unwrap();
    assert_eq!((&sent["server"], &sent["message"]), (&json!("test"), &json!("Which branch?")));
    assert_eq!(sent["form"]["fields"]["schema"]["properties"]["depth"]["minimum"], 1);
    assert!(questions.open().is_empty());
    let again = questions.answer(id, ElicitationAnswer::Decline);
    assert_eq!(again, Err(QuestionError::NotOpen { id }));
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_refused_and_the_question_stays_open() {
    let questions = Questions::new(PATIENCE);
    let client = asking(&questions).await;
    let desk = questions.clone();
    let elsewhere = tokio::spawn(async move {
        let id = first(&desk).await.id;
        let refused = desk.answer(id, ElicitationAnswer::Accept(json!({"branch": "next", "depth": 0})));
        let open = desk.open().len();
        desk.answer(id, ElicitationAnswer::Decline).unwrap();
        (refused, open)
    });
    assert_eq!(text(call(&client, "ask", json!({})).await), r#"{"action":"decline"}"#);
    let (refused, open) = elsewhere.await.unwrap();
    match refused {
        Err(QuestionError::Misfit { why }) => assert!(why.contains("depth"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(open, 1);
}

#[tokio::test]
async fn what_nobody_answers_is_cancelled_in_its_time() {
    let questions = Questions::new(Duration::from_millis(200));
    let client = asking(&questions).await;
    let told = tokio::time::timeout(PATIENCE, call(&client, "ask", json!({}))).await.unwrap();
    assert_eq!(text(told), r#"{"action":"cancel"}"#);
    assert!(questions.open().is_empty());
}

#[tokio::test]
async fn a_run_of_an_agent_waits_for_the_answer_and_goes_on_with_it() {
    let questions = Questions::new(PATIENCE);
    let model =
        ScriptedProvider::new([ScriptedReply::call("1", "ask", json!({})), ScriptedReply::text("Done.")]);
    let server = child("sdk").with_elicitation(questions.handler());
    let agent =
        BasicAgent::new(ModelConfig::default()).with_provider(model).with_mcp_server(server).await.unwrap();
    let run = agent.prompt("Go.").unwrap();
    let open = first(&questions).await;
    assert_eq!(agent.messages().len(), 2, "the prompt and the call; its result is not there yet");
    questions.answer(open.id, ElicitationAnswer::Accept(json!({"branch": "main"}))).unwrap();
    run.collect().await;
    let told = agent.messages().iter().any(|message| {
        message.as_llm().is_some_and(|m| matches!(m, Message::ToolResult(_)) && m.text().contains("accept"))
    });
    assert!(told, "{:?}", agent.messages());
}
