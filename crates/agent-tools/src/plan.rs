//! `plan`: the steps of the agent's work with their states, for the user to see.
//!
//! The plan is in the details of the result, so a program reads it from [events](Plan::of_event) and from the
//! [history](latest). A call replaces the whole plan.
//!
//! ```
//! use agent_tools::plan::{Plan, StepState};
//! let details = serde_json::json!({"plan": {"steps": [{"step": "Write tests", "status": "in_progress"}]}});
//! let plan = Plan::of_details(&details).ok_or("no plan")?;
//! assert_eq!(plan.steps[0].status, StepState::InProgress);
//! assert_eq!(plan.to_string(), "- [~] Write tests");
//! # Ok::<(), &'static str>(())
//! ```

mod retain;

#[cfg(test)]
mod tests;

use std::fmt;

use agent_core::history::History;
use agent_core::{AgentEvent, Effects, Message, Tool, ToolContext, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use retain::RetainPlan;

/// The maximum number of steps of a plan.
pub const MAX_STEPS: usize = 50;

/// The maximum size of the text of a step: 300 bytes.
pub const MAX_STEP_BYTES: usize = 300;

/// The maximum size of the explanation: 2 KiB.
pub const MAX_EXPLANATION_BYTES: usize = 2 * 1024;

/// The state of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StepState {
    /// The step has not begun.
    Pending,
    /// The agent works on the step.
    InProgress,
    /// The step is done.
    Completed,
}

/// A step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::arguments::plain)]
#[non_exhaustive]
pub struct PlanStep {
    /// The step in one line
    pub step: String,
    /// The state of the step
    pub status: StepState,
}

impl PlanStep {
    /// Creates a step with this text and state.
    #[must_use]
    pub fn new(step: impl Into<String>, status: StepState) -> Self {
        Self { step: step.into(), status }
    }
}

/// The arguments of `plan`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(transform = crate::arguments::plain)]
#[non_exhaustive]
pub struct PlanArgs {
    /// All steps of the plan, in order. At most one is in_progress
    pub steps: Vec<PlanStep>,
    /// Why the plan has changed
    pub explanation: Option<String>,
}

/// A plan. `Display` writes it as a list with `[ ]`, `[~]` and `[x]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// The steps in their order.
    pub steps: Vec<PlanStep>,
    /// The reason of the last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
}

/// The first line of the message that retains a plan when its call is removed from a conversation.
const RETAINED: &str = "The current plan, whose call is no longer in the conversation:";

impl Plan {
    /// Returns the plan in the details of a result; `None` if the result is of another tool.
    #[must_use]
    pub fn of_details(details: &Value) -> Option<Self> {
        Self::deserialize(details.get("plan")?).ok()
    }

    /// Returns the new plan if the event is the end of a call that changed it.
    #[must_use]
    pub fn of_event(event: &AgentEvent) -> Option<Self> {
        let AgentEvent::ToolExecutionEnd(end) = event else { return None };
        let is_plan = end.tool_name.as_str() == PlanTool::NAME && !end.is_error;
        if is_plan { Self::of_details(&end.result.details) } else { None }
    }

    /// Returns the text of the message that retains the plan.
    fn retained(&self) -> String {
        format!("{RETAINED}\n{self}")
    }

    /// Reads the plan from the text of such a message.
    fn of_retained(text: &str) -> Option<Self> {
        let lines = text.strip_prefix(RETAINED)?.trim_start_matches('\n').lines();
        let step = |line: &str| {
            let states = [
                ("- [ ] ", StepState::Pending),
                ("- [~] ", StepState::InProgress),
                ("- [x] ", StepState::Completed),
            ];
            states.iter().find_map(|(mark, status)| Some(PlanStep::new(line.strip_prefix(mark)?, *status)))
        };
        let steps = lines.map(step).collect::<Option<_>>()?;
        Some(Self { steps, explanation: None })
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            let mark = match step.status {
                StepState::Pending => ' ',
                StepState::InProgress => '~',
                StepState::Completed => 'x',
            };
            let end = if index + 1 < self.steps.len() { "\n" } else { "" };
            write!(f, "- [{mark}] {}{end}", step.step)?;
        }
        Ok(())
    }
}

