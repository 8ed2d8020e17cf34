//! Runs the loop of a sub-agent and converts its end into a result.

use agent_core::drive::{Delegation, Inheritance};
use agent_core::event::NumberedEvent;
use agent_core::run::ChildEnd;
use agent_core::tool::ChildRun;
use agent_core::{
    AgentContext, AgentEvent, AgentLoopConfig, AgentMessage, Answer, Budget, Content, Ended, EventReceiver,
    LoopError, LoopId, Message, MessageRef, SessionId, ToolContext, ToolError, ToolResult, TurnTrigger,
    Usage, agent_loop, agent_loop_answer, event_channel,
};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::SubAgentTool;

/// The text of the last reply of a child that wrote none.
pub const NO_TEXT: &str = "(sub-agent produced no text output)";

/// The reason that the model of the child receives when a call would need approval.
const NO_APPROVAL: &str =
    "Denied: nobody can be asked inside of a sub-agent. Go on without it, or say that it is needed.";

const NO_PROVIDER: &str =
    "the sub-agent has no provider to call its model with; give it one by with_provider";

fn not_started(error: &LoopError) -> ToolError {
    ToolError::failed(format!("the sub-agent could not begin: {error}"))
}

/// Returns the task, which must not be missing or blank.
pub(super) fn task(arguments: &Value) -> Result<&str, ToolError> {
    let invalid = |text: &str| Err(ToolError::InvalidArgs(text.to_owned()));
    match arguments.get("task").and_then(Value::as_str) {
        None => invalid("Missing required 'task' parameter"),
        Some(task) if task.trim().is_empty() => {
            invalid("The 'task' parameter is blank; say what is to be done")
        }
        Some(task) => Ok(task),
    }
}

/// Returns whether the task is to run in the background.
pub(super) fn is_in_background(arguments: &Value) -> bool {
    arguments.get("background").and_then(Value::as_bool) == Some(true)
}

/// Returns the child to which a call with this task is delegated.
pub(super) fn child(tool: &SubAgentTool, task: &str) -> ChildRun {
    ChildRun::new(vec![AgentMessage::user(task)], Task(tool.clone()))
        .with_system_prompt(tool.system_prompt.clone())
        .with_tools(tool.tools.clone())
        .with_parent_loop_id(tool.parent_loop_id.clone())
}

/// A task of a sub-agent.
struct Task(SubAgentTool);

#[async_trait]
impl Delegation for Task {
    fn configuration(&self, ctx: &ToolContext) -> Result<AgentLoopConfig, ToolError> {
        config(&self.0, ctx)
    }

    async fn result(&self, end: &ChildEnd) -> Result<ToolResult, ToolError> {
        result(&self.0.name, end).ok_or(ToolError::Cancelled)
    }

    fn inheritance(&self) -> Inheritance {
        self.0.inheritance
    }
}

/// Runs a child without a driver that could suspend the call: its questions are denied.
pub(super) async fn run(tool: &SubAgentTool, task: &str, ctx: ToolContext) -> Result<ToolResult, ToolError> {
    let mut config = config(tool, &ctx)?;
    let mut context = context(tool, &ctx);
    if tool.inheritance == Inheritance::Restricted {
        config.inherit(&ctx);
        context.tools = context.tools.confined_by(&ctx);
    }
    let loop_id = context.loop_id.clone().unwrap_or_else(|| LoopId::from("sub"));
    let (tx, events) = event_channel();
    let child = async {
        let prompt = vec![AgentMessage::user(task)];
        agent_loop(prompt, &mut context, &config, tx.clone(), ctx.cancel.clone())
            .await
            .map_err(|error| not_started(&error))?;
        while let Some(question) =
            context.suspended.as_ref().and_then(|run| run.questions().into_iter().next())
        {
            let answer = Answer::Deny { reason: NO_APPROVAL.to_owned() };
            let (tx, cancel) = (tx.clone(), ctx.cancel.clone());
            agent_loop_answer(&mut context, &config, question.id, answer, tx, cancel)
                .await
                .map_err(|error| not_started(&error))?;
        }
        drop(tx);
        Ok::<_, ToolError>(context.history)
    };
    let (history, seen) = tokio::join!(child, watch(tool, &ctx, events));
    let ended = seen.ended.unwrap_or(Ended::Aborted);
    let end = ChildEnd::new(loop_id, ended, history?, seen.turns, seen.usage);
    result(&tool.name, &end).ok_or(ToolError::Cancelled)
}

/// What the events of a child have shown.
#[derive(Default)]
struct Seen {
    ended: Option<Ended>,
    turns: u32,
    usage: Usage,
}

