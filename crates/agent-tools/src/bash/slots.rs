//! A bound on the number of commands that run at once.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The default of the number of commands that run at once in this process: 64. It is lower where the process may open
/// fewer than 1,024 files: one command for each [`FILES_PER_COMMAND`].
pub const MAX_COMMANDS: usize = 64;

/// The number of files for which the default allows one command. A running command needs about 4, and up to 12 more while
/// it starts in a sandbox. The rest remains for the program and its MCP servers, which need 4 each.
pub const FILES_PER_COMMAND: usize = 16;

/// The maximum time for which a command waits until others have ended: 1 hour. Then it fails and is not run.
pub const MAX_WAIT: Duration = Duration::from_secs(60 * 60);

/// A bound on the number of commands that run at once. Clones share it.
///
/// Commands beyond the bound wait in the order of their calls. All tools of a process share one bound by default;
/// [`BashTool::with_slots`](super::BashTool::with_slots) sets another one. The git commands of
/// [`BranchWorkspaces`](crate::BranchWorkspaces) have a bound of their own, an eighth of it.
#[derive(Debug, Clone)]
pub struct CommandSlots {
    free: Arc<Semaphore>,
}

impl CommandSlots {
    /// Creates a bound of `commands`, at least 1.
    #[must_use]
    pub fn new(commands: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(commands.clamp(1, Semaphore::MAX_PERMITS))) }
    }

    /// Returns the bound that all tools of this process share by default.
    #[must_use]
    pub fn of_process() -> Self {
        static SHARED: LazyLock<CommandSlots> = LazyLock::new(|| CommandSlots::new(default_commands()));
        SHARED.clone()
    }

    /// Returns an equal part of the bound of this process, at least 1. Use it for each of several users whose commands must not
    /// wait for those of the others. With more parts than the process has slots, the parts are more than the whole.
    ///
    /// ```
    /// use agent_tools::bash::CommandSlots;
    /// let (alice, bob) = (CommandSlots::part_of_process(2), CommandSlots::part_of_process(2));
    /// # drop((alice, bob));
    /// ```
    #[must_use]
    pub fn part_of_process(parts: usize) -> Self {
        Self::new(default_commands() / parts.max(1))
    }

    /// Returns a bound for the git commands of this process.
    pub(crate) fn of_git() -> Self {
        Self::new(default_commands() / 8)
    }

    /// Waits for a free slot, which is free again when the result is dropped. Dropping the future leaves the queue.
    pub(crate) async fn take(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed, so there is always a permit.
        Arc::clone(&self.free).acquire_owned().await.ok()
    }
}

fn default_commands() -> usize {
    (max_files().unwrap_or(usize::MAX) / FILES_PER_COMMAND).min(MAX_COMMANDS)
}

/// Returns the number of files that this process may open.
#[cfg(unix)]
fn max_files() -> Option<usize> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.and_then(|files| usize::try_from(files).ok())
}

#[cfg(not(unix))]
fn max_files() -> Option<usize> {
    None
}
