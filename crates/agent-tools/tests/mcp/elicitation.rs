//! Questions of a server to the user.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_tools::mcp::{
    Elicitation, ElicitationAnswer, ElicitationForm, ElicitationHandler, accept_defaults,
};
use serde_json::{Value, json};

use crate::support::{call, child, connect, text};

/// A user who says this, and what was asked.
fn user(answer: ElicitationAnswer) -> (ElicitationHandler, Arc<Mutex<Vec<Elicitation>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let book = Arc::clone(&asked);
    let handler: ElicitationHandler = Arc::new(move |question| {
        book.lock().unwrap().push(question);
        let answer = answer.clone();
        Box::pin(async move { answer })
    });
    (handler, asked)
}

async fn answered(handler: ElicitationHandler, tool: &str) -> String {
    let client = connect(child("sdk").with_elicitation(handler)).await;
    text(call(&client, tool, json!({})).await)
}

#[tokio::test]
async fn the_user_is_asked_and_missing_fields_get_their_defaults() {
    let (handler, asked) = user(ElicitationAnswer::Accept(json!({"branch": "next"})));
    let answer: Value = serde_json::from_str(&answered(handler, "ask").await).unwrap();
    assert_eq!(answer["action"], "accept");
    assert_eq!(answer["content"], json!({"branch": "next", "depth": 3}));
    let asked = asked.lock().unwrap();
    assert_eq!((asked[0].server.as_str(), asked[0].message.as_str()), ("test", "Which branch?"));
    match &asked[0].form {
        ElicitationForm::Fields { schema } => assert_eq!(schema["properties"]["depth"]["minimum"], 1),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_answer_that_does_not_fit_the_form_never_reaches_the_server() {
    let (handler, _) = user(ElicitationAnswer::Accept(json!({"branch": "next", "depth": 0})));
    let told = answered(handler, "ask").await;
    assert!(told.starts_with("error: ") && told.contains("depth"), "{told}");
}

#[tokio::test]
async fn no_and_a_closed_question_are_passed_on() {
    for (answer, action) in [(ElicitationAnswer::Decline, "decline"), (ElicitationAnswer::Cancel, "cancel")] {
        let (handler, _) = user(answer);
        let answer: Value = serde_json::from_str(&answered(handler, "ask").await).unwrap();
        assert_eq!(answer, json!({"action": action}));
    }
}

#[tokio::test]
async fn a_page_is_asked_for_with_its_address() {
    let (handler, asked) = user(ElicitationAnswer::Accept(json!({})));
    let answer: Value = serde_json::from_str(&answered(handler, "visit").await).unwrap();
    assert_eq!(answer, json!({"action": "accept"}));
    let url = "https://example.com/sign-in".to_owned();
    assert_eq!(asked.lock().unwrap()[0].form, ElicitationForm::Page { url });
}

#[tokio::test]
async fn a_rule_can_answer_with_defaults() {
    let answer: Value = serde_json::from_str(&answered(accept_defaults(), "ask").await).unwrap();
    assert_eq!(answer, json!({"action": "accept", "content": {"branch": "main", "depth": 3}}));
    let answer: Value = serde_json::from_str(&answered(accept_defaults(), "visit").await).unwrap();
    assert_eq!(answer, json!({"action": "decline"}));
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_answer_is_no() {
    let client = connect(child("sdk")).await;
    let answer: Value = serde_json::from_str(&text(call(&client, "ask", json!({})).await)).unwrap();
    assert_eq!(answer, json!({"action": "decline"}));
}

#[tokio::test]
async fn time_stands_still_while_the_user_thinks() {
    let slow: ElicitationHandler = Arc::new(|_| {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(9)).await;
            ElicitationAnswer::Decline
        })
    });
    let server = child("sdk").with_elicitation(slow).with_call_timeout(Duration::from_secs(3));
    let client = connect(server).await;
    let result = client.call_tool("ask", json!({})).await.unwrap();
    assert_eq!(result.text(), r#"{"action":"decline"}"#);
}
