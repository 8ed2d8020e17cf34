//! What surprised users: each trap is a typed error, or does what it looks like. `traps.md` beside this file has those that
//! do not compile.
#![cfg(all(feature = "testing", feature = "session", feature = "tools"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail loudly"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use looptree::prelude::*;
use looptree::testing::{ScriptedProvider, ScriptedReply};
use looptree::{ErrorKind, RunFailure, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Amount {
    /// A number, as text.
    text: String,
}

fn agent(replies: impl IntoIterator<Item = ScriptedReply>) -> (BasicAgent, ScriptedProvider) {
    let model = ScriptedProvider::new(replies);
    (looptree::agent(ModelConfig::default()).with_provider(model.clone()), model)
}

fn call(text: &str) -> ScriptedReply {
    ScriptedReply::call("c1", "parse", json!({ "text": text }))
}

fn parse() -> impl AgentTool {
    tool_fn("parse", "Parses a number.", |amount: Amount, _| async move { Ok(amount.text.parse::<i64>()?) })
}

/// A failed run is an error of `chat`, with the reason, and never an empty answer.
#[tokio::test]
async fn a_program_that_only_asks_cannot_overlook_a_failure() {
    let (agent, _) = agent([ScriptedReply::error(ErrorKind::Auth, "wrong key")]);
    let error = agent.chat("Hello").await.unwrap_err();
    assert!(error.to_string().contains("wrong key"), "{error}");
    let AgentError::Run(end) = error else { panic!("{error:?}") };
    assert!(matches!(*end, RunEnd::Failed(RunFailure::Model { kind: ErrorKind::Auth, .. })));
}

/// The events of a failed run are followed by the same end.
#[tokio::test]
async fn a_program_that_reads_events_gets_the_end_from_the_receiver() {
    let (agent, _) = agent([ScriptedReply::error(ErrorKind::Network, "no route to host")]);
    let agent = agent.configure(|c| c.policy.retry.max_retries = 0);
    let mut events = agent.prompt("Hello").unwrap();
    let mut text = String::new();
    while let Some(event) = events.recv().await {
        text.push_str(event.text_delta().unwrap_or_default());
    }
    assert!(text.is_empty());
    let end = events.end().await;
    assert!(end.to_string().contains("no route to host"), "{end}");
}

/// Every hook that was added runs, and one denial is enough.
#[tokio::test]
async fn a_second_hook_does_not_remove_the_first() {
    let (asked, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (first, second) = (Arc::clone(&asked), Arc::clone(&seen));
    let (agent, _) = agent([call("1"), "Done.".into()]);
    let agent = agent
        .with_tool(parse())
        .with_hooks(Hooks::new().before_tool(move |_| {
            first.fetch_add(1, Ordering::SeqCst);
            async { Verdict::Ask("Parse this?".into()) }
        }))
        .with_hooks(Hooks::new().before_tool(move |_| {
            second.fetch_add(1, Ordering::SeqCst);
            async { Verdict::Allow }
        }));
    let RunEnd::Suspended(questions) = agent.prompt("Go").unwrap().end().await else { panic!() };
    assert_eq!((asked.load(Ordering::SeqCst), seen.load(Ordering::SeqCst)), (1, 1));
    let end = agent.answer(questions[0].id.clone(), Answer::Allow).unwrap().end().await;
    assert!(end.is_completed(), "{end}");
    assert_eq!(asked.load(Ordering::SeqCst), 1, "no hook runs after the approval");
}

/// An approval is asked about the arguments that run: hooks that change arguments come first, whatever their order.
#[tokio::test]
async fn a_question_is_about_the_final_arguments() {
    let asking = |_| async { Verdict::Ask("Parse this?".into()) };
    let changing = |_| async { Verdict::AllowWith(json!({ "text": "42" })) };
    for (name, hooks) in [
        ("the question first", Hooks::new().before_tool(asking).before_tool(changing)),
        ("the change first", Hooks::new().before_tool(changing).before_tool(asking)),
    ] {
        let (agent, model) = agent([call("1"), "Done.".into()]);
        let agent = agent.with_tool(parse()).with_hooks(hooks);
        let RunEnd::Suspended(questions) = agent.prompt("Go").unwrap().end().await else { panic!("{name}") };
        let shown = questions[0].call.as_ref().unwrap().arguments.value().unwrap();
        assert_eq!(shown, &json!({ "text": "42" }), "{name}");
        agent.answer(questions[0].id.clone(), Answer::Allow).unwrap().end().await.into_reply().unwrap();
        let result = model.requests()[1].messages().last().unwrap().text();
        assert_eq!(result, "42", "{name}: what was approved is what ran");
    }
}

/// A denial wins over an approval that another hook asks for.
#[tokio::test]
async fn a_denial_wins_over_a_question() {
    let (agent, model) = agent([call("1"), "Done.".into()]);
    let agent = agent.with_tool(parse()).with_hooks(
        Hooks::new()
            .before_tool(|_| async { Verdict::Ask("Parse this?".into()) })
            .before_tool(|_| async { Verdict::Deny("never".into()) }),
    );
    agent.prompt("Go").unwrap().end().await.into_reply().unwrap();
    assert_eq!(model.requests()[1].messages().last().unwrap().text(), "never");
}

/// `with_tools` adds to `with_tool`.
#[tokio::test]
async fn tools_add_up_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(dir.path()).unwrap();
    let many = looptree::agent(ModelConfig::default()).with_tool(parse()).with_tools(workspace.tools());
    let names: Vec<String> = many.state().tools.iter().map(|tool| tool.name().to_owned()).collect();
    assert!(names.contains(&"parse".into()) && names.contains(&"bash".into()), "{names:?}");
}

/// Two tools of one name are an error that names them, before any model is called.
#[tokio::test]
async fn two_tools_of_one_name_are_refused_when_a_run_starts() {
    let (agent, model) = agent(["Done.".into()]);
    let agent = agent.with_tool(parse()).with_tool(parse());
    let error = agent.prompt("Go").unwrap_err();
    assert!(matches!(&error, AgentError::DuplicateTool { name } if name == "parse"), "{error:?}");
    assert!(error.to_string().contains("parse"));
    assert!(model.requests().is_empty());
}

/// A second agent with the same settings is independent of the first.
#[tokio::test]
async fn an_agent_made_from_another_one_leaves_it_alone() {
    let (base, model) = agent(["one".into(), "two".into()]);
    let base = base.with_system_prompt("You are an engineer.");
    let pirate = base.with_same_settings().with_system_prompt("You are a pirate.");
    base.chat("Hi").await.unwrap();
    pirate.chat("Hi").await.unwrap();
    let prompts: Vec<String> = model.requests().iter().map(|r| r.system_prompt.to_string()).collect();
    assert_eq!(prompts, ["You are an engineer.", "You are a pirate."]);
    assert_ne!(base.session_id(), pirate.session_id());
    assert_eq!((base.messages().len(), pirate.messages().len()), (2, 2));
}

/// Dropping the owner of an agent does not stop its run.
#[tokio::test]
async fn a_run_outlives_the_owner_of_its_agent() {
    let (agent, _) = agent(["done".into()]);
    let mut events = agent.prompt("Go").unwrap();
    drop(agent);
    assert_eq!(events.end().await.into_reply().unwrap().text(), "done");
}

/// A snapshot of a recorded agent does not continue unrecorded by accident.
#[tokio::test]
async fn a_restored_agent_records_or_refuses_to_run() {
    let dir = tempfile::tempdir().unwrap();
    let (mut first, _) = agent(["Hello.".into()]);
    let recorder = SessionRecorder::attach(&mut first, JsonStore::open(dir.path()).unwrap());
    first.chat("Hi").await.unwrap();
    let snapshot = first.snapshot();
    recorder.close().await.unwrap();

    let (second, _) = agent(["Again.".into()]);
    let second = second.restore(snapshot.clone()).unwrap();
    let error = second.prompt("More").unwrap_err();
    assert!(matches!(error, AgentError::Unrecorded), "{error:?}");
    assert!(error.to_string().contains("restore_session"), "{error}");

    let (third, _) = agent(["Again.".into()]);
    let store = JsonStore::open(dir.path()).unwrap();
    let (third, recorder) = third.restore_session(store.clone(), first.session_id()).await.unwrap();
    third.chat("More").await.unwrap();
    recorder.close().await.unwrap();
    let recorded =
        looptree::session::SessionStore::load_session(&store, first.session_id().as_str()).await.unwrap();
    assert_eq!(recorded.loops.len(), 2, "the second prompt is recorded");
}

#[derive(Serialize)]
struct Forecast {
    city: String,
    degrees: i32,
}

struct Weather;

#[derive(Deserialize, JsonSchema)]
struct City {
    city: String,
}

impl Tool for Weather {
    type Args = City;
    type Output = Forecast;
    const NAME: &'static str = "weather";

    fn description(&self) -> &str {
        "Current weather in a city."
    }

    async fn call(&self, args: City, _cx: &ToolContext) -> Result<Forecast, ToolError> {
        Ok(Forecast { city: args.city, degrees: 21 })
    }
}

/// A typed tool needs no conversion, and any value that serializes is an output.
#[tokio::test]
async fn a_typed_tool_is_a_tool_and_returns_a_struct() {
    let (agent, model) =
        agent([ScriptedReply::call("c1", "weather", json!({ "city": "Ulm" })), "Done.".into()]);
    let agent = agent.with_tool(Weather);
    agent.chat("How is it in Ulm?").await.unwrap();
    let result = model.requests()[1].messages().last().unwrap().text();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&result).unwrap(),
        json!({"city": "Ulm", "degrees": 21})
    );
}

