//! Runs a command in the background.

use std::time::Duration;

use agent_core::tool::ToolUpdates;
use agent_core::{ToolContext, ToolResult};
use serde_json::{Value, json};

use super::capture::Live;
use super::output::{BashError, Ending, seconds};
use super::process::Shell;
use super::run::{self, Sink, Stream};
use super::{Background, BashTool};
use crate::background_work::{Job, WorkState};
use crate::output_store::LiveOutput;

/// Both streams go to one output, in the order in which they arrive.
impl Sink for LiveOutput {
    fn push(&mut self, _: Stream, part: &[u8]) {
        LiveOutput::push(self, part);
    }

    async fn flush(&mut self, _: Stream) {
        LiveOutput::flush(self).await;
    }
}

/// Starts the command. An error means that it was not run.
pub(super) async fn start(
    tool: &BashTool,
    command: &str,
    limit: Duration,
    ctx: &ToolContext,
) -> Result<ToolResult, BashError> {
    let work = tool.work.as_ref().ok_or(BashError::NoBackground)?;
    let reserved = work.reserve(ctx, command, limit)?;
    let shell = run::start(tool, command, ctx).await?;
    if ctx.cancel.is_cancelled() {
        return Err(BashError::Cancelled);
    }
    let mut inner = ctx.clone();
    inner.updates = ToolUpdates::none();
    let started = reserved.launch(ctx, |mut job| {
        inner.cancel = job.cancel.clone();
        async move { watch(shell, &mut job, &inner).await }
    });
    started.map_err(|error| BashError::Spawn(std::io::Error::other(error)))
}

/// Reads the output until the command ends or is ended.
async fn watch(mut shell: Shell, job: &mut Job, ctx: &ToolContext) -> (WorkState, ToolResult) {
    let limit = job.limit;
    match run::follow(&mut shell, &mut job.output, limit, Background::End, ctx).await {
        Ok((ending, live)) => result(ending, live, job),
        Err(error) => (WorkState::Ended, ToolResult::error(error.to_string())),
    }
}

/// Returns the result with the last output, and with the key of the rest.
fn result(ending: Ending, mut live: Live, job: &Job) -> (WorkState, ToolResult) {
    let (state, first, mut details) = match ending {
        Ending::Exited { code, signal } => {
            let exit_code = code.unwrap_or(-1);
            let mut details = json!({"exit_code": exit_code, "success": exit_code == 0});
            if let (Some(signal), Value::Object(fields)) = (signal, &mut details) {
                fields.insert("signal".to_owned(), json!(signal));
            }
            (WorkState::Ended, format!("Exit code: {exit_code}"), details)
        }
        Ending::TimedOut(limit) => {
            (WorkState::TimedOut, format!("Command timed out after {}s", seconds(limit)), json!({}))
        }
        Ending::Aborted => match job.cause() {
            WorkState::Killed => (WorkState::Killed, "Command was killed".to_owned(), json!({})),
            state => (state, "Command was ended, because the run was aborted".to_owned(), json!({})),
        },
    };
    if let (true, Value::Object(fields)) = (state != WorkState::Ended, &mut details) {
        fields.insert("exit_code".to_owned(), json!(-1));
        fields.insert("success".to_owned(), json!(false));
    }
    let (produced, shown) = (job.output.produced(), live.bytes() as u64);
    let note = if produced > shown {
        let key = job.output.key();
        format!("\n[the last {shown} of {produced} bytes; read_output with key \"{key}\" reads the rest]")
    } else {
        String::new()
    };
    let text = format!("{first}{note}\n{}", live.text());
    let result = if state == WorkState::Ended { ToolResult::text(text) } else { ToolResult::error(text) };
    (state, result.with_details(details))
}
