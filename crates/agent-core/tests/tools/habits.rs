//! Habits of models: other names of tools, empty replies, the same call again and again.

use agent_core::compat::SeedVerbs as _;
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool, transcript};
use agent_core::{Message, ToolResult};
use serde_json::json;

use crate::room::{agent, boxed, model, results, run, said};

#[tokio::test]
async fn a_call_by_another_name_is_that_of_the_only_tool_that_fits() {
    for name in ["functions.read_file", "Read_File", "readFile", "read-file", "default_api:read_file"] {
        let model = model([ScriptedReply::call("c", name, json!({})), "done".into()]);
        let tool = ScriptedTool::saying("read_file", "AAA");
        let agent = agent(&model).with_tools(boxed([tool.clone(), ScriptedTool::saying("list_files", "B")]));
        let events = run(&agent).await;
        assert_eq!((said(&results(&events)[0]), tool.calls().len()), ("AAA".to_owned(), 1), "{name}");
        // What decides about calls and what is sent back have the name of the tool.
        let history = agent.history();
        let calls = history
            .llm_messages()
            .filter_map(Message::as_assistant)
            .flat_map(|reply| reply.tool_calls().map(|call| call.name.to_string()).collect::<Vec<_>>());
        assert_eq!(calls.collect::<Vec<_>>(), ["read_file"]);
    }
}

#[tokio::test]
async fn the_error_of_an_unknown_tool_names_those_that_exist() {
    let model = model([ScriptedReply::call("c", "cat_file", json!({})), "done".into()]);
    let tools = ["read_file", "list_files", "bash"].map(|name| ScriptedTool::saying(name, ""));
    let events = run(&agent(&model).with_tools(boxed(tools))).await;
    assert_eq!(
        said(&results(&events)[0]),
        "Tool cat_file not found. Similar names: read_file. The tools are: bash, list_files, read_file."
    );
    // Two tools fit, so that neither is meant.
    let model = crate::room::model([ScriptedReply::call("c", "READ", json!({})), "done".into()]);
    let tools = ["read", "Read"].map(|name| ScriptedTool::saying(name, ""));
    let events = run(&agent(&model).with_tools(boxed(tools))).await;
    assert!(said(&results(&events)[0]).starts_with("Tool READ not found"));
}

#[tokio::test]
async fn an_empty_reply_to_results_is_repeated_once() {
    let call = || ScriptedReply::call("c", "look", json!({}));
    let tools = || boxed([ScriptedTool::saying("look", "seen")]);
    let model = model([call(), ScriptedReply::text("\n"), "done".into()]);
    let events = run(&agent(&model).with_tools(tools())).await;
    assert!(
        transcript(&events).ends_with("assistant(done) turn_end agent_end(completed)"),
        "{}",
        transcript(&events)
    );

    let model = crate::room::model([call(), ScriptedReply::text(""), ScriptedReply::text(" ")]);
    let agent = agent(&model).with_tools(tools());
    let events = run(&agent).await;
    assert!(transcript(&events).ends_with("agent_end(error)"), "{}", transcript(&events));
    assert!(agent.error_message().unwrap().contains("empty reply, also when it was called again"));
    assert_eq!(model.requests().len(), 3);

    // An empty reply to the user is one.
    let model = crate::room::model([ScriptedReply::text("")]);
    let events = run(&crate::room::agent(&model)).await;
    assert!(transcript(&events).ends_with("agent_end(completed)"), "{}", transcript(&events));
}

fn repeating() -> ScriptedProvider {
    ScriptedProvider::responding(|request| {
        ScriptedReply::call(&format!("c{}", request.history.len()), "look", json!({"at": 1}))
    })
}

#[tokio::test]
async fn the_same_call_with_the_same_result_is_told_to_the_model_and_then_ends_the_run() {
    let model = repeating();
    let agent = agent(&model).with_tools(boxed([ScriptedTool::saying("look", "same")]));
    let events = run(&agent).await;
    assert!(transcript(&events).ends_with("agent_end(limit)"), "{}", transcript(&events));
    let all = results(&events);
    assert_eq!((all.len(), model.requests().len()), (20, 20));
    let told = |result| said(result).contains("times in a row");
    assert_eq!(all.iter().position(told), Some(9));
    assert!(said(all.last().unwrap()).contains("20 times in a row"));

    // The next prompt begins anew.
    run(&agent).await;
    assert_eq!(model.requests().len(), 40);
}

#[tokio::test]
async fn a_call_that_waits_for_something_is_no_repetition_while_its_result_differs() {
    let count = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let look = ScriptedTool::new("look", move |_, _| {
        let now = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        async move { Ok(ToolResult::text(format!("{now} %"))) }
    });
    let model = ScriptedProvider::responding(|request| match request.history.len() {
        0..60 => ScriptedReply::call(&format!("c{}", request.history.len()), "look", json!({})),
        _ => "done".into(),
    });
    let events = run(&agent(&model).with_tools(boxed([look]))).await;
    assert!(transcript(&events).ends_with("agent_end(completed)"), "{}", transcript(&events));
    assert!(results(&events).iter().all(|result| !said(result).contains("in a row")));
}