/// Returns the current plan of a conversation: that of the last successful call, or of the message with which
/// [`RetainPlan`] has retained it. `None` if there is none, or the last one is empty.
#[must_use]
pub fn latest(history: &History) -> Option<Plan> {
    let messages: Vec<_> = history.llm_messages().collect();
    let found = messages.into_iter().rev().find_map(|message| match message {
        Message::ToolResult(result) if result.tool_name.as_str() == PlanTool::NAME && !result.is_error => {
            Plan::of_details(&result.details)
        }
        Message::User(_) => Plan::of_retained(&message.text()),
        _ => None,
    });
    found.filter(|plan| !plan.steps.is_empty())
}

/// The `plan` tool, which sets the plan.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlanTool {
    _private: (),
}

impl PlanTool {
    /// Creates the tool, which has no settings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// Returns whether a character ends a line in some program, or controls a terminal.
fn is_line_end_or_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

/// The reason why a plan was not accepted. The texts are written for the model. The plan before stays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The plan has more than [`MAX_STEPS`] steps.
    #[error("the plan has too many steps (max {MAX_STEPS}); combine some")]
    TooManySteps,
    /// A step is empty, has several lines, or is too long.
    #[error(
        "step {number} is empty, too long (max {MAX_STEP_BYTES} bytes), or has several lines or control characters; write one short line"
    )]
    Step {
        /// The number of the step, counted from 1.
        number: usize,
    },
    /// The explanation is too long.
    #[error("the explanation is too long (max {MAX_EXPLANATION_BYTES} bytes); shorten it")]
    Explanation,
    /// More than one step is in progress.
    #[error("{count} steps are in_progress; at most one can be")]
    InProgress {
        /// The number of these steps.
        count: usize,
    },
}

impl Tool for PlanTool {
    const NAME: &'static str = "plan";
    type Args = PlanArgs;
    type Output = ToolResult;

    fn label(&self) -> &str {
        "Plan"
    }

    fn description(&self) -> &str {
        "Set the plan of your work, which the user sees. Each call replaces the whole plan. Use it for work of several steps: \
         keep one step in_progress, and mark a step as completed as soon as it is."
    }

    fn effects(&self, _: &PlanArgs) -> Effects {
        Effects::ReadOnly
    }

    /// Accepts the name `plan` for the steps.
    fn prepare_arguments(&self, mut arguments: Value) -> Value {
        if let Some(fields) = arguments.as_object_mut()
            && !fields.contains_key("steps")
            && let Some(steps) = fields.remove("plan")
        {
            fields.insert("steps".to_owned(), steps);
        }
        arguments
    }

    async fn call(&self, args: PlanArgs, ctx: &ToolContext) -> Result<ToolResult, ToolError> {
        ctx.check_cancelled()?;
        if args.steps.len() > MAX_STEPS {
            return Err(PlanError::TooManySteps.into());
        }
        let is_wrong = |step: &PlanStep| {
            step.step.trim().is_empty()
                || step.step.len() > MAX_STEP_BYTES
                || step.step.contains(is_line_end_or_control)
        };
        if let Some(index) = args.steps.iter().position(is_wrong) {
            return Err(PlanError::Step { number: index + 1 }.into());
        }
        if args.explanation.as_ref().is_some_and(|text| text.len() > MAX_EXPLANATION_BYTES) {
            return Err(PlanError::Explanation.into());
        }
        let in_state = |state| args.steps.iter().filter(|step| step.status == state).count();
        let count = in_state(StepState::InProgress);
        if count > 1 {
            return Err(PlanError::InProgress { count }.into());
        }
        let text = format!(
            "Plan updated: {} of {} steps completed",
            in_state(StepState::Completed),
            args.steps.len()
        );
        let plan = Plan { steps: args.steps, explanation: args.explanation };
        Ok(ToolResult::text(text).with_details(json!({ "plan": plan })))
    }
}