/// `?` works on any error in a tool, and the model reads the reason.
#[tokio::test]
async fn any_error_of_a_tool_reaches_the_model_as_text() {
    let (agent, model) = agent([call("four"), "Done.".into()]);
    agent.with_tool(parse()).chat("Go").await.unwrap();
    let result = model.requests()[1].messages().last().unwrap().text();
    assert!(result.contains("invalid digit"), "{result}");
}

/// A limit, an abort and a veto can be told apart without reading a text.
#[tokio::test]
async fn every_end_of_a_chat_is_a_variant() {
    let (limited, _) = agent([call("1"), call("2")]);
    let limits = ExecutionLimits::default().with_max_turns(1);
    let error = limited.with_tool(parse()).with_limits(limits).chat("Go").await.unwrap_err();
    let AgentError::Run(end) = error else { panic!() };
    assert!(matches!(*end, RunEnd::Stopped(StopCause::Limit { .. })), "{end:?}");

    let (vetoed, _) = agent(["Done.".into()]);
    let hooks = Hooks::new().before_loop(|_| async { Verdict::Deny("closed".into()) });
    let error = vetoed.with_hooks(hooks).chat("Go").await.unwrap_err();
    let AgentError::Run(end) = error else { panic!() };
    assert!(matches!(&*end, RunEnd::Stopped(StopCause::Hook { reason }) if reason == "closed"), "{end:?}");
}

/// Small conversions that users reached for.
#[test]
fn small_conversions_are_there() {
    let arguments = looptree::message::ToolArguments::from(json!({"a": 1}));
    assert_eq!(arguments.to_string(), r#"{"a":1}"#);
    assert!(Timestamp::now() > Timestamp(1_700_000_000_000));
    let texts = Mutex::new(Vec::new());
    texts.lock().unwrap().push(Answer::deny("no"));
    texts.lock().unwrap().push(Answer::deny(String::from("no")));
    assert_eq!(texts.into_inner().unwrap().len(), 2);
}
