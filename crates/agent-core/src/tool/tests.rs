//! Results, errors, contexts and definitions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::{
    AgentTool, Effects, ToolConcurrency, ToolContext, ToolDefinition, ToolDefinitions, ToolError,
    ToolExecutionStrategy, ToolResult, ToolSignal, ToolUpdates,
};
use crate::environment::SystemEnvironment;
use crate::message::Content;

struct Least;

#[async_trait::async_trait]
impl AgentTool for Least {
    fn name(&self) -> &str {
        "least"
    }

    fn description(&self) -> &str {
        "Does nothing"
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }

    async fn execute(&self, arguments: Value, _: ToolContext) -> Result<ToolResult, ToolError> {
        Ok(arguments.into())
    }
}

/// REQ-021.
#[tokio::test]
async fn a_tool_needs_four_things_and_all_else_is_careful() {
    let tool: &dyn AgentTool = &Least;
    assert_eq!((tool.label(), tool.effects(&json!({}))), ("least", Effects::Once));
    assert_eq!((tool.question(&json!({})), tool.timeout()), (None, None));
    assert_eq!(tool.concurrency(), ToolConcurrency::Parallel);
    assert_eq!(tool.prepare_arguments(json!([1])), json!([1]));
    assert_eq!(format!("{tool:?}"), "AgentTool(\"least\")");
    let cx = ToolContext::detached("least", Arc::new(SystemEnvironment));
    assert_eq!(tool.execute(json!({"a": 1}), cx).await.unwrap().details, json!({"a": 1}));
}

/// REQ-009.
#[test]
fn a_context_passes_updates_and_progress_until_its_gate_is_closed() {
    let heard: Arc<Mutex<Vec<ToolSignal>>> = Arc::default();
    let mut cx = ToolContext::detached("t", Arc::new(SystemEnvironment));
    let log = Arc::clone(&heard);
    cx.updates = ToolUpdates::new(move |signal| log.lock().unwrap().push(signal));
    let kept_by_a_task = cx.clone();
    cx.on_update(ToolResult::text("half"));
    cx.on_progress("1/2");
    assert_eq!(
        *heard.lock().unwrap(),
        [ToolSignal::Update(ToolResult::text("half")), ToolSignal::Progress("1/2".into())]
    );
    cx.updates.close();
    kept_by_a_task.on_progress("too late");
    assert_eq!(heard.lock().unwrap().len(), 2);
    assert!(!format!("{cx:?}").is_empty());
    ToolUpdates::none().send(ToolSignal::Progress("nobody hears".into()));
}

/// REQ-009.
#[test]
fn a_context_tells_that_the_run_was_aborted() {
    let cx = ToolContext::detached("t", Arc::new(SystemEnvironment));
    assert_eq!(cx.check_cancelled(), Ok(()));
    cx.clone().cancel.cancel();
    assert_eq!(cx.check_cancelled(), Err(ToolError::Cancelled));
    assert_eq!((cx.tool_name.as_str(), cx.tool_call_id.as_str()), ("t", "call_0"));
}

#[track_caller]
fn shape(result: &ToolResult, expect: Value) {
    assert_eq!(serde_json::to_value(result).unwrap(), expect);
    assert_eq!(&serde_json::from_value::<ToolResult>(expect).unwrap(), result);
}

