//! What differs is said, once, at its place.

use agent_core::compat::SeedSetters as _;
use agent_core::{AgentEvent, Ended};

use super::*;

#[track_caller]
fn check(replay: &Replay, at: &str, field: &str, diff: &str) {
    let found = replay.finish().unwrap_err();
    assert_eq!((found.at.as_str(), found.field.as_str(), found.diff.as_str()), (at, field, diff));
}

/// X2. The run ends with the first difference, which names the field and shows both sides.
#[tokio::test]
async fn another_request_ends_the_run_with_a_diff() {
    let replay = Replay::new(recorded().await);
    let agent = replaying(&replay).with_system_prompt("Be short.\nBe rude.");
    let events = run(&agent, "What time is it?").await;
    check(&replay, "model call 1", "/setup/systemPrompt", "  Be short.\n- Be kind.\n+ Be rude.");
    let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!("{events:?}") };
    assert!(matches!(end.ended, Ended::Error { .. }), "{end:?}");
    let text = format!("{events:?}");
    assert!(
        text.contains("the replay differs from the cassette at model call 1, in /setup/systemPrompt"),
        "{text}"
    );
}

#[tokio::test]
async fn another_prompt_model_or_tool_is_a_difference() {
    let cassette = recorded().await;
    let replay = Replay::new(cassette.clone());
    run(&replaying(&replay), "What day is it?").await;
    check(&replay, "model call 1", "/messages/0/content/0/text", "- What time is it?\n+ What day is it?");

    let replay = Replay::new(cassette.clone());
    let mut model = ModelConfig::default();
    model.id = "other".into();
    run(&replaying(&replay).with_model_config(model), "What time is it?").await;
    assert_eq!(replay.finish().unwrap_err().field, "/setup/model");

    let replay = Replay::new(cassette);
    let tool =
        ScriptedTool::saying("clock", "12:00").with_schema(json!({"type": "object", "required": ["zone"]}));
    let agent =
        BasicAgent::new(ModelConfig::default()).with_system_prompt("Be short.\nBe kind.").with_tool(tool);
    run(&replay.attach(agent), "What time is it?").await;
    assert_eq!(replay.finish().unwrap_err().field, "/setup/tools/0/parameters/required");
}

/// A cassette that was edited stands for a program that treats a reply in another way.
#[tokio::test]
async fn other_arguments_of_a_tool_are_a_difference() {
    let text = recorded().await.to_json().unwrap();
    // The call's own record, not the reply that asks for it.
    let (before, after) = text.rsplit_once("\"zone\": \"CET\"").unwrap();
    let edited = format!("{before}\"zone\": \"UTC\"{after}");
    let replay = Replay::new(Cassette::from_json(&edited).unwrap());
    run(&replaying(&replay), "What time is it?").await;
    check(&replay, "call 1 of the tool clock", "/arguments/zone", "- UTC\n+ CET");
}

#[tokio::test]
async fn a_call_that_was_not_made_and_one_too_many_are_differences() {
    let cassette = recorded().await;
    let replay = Replay::new(cassette.clone());
    let found = replay.finish().unwrap_err();
    assert_eq!(found.at, "model call 1");
    assert!(found.diff.ends_with("+ (nothing)") && found.diff.contains("What time is it?"), "{found}");

    let replay = Replay::new(cassette);
    let agent = replaying(&replay);
    run(&agent, "What time is it?").await;
    replay.finish().unwrap();
    run(&agent, "And now?").await;
    let found = replay.finish().unwrap_err();
    assert_eq!(found.at, "a call that the cassette does not have");
    assert!(found.diff.starts_with("- (nothing)\n+ {"), "{found}");
}

#[tokio::test]
async fn a_tool_that_the_replay_does_not_run_is_a_difference() {
    let replay = Replay::new(recorded().await);
    // The hook of the new program forbids the call: what the model is told is another thing.
    let hooks =
        agent_core::Hooks::new().before_tool(|_| async { agent_core::Verdict::Deny("not now".into()) });
    run(&replaying(&replay).with_hooks(hooks), "What time is it?").await;
    let found = replay.finish().unwrap_err();
    assert_eq!((found.at.as_str(), found.field.as_str()), ("model call 2", "/messages/2/content/0/text"));
    assert!(found.diff.starts_with("- 12:00\n+ "), "{found}");
}

/// A lenient replay answers in order, and tells the first difference all the same.
#[tokio::test]
async fn a_lenient_replay_goes_on() {
    let replay = Replay::new(recorded().await).lenient();
    let agent = replaying(&replay);
    let events = run(&agent, "What day is it?").await;
    let said = events
        .iter()
        .any(|event| matches!(event, AgentEvent::AgentEnd(end) if end.ended == Ended::Completed));
    assert!(said, "{events:?}");
    check(&replay, "model call 1", "/messages/0/content/0/text", "- What time is it?\n+ What day is it?");
}

/// A run that was cut off, replayed by a program that does not cut it off: not for ever.
#[tokio::test(start_paused = true)]
async fn an_abort_that_does_not_come_is_a_difference() {
    let recorder = CassetteRecorder::new();
    let tool = ScriptedTool::new("clock", |_, _| std::future::pending());
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(call_and_text()).with_tool(tool);
    let agent = recorder.attach(agent.with_system_prompt("Be short.\nBe kind."));
    let mut events = agent.prompt("What time is it?").unwrap();
    while let Some(event) = events.recv().await {
        if matches!(event, AgentEvent::ToolExecutionStart { .. }) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            agent.abort();
        }
    }
    let replay = Replay::new(reread(&recorder));
    run(&replaying(&replay), "What time is it?").await;
    let found = replay.finish().unwrap_err();
    assert!(found.to_string().contains("abort"), "{found}");
}
