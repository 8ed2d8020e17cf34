//! Decides about a tool call before it runs: unknown tools, invalid arguments, hooks, and questions to the user.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::child::ReadyChild;
use super::config::AgentLoopConfig;
use super::panics::contained;
use crate::event::ToolSnapshot;
use crate::hooks::{ToolCallInfo, Verdict};
use crate::journal::Durability;
use crate::message::{MAX_ARGUMENTS_SHOWN, ToolCall};
use crate::run::{CallStage, PendingCall, Run, ToolQuestion, ToolVerdict};
use crate::tool::validate::{shown, unquoted};
use crate::tool::{AgentTool, Effects, ToolResult, Tools};

/// The question about a call with side effects that had started when the run was interrupted.
const INTERRUPTED_QUESTION: &str =
    "This call had started when the run was interrupted, and its outcome is unknown. Run it again?";

/// The question about a call that was allowed before its tool or its working directory changed.
const CHANGED_QUESTION: &str =
    "The tool or its working directory has changed since this call was allowed. Run it as it is now?";

/// The decision about a call: it runs, or the verdict says why it does not run now.
type Decision = Result<Box<Allowed>, ToolVerdict>;

/// A call that may run, with the properties of its tool that the driver needs.
pub(super) struct Allowed {
    pub(super) tool: Arc<dyn AgentTool>,
    pub(super) arguments: Value,
    pub(super) verdict: ToolVerdict,
    pub(super) durability: Durability,
    pub(super) limit: Option<Duration>,
    /// The arguments about which the hooks or an approver decided, with resolved paths. `None` without hooks.
    pub(super) resolved: Option<Box<Value>>,
    /// The child to which the call is delegated.
    pub(super) child: Option<Box<ReadyChild>>,
}

/// Queries the tool's effects and time limit for these arguments.
fn allowed(
    tool: Arc<dyn AgentTool>,
    arguments: Value,
    verdict: ToolVerdict,
    resolved: Option<Box<Value>>,
    child: Option<Box<ReadyChild>>,
) -> Decision {
    let durability = match tool.effects(&arguments) {
        Effects::Once => Durability::Flushed,
        Effects::ReadOnly | Effects::Idempotent => Durability::Buffered,
    };
    let limit = tool.timeout();
    Ok(Box::new(Allowed { tool, arguments, verdict, durability, limit, resolved, child }))
}

/// Decides whether a call runs, and with which arguments. Checks the tool, the arguments, the hooks and the tool's
/// own question.
pub(super) async fn decide(
    config: &AgentLoopConfig,
    tools: &Tools,
    run: &Run,
    pending: &PendingCall,
) -> Decision {
    let call = &pending.call;
    let Some(tool) = tools.find(call.name.as_str()) else {
        return Err(ToolVerdict::deny(tools.unknown(call.name.as_str())));
    };
    let tool = Arc::clone(tool);
    let (given, fresh, interrupted) = match &pending.stage {
        CallStage::New => (None, true, false),
        CallStage::Approved(arguments) => (arguments.clone(), false, false),
        CallStage::Began(arguments) | CallStage::Answered(arguments) => (arguments.clone(), false, true),
        CallStage::Ended => (None, false, false),
    };
    let checked = match &given {
        // Arguments that a hook or the user supplied are not validated again.
        Some(arguments) => Ok(arguments.clone()),
        None => checked_arguments(config, tools, &*tool, call),
    };
    let arguments = match checked {
        Ok(arguments) => arguments,
        Err(text) => return Err(ToolVerdict::deny(text)),
    };
    let verdict = given.map_or(ToolVerdict::Allow, ToolVerdict::AllowWith);
    if !fresh {
        let mut resolved = None;
        if let (CallStage::Approved(_), Some(approved)) = (&pending.stage, &pending.approved) {
            if **approved != ToolSnapshot::of(&*tool, &arguments) {
                return Err(ask(CHANGED_QUESTION.to_owned(), call, &*tool, arguments));
            }
            resolved = Some(Box::new(approved.resolved.clone().unwrap_or_else(|| arguments.clone())));
        }
        let (known, child) = find_child(config, run, pending, &*tool, &arguments).await?;
        if interrupted && !known && tool.effects(&arguments) == Effects::Once {
            return Err(ask(INTERRUPTED_QUESTION.to_owned(), call, &*tool, arguments));
        }
        return allowed(tool, arguments, verdict, resolved, child);
    }
    match run_before_tool(config, run, pending, &*tool, arguments).await {
        Err(result) => Err(ToolVerdict::Deny(result)),
        Ok(Checked { arguments, resolved, changed, mut questions }) => {
            // An answer to the question of a hook does not answer the tool's own.
            questions.extend(tool.question(&arguments));
            if !questions.is_empty() {
                return Err(ask(questions.join("\n"), call, &*tool, arguments));
            }
            let verdict =
                if changed { ToolVerdict::AllowWith(arguments.clone()) } else { ToolVerdict::Allow };
            let (_, child) = find_child(config, run, pending, &*tool, &arguments).await?;
            let resolved = if config.hooks.tool.before.is_empty() {
                None
            } else {
                Some(resolved.unwrap_or_else(|| Box::new(arguments.clone())))
            };
            allowed(tool, arguments, verdict, resolved, child)
        }
    }
}