/// REQ-010.
#[test]
fn a_result_is_content_and_details() {
    let text = |t: &str| json!([{"type": "text", "text": t}]);
    shape(&ToolResult::text("3 files"), json!({"content": text("3 files")}));
    shape(
        &ToolResult::text("x").with_details(json!({"n": 3})),
        json!({"content": text("x"), "details": {"n": 3}}),
    );
    shape(&ToolResult::error("no"), json!({"content": text("no"), "isError": true}));
    shape(
        &ToolResult::text("x").terminating().failed().with_child_loop("s.b.1".into()),
        json!({"content": text("x"), "isError": true, "terminate": true, "childLoopId": "s.b.1"}),
    );
    assert_eq!(ToolResult::from("a"), ToolResult::text("a"));
    assert_eq!(ToolResult::from(String::from("a")), ToolResult::text("a"));
    assert_eq!(
        ToolResult::from(json!({"a": 1})),
        ToolResult::text(r#"{"a":1}"#).with_details(json!({"a": 1}))
    );
    let two = vec![Content::text("a"), Content::image("AA", "image/png"), Content::text("b")];
    assert_eq!(ToolResult::from(two).to_text(), "a\nb");
}

/// REQ-010.
#[test]
fn errors_say_what_happened_in_words_for_the_model() {
    for (error, text) in [
        (ToolError::Failed("disk full".into()), "disk full"),
        (ToolError::NotFound("bash".into()), "Tool bash not found"),
        (ToolError::InvalidArgs("path: is required".into()), "path: is required"),
        (ToolError::Cancelled, "Operation aborted"),
        (ToolError::Timeout(Duration::from_secs(2)), "Tool exceeded timeout of 2s"),
    ] {
        assert_eq!(error.to_string(), text);
        assert_eq!(ToolResult::from(error), ToolResult::error(text));
    }
}

/// Has a source that its text does not contain.
#[derive(Debug, thiserror::Error)]
#[error("cannot load {name}")]
struct Load {
    name: &'static str,
    source: std::io::Error,
}

#[track_caller]
fn check_converted(error: impl Into<ToolError>, text: &str) {
    let error = error.into();
    assert_eq!(error.to_string(), text);
    assert_eq!(ToolResult::from(error.clone()), ToolResult::error(text));
    let boxed: Box<dyn std::error::Error + Send + Sync> = error.clone().into();
    assert_eq!(boxed.to_string(), text);
    let boxed: Box<dyn std::error::Error> = error.into();
    assert_eq!(boxed.to_string(), text);
}

#[test]
fn any_error_becomes_a_tool_error_that_also_names_its_sources() {
    let io = || std::io::Error::other("disk full");
    check_converted("x".parse::<u8>().unwrap_err(), "invalid digit found in string");
    check_converted(io(), "disk full");
    check_converted(
        serde_json::from_str::<Value>("{").unwrap_err(),
        "EOF while parsing an object at line 1 column 1",
    );
    check_converted(Load { name: "a", source: io() }, "cannot load a: disk full");
    check_converted(Load { name: "disk full", source: io() }, "cannot load disk full");
    check_converted(ToolError::Cancelled, "Operation aborted");

    let error = ToolError::from(Load { name: "a", source: io() });
    assert!(error.source().unwrap().is::<Load>());
    assert_eq!(error, error.clone());
    assert_eq!(error, Load { name: "a", source: io() }.into());
    assert_ne!(error, Load { name: "b", source: io() }.into());
    assert_ne!(error, ToolError::failed("cannot load a: disk full"));
    assert!(ToolError::failed("x").source().is_none());
}

/// REQ-016.
#[test]
fn a_definition_is_name_description_and_parameters() {
    let definition = ToolDefinition::new("bash", "Runs", json!({"type": "object"}));
    let shape = json!({"name": "bash", "description": "Runs", "parameters": {"type": "object"}});
    assert_eq!(serde_json::to_value(&definition).unwrap(), shape);
    assert_eq!(serde_json::from_value::<ToolDefinition>(shape).unwrap(), definition);
    let set = ToolDefinitions::from(vec![definition.clone()]);
    assert_eq!(set.definitions(), [definition]);
    assert!(!set.is_empty() && ToolDefinitions::default().is_empty());
    assert_eq!(set, set.clone());
    assert_ne!(set, ToolDefinitions::default());
}

#[test]
fn a_strategy_says_how_many_calls_run_at_once() {
    use ToolExecutionStrategy::{Batched, Parallel, Sequential};
    for (strategy, calls, group) in [
        (Sequential, 5, 1),
        (Parallel, 5, 5),
        (Parallel, 0, 1),
        (Batched { size: 2 }, 5, 2),
        (Batched { size: 0 }, 5, 1),
    ] {
        assert_eq!(strategy.group_size(calls), group, "{strategy:?}");
    }
    assert_eq!(ToolExecutionStrategy::default(), Parallel);
    assert_eq!(serde_json::to_value(Parallel).unwrap(), json!({"type": "parallel"}));
    assert_eq!(serde_json::to_value(Batched { size: 2 }).unwrap(), json!({"type": "batched", "size": 2}));
    assert_eq!(serde_json::to_value(Effects::ReadOnly).unwrap(), "readOnly");
}
