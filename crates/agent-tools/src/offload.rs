//! Blocking work beside the async workers.

use std::time::Duration;

use agent_core::{CancellationToken, ToolContext, ToolError};
use tokio::runtime::Handle;

/// Why offloaded work was left before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halt {
    /// The call was cancelled.
    Cancelled,
    /// It took too long.
    TimedOut,
    /// There is no runtime, or the work panicked.
    Broken(&'static str),
}

impl From<Halt> for ToolError {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Cancelled => Self::Cancelled,
            Halt::TimedOut => Self::failed("it took too long"),
            Halt::Broken(why) => Self::failed(why),
        }
    }
}

const NO_RUNTIME: &str = "no tokio runtime is running here; call this tool from inside one";
const PANICKED: &str = "the work of this tool panicked; this is a bug in the tool";

/// Runs `work` on a thread of its own. On cancellation or after `limit` the answer comes at once; the work is told
/// by its token and ends by itself. For work that changes nothing.
pub(crate) async fn interruptible<T: Send + 'static>(
    ctx: &ToolContext,
    limit: Option<Duration>,
    work: impl FnOnce(&CancellationToken) -> T + Send + 'static,
) -> Result<T, Halt> {
    let stop = ctx.cancel.child_token();
    // Also stops the work when the caller drops this future.
    let _stop_on_drop = stop.clone().drop_guard();
    let runtime = Handle::try_current().map_err(|_| Halt::Broken(NO_RUNTIME))?;
    let running = runtime.spawn_blocking(move || work(&stop));
    let too_long = async {
        match limit {
            Some(limit) => ctx.environment.sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = ctx.cancel.cancelled() => Err(Halt::Cancelled),
        done = running => done.map_err(|_| Halt::Broken(PANICKED)),
        () = too_long => Err(Halt::TimedOut),
    }
}

/// Runs `work` on a thread of its own and waits for its end, whatever happens. For work that changes something:
/// the answer must say what was done.
pub(crate) async fn to_completion<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Halt> {
    let runtime = Handle::try_current().map_err(|_| Halt::Broken(NO_RUNTIME))?;
    runtime.spawn_blocking(work).await.map_err(|_| Halt::Broken(PANICKED))
}
