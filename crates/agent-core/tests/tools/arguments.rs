//! What a tool is called with, and when it is not called.

use agent_core::compat::SeedSetters as _;
use agent_core::compat::SeedVerbs as _;
use agent_core::testing::{ScriptedReply, ScriptedTool, transcript};
use agent_core::{
    AgentMessage, AgentTool, BasicAgent, ContextConfig, Message, ModelConfig, StopReason, ToolArguments,
    ToolContext, ToolError, ToolResult,
};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::room::{agent, boxed, model, result, results, run, said};

fn weather() -> ScriptedTool {
    ScriptedTool::saying("weather", "rain").with_schema(json!({
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "exact": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "unit": {"type": "string"},
        },
        "required": ["city"],
    }))
}

/// B-085, REQ-079.
#[tokio::test]
async fn an_unknown_tool_is_answered_by_name_and_the_other_calls_run() {
    let model = model([
        ScriptedReply::call("a", "nothing", json!({})).and_call("b", "weather", json!({"city": "Oslo"})),
        "done".into(),
    ]);
    let tool = weather();
    let agent = agent(&model).with_tools(boxed([tool.clone()]));
    let events = run(&agent).await;
    let results = results(&events);
    assert!(said(&results[0]).starts_with("Tool nothing not found") && results[0].is_error);
    assert_eq!((said(&results[1]).as_str(), results[1].is_error), ("rain", false));
    assert_eq!(tool.calls().len(), 1);
}

/// B-086, B-088, REQ-078.
#[tokio::test]
async fn arguments_that_do_not_fit_are_listed_whole_and_the_model_may_try_again() {
    let wrong = json!({"days": "soon", "exact": {"x": 1}});
    let model = model([
        ScriptedReply::call("a", "weather", wrong.clone()),
        ScriptedReply::call("b", "weather", json!({"city": "Oslo"})),
        "done".into(),
    ]);
    let tool = weather();
    let agent = agent(&model).with_tools(boxed([tool.clone()]));
    let events = run(&agent).await;
    let results = results(&events);
    let text = said(&results[0]);
    assert!(results[0].is_error);
    for part in ["city", "days", "exact", "soon", "weather"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert_eq!(tool.calls(), [json!({"city": "Oslo"})], "only the call that fits was run");
    assert!(transcript(&events).ends_with("agent_end(completed)"));
}

/// B-087.
#[tokio::test]
async fn what_was_plainly_meant_is_put_right_and_the_transcript_keeps_what_was_sent() {
    let sent = r#"{"city":"Oslo","days":"42","exact":"true","tags":"sea","unit":null}"#;
    let model = model([ScriptedReply::call("a", "weather", ToolArguments::from_text(sent)), "done".into()]);
    let tool = weather();
    let agent = agent(&model).with_tools(boxed([tool.clone()]));
    let events = run(&agent).await;
    assert!(!result(&events).is_error);
    let got = tool.calls().remove(0);
    assert_eq!(got["days"], 42);
    assert_eq!(got["exact"], true);
    assert_eq!(got["tags"], json!(["sea"]));
    assert!(got.get("unit").is_none_or(Value::is_null));
    let reply = agent.history().messages().nth(1).cloned().unwrap();
    let call = reply.as_llm().and_then(Message::as_assistant).unwrap().tool_calls().next().cloned().unwrap();
    assert_eq!(call.arguments.text(), sent);
}

struct Lenient;

#[async_trait]
impl AgentTool for Lenient {
    fn name(&self) -> &'static str {
        "lenient"
    }

    fn description(&self) -> &'static str {
        "Takes an old name of its argument"
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})
    }

    fn prepare_arguments(&self, mut arguments: Value) -> Value {
        if let Some(old) = arguments.as_object_mut().and_then(|o| o.remove("file")) {
            arguments["path"] = old;
        }
        arguments
    }

    async fn execute(&self, arguments: Value, _: ToolContext) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::text(arguments.to_string()))
    }
}

