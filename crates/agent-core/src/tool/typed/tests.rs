//! Tools from types and functions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Tool, argument_schema, tool_fn};
use crate::environment::SystemEnvironment;
use crate::tool::validate::{ArgumentValidator, SchemaValidator};
use crate::tool::{AgentTool, Effects, ToolConcurrency, ToolContext, ToolError, ToolResult};

#[derive(Deserialize, JsonSchema)]
struct Weather {
    /// The city.
    city: String,
    days: Option<u8>,
    #[serde(default)]
    unit: Unit,
}

#[derive(Deserialize, JsonSchema, Default, Clone, Copy, Debug, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Unit {
    #[default]
    Celsius,
    Kelvin,
}

fn cx() -> ToolContext {
    ToolContext::detached("test", Arc::new(SystemEnvironment))
}

async fn run(tool: &dyn AgentTool, arguments: Value) -> Result<ToolResult, ToolError> {
    tool.execute(arguments, cx()).await
}

/// REQ-021.
#[tokio::test]
async fn a_function_is_a_tool_with_the_schema_of_its_argument() {
    let weather = tool_fn("weather", "Current weather in a city", |args: Weather, cx| async move {
        cx.check_cancelled()?;
        Ok(format!("{}: 21 °C, {:?}, {:?}", args.city, args.unit, args.days))
    });
    let weather: Arc<dyn AgentTool> = Arc::new(weather);
    assert_eq!((weather.name(), weather.label()), ("weather", "weather"));
    assert_eq!(weather.description(), "Current weather in a city");
    assert_eq!(weather.effects(&json!({})), Effects::Once);
    let result = run(&*weather, json!({"city": "Oslo", "unit": "kelvin"})).await.unwrap();
    assert_eq!(result, ToolResult::text("Oslo: 21 °C, Kelvin, None"));
}

#[tokio::test]
async fn a_function_may_give_text_json_content_or_a_result_and_may_fail() {
    let text = tool_fn("t", "", |_: Weather, _| async { Ok("plain") });
    let value = tool_fn("t", "", |_: Weather, _| async { Ok(json!({"a": 1})) });
    let whole = tool_fn("t", "", |_: Weather, _| async { Ok(ToolResult::text("x").terminating()) });
    let fails = tool_fn("t", "", |args: Weather, _| async move {
        let n: u8 = args.city.parse().map_err(ToolError::failed)?;
        Ok(n.to_string())
    });
    let oslo = || json!({"city": "Oslo"});
    assert_eq!(run(&text, oslo()).await.unwrap().joined_text(), "plain");
    assert_eq!(run(&value, oslo()).await.unwrap().details, json!({"a": 1}));
    assert!(run(&whole, oslo()).await.unwrap().terminate);
    assert_eq!(run(&fails, oslo()).await, Err(ToolError::Failed("invalid digit found in string".into())));
    assert_eq!(run(&fails, json!({"city": "7"})).await.unwrap().joined_text(), "7");
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_an_error_that_shows_them() {
    let tool = tool_fn("t", "", |_: Weather, _| async { Ok("never") });
    let Err(ToolError::InvalidArgs(text)) = run(&tool, json!({"town": "é".repeat(5_000)})).await else {
        panic!()
    };
    assert!(text.contains("missing field `city`") && text.contains("Received: {\"town\""), "{text}");
    assert!(text.len() < 2_300, "{}", text.len());
}

#[test]
fn a_function_tool_is_described_by_its_builder() {
    let tool = tool_fn("t", "", |_: Weather, _| async { Ok("x") })
        .with_effects(Effects::ReadOnly)
        .with_timeout(Duration::from_secs(3))
        .with_label("Wetter")
        .sequential();
    assert_eq!(tool.effects(&json!({})), Effects::ReadOnly);
    assert_eq!(tool.timeout(), Some(Duration::from_secs(3)));
    assert_eq!((tool.name(), tool.label()), ("t", "Wetter"));
    assert_eq!(tool.concurrency(), ToolConcurrency::Sequential);
}

#[test]
fn the_schema_is_an_inlined_object_without_title_or_dialect() {
    assert_eq!(
        argument_schema::<Weather>(),
        json!({
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city."},
                "days": {"type": ["integer", "null"], "format": "uint8", "minimum": 0, "maximum": 255},
                "unit": {"type": "string", "enum": ["celsius", "kelvin"]},
            },
            "required": ["city"],
        })
    );
}

#[derive(Deserialize, JsonSchema)]
struct Empty {}

#[derive(Deserialize, JsonSchema, Debug, PartialEq)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Action {
    Move { to: String },
    Stop,
}

#[derive(Deserialize, JsonSchema)]
struct Tree {
    name: String,
    children: Vec<Tree>,
}

