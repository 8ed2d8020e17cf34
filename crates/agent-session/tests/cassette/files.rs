//! What is read as a cassette, and what is not.

use agent_session::cassette::CassetteError;

use super::*;

#[track_caller]
fn check(text: &str, expect: &str) {
    let error = Cassette::from_json(text).unwrap_err();
    assert!(error.to_string().contains(expect), "{error}");
}

#[tokio::test]
async fn a_damaged_foreign_or_later_file_is_a_typed_error() {
    let text = recorded().await.to_json().unwrap();
    check("", "this is no cassette of a run");
    check("[]", "this is no cassette of a run");
    check("{}", "missing field `version`");
    check(&text[..text.len() / 2], "EOF while parsing");
    check(&text.replace("\"version\": 1", "\"version\": 2"), "reads up to version 1");
    check(&text.replace("\"setup\": 0", "\"setup\": 7"), "/calls/0/request refers to setup 7");
    check(
        &format!("{{\"version\": 1, \"notes\": {{\"a\": {}1{}}}}}", "[".repeat(500), "]".repeat(500)),
        "recursion limit",
    );
    let huge = "{\"version\": 1, \"calls\": [{\"effect\": {\"model\": {\"request\": {\"setup\": 0, \"messages\": [[4294967295, 4294967295]]}, \"events\": []}}}], \"setups\": [1]}";
    check(huge, "refers to message 8589934589");
    assert!(matches!(Cassette::from_json("x"), Err(CassetteError::Unreadable(_))));
}

/// A cassette of an earlier version is read by every later one. What a later one adds is not known to this one, and is
/// no error.
#[test]
fn the_sample_of_version_1_loads_and_replays() {
    let text = include_str!("version-1.json");
    let cassette = Cassette::from_json(text).unwrap();
    assert_eq!((cassette.model_calls(), cassette.tool_calls()), (2, 1));
    let more = text.replacen('{', "{\"laterField\": 1,", 1);
    assert_eq!(Cassette::from_json(&more).unwrap(), cassette);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let replay = Replay::from_json(text).unwrap();
        run(&replaying(&replay), "What time is it?").await;
        replay.finish().unwrap();
    });
}

#[tokio::test]
async fn no_key_and_no_header_is_in_a_cassette() {
    let recorder = CassetteRecorder::new();
    let mut model = ModelConfig::anthropic("claude-haiku-4-5", "Haiku", "sk-very-secret");
    model.headers.insert("x-team".into(), Some("hidden-header".into()));
    let agent = BasicAgent::new(model).with_provider(call_and_text()).with_tools(vec![clock()]);
    run(&recorder.attach(agent), "What time is it?").await;
    let text = recorder.cassette().to_json().unwrap();
    assert!(text.contains("claude-haiku-4-5"));
    assert!(!text.contains("sk-very-secret") && !text.contains("hidden-header"));
}

/// Notes are the program's own.
#[tokio::test]
async fn notes_come_back() {
    let recorder = CassetteRecorder::new();
    recorder.note("prompts", vec!["a", "b"]);
    assert_eq!(reread(&recorder).notes["prompts"], json!(["a", "b"]));
}
