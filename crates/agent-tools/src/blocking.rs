//! Runs blocking work outside of the async worker threads.

use std::time::Duration;

use agent_core::{CancellationToken, ToolContext, ToolError};
use tokio::runtime::Handle;

/// The reason why blocking work has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkError {
    /// The call was cancelled.
    Cancelled,
    /// The work exceeded its time limit.
    TimedOut,
    /// There is no runtime, or the work panicked.
    Broken(&'static str),
}

impl From<WorkError> for ToolError {
    fn from(halt: WorkError) -> Self {
        match halt {
            WorkError::Cancelled => Self::Cancelled,
            WorkError::TimedOut => Self::failed("it took too long"),
            WorkError::Broken(why) => Self::failed(why),
        }
    }
}

const NO_RUNTIME: &str = "no tokio runtime is running here; call this tool from inside one";
const PANICKED: &str = "the work of this tool panicked; this is a bug in the tool";

/// Runs `work` on a blocking thread. Returns at once on cancellation or after `limit`; the work is then notified by its
/// token and ends by itself. For work without side effects.
pub(crate) async fn interruptible<T: Send + 'static>(
    ctx: &ToolContext,
    limit: Option<Duration>,
    work: impl FnOnce(&CancellationToken) -> T + Send + 'static,
) -> Result<T, WorkError> {
    let stop = ctx.cancel.child_token();
    // Also stops the work when the caller drops this future.
    let _stop_on_drop = stop.clone().drop_guard();
    let runtime = Handle::try_current().map_err(|_| WorkError::Broken(NO_RUNTIME))?;
    let running = runtime.spawn_blocking(move || work(&stop));
    let too_long = async {
        match limit {
            Some(limit) => ctx.environment.sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = ctx.cancel.cancelled() => Err(WorkError::Cancelled),
        done = running => done.map_err(|_| WorkError::Broken(PANICKED)),
        () = too_long => Err(WorkError::TimedOut),
    }
}

/// Runs `work` on a blocking thread and always waits for its end. For work with side effects, whose result must be
/// reported.
pub(crate) async fn to_completion<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, WorkError> {
    let runtime = Handle::try_current().map_err(|_| WorkError::Broken(NO_RUNTIME))?;
    runtime.spawn_blocking(work).await.map_err(|_| WorkError::Broken(PANICKED))
}