#[tokio::test]
async fn every_argument_type_gives_an_object() {
    let empty = json!({"type": "object", "properties": {}});
    assert_eq!(argument_schema::<Empty>(), empty);
    assert_eq!(argument_schema::<()>(), empty);
    assert_eq!(argument_schema::<Value>(), empty);
    assert_eq!(argument_schema::<Action>()["type"], "object");
    assert_eq!(argument_schema::<BTreeMap<String, u8>>()["type"], "object");
    assert_eq!(
        argument_schema::<Unit>(),
        json!({"type": "object", "properties": {"value": {"type": "string", "enum": ["celsius", "kelvin"]}}, "required": ["value"]})
    );

    let unit = tool_fn("t", "", |unit: Unit, _| async move { Ok(format!("{unit:?}")) });
    assert_eq!(run(&unit, json!({"value": "kelvin"})).await.unwrap().joined_text(), "Kelvin");
    let nothing = tool_fn("t", "", |(): (), _| async { Ok("ran") });
    assert_eq!(run(&nothing, json!({})).await.unwrap().joined_text(), "ran");
    let list = tool_fn("t", "", |names: Vec<String>, _| async move { Ok(names.join("+")) });
    assert_eq!(run(&list, json!({"value": ["a", "b"]})).await.unwrap().joined_text(), "a+b");
    let action = tool_fn("t", "", |action: Action, _| async move { Ok(format!("{action:?}")) });
    assert_eq!(
        run(&action, json!({"kind": "move", "to": "x"})).await.unwrap().joined_text(),
        "Move { to: \"x\" }"
    );
}

#[tokio::test]
async fn a_type_that_holds_itself_has_a_schema_that_can_be_checked() {
    fn count(tree: &Tree) -> usize {
        tree.name.len() + tree.children.iter().map(count).sum::<usize>()
    }
    let tool = tool_fn("t", "", |tree: Tree, _| async move { Ok(count(&tree).to_string()) });
    let schema = tool.parameters_schema();
    assert_eq!(schema["type"], "object");
    let good = json!({"name": "ab", "children": [{"name": "c", "children": []}]});
    let checked = SchemaValidator.validate(&schema, good).unwrap();
    assert_eq!(run(&tool, checked).await.unwrap().joined_text(), "3");
    let bad = json!({"name": "ab", "children": [{"children": []}]});
    assert!(
        SchemaValidator
            .validate(&schema, bad)
            .unwrap_err()
            .to_string()
            .contains("children[0].name: is required")
    );
}

struct Delete;

#[derive(Deserialize, JsonSchema)]
struct Target {
    path: String,
    #[serde(default)]
    dry_run: bool,
}

impl Tool for Delete {
    const NAME: &'static str = "delete";
    type Args = Target;
    type Output = String;

    fn description(&self) -> &str {
        "Deletes a file"
    }

    fn label(&self) -> &str {
        "Delete a file"
    }

    fn effects(&self, args: &Target) -> Effects {
        if args.dry_run { Effects::ReadOnly } else { Effects::Once }
    }

    fn question(&self, args: &Target) -> Option<String> {
        (!args.dry_run).then(|| format!("Delete {}?", args.path))
    }

    fn timeout(&self) -> Option<Duration> {
        Some(Duration::from_secs(1))
    }

    fn concurrency(&self) -> ToolConcurrency {
        ToolConcurrency::Sequential
    }

    fn prepare_arguments(&self, mut arguments: Value) -> Value {
        if let Some(old) = arguments.get("file").cloned() {
            arguments["path"] = old;
        }
        arguments
    }

    async fn call(&self, args: Target, cx: &ToolContext) -> Result<String, ToolError> {
        cx.check_cancelled()?;
        tokio::task::yield_now().await;
        Ok(format!("deleted {}", args.path))
    }
}

/// REQ-021.
#[tokio::test]
async fn a_typed_tool_passes_everything_on() {
    let tool: Box<dyn AgentTool> = Box::new(Delete.into_tool());
    assert_eq!(
        (tool.name(), tool.label(), tool.description()),
        ("delete", "Delete a file", "Deletes a file")
    );
    assert_eq!(tool.effects(&json!({"path": "a", "dry_run": true})), Effects::ReadOnly);
    assert_eq!(tool.effects(&json!({"path": "a"})), Effects::Once);
    assert_eq!(
        tool.effects(&json!({"dry_run": true})),
        Effects::Once,
        "of what does not parse nothing is known"
    );
    assert_eq!(tool.question(&json!({"path": "a"})).as_deref(), Some("Delete a?"));
    assert_eq!(tool.timeout(), Some(Duration::from_secs(1)));
    assert_eq!(tool.concurrency(), ToolConcurrency::Sequential);
    assert_eq!(tool.prepare_arguments(json!({"file": "a"}))["path"], "a");
    assert_eq!(run(&*tool, json!({"path": "a"})).await.unwrap().joined_text(), "deleted a");
    assert!(matches!(run(&*tool, json!({})).await, Err(ToolError::InvalidArgs(_))));
    let cancelled = cx();
    cancelled.cancel.cancel();
    assert_eq!(tool.execute(json!({"path": "a"}), cancelled).await, Err(ToolError::Cancelled));
}
