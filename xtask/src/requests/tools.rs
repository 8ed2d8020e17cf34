//! The tools of the varied run: schemas made from types and written by hand, nested and plain; results of every kind.

use std::sync::Arc;

use agent_core::{
    AgentTool, Content, TOOL_SEARCH, Tool, ToolContext, ToolDefinition, ToolDefinitions, ToolError,
    ToolLoading, ToolResult, ToolSearchForm, tool_fn,
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// A picture of one pixel, as base64 of a PNG.
pub(super) const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Typed, with lists, options, choices and a type that is used twice.
struct PlanTrip;

#[derive(Deserialize, JsonSchema)]
struct Trip {
    /// Where it begins.
    from: Place,
    /// Where it goes, in order.
    stops: Vec<Stop>,
    /// The most that it may cost, in euros.
    budget: Option<f64>,
    #[serde(default)]
    means: Means,
}

#[derive(Deserialize, JsonSchema)]
struct Place {
    /// The town, in its own spelling: Köln, 東京.
    town: String,
    country: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Stop {
    place: Place,
    #[schemars(range(min = 1, max = 30))]
    nights: u32,
}

#[derive(Deserialize, JsonSchema, Default)]
#[serde(rename_all = "snake_case")]
enum Means {
    #[default]
    Train,
    Ship,
    OnFoot,
}

impl Tool for PlanTrip {
    const NAME: &'static str = "plan_trip";
    type Args = Trip;
    type Output = String;

    fn description(&self) -> &str {
        "Plans a trip over several stops"
    }

    async fn call(&self, trip: Trip, _: &ToolContext) -> Result<String, ToolError> {
        if trip.budget.is_some_and(|b| b < 0.0) {
            return Err(ToolError::failed("a budget below zero: „−1 €“ buys nothing"));
        }
        let means = match trip.means {
            Means::Train => "by train 🚆",
            Means::Ship => "by ship",
            Means::OnFoot => "on foot",
        };
        let nights: u32 = trip.stops.iter().map(|s| s.nights).sum();
        let last = trip.stops.last().map_or(&trip.from, |stop| &stop.place);
        let country = last.country.as_deref().unwrap_or("?");
        Ok(format!("{} → {} ({country}), {nights} nights, {means}", trip.from.town, last.town))
    }
}

/// Typed, from a function, without arguments.
#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// By hand, with nested objects, alternatives and a map; gives a picture.
struct Chart;

#[async_trait]
impl AgentTool for Chart {
    fn name(&self) -> &str {
        "draw-chart"
    }

    fn description(&self) -> &str {
        "Draws a chart of \"series\"\nand gives it as a picture"
    }

    fn parameters_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "title": {"type": "string", "description": "Up to 40 characters, e.g. \"Größe\""},
                "series": {"type": "array", "minItems": 1, "items": {"type": "object", "properties": {
                    "name": {"type": "string"},
                    "points": {"type": "array", "items": {"type": "array", "items": {"type": "number"},
                        "minItems": 2, "maxItems": 2}}
                }, "required": ["name", "points"]}},
                "axis": {"anyOf": [{"type": "string", "enum": ["linear", "log"]}, {"type": "null"}]},
                "colours": {"type": "object", "additionalProperties": {"type": "string"}}
            },
            "required": ["series"],
            "additionalProperties": false
        })
    }

    async fn execute(&self, _: Value, _: ToolContext) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::content(vec![Content::image(PIXEL, "image/png")]))
    }
}

/// By hand, and as little as a schema can say.
struct Note;

#[async_trait]
impl AgentTool for Note {
    fn name(&self) -> &str {
        "note"
    }

    fn description(&self) -> &str {
        "Keeps a note"
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }

    async fn execute(&self, _: Value, _: ToolContext) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::content(Vec::new()))
    }
}

/// All of them, for a run.
pub(super) fn tools() -> Vec<Arc<dyn AgentTool>> {
    let clock = tool_fn("clock", "What time it is", |_: Nothing, _| async move {
        Ok(vec![Content::text("12:00 ☀"), Content::text(""), Content::image(PIXEL, "image/png")])
    });
    vec![Arc::new(PlanTrip), Arc::new(Chart), Arc::new(clock), Arc::new(Note)]
}

/// All of them with a tool that the model must search for, as a request to a provider that searches this way names them.
pub(super) fn with_deferred(search: ToolSearchForm) -> ToolDefinitions {
    let schema = json!({"type": "object", "properties": {
        "query": {"type": "string", "description": "What the tool should do."},
        "limit": {"type": "integer", "minimum": 1, "maximum": 20},
    }, "required": ["query"]});
    let mut all = definitions().definitions().to_vec();
    all.push(ToolDefinition::new(TOOL_SEARCH, "Searches for tools.", schema));
    match search {
        ToolSearchForm::Listed => all.push(found()),
        ToolSearchForm::Vendor => all.push(ToolDefinition { loading: ToolLoading::Deferred, ..found() }),
        _ => {}
    }
    ToolDefinitions::from(all).with_search(search)
}

/// The tool that a search finds.
pub(super) fn found() -> ToolDefinition {
    let schema =
        json!({"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]});
    ToolDefinition::new("refund_order", "Refunds an order.", schema)
}

/// All of them, as a request names them.
pub(super) fn definitions() -> ToolDefinitions {
    let definition =
        |t: &Arc<dyn AgentTool>| ToolDefinition::new(t.name(), t.description(), t.parameters_schema());
    tools().iter().map(definition).collect()
}
