//! An agent asked for a Rust type, with the scripted model.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail loudly"
)]

use std::sync::{Arc, Mutex};

use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::{
    AgentError, AgentEvent, AnswerFault, AnswerForm, BasicAgent, ErrorKind, ModelConfig, ResponseFormat,
    RunEnd, RunFailure, StopReason, ToolChoice, event_channel, tool_fn,
};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Verdict {
    /// From 0 to 10.
    #[schemars(range(max = 10))]
    marks: u8,
    reason: String,
}

const GOOD: &str = r#"{"marks": 7, "reason": "it works"}"#;
const BAD: &str = r#"{"marks": 70}"#;

fn agent(model: &ScriptedProvider) -> BasicAgent {
    BasicAgent::new(ModelConfig::default()).with_provider(model.clone())
}

#[tokio::test]
async fn a_prompt_is_answered_by_a_value_and_only_that_run_has_the_form() {
    let model = ScriptedProvider::texts([GOOD, "as you like"]).exhaustive();
    let agent = agent(&model);
    let verdict: Verdict = agent.prompt_typed("How good is it?").await.unwrap();
    assert_eq!(verdict, Verdict { marks: 7, reason: "it works".into() });
    assert_eq!(agent.chat("And in your words?").await.unwrap(), "as you like");
    let asked = model.requests();
    assert_eq!(asked[0].options.response_format, AnswerForm::<Verdict>::new().format());
    assert_eq!(asked[1].options.response_format, ResponseFormat::Text);
    assert_eq!(agent.messages().len(), 4, "the answer stays in the conversation");
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_asked_for_again_with_its_faults() {
    let model = ScriptedProvider::texts([BAD, GOOD]).exhaustive();
    let agent = agent(&model).with_tool(tool_fn("look", "", |_: Verdict, _| async { Ok("nothing") }));
    let verdict: Verdict = agent.prompt_typed("How good is it?").await.unwrap();
    assert_eq!(verdict.marks, 7);
    let told = agent.messages()[2].text();
    assert!(told.contains("marks: must be <= 10") && told.contains("reason"), "{told}");
    let choices: Vec<ToolChoice> =
        model.requests().into_iter().map(|r| r.options.tool_choice.clone()).collect();
    assert_eq!(choices, [ToolChoice::Auto, ToolChoice::None], "the last try holds the model to the form");
}

#[tokio::test]
async fn after_the_retries_the_error_shows_what_came() {
    for (retries, asked) in [(0, 1), (1, 2), (3, 4)] {
        let model = ScriptedProvider::responding(|_| ScriptedReply::from(BAD));
        let agent = agent(&model);
        let form = AnswerForm::<Verdict>::new().with_retries(retries);
        let error =
            agent.request("How good is it?").answering(form).start().unwrap().answer().await.unwrap_err();
        let AgentError::AnswerForm(wrong) = &error else { panic!("{error:?}") };
        assert!(matches!(&wrong.fault, AnswerFault::DoesNotFit { faults } if faults.len() == 2), "{wrong:?}");
        assert_eq!((wrong.received.as_str(), wrong.asked), (BAD, asked));
        assert!(error.to_string().contains("marks: must be <= 10"), "{error}");
        assert_eq!(model.requests().len(), asked as usize);
        assert_eq!(agent.messages().len(), 2 * asked as usize);
    }
}

#[tokio::test]
async fn tools_are_called_on_the_way_to_the_answer() {
    let model = ScriptedProvider::new([
        ScriptedReply::call("c1", "weigh", serde_json::json!({"marks": 1, "reason": "x"})),
        ScriptedReply::from(GOOD),
    ])
    .exhaustive();
    let weighed = Arc::new(Mutex::new(0));
    let count = Arc::clone(&weighed);
    let tool = tool_fn("weigh", "Weighs.", move |_: Verdict, _| {
        *count.lock().unwrap() += 1;
        async { Ok("heavy") }
    });
    let verdict: Verdict = agent(&model).with_tool(tool).prompt_typed("How good?").await.unwrap();
    assert_eq!((verdict.marks, *weighed.lock().unwrap()), (7, 1));
}

#[tokio::test]
async fn an_answer_that_was_cut_off_is_said_to_be_so() {
    let model =
        ScriptedProvider::new([ScriptedReply::text(r#"{"marks": 7, "rea"#).stopping(StopReason::Length)]);
    let form = AnswerForm::<Verdict>::new().with_retries(0);
    let error =
        agent(&model).request("How good?").answering(form).start().unwrap().answer().await.unwrap_err();
    let AgentError::AnswerForm(wrong) = error else { panic!("{error:?}") };
    assert_eq!(wrong.fault, AnswerFault::CutOff);
    assert!(wrong.correction().contains("shorter"));
}

#[tokio::test]
async fn a_call_that_fails_is_the_error_of_the_call_and_is_not_asked_again() {
    let model = ScriptedProvider::new([ScriptedReply::error(ErrorKind::Auth, "wrong key")]);
    let error = agent(&model).prompt_typed::<Verdict>("How good?").await.unwrap_err();
    assert!(
        matches!(error, AgentError::Run(ref end) if matches!(**end, RunEnd::Failed(RunFailure::Model { kind: ErrorKind::Auth, .. }))),
        "{error:?}"
    );
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn the_events_of_every_try_can_be_followed() {
    let model = ScriptedProvider::texts([BAD, GOOD]);
    let (tx, mut rx) = event_channel();
    let request = agent(&model).request("How good?").typed::<Verdict>().events_to(tx);
    let verdict = request.start().unwrap().answer().await.unwrap();
    assert_eq!(verdict.marks, 7);
    let mut ends = 0;
    while let Some(event) = rx.recv().await {
        ends += usize::from(matches!(event, AgentEvent::AgentEnd(_)));
    }
    assert_eq!(ends, 2);
}

#[tokio::test]
async fn a_reply_that_says_something_beside_its_answer_or_answers_twice_is_read() {
    async fn check(blocks: &[&str], marks: u8) {
        let reply = blocks.iter().fold(ScriptedReply::new(), |reply, text| reply.and_text(*text));
        let agent = agent(&ScriptedProvider::new([reply]).exhaustive());
        let verdict: Verdict = agent.prompt_typed("How good is it?").await.unwrap();
        assert_eq!(verdict.marks, marks, "{blocks:?}");
    }
    let later = r#"{"marks": 8, "reason": "on reflection"}"#;
    check(&["I look at {it} first.", GOOD], 7).await;
    check(&[GOOD, "That is all {I} say."], 7).await;
    check(&["{", GOOD, later], 8).await;
}