/// Returns the verdict that asks about a call with its final arguments.
fn ask(text: String, call: &ToolCall, tool: &dyn AgentTool, arguments: Value) -> ToolVerdict {
    let as_sent = call.arguments.value().is_ok_and(|sent| *sent == arguments);
    let tool = Some(Box::new(ToolSnapshot::of(tool, &arguments)));
    ToolVerdict::Ask(ToolQuestion { text, arguments: (!as_sent).then_some(arguments), tool })
}

/// Returns the child to which the call is delegated, and whether it is known how far the call has come.
async fn find_child(
    config: &AgentLoopConfig,
    run: &Run,
    pending: &PendingCall,
    tool: &dyn AgentTool,
    arguments: &Value,
) -> Result<(bool, Option<Box<ReadyChild>>), ToolVerdict> {
    let Some(child) = tool.delegate(arguments) else { return Ok((false, None)) };
    match ReadyChild::find(child.clone(), run, pending, config).await {
        Ok(Some(found)) => Ok((true, Some(found))),
        // It is not known whether the child started: a question precedes it, or it starts anew.
        Ok(None) => Ok((false, Some(ReadyChild::anew(child, run, pending, config)))),
        Err(error) => {
            Err(ToolVerdict::deny(format!("The record of the sub-agent could not be read: {error}")))
        }
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
            shown(call.arguments.text(), MAX_ARGUMENTS_SHOWN)
        )
    })?;
    // The validator reads an object in a string as well, which would be too late: the tool prepares what it is about to receive.
    let prepared = tool.prepare_arguments(unquoted(value));
    let Some(schema) = tools.schema(call.name.as_str()) else { return Ok(prepared) };
    config
        .services
        .validator
        .validate(schema, prepared)
        .map_err(|errors| format!("The call of {} was not executed. {errors}", call.name))
}

/// A call as the `before_tool` hooks left it.
struct Checked {
    arguments: Value,
    /// The arguments with resolved paths.
    resolved: Option<Box<Value>>,
    /// Whether a hook replaced the arguments.
    changed: bool,
    questions: Vec<String>,
}

/// Runs the `before_tool` hooks in order. A denial ends the sequence with the call's error result; otherwise the
/// returned arguments are final, and the questions of all hooks refer to them.
async fn run_before_tool(
    config: &AgentLoopConfig,
    run: &Run,
    pending: &PendingCall,
    tool: &dyn AgentTool,
    arguments: Value,
) -> Result<Checked, Box<ToolResult>> {
    let mut checked = Checked { arguments, resolved: None, changed: false, questions: Vec::new() };
    let hooks = &config.hooks.tool.before;
    if !hooks.is_empty() {
        checked.resolved = tool.resolved_arguments(&checked.arguments).map(Box::new);
    }
    let failed = |text: String| Box::new(ToolResult::error(format!("before_tool_execution {text}")));
    for hook in hooks {
        let info = ToolCallInfo {
            loop_id: run.loop_id().clone(),
            step_key: pending.key.clone(),
            call: pending.call.clone(),
            arguments: checked.arguments.clone(),
            resolved_arguments: checked.resolved.as_deref().cloned(),
            effects: tool.effects(&checked.arguments),
            history: run.history().clone(),
        };
        match contained(async { hook(info).await }).await {
            Ok(Ok(Verdict::Allow)) => {}
            Ok(Ok(Verdict::AllowWith(other))) => {
                checked.resolved = tool.resolved_arguments(&other).map(Box::new);
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

/// Returns the text that the model receives for a denied call.
fn denied(reason: String) -> String {
    if reason.is_empty() {
        "Tool execution was denied by a before_tool_execution hook.".to_owned()
    } else {
        reason
    }
}
