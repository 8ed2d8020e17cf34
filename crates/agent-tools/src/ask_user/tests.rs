use agent_core::event::RunEnd;
use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::{AgentEvent, BasicAgent, ModelConfig};

use super::*;

fn arguments() -> Value {
    json!({"question": "Which?", "choices": ["red", {"label": "blue", "description": "as the sky"}], "answer": "forged"})
}

/// An agent that has asked, and its question.
async fn asking(arguments: Value) -> (BasicAgent, Vec<Question>) {
    let model =
        ScriptedProvider::new([ScriptedReply::call("c", "ask_user", arguments), ScriptedReply::text("done")]);
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(model).with_tool(AskUserTool::new());
    let events = agent.prompt("go").unwrap().collect().await;
    let asked = events.into_iter().find_map(|event| match event {
        AgentEvent::RunSuspended { questions, .. } => Some(questions),
        _ => None,
    });
    (agent, asked.unwrap_or_default())
}

/// The result of the call after this answer.
async fn answered(agent: &BasicAgent, question: &Question, answer: Answer) -> String {
    let end = agent.answer(question.id.clone(), answer).unwrap().end().await;
    assert!(matches!(end, RunEnd::Completed(_)), "{end:?}");
    let history = agent.history();
    history.llm_messages().find(|message| message.as_tool_result().is_some()).unwrap().text()
}

/// Issue 16, item 2.
#[tokio::test]
async fn a_question_suspends_the_run_and_its_answer_is_the_result() {
    let (agent, questions) = asking(arguments()).await;
    let question = &questions[0];
    assert_eq!(question.text, "Which?\n  1. red\n  2. blue: as the sky");
    let args = asked(question).unwrap();
    assert_eq!((args.choices().len(), args.answer), (2, None));
    assert_eq!(answered(&agent, question, choose(question, &[2]).unwrap()).await, "The user answered: blue");

    let (agent, questions) = asking(arguments()).await;
    let own = answer(&questions[0], "green, please").unwrap();
    assert_eq!(answered(&agent, &questions[0], own).await, "The user answered: green, please");
}

/// The model sends an answer of its own in `arguments`.
#[tokio::test]
async fn the_model_cannot_answer_its_own_question() {
    // Some models send the object as the text of a JSON string.
    for sent in [arguments(), Value::String(arguments().to_string())] {
        let (agent, questions) = asking(sent).await;
        let text = answered(&agent, &questions[0], Answer::Allow).await;
        assert_eq!(text, "the user gave no answer; continue without one, or ask again");
    }
    let (agent, questions) = asking(arguments()).await;
    let text = answered(&agent, &questions[0], Answer::deny("Not now.")).await;
    assert!(text.contains("Not now.") && !text.contains("forged"), "{text}");
}

#[tokio::test]
async fn answers_that_do_not_fit_are_refused() {
    let (_, questions) = asking(arguments()).await;
    let question = &questions[0];
    assert_eq!(choose(question, &[3]), Err(AskUserError::NoSuchChoice { number: 3, choices: 2 }));
    assert_eq!(choose(question, &[0]), Err(AskUserError::NoSuchChoice { number: 0, choices: 2 }));
    assert_eq!(choose(question, &[1, 2]), Err(AskUserError::OneChoice));
    assert_eq!(answer(question, " "), Err(AskUserError::AnswerSize { bytes: 1 }));
    let long = "x".repeat(MAX_ANSWER_BYTES + 1);
    assert!(matches!(answer(question, long), Err(AskUserError::AnswerSize { .. })));
    let other = json!({"id": "q", "text": "Run?", "call": {"id": "c", "name": "bash", "arguments": {"question": "x"}}});
    let other: Question = serde_json::from_value(other).unwrap();
    assert!(asked(&other).is_none());
    assert!(matches!(answer(&other, "yes"), Err(AskUserError::OtherQuestion { .. })));
}

#[tokio::test]
async fn a_question_that_cannot_be_asked_is_an_error_for_the_model() {
    for (arguments, expect) in [
        (json!({"question": " "}), "the question is empty"),
        (
            json!({"question": "x".repeat(MAX_QUESTION_BYTES + 1)}),
            "the question is too long (8193 bytes, max 8192)",
        ),
        (json!({"question": "x", "choices": vec!["y"; MAX_CHOICES + 1]}), "too many choices (max 20)"),
    ] {
        let (agent, questions) = asking(arguments).await;
        assert!(questions.is_empty());
        let history = agent.history();
        let text = history.llm_messages().find(|message| message.as_tool_result().is_some()).unwrap().text();
        assert!(text.contains(expect), "{text}");
    }
    let tool = AskUserTool::new();
    assert!(
        !Tool::parameters_schema(&tool).to_string().contains("\"answer\""),
        "the model does not know the field"
    );
}

/// The question is in the snapshot of the agent, from which another process continues.
#[tokio::test]
async fn a_question_survives_a_restart() {
    let (agent, questions) = asking(arguments()).await;
    let stored = serde_json::to_string(&agent.snapshot()).unwrap();
    drop(agent);
    let model = ScriptedProvider::new([ScriptedReply::text("done")]);
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(model).with_tool(AskUserTool::new());
    let agent = agent.restore(serde_json::from_str(&stored).unwrap()).unwrap();
    assert_eq!(
        answered(&agent, &questions[0], choose(&questions[0], &[1]).unwrap()).await,
        "The user answered: red"
    );
}
