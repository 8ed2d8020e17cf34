//! The prompts of the runs and the tools that they call.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent_core::{AgentTool, Effects, ToolContext, ToolError, ToolResult};
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::Barrier;

/// What the model says before it calls.
pub(super) const BEFORE: &str = "I look at both harbours. 🌊⚓ 海と風";

/// What it says in the end.
pub(super) const ANSWER: &str = "Büsum: „Ebbe“, 2.4 m. Brest: 8 Bft 💨🇫🇷\nStay in the harbour.";

/// The two calls of one reply: tool and arguments.
pub(super) const CALLS: [(&str, &str); 2] = [
    ("tide", r#"{"harbour":"Büsum","days":[1,2.5,{"half":true}]}"#),
    ("wind", r#"{"harbour":"Brest \"le port\"\n🇫🇷","days":[]}"#),
];

/// What the tools give back, in the order of the calls.
pub(super) const RESULTS: [&str; 2] = ["2.4 m, falling, „Ebbe“ 🌊", "8 Bft from the west, gusts of „10“ 💨"];

/// How long a tool waits for the other one.
const COMPANY: Duration = Duration::from_secs(10);

/// What the tools were called with, in the order in which they began.
pub(super) type Called = Arc<Mutex<Vec<(String, Value)>>>;

/// One of the two tools.
struct Instrument {
    name: &'static str,
    says: &'static str,
    schema: Value,
    called: Called,
    /// Where it waits for the other one: only calls that run at the same time meet.
    meeting: Option<Arc<Barrier>>,
}

#[async_trait]
impl AgentTool for Instrument {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        "Looks at a harbour"
    }

    fn parameters_schema(&self) -> Value {
        self.schema.clone()
    }

    fn effects(&self, _: &Value) -> Effects {
        Effects::ReadOnly
    }

    async fn execute(&self, arguments: Value, _: ToolContext) -> Result<ToolResult, ToolError> {
        self.called.lock().unwrap_or_else(PoisonError::into_inner).push((self.name.to_owned(), arguments));
        if let Some(meeting) = &self.meeting
            && tokio::time::timeout(COMPANY, meeting.wait()).await.is_err()
        {
            return Err(ToolError::failed("the other tool did not run at the same time"));
        }
        Ok(ToolResult::text(self.says))
    }
}

/// Two tools that wait for each other: they work only side by side.
pub(super) fn tools_that_meet(called: &Called) -> Vec<Arc<dyn AgentTool>> {
    let days = json!({"type": "array", "items": {}});
    let schema = json!({"type": "object", "properties": {"harbour": {"type": "string"}, "days": days},
        "required": ["harbour", "days"]});
    tools(called, &schema, Some(&Arc::new(Barrier::new(CALLS.len()))))
}

/// The harbours that [`tools_with_a_choice`] takes.
pub(super) const HARBOURS: [&str; 2] = ["Kiel", "Brest"];

/// Two tools whose arguments a grammar can follow to an end.
pub(super) fn tools_with_a_choice(called: &Called) -> Vec<Arc<dyn AgentTool>> {
    let schema = json!({"type": "object", "properties": {"harbour": {"type": "string", "enum": HARBOURS}},
        "required": ["harbour"], "additionalProperties": false});
    tools(called, &schema, None)
}

fn tools(called: &Called, schema: &Value, meeting: Option<&Arc<Barrier>>) -> Vec<Arc<dyn AgentTool>> {
    let tool = |((name, _), says): (&(&'static str, &str), &&'static str)| {
        Arc::new(Instrument {
            name,
            says,
            schema: schema.clone(),
            called: Arc::clone(called),
            meeting: meeting.map(Arc::clone),
        }) as Arc<dyn AgentTool>
    };
    CALLS.iter().zip(&RESULTS).map(tool).collect()
}
