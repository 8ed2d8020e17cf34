//! Decides about a tool call before it runs: unknown tools, invalid arguments, hooks, and questions to the user.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::config::AgentLoopConfig;
use super::panics::contained;
use crate::hooks::{ToolCallInfo, Verdict};
use crate::journal::Durability;
use crate::message::{MAX_ARGUMENTS_SHOWN, ToolCall};
use crate::run::{CallStage, PendingCall, Run, ToolVerdict};
use crate::tool::{AgentTool, Effects, ToolError, ToolResult, Tools};

/// The question about a call with side effects that had begun when the run was interrupted.
const CUT_QUESTION: &str =
    "This call had begun when the run was cut off, and what came of it is not known. Run it again?";

/// The decision about a call.
pub(super) enum Decision {
    /// The call runs with these arguments.
    Run(Box<Allowed>),
    /// The call does not run now; the verdict says why.
    Not(ToolVerdict),
}

/// A call that may run, with the properties of its tool that the driver needs.
pub(super) struct Allowed {
    pub(super) tool: Arc<dyn AgentTool>,
    pub(super) arguments: Value,
    pub(super) verdict: ToolVerdict,
    pub(super) durability: Durability,
    pub(super) limit: Option<Duration>,
}

impl Decision {
    /// Queries the tool's effects and time limit for these arguments.
    fn run(tool: Arc<dyn AgentTool>, arguments: Value, verdict: ToolVerdict) -> Self {
        let durability = match tool.effects(&arguments) {
            Effects::Once => Durability::Flushed,
            Effects::ReadOnly | Effects::Idempotent => Durability::Buffered,
        };
        let limit = tool.timeout();
        Self::Run(Box::new(Allowed { tool, arguments, verdict, durability, limit }))
    }
}

/// Decides whether a call runs, and with which arguments. Checks the tool, the arguments, the hooks and the tool's
/// own question.
pub(super) async fn decide(
    config: &AgentLoopConfig,
    tools: &Tools,
    run: Option<&Run>,
    pending: &PendingCall,
) -> Decision {
    let call = &pending.call;
    let Some(tool) = tools.find(call.name.as_str()) else {
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
        // Arguments that a hook or the user supplied are not validated again.
        Some(arguments) => Ok(arguments.clone()),
        None => checked_arguments(config, tools, &*tool, call),
    };
    let arguments = match checked {
        Ok(arguments) => arguments,
        Err(text) => return Decision::Not(ToolVerdict::deny(text)),
    };
    if cut && tool.effects(&arguments) == Effects::Once {
        return Decision::Not(ToolVerdict::Ask(CUT_QUESTION.to_owned()));
    }
    let verdict = given.map_or(ToolVerdict::Allow, ToolVerdict::AllowWith);
    if !fresh {
        return Decision::run(tool, arguments, verdict);
    }
    match run_before_hook(config, run, pending, &*tool, &arguments).await {
        Err(text) => Decision::Not(ToolVerdict::deny(text)),
        Ok(Verdict::Allow) => match tool.question(&arguments) {
            Some(question) => Decision::Not(ToolVerdict::Ask(question)),
            None => Decision::run(tool, arguments, verdict),
        },
        Ok(Verdict::AllowWith(other)) => Decision::run(tool, other.clone(), ToolVerdict::AllowWith(other)),
        Ok(Verdict::Deny(reason)) => Decision::Not(ToolVerdict::deny(denied(reason))),
        Ok(Verdict::DenyAndEnd(reason)) => {
            let result = ToolResult::error(denied(reason)).terminating();
            Decision::Not(ToolVerdict::Deny(Box::new(result)))
        }
        Ok(Verdict::Ask(question)) => Decision::Not(ToolVerdict::Ask(question)),
    }
}

/// Returns the arguments as the tool receives them: parsed, prepared by the tool, validated and coerced.
fn checked_arguments(
    config: &AgentLoopConfig,
    tools: &Tools,
    tool: &dyn AgentTool,
    call: &ToolCall,
) -> Result<Value, String> {
    let value = call.arguments.value().map_err(|error| {
        format!(
            "The arguments of {} are not valid JSON ({error}). Received: {}",
            call.name,
            shown(call.arguments.text())
        )
    })?;
    let prepared = tool.prepare_arguments(value.clone());
    let Some(schema) = tools.schema(call.name.as_str()) else { return Ok(prepared) };
    config
        .validator
        .validate(schema, prepared)
        .map_err(|errors| format!("The arguments of {} do not fit its schema.\n{errors}", call.name))
}

/// Calls the `before_tool` hook. Without a hook, or without a run, the call is allowed.
async fn run_before_hook(
    config: &AgentLoopConfig,
    run: Option<&Run>,
    pending: &PendingCall,
    tool: &dyn AgentTool,
    arguments: &Value,
) -> Result<Verdict, String> {
    let Some(hook) = &config.hooks.tool.before else { return Ok(Verdict::Allow) };
    let Some(run) = run else { return Ok(Verdict::Allow) };
    let info = ToolCallInfo {
        loop_id: run.loop_id().clone(),
        step_key: pending.key.clone(),
        call: pending.call.clone(),
        arguments: arguments.clone(),
        effects: tool.effects(arguments),
        history: run.history().clone(),
    };
    match contained(async { hook(info).await }).await {
        Ok(Ok(verdict)) => Ok(verdict),
        Ok(Err(error)) => Err(format!("before_tool_execution failed: {error}")),
        Err(panic) => Err(format!("before_tool_execution panicked: {panic}")),
    }
}

/// Returns the text that the model receives for a denied call.
fn denied(reason: String) -> String {
    if reason.is_empty() {
        "Tool execution was denied by a before_tool_execution hook.".to_owned()
    } else {
        reason
    }
}

/// Returns the beginning of a text, at most [`MAX_ARGUMENTS_SHOWN`] bytes.
fn shown(text: &str) -> String {
    if text.len() <= MAX_ARGUMENTS_SHOWN {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_ARGUMENTS_SHOWN);
    format!("{}… ({} bytes in all)", text.get(..end).unwrap_or_default(), text.len())
}
