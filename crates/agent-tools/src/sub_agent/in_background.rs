//! Runs a task of a sub-agent in the background.

use std::sync::{Arc, Mutex, PoisonError};

use agent_core::tool::{ToolSignal, ToolUpdates};
use agent_core::{ToolContext, ToolError, ToolResult};

use super::{SubAgentTool, run};
use crate::background_work::{BackgroundError, Job, WorkState};

const NO_BACKGROUND: &str =
    "this program lets no task run in the background; call the sub-agent without `background`";

/// Starts the task. An error means that it was not started.
pub(super) fn start(tool: &SubAgentTool, task: &str, ctx: &ToolContext) -> Result<ToolResult, ToolError> {
    let work = tool.work.as_ref().ok_or_else(|| ToolError::InvalidArgs(NO_BACKGROUND.to_owned()))?;
    let refused = |error: BackgroundError| ToolError::failed(format!("the task was not started: {error}"));
    let reserved = work.reserve(ctx, task, work.max_duration()).map_err(refused)?;
    ctx.check_cancelled()?;
    let (tool, task, mut inner) = (tool.clone(), task.to_owned(), ctx.clone());
    reserved.launch(ctx, |job| {
        inner.cancel = job.cancel.clone();
        async move { watch(&tool, &task, inner, job).await }
    })
}

/// Runs the task until it ends or is ended. Its replies and the names of its tools are the output.
async fn watch(tool: &SubAgentTool, task: &str, mut ctx: ToolContext, job: Job) -> (WorkState, ToolResult) {
    let (limit, environment) = (job.limit, Arc::clone(&ctx.environment));
    let cancel = job.cancel.clone();
    let job = Arc::new(job);
    ctx.updates = ToolUpdates::new(writer(Arc::clone(&job)));
    let mut running = std::pin::pin!(run::run(tool, task, ctx));
    let (ended, timed_out) = tokio::select! {
        ended = &mut running => (ended, false),
        () = environment.sleep(limit) => {
            cancel.cancel();
            (running.await, true)
        }
    };
    let stopped = |state, text: &str| (state, ToolResult::error(text));
    match ended {
        Ok(result) => (WorkState::Ended, result),
        Err(ToolError::Cancelled) if timed_out => {
            stopped(WorkState::TimedOut, &format!("The task timed out after {}s", limit.as_secs()))
        }
        Err(ToolError::Cancelled) => match job.cause() {
            WorkState::Killed => stopped(WorkState::Killed, "The task was killed"),
            state => stopped(state, "The task was ended, because the run was aborted"),
        },
        Err(error) => stopped(WorkState::Ended, &error.to_string()),
    }
}

/// Returns a receiver of updates that writes the part of each that the one before did not have.
fn writer(job: Arc<Job>) -> impl Fn(ToolSignal) + Send + 'static {
    let written = Mutex::new(0);
    move |signal| match signal {
        ToolSignal::Update(result) => {
            let text = result.to_text();
            let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(new) = text.get(*written..).filter(|new| !new.is_empty()) {
                job.output.push(new.trim_start_matches('\n').as_bytes());
                job.output.push(b"\n");
                *written = text.len();
            }
        }
        ToolSignal::Progress(text) => {
            job.output.push(text.as_bytes());
            job.output.push(b"\n");
        }
        _ => {}
    }
}