/// B-089.
#[tokio::test]
async fn a_tool_prepares_its_arguments_before_they_are_checked() {
    let model = model([ScriptedReply::call("a", "lenient", json!({"file": "a.rs"})), "done".into()]);
    let events = run(&agent(&model).with_tool(Lenient)).await;
    assert_eq!(said(&result(&events)), r#"{"path":"a.rs"}"#);
}

/// B-090.
#[tokio::test]
async fn arguments_that_are_not_json_are_shown_and_not_run() {
    let sent = r#"{"city": "Oslo", "da"#;
    let model = model([ScriptedReply::call("a", "weather", ToolArguments::from_text(sent)), "done".into()]);
    let tool = weather();
    let agent = agent(&model).with_tools(boxed([tool.clone()]));
    let result = result(&run(&agent).await);
    assert!(result.is_error && said(&result).contains(sent), "{result:?}");
    assert!(tool.calls().is_empty());
}

/// A file whose line ends a local model wrote as they are, and the same arguments twice.
#[tokio::test]
async fn arguments_that_are_nearly_json_run_as_what_they_mean_and_go_back_as_json() {
    for sent in ["{'city': 'Oslo\n2'}", "{\"city\":\"Oslo\n2\"}", r#"{"city":"Oslo\n2"}{"city":"Oslo\n2"}"#] {
        let model =
            model([ScriptedReply::call("a", "weather", ToolArguments::from_text(sent)), "done".into()]);
        let tool = weather();
        let agent = agent(&model).with_tools(boxed([tool.clone()]));
        assert!(!result(&run(&agent).await).is_error, "{sent}");
        assert_eq!(tool.calls(), [json!({"city": "Oslo\n2"})], "{sent}");
        let saved: Value = serde_json::from_str(&agent.save_messages().unwrap()).unwrap();
        assert!(saved.to_string().contains(&json!(sent).to_string()), "the evidence is saved: {saved}");
    }
}

/// Calls in the text are those of local models, and only what is certain is a call.
#[tokio::test]
async fn a_call_that_a_local_model_wrote_as_text_runs() {
    let text = |name: &str| {
        format!(
            "Let me see.\n<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {{\"city\": \"Oslo\"}}}}\n</tool_call>"
        )
    };
    for (config, name, runs) in [
        (ModelConfig::local("http://unused", "m", ""), "weather", true),
        (ModelConfig::ollama("m"), "weather", true),
        (ModelConfig::local("http://unused", "m", ""), "other", false),
        (ModelConfig::anthropic("m", "M", "k"), "weather", false),
    ] {
        let model = model([text(name).as_str().into(), "done".into()]);
        let tool = weather();
        let agent = BasicAgent::new(config).with_provider(model.clone()).with_tools(boxed([tool.clone()]));
        let events = run(&agent).await;
        assert_eq!(tool.calls().len(), usize::from(runs), "{name}");
        assert_eq!(model.requests().len(), 1 + usize::from(runs));
        let reply = agent.history().messages().nth(1).cloned().unwrap();
        let reply = reply.as_llm().and_then(Message::as_assistant).cloned().unwrap();
        if runs {
            assert_eq!((reply.text().as_str(), said(&result(&events)).is_empty()), ("Let me see.", false));
            assert!(!reply.tool_calls().next().unwrap().id.as_str().is_empty());
        } else {
            assert_eq!((reply.text(), reply.ends_with_call_in_text()), (text(name), true));
        }
    }
}

/// B-091.
#[tokio::test]
async fn a_reply_cut_by_the_output_limit_runs_no_call_and_is_asked_again() {
    let model = model([
        ScriptedReply::call("a", "weather", json!({"city": "Oslo"}))
            .and_call("b", "weather", ToolArguments::from_text("{\"ci"))
            .stopping(StopReason::Length),
        "done".into(),
    ]);
    let tool = weather();
    let agent = agent(&model).with_tools(boxed([tool.clone()]));
    let events = run(&agent).await;
    for result in results(&events) {
        assert!(result.is_error && said(&result).contains("Send the call again"), "{result:?}");
        assert_eq!(result.duration_ms, None);
    }
    assert!(tool.calls().is_empty());
    assert_eq!(model.requests().len(), 2);
}

/// Some servers send `null` for a call without arguments.
#[tokio::test]
async fn arguments_of_null_survive_a_save() {
    let arguments = ToolArguments::from_text("null");
    let model = model([ScriptedReply::call("a", "ping", arguments), "done".into()]);
    let agent = agent(&model).with_tools(boxed([ScriptedTool::saying("ping", "pong")]));
    run(&agent).await;
    let saved = agent.save_messages().unwrap();
    let read: Vec<AgentMessage> = serde_json::from_str(&saved).unwrap();
    assert_eq!(read, agent.history().to_vec());
}

/// B-109.
#[tokio::test]
async fn calls_with_empty_or_equal_ids_each_get_their_own_result() {
    let model =
        model([
            ScriptedReply::call("x", "echo", json!({"n": 1}))
                .and_call("x", "echo", json!({"n": 2}))
                .and_call("", "echo", json!({"n": 3})),
            ScriptedReply::call("x", "echo", json!({"n": 4})),
            "done".into(),
        ]);
    let echo =
        ScriptedTool::new("echo", |args, _| async move { Ok(ToolResult::text(args["n"].to_string())) });
    let agent = agent(&model).with_tools(boxed([echo])).with_context_config(ContextConfig::default());
    let events = run(&agent).await;
    let results = results(&events);
    assert_eq!(results.iter().map(said).collect::<Vec<_>>(), ["1", "2", "3", "4"]);
    let mut ids: Vec<_> = results.iter().map(|r| r.tool_call_id.clone()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4, "every call has a name of its own");
    assert!(ids.iter().all(|id| !id.as_str().is_empty()));
}
