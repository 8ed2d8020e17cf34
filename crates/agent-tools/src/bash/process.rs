//! The shell process and the processes that it started.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::process::{ChildStderr, ChildStdout};

#[cfg(target_os = "linux")]
use super::cgroup::Cgroup;
use super::output::BashError;
use super::{ProcessTracking, marker};
#[cfg(unix)]
use crate::lifeline::Lifeline;
use crate::program::Program;
use crate::sandbox::{Input, Launch, Sandbox, StartError, Started};

/// The time that processes have to end after SIGTERM. It is short because an aborted call must return before the agent
/// stops waiting for it.
#[cfg(unix)]
const TERM_GRACE: Duration = Duration::from_millis(100);

/// The time to wait for the shell after it was killed. Only a process that is stuck in the kernel takes longer.
const KILL_GRACE: Duration = Duration::from_millis(200);

/// A running shell. Dropping it kills its whole process group.
#[derive(Debug)]
pub(super) struct Shell {
    started: Started,
    /// `None` when they have been killed, or may keep running.
    descendants: Option<Descendants>,
}

/// Identifies the processes that a command started, also after they left its process group. Dropping it blocks for some
/// milliseconds.
#[derive(Debug)]
struct Descendants {
    mark: String,
    guard: Guard,
    #[cfg(target_os = "linux")]
    group: Option<Cgroup>,
    /// Ends them when this process is killed.
    #[cfg(unix)]
    lifeline: Option<Lifeline>,
}

/// What happens to the remaining processes when the command has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guard {
    /// They are killed.
    KillAll,
    /// They keep running.
    Spare,
}

impl Descendants {
    /// Prepares for a command with this mark, and creates its cgroup if it shall have one.
    async fn new(mark: String, tracking: ProcessTracking) -> Result<Self, BashError> {
        #[cfg(target_os = "linux")]
        let group = match tracking {
            ProcessTracking::Marker => None,
            ProcessTracking::Cgroup => {
                let name = mark.clone();
                let created = tokio::task::spawn_blocking(move || Cgroup::new(&name)).await;
                let created = created.unwrap_or_else(|error| Err(io::Error::other(error)));
                Some(created.map_err(BashError::Cgroup)?)
            }
        };
        #[cfg(not(target_os = "linux"))]
        if tracking == ProcessTracking::Cgroup {
            return Err(BashError::Cgroup(io::ErrorKind::Unsupported.into()));
        }
        #[allow(unused_mut, reason = "only some systems have a guard")]
        let mut descendants = Self {
            mark,
            guard: Guard::KillAll,
            #[cfg(target_os = "linux")]
            group,
            #[cfg(unix)]
            lifeline: None,
        };
        #[cfg(unix)]
        {
            #[cfg(target_os = "linux")]
            let cgroup = descendants.group.as_ref().map(Cgroup::folder);
            #[cfg(not(target_os = "linux"))]
            let cgroup = None;
            let lifeline = Lifeline::new(&descendants.mark, cgroup);
            descendants.lifeline = Some(lifeline.map_err(StartError::Spawn)?);
        }
        Ok(descendants)
    }

    /// Whether the command must wait until it is in its group.
    fn has_group(&self) -> bool {
        #[cfg(target_os = "linux")]
        let has_group = self.group.is_some();
        #[cfg(not(target_os = "linux"))]
        let has_group = false;
        has_group
    }

    /// Takes the shell in.
    async fn adopt(&self, shell: Option<u32>) -> Result<(), BashError> {
        #[cfg(unix)]
        if let Some(lifeline) = &self.lifeline {
            lifeline.tie_group(shell);
        }
        #[cfg(target_os = "linux")]
        if let (Some(group), Some(shell)) = (self.group.clone(), shell) {
            let added = tokio::task::spawn_blocking(move || group.add(shell)).await;
            added.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(BashError::Cgroup)?;
        }
        Ok(())
    }

    /// Kills the processes on a thread that may block. When the runtime shuts down it runs nothing more, and they are killed
    /// at once.
    fn kill(self) -> Option<tokio::task::JoinHandle<()>> {
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        Some(runtime.spawn_blocking(move || drop(self)))
    }
}

impl Drop for Descendants {
    fn drop(&mut self) {
        if self.guard == Guard::KillAll {
            #[cfg(target_os = "linux")]
            if let Some(group) = &self.group {
                group.kill();
            }
            marker::kill_all(&self.mark);
        }
    }
}

impl Shell {
    /// Starts `bash -c command` with this shell. The variables must contain the marker `mark`. In a cgroup, the shell waits
    /// until it is there before it runs the command.
    pub(super) async fn start(
        shell: Program,
        command: &str,
        folder: Option<&Path>,
        variables: BTreeMap<OsString, OsString>,
        mark: String,
        sandbox: &Sandbox,
        tracking: ProcessTracking,
    ) -> Result<Self, BashError> {
        /// Waits for a line of input, then runs the command.
        const GATE: &str = "IFS= read -r _ && exec \"$BASH\" -c \"$1\" < /dev/null";
        let descendants = Descendants::new(mark, tracking).await?;
        let has_group = descendants.has_group();
        let launch = Launch {
            program: shell,
            args: match has_group {
                false => vec!["-c".into(), command.into()],
                true => vec!["-c".into(), GATE.into(), "bash".into(), command.into()],
            },
            folder: folder.map(Path::to_path_buf),
            variables,
            input: if has_group { Input::Pipe } else { Input::Empty },
        };
        let started = match sandbox.start(launch).await {
            Ok(started) => started,
            Err(error) => {
                if let Some(killing) = descendants.kill() {
                    drop(killing.await);
                }
                return Err(error.into());
            }
        };
        let mut shell = Self { started, descendants: Some(descendants) };
        let process = shell.started.child.id();
        if let Some(descendants) = &shell.descendants {
            descendants.adopt(process).await?;
        }
        if let Some(mut gate) = shell.started.child.stdin().take() {
            // An error means that the shell has ended, which `wait` reports.
            drop(gate.write_all(b"\n").await);
        }
        Ok(shell)
    }

    pub(super) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.started.child.stdout().take()
    }

    pub(super) fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.started.child.stderr().take()
    }

    /// Waits for the shell itself, not for its background processes.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        // Waiting for the group would include orphans if this process inherits them.
        self.started.child.inner_mut().wait().await
    }

    /// Sends SIGTERM to the whole group, and kills it after a grace period.
    pub(super) async fn stop(&mut self) {
        #[cfg(unix)]
        {
            /// The number is the same on every Unix.
            const SIGTERM: i32 = 15;
            if self.started.child.signal(SIGTERM).is_ok() {
                // If the shell ends earlier, the rest of the group gets no more time.
                drop(tokio::time::timeout(TERM_GRACE, self.wait()).await);
            }
        }
        self.kill().await;
        // Avoids a zombie process; the result does not depend on it.
        drop(tokio::time::timeout(KILL_GRACE, self.wait()).await);
    }

    /// Kills the whole group, then the processes that left it.
    pub(super) async fn kill(&mut self) {
        self.kill_group();
        if let Some(killing) = self.descendants.take().and_then(Descendants::kill) {
            drop(killing.await);
        }
    }

    fn kill_group(&mut self) {
        // An error means that the group is empty.
        drop(self.started.child.start_kill());
    }

    /// Lets the background processes keep running.
    pub(super) fn keep_background(&mut self) {
        if let Some(mut descendants) = self.descendants.take() {
            descendants.guard = Guard::Spare;
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if let Some(descendants) = self.descendants.take() {
            self.kill_group();
            drop(descendants.kill());
        }
    }
}
