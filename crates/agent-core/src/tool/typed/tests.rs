//! Tools from types and functions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Tool, argument_schema, tool_fn};
use crate::environment::SystemEnvironment;
use crate::message::Content;
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
        let n: u8 = args.city.parse()?;
        Ok(n.to_string())
    });
    let oslo = || json!({"city": "Oslo"});
    assert_eq!(run(&text, oslo()).await.unwrap().to_text(), "plain");
    assert_eq!(run(&value, oslo()).await.unwrap().details, json!({"a": 1}));
    assert!(run(&whole, oslo()).await.unwrap().terminate);
    let failure = run(&fails, oslo()).await.unwrap_err();
    assert_eq!(failure.to_string(), "invalid digit found in string");
    assert!(failure.source().unwrap().is::<std::num::ParseIntError>(), "{failure:?}");
    assert_eq!(run(&fails, json!({"city": "7"})).await.unwrap().to_text(), "7");
}

#[derive(Serialize, Clone)]
struct Forecast {
    city: String,
    celsius: i8,
}

#[track_caller]
fn check_output(output: impl Serialize + 'static, expect: &ToolResult) {
    assert_eq!(ToolResult::from_output(output).unwrap(), *expect);
}

#[tokio::test]
async fn an_output_may_be_anything_that_serializes() {
    let forecast = Forecast { city: "Oslo".into(), celsius: -3 };
    let json = json!({"city": "Oslo", "celsius": -3});
    let text = r#"{"city":"Oslo","celsius":-3}"#;
    check_output(forecast.clone(), &ToolResult::text(text).with_details(json));
    check_output(vec![1, 2], &ToolResult::text("[1,2]").with_details(json!([1, 2])));
    check_output(42, &ToolResult::text("42").with_details(json!(42)));
    check_output((), &ToolResult::default());
    check_output("plain", &ToolResult::text("plain"));
    check_output(Some(String::from("plain")), &ToolResult::text("plain"));
    check_output('x', &ToolResult::text("x"));
    let picture = Content::image("AA", "image/png");
    check_output(picture.clone(), &ToolResult::content(vec![picture.clone()]));
    check_output(vec![picture.clone()], &ToolResult::content(vec![picture]));
    check_output(ToolResult::error("no").terminating(), &ToolResult::error("no").terminating());
    let keys = BTreeMap::from([((1, 2), 3)]);
    let error = ToolResult::from_output(keys).unwrap_err();
    assert!(error.to_string().contains("key must be a string"), "{error}");

    let tool = tool_fn("t", "", move |_: Weather, _| {
        let forecast = forecast.clone();
        async move { Ok(forecast) }
    });
    assert_eq!(run(&tool, json!({"city": "Oslo"})).await.unwrap().to_text(), text);
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
    assert_eq!(run(&unit, json!({"value": "kelvin"})).await.unwrap().to_text(), "Kelvin");
    let nothing = tool_fn("t", "", |(): (), _| async { Ok("ran") });
    assert_eq!(run(&nothing, json!({})).await.unwrap().to_text(), "ran");
    let list = tool_fn("t", "", |names: Vec<String>, _| async move { Ok(names.join("+")) });
    assert_eq!(run(&list, json!({"value": ["a", "b"]})).await.unwrap().to_text(), "a+b");
    let action = tool_fn("t", "", |action: Action, _| async move { Ok(format!("{action:?}")) });
    assert_eq!(
        run(&action, json!({"kind": "move", "to": "x"})).await.unwrap().to_text(),
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
    assert_eq!(run(&tool, checked).await.unwrap().to_text(), "3");
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

/// Counts how often its schema is derived.
#[derive(Deserialize)]
struct Counted {}

static DERIVED: AtomicUsize = AtomicUsize::new(0);

impl JsonSchema for Counted {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Counted".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        DERIVED.fetch_add(1, SeqCst);
        schemars::json_schema!({"type": "object"})
    }
}

struct Counting;

impl Tool for Counting {
    const NAME: &'static str = "counting";
    type Args = Counted;
    type Output = ();

    fn description(&self) -> &str {
        ""
    }

    async fn call(&self, _: Counted, _: &ToolContext) -> Result<(), ToolError> {
        Ok(())
    }
}

#[tokio::test]
async fn the_schema_of_a_type_is_derived_once() {
    for _ in 0..3 {
        let tool = Counting;
        assert_eq!(AgentTool::parameters_schema(&tool)["type"], "object");
        assert_eq!(AgentTool::effects(&tool, &json!({})), Effects::Once);
        assert_eq!(run(&tool, json!({})).await.unwrap(), ToolResult::default());
    }
    let also = tool_fn("also", "", |_: Counted, _| async { Ok("ran") });
    assert_eq!(run(&also, json!({})).await.unwrap().to_text(), "ran");
    assert_eq!(DERIVED.load(SeqCst), 1);
}

/// REQ-021.
#[tokio::test]
async fn a_typed_tool_passes_everything_on() {
    let tool: Arc<dyn AgentTool> = Arc::new(Delete);
    let tool: Arc<dyn AgentTool> = Arc::new(tool);
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
    assert_eq!(run(&*tool, json!({"path": "a"})).await.unwrap().to_text(), "deleted a");
    assert!(matches!(run(&*tool, json!({})).await, Err(ToolError::InvalidArgs(_))));
    let cancelled = cx();
    cancelled.cancel.cancel();
    assert_eq!(tool.execute(json!({"path": "a"}), cancelled).await, Err(ToolError::Cancelled));
}
