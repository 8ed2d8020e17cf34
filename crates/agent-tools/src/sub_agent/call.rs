//! Running a child.

use agent_core::{
    AgentContext, AgentEvent, AgentLoopConfig, AgentMessage, Answer, Budget, Ended, EventReceiver, LoopId,
    SessionId, StreamDelta, ToolContext, ToolError, ToolResult, TurnTrigger, Usage, agent_loop,
    agent_loop_answer, event_channel,
};
use serde_json::json;

use super::SubAgentTool;
use super::error::SubAgentError;
use super::output::{self, Finished};

/// What the child's model is told where somebody would have to be asked.
const NOBODY: &str =
    "Denied: nobody can be asked inside of a sub-agent. Go on without it, or say that it is needed.";

/// What was seen of a child while it ran.
#[derive(Default)]
struct Seen {
    ended: Option<Ended>,
    turns: u32,
    usage: Usage,
}

pub(super) async fn run(tool: &SubAgentTool, task: &str, ctx: ToolContext) -> Result<ToolResult, ToolError> {
    let config = config(tool, &ctx)?;
    let mut context = context(tool, &ctx);
    let loop_id = context.loop_id.clone().unwrap_or_else(|| LoopId::from("sub"));
    let (tx, events) = event_channel();
    let child = async {
        let prompt = vec![AgentMessage::user(task)];
        let mut messages = agent_loop(prompt, &mut context, &config, tx.clone(), ctx.cancel.clone())
            .await
            .map_err(SubAgentError::from)?;
        while let Some(question) =
            context.suspended.as_ref().and_then(|run| run.questions().into_iter().next())
        {
            let answer = Answer::Deny { reason: NOBODY.to_owned() };
            let (tx, cancel) = (tx.clone(), ctx.cancel.clone());
            messages = agent_loop_answer(&mut context, &config, question.id, answer, tx, cancel)
                .await
                .map_err(SubAgentError::from)?;
        }
        drop(tx);
        Ok::<_, SubAgentError>(messages)
    };
    let (messages, seen) = tokio::join!(child, watch(tool, &ctx, events));
    let messages = messages?;
    let ended = seen.ended.unwrap_or(Ended::Aborted);
    let finished = Finished { loop_id, messages, ended, turns: seen.turns, usage: seen.usage };
    output::result(&tool.name, &finished).ok_or_else(|| SubAgentError::Aborted.into_tool_error())
}

fn config(tool: &SubAgentTool, ctx: &ToolContext) -> Result<AgentLoopConfig, SubAgentError> {
    let provider = tool.provider.as_ref().or(ctx.provider()).ok_or(SubAgentError::NoProvider)?;
    let mut config = AgentLoopConfig::new(provider.clone(), tool.model.clone(), ctx.environment.clone());
    config.thinking_level = tool.thinking;
    config.execution_limits = Some(tool.limits);
    config.first_turn_trigger = TurnTrigger::SubAgent;
    config.journal = ctx.journal().cloned();
    // Below the caller's account where it has one: what the child spends, its caller spends.
    config.budget = match (ctx.budget(), tool.budget) {
        (Some(above), Some(limits)) => Some(above.child(&tool.name, limits)),
        (Some(above), None) => Some(above.clone()),
        (None, Some(limits)) => Some(Budget::named(&tool.name, limits)),
        (None, None) => None,
    };
    if let Some(change) = &tool.change {
        change(&mut config);
    }
    Ok(config)
}

/// An empty conversation in a session of its own, whose first loop names the caller's as its parent.
fn context(tool: &SubAgentTool, ctx: &ToolContext) -> AgentContext {
    let session = SessionId::from(ctx.environment.random_id());
    let mut context = AgentContext::new(tool.system_prompt.clone()).with_toolkit(tool.tools.clone());
    context.loop_id = Some(LoopId::from(format!("{session}.sub.1")));
    context.session_id = Some(session);
    context.agent_id = Some(ctx.environment.random_id().into());
    context.parent_loop_id = Some(tool.parent_loop_id.clone().unwrap_or_else(|| ctx.loop_id.clone()));
    context
}

/// Passes on what the child says and does (REQ-150), and keeps how it ended.
async fn watch(tool: &SubAgentTool, ctx: &ToolContext, mut events: EventReceiver) -> Seen {
    let mut seen = Seen::default();
    while let Some(event) = events.recv().await {
        match event {
            AgentEvent::MessageUpdate { delta: StreamDelta::Text { text: delta }, .. } => {
                ctx.on_update(ToolResult::text(delta).with_details(json!({ "sub_agent": tool.name })));
            }
            AgentEvent::ToolExecutionStart { tool_name, .. } => {
                ctx.on_progress(format!("[sub-agent calling tool: {tool_name}]"));
            }
            AgentEvent::ProgressMessage { text, .. } => ctx.on_progress(text),
            AgentEvent::TurnEnd { .. } => seen.turns += 1,
            AgentEvent::AgentEnd(end) => {
                seen.usage = end.usage.combine(&end.tool_usage);
                seen.ended = Some(end.ended);
            }
            _ => {}
        }
    }
    seen
}
