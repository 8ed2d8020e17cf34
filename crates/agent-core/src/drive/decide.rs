//! What becomes of a call before it runs: unknown tools, bad arguments, hooks, questions.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::shell::{Shell, contained};
use crate::hooks::{ToolCallInfo, Verdict};
use crate::journal::Durability;
use crate::message::{MAX_ARGUMENTS_SHOWN, ToolCall};
use crate::run::{CallStage, PendingCall, ToolQuestion, ToolVerdict};
use crate::tool::{AgentTool, Effects, ToolError, ToolResult};

/// What is asked about a call that began before the run was cut off (X6).
const CUT_QUESTION: &str =
    "This call had begun when the run was cut off, and what came of it is not known. Run it again?";

/// What a call is decided to be.
pub(super) enum Decision {
    Run(Box<Allowed>),
    Not(ToolVerdict),
}

/// A call that may run, and all that has to be known of its tool.
pub(super) struct Allowed {
    pub(super) tool: Arc<dyn AgentTool>,
    pub(super) arguments: Value,
    pub(super) verdict: ToolVerdict,
    pub(super) durability: Durability,
    pub(super) limit: Option<Duration>,
}

impl Decision {
    /// Asks the tool all that has to be known of it.
    fn run(tool: Arc<dyn AgentTool>, arguments: Value, verdict: ToolVerdict) -> Self {
        let durability = match tool.effects(&arguments) {
            Effects::Once => Durability::Flushed,
            Effects::ReadOnly | Effects::Idempotent => Durability::Buffered,
        };
        let limit = tool.timeout();
        Self::Run(Box::new(Allowed { tool, arguments, verdict, durability, limit }))
    }
}

impl Shell {
    /// What is to become of a call: run, as the model wrote it or with other arguments, or not.
    pub(super) async fn decide(&self, pending: &PendingCall) -> Decision {
        let call = &pending.call;
        let Some(tool) = self.tools.find(call.name.as_str()) else {
            return Decision::Not(ToolVerdict::deny(ToolError::NotFound(call.name.to_string()).to_string()));
        };
        let tool = Arc::clone(tool);
        let (given, fresh, cut) = match &pending.stage {
            CallStage::New => (None, true, false),
            CallStage::Approved(arguments) => (arguments.clone(), false, false),
            CallStage::Began(arguments) => (arguments.clone(), false, true),
            CallStage::Ended => (None, false, false),
        };
        let checked = match &given {
            // What a hook or a person gave instead is not checked again (B-093).
            Some(arguments) => Ok(arguments.clone()),
            None => self.checked_arguments(&*tool, call),
        };
        let arguments = match checked {
            Ok(arguments) => arguments,
            Err(text) => return Decision::Not(ToolVerdict::deny(text)),
        };
        if cut && tool.effects(&arguments) == Effects::Once {
            return Decision::Not(ToolVerdict::Ask(CUT_QUESTION.into()));
        }
        let kept = given.map_or(ToolVerdict::Allow, ToolVerdict::AllowWith);
        if !fresh {
            return Decision::run(tool, arguments, kept);
        }
        match self.run_before_tool(pending, &*tool, arguments).await {
            Err(result) => Decision::Not(ToolVerdict::Deny(result)),
            Ok(Checked { arguments, changed, mut questions }) => {
                if questions.is_empty() {
                    questions.extend(tool.question(&arguments));
                }
                if !questions.is_empty() {
                    let arguments = changed.then_some(arguments);
                    return Decision::Not(ToolVerdict::Ask(ToolQuestion { text: questions.join("\n"), arguments }));
                }
                let verdict = if changed { ToolVerdict::AllowWith(arguments.clone()) } else { ToolVerdict::Allow };
                Decision::run(tool, arguments, verdict)
            }
        }
    }

    /// The arguments as the tool gets them: parsed, put right, checked, coerced (D26).
    fn checked_arguments(&self, tool: &dyn AgentTool, call: &ToolCall) -> Result<Value, String> {
        let value = call.arguments.value().map_err(|error| {
            format!(
                "The arguments of {} are not valid JSON ({error}). Received: {}",
                call.name,
                shown(call.arguments.text())
            )
        })?;
        let prepared = tool.prepare_arguments(value.clone());
        let Some(schema) = self.tools.schema(call.name.as_str()) else { return Ok(prepared) };
        self.config
            .services.validator
            .validate(schema, prepared)
            .map_err(|errors| format!("The arguments of {} do not fit its schema.\n{errors}", call.name))
    }

    /// Runs the `before_tool` hooks in order. A denial ends the sequence with the call's error result; otherwise the
    /// returned arguments are final, and the questions of all hooks refer to them.
    async fn run_before_tool(
        &self,
        pending: &PendingCall,
        tool: &dyn AgentTool,
        arguments: Value,
    ) -> Result<Checked, Box<ToolResult>> {
        let mut checked = Checked { arguments, changed: false, questions: Vec::new() };
        let Some(run) = self.run() else { return Ok(checked) };
        for hook in &self.config.hooks.tool.before {
            let info = ToolCallInfo {
                loop_id: run.loop_id().clone(),
                step_key: pending.key.clone(),
                call: pending.call.clone(),
                arguments: checked.arguments.clone(),
                effects: tool.effects(&checked.arguments),
                history: run.history().clone(),
            };
            let failed = |text: String| Box::new(ToolResult::error(format!("before_tool_execution {text}")));
            match contained(async { hook(info).await }).await {
                Ok(Ok(Verdict::Allow)) => {}
                Ok(Ok(Verdict::AllowWith(other))) => {
                    checked.arguments = other;
                    checked.changed = true;
                }
                Ok(Ok(Verdict::Ask(question))) => checked.questions.push(question),
                Ok(Ok(Verdict::Deny(reason))) => return Err(Box::new(ToolResult::error(denied(reason)))),
                Ok(Ok(Verdict::DenyAndEnd(reason))) => {
                    return Err(Box::new(ToolResult::error(denied(reason)).terminating()));
                }
                Ok(Err(error)) => return Err(failed(format!("failed: {error}"))),
                Err(panic) => return Err(failed(format!("panicked: {panic}"))),
            }
        }
        Ok(checked)
    }
}

/// A call as the `before_tool` hooks left it.
struct Checked {
    arguments: Value,
    /// Whether a hook replaced the arguments.
    changed: bool,
    questions: Vec<String>,
}

/// What the model is told of a denial.
fn denied(reason: String) -> String {
    if reason.is_empty() {
        "Tool execution was denied by a before_tool_execution hook.".to_owned()
    } else {
        reason
    }
}

/// The beginning of a text, at most [`MAX_ARGUMENTS_SHOWN`] bytes.
fn shown(text: &str) -> String {
    if text.len() <= MAX_ARGUMENTS_SHOWN {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_ARGUMENTS_SHOWN);
    format!("{}… ({} bytes in all)", text.get(..end).unwrap_or_default(), text.len())
}