pub(super) fn config(tool: &SubAgentTool, ctx: &ToolContext) -> Result<AgentLoopConfig, ToolError> {
    let provider = tool.provider.as_ref().or(ctx.provider()).ok_or_else(|| ToolError::failed(NO_PROVIDER))?;
    let mut config = AgentLoopConfig::new(provider.clone(), tool.model.clone(), ctx.environment.clone());
    config.request.thinking_level = tool.thinking;
    config.policy.limits = Some(tool.limits.within(ctx.limits()));
    config.policy.first_turn_trigger = TurnTrigger::SubAgent;
    config.services.journal = ctx.journal().cloned();
    // An account below that of the caller, so that the costs of the child are also charged to the caller.
    config.services.budget = match (ctx.budget(), tool.budget) {
        (Some(above), Some(limits)) => Some(above.child(&tool.name, limits)),
        (Some(above), None) => Some(above.clone()),
        (None, Some(limits)) => Some(Budget::named(&tool.name, limits)),
        (None, None) => None,
    };
    for change in &tool.changes {
        change(&mut config);
    }
    Ok(config)
}

/// Creates an empty conversation in a new session. Its first loop names the caller's loop as its parent.
fn context(tool: &SubAgentTool, ctx: &ToolContext) -> AgentContext {
    let session = SessionId::from(ctx.environment.random_id());
    let mut context = AgentContext::new(tool.system_prompt.clone()).with_shared_tools(tool.tools.clone());
    context.loop_id = Some(LoopId::from(format!("{session}.sub.1")));
    context.session_id = Some(session);
    context.agent_id = Some(ctx.environment.random_id().into());
    context.parent_loop_id = Some(tool.parent_loop_id.clone().unwrap_or_else(|| ctx.loop_id.clone()));
    context
}

/// Forwards the replies and the tool calls of the child as updates and progress, and records how it ended.
async fn watch(tool: &SubAgentTool, ctx: &ToolContext, mut events: EventReceiver) -> Seen {
    let mut seen = Seen::default();
    let mut text = String::new();
    while let Some(NumberedEvent { event, depth, .. }) = events.recv_numbered().await {
        match event {
            AgentEvent::MessageEnd { message, superseded: false, .. } => {
                let reply = message.as_llm().and_then(Message::as_assistant);
                for block in reply.iter().flat_map(|reply| &reply.content).filter_map(Content::as_text) {
                    text.push_str(if text.is_empty() { "" } else { "\n" });
                    text.push_str(block);
                }
                if reply.is_some() && !text.is_empty() {
                    let partial = ToolResult::text(text.clone());
                    ctx.on_update(partial.with_details(json!({ "sub_agent": tool.name })));
                }
            }
            AgentEvent::ToolExecutionStart { tool_name, .. } => {
                ctx.on_progress(format!("[sub-agent calling tool: {tool_name}]"));
            }
            AgentEvent::ProgressMessage { text, .. } => ctx.on_progress(text),
            AgentEvent::TurnEnd { .. } if depth == 0 => seen.turns += 1,
            AgentEvent::AgentEnd(end) if depth == 0 => {
                seen.usage = end.usage.combine(&end.tool_usage);
                seen.ended = Some(end.ended);
            }
            _ => {}
        }
    }
    seen
}

/// Returns the text of the last reply that has text, its blocks joined by line feeds, or [`NO_TEXT`].
#[must_use]
pub fn extract_final_text(messages: &[MessageRef]) -> String {
    let replies = messages.iter().rev().filter_map(|m| m.as_llm().and_then(Message::as_assistant));
    let text = replies
        .map(|reply| reply.content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n"))
        .find(|text| !text.trim().is_empty());
    text.unwrap_or_else(|| NO_TEXT.to_owned())
}

/// Returns the result for the caller, or `None` if the child was aborted.
fn result(name: &str, end: &ChildEnd) -> Option<ToolResult> {
    let messages: Vec<MessageRef> = end.history.entries().map(|entry| entry.shared().clone()).collect();
    let text = extract_final_text(&messages);
    let details = json!({ "sub_agent": name, "turns": end.turns });
    let result = match &end.ended {
        Ended::Completed => ToolResult::text(text),
        Ended::Limit { reason } => {
            ToolResult::text(format!("{text}\n\n[the sub-agent was stopped: {reason}]"))
        }
        Ended::Budget { refusal } => {
            ToolResult::text(format!("{text}\n\n[the sub-agent was stopped: {refusal}]"))
        }
        Ended::Aborted => return None,
        Ended::Error { message, .. } => ToolResult::error(failed(&text, message)),
        other => ToolResult::error(failed(&text, &format!("{other:?}"))),
    };
    Some(result.with_details(details).with_child_loop(end.loop_id.clone()).with_usage(end.usage))
}

fn failed(text: &str, error: &str) -> String {
    format!("{text}\n\n[the sub-agent failed: {error}]")
}
