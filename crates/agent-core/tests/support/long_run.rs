//! A run of many turns, each with one tool call.

use agent_core::run::{Input, Reply, Run, RunSetup, ToolOutcome, ToolVerdict};
use agent_core::{AssistantMessage, Content, History, StopReason, Timestamp, ToolResult, Usage};

/// Returns a run after this many turns.
pub(crate) fn run_of(turns: u64) -> Result<Run, Box<dyn std::error::Error>> {
    let mut events = Vec::new();
    let mut setup = RunSetup::new("s-1.demo.1");
    setup.policy.context = None;
    setup.policy.limits = None;
    let prompts = vec!["Read every file.".into()];
    let mut run = Run::start(setup, History::new(), prompts, Timestamp(1), &mut events)?;
    for n in 0..turns {
        let now = Timestamp(1_800_000_000_000 + n);
        let mut message = AssistantMessage::new("anthropic", "claude-sonnet-4-6", StopReason::ToolUse);
        message.usage = Usage::new(1_000 + n, 40, 900, 0);
        message.content.push(Content::text("Next."));
        let (id, path) = (format!("call_{n}"), format!("src/file_{n}.rs"));
        message.content.push(Content::tool_call(
            id.clone(),
            "read_file",
            serde_json::json!({ "path": path }),
        ));
        let outcome = ToolOutcome::new(ToolResult::text("fn main() {}"), Some(3));
        let inputs = [
            Input::ModelReplied { reply: Reply::new(message)? },
            Input::ToolBegan { id: id.as_str().into(), verdict: ToolVerdict::Allow },
            Input::ToolEnded { id: id.as_str().into(), outcome: Box::new(outcome) },
            Input::QueuesRead,
        ];
        for input in inputs {
            run.apply(now, input, &mut events)?;
        }
    }
    Ok(run)
}
