//! The agents of the office: the prompt and the tools of each, and how the conversation changes hands.

use std::sync::Arc;

use looptree::hooks::Decision;
use looptree::prelude::*;
use looptree::tools::SubAgentTool;
use looptree::{ToolPolicy, ToolRule};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// The name of the tool that hands the conversation over.
const HAND_OVER: &str = "hand_over";

/// An agent of the office.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Desk,
    Billing,
    Shipping,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Desk => "desk",
            Self::Billing => "billing",
            Self::Shipping => "shipping",
        }
    }

    fn prompt(self) -> &'static str {
        match self {
            Self::Desk => {
                "You are the front desk. Delegate each task to a specialist, with all facts it needs."
            }
            Self::Billing => "You are billing. You refund invoices.",
            Self::Shipping => "You are shipping. You find parcels.",
        }
    }

    fn tools(self, model: &ModelConfig) -> Vec<Arc<dyn AgentTool>> {
        match self {
            Self::Desk => vec![
                Arc::new(Self::Billing.specialist(model)),
                Arc::new(Self::Shipping.specialist(model)),
                Arc::new(hand_over()),
            ],
            Self::Billing => vec![Arc::new(refund()), Arc::new(hand_over())],
            Self::Shipping => vec![Arc::new(track())],
        }
    }

    /// The role as a tool of the desk: it works on one task and returns its answer.
    fn specialist(self, model: &ModelConfig) -> SubAgentTool {
        let tools = self.tools(model).into_iter().filter(|tool| tool.name() != HAND_OVER);
        SubAgentTool::new(self.name(), model.clone())
            .with_description(format!("Gives a task to the specialist for {}.", self.name()))
            .with_system_prompt(self.prompt())
            .with_tools(tools.collect::<Vec<_>>())
    }

    /// Makes an agent that begins in this role. The policy holds for all roles and for the sub-agents of each.
    pub(crate) fn play(self, agent: BasicAgent) -> BasicAgent {
        let policy = ToolPolicy::new(Decision::Allow).ask(ToolRule::tool("refund"));
        let mut agent = agent.with_hooks(Hooks::new().policy(policy));
        self.take_over(&mut agent);
        agent
    }

    /// Lets this role continue the conversation of the agent. The history, the session and the hooks stay.
    pub(crate) fn take_over(self, agent: &mut BasicAgent) {
        // All roles have the model of the agent. `set_model` gives a role another one.
        let model = ModelConfig::clone(&agent.config().model);
        agent.set_system_prompt(self.prompt());
        agent.set_tools(self.tools(&model));
        // The name is in the events of the runs that follow, and in the ids of their loops.
        agent.set_config(|config| config.policy.config_id = Some(self.name().to_owned()));
    }
}

/// The role to which a call has handed the conversation over.
pub(crate) fn handed_over(event: &AgentEvent) -> Option<Role> {
    match event {
        AgentEvent::ToolExecutionEnd(end) if end.tool_name.as_str() == HAND_OVER => {
            serde_json::from_value(end.result.details.get("to")?.clone()).ok()
        }
        _ => None,
    }
}

#[derive(Deserialize, JsonSchema)]
struct HandOver {
    /// Who continues the conversation
    to: Role,
}

/// Ends the run, so that the program can let the other role continue.
fn hand_over() -> impl AgentTool {
    tool_fn(HAND_OVER, "Lets another agent continue this conversation.", |args: HandOver, _| async move {
        let text = format!("{} continues the conversation.", args.to.name());
        let result = ToolResult::text(text).with_details(json!({"to": args.to.name()}));
        Ok::<_, ToolError>(result.terminating())
    })
}

#[derive(Deserialize, JsonSchema)]
struct Number {
    number: u32,
}

fn refund() -> impl AgentTool {
    tool_fn("refund", "Refunds an invoice.", |args: Number, _| async move {
        Ok::<_, ToolError>(format!("Invoice {} was refunded.", args.number))
    })
}

fn track() -> impl AgentTool {
    tool_fn("track", "Finds a parcel.", |args: Number, _| async move {
        Ok::<_, ToolError>(format!("Parcel {} is in Lyon.", args.number))
    })
}
