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
use super::{cgroup::Cgroup, output::BashError};
use super::{lifeline, marker};
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
    descendants: Descendants,
    guard: Guard,
    /// The pipe whose end tells the guard of the command that this process has ended.
    lifeline: Option<Box<dyn std::fmt::Debug + Send + Sync>>,
}

/// How long a command lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// No longer than its call.
    Call,
    /// No longer than this process, also if the process is killed.
    Process,
}

/// Identifies the processes that a command started, also after they left its process group.
#[derive(Debug, Default)]
struct Descendants {
    mark: String,
    #[cfg(target_os = "linux")]
    group: Option<super::cgroup::Cgroup>,
}

impl Descendants {
    fn marked(mark: String) -> Self {
        Self {
            mark,
            #[cfg(target_os = "linux")]
            group: None,
        }
    }

    /// Kills the processes. Blocks for some milliseconds.
    fn kill(&self) {
        #[cfg(target_os = "linux")]
        if let Some(group) = &self.group {
            group.kill();
        }
        marker::kill_all(&self.mark);
    }
}

/// What happens to the remaining processes when the shell is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guard {
    /// They are killed.
    KillAll,
    /// They keep running.
    Spare,
}

impl Shell {
    /// Starts `bash -c command` with this shell. The variables must contain the marker `mark`.
    pub(super) async fn start(
        shell: Program,
        command: &str,
        folder: Option<&Path>,
        variables: BTreeMap<OsString, OsString>,
        mark: String,
        sandbox: &Sandbox,
        life: Life,
    ) -> Result<Self, StartError> {
        let launch = Launch {
            program: shell,
            args: match life {
                Life::Call => vec!["-c".into(), command.into()],
                Life::Process => guarded(command, &mark),
            },
            folder: folder.map(Path::to_path_buf),
            variables,
            input: match life {
                Life::Call => Input::Empty,
                Life::Process => Input::Pipe,
            },
        };
        let descendants = Descendants::marked(mark);
        let started = sandbox.start(launch).await?;
        let mut shell = Self { started, descendants, guard: Guard::KillAll, lifeline: None };
        shell.open_gate(life).await;
        Ok(shell)
    }

    /// Lets a shell run that waits for a line of input. The pipe stays open for a command that may live as long as this
    /// process.
    async fn open_gate(&mut self, life: Life) {
        if let Some(mut gate) = self.started.child.stdin().take() {
            // An error means that the shell has ended, which `wait` reports.
            drop(gate.write_all(b"\n").await);
            if life == Life::Process {
                self.lifeline = Some(Box::new(gate));
            }
        }
    }

    /// Starts `bash -c command` in a new cgroup. The shell waits until it is in the group before it runs the command.
    #[cfg(target_os = "linux")]
    pub(super) async fn start_in_group(
        shell: Program,
        command: &str,
        folder: Option<&Path>,
        variables: BTreeMap<OsString, OsString>,
        mark: String,
        sandbox: &Sandbox,
        life: Life,
    ) -> Result<Self, BashError> {
        /// Waits for a line of input, then runs the command.
        const GATE: &str = "IFS= read -r _ && exec \"$BASH\" -c \"$1\" < /dev/null";
        let name = mark.clone();
        let group = blocking(move || Cgroup::new(&name)).await?;
        let launch = Launch {
            program: shell,
            args: match life {
                Life::Call => vec!["-c".into(), GATE.into(), "bash".into(), command.into()],
                Life::Process => guarded(command, &mark),
            },
            folder: folder.map(Path::to_path_buf),
            variables,
            input: Input::Pipe,
        };
        let descendants = Descendants { mark, group: Some(group) };
        let started = match sandbox.start(launch).await {
            Ok(started) => started,
            Err(error) => {
                drop(
                    blocking(move || {
                        descendants.kill();
                        Ok(())
                    })
                    .await,
                );
                return Err(error.into());
            }
        };
        let mut shell = Self { started, descendants, guard: Guard::KillAll, lifeline: None };
        if let (Some(group), Some(process)) = (shell.descendants.group.clone(), shell.started.child.id()) {
            blocking(move || group.add(process)).await?;
        }
        shell.open_gate(life).await;
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
        let descendants = std::mem::take(&mut self.descendants);
        drop(tokio::task::spawn_blocking(move || descendants.kill()).await);
        self.guard = Guard::Spare;
    }

    fn kill_group(&mut self) {
        // An error means that the group is empty.
        drop(self.started.child.start_kill());
    }

    /// Lets the background processes keep running.
    pub(super) fn keep_background(&mut self) {
        self.guard = Guard::Spare;
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        match self.guard {
            Guard::KillAll => {
                self.kill_group();
                let descendants = std::mem::take(&mut self.descendants);
                match tokio::runtime::Handle::try_current() {
                    // The task of a command in the background is dropped when its runtime shuts down, which then runs
                    // nothing more.
                    _ if self.lifeline.is_some() => descendants.kill(),
                    Ok(runtime) => drop(runtime.spawn_blocking(move || descendants.kill())),
                    Err(_) => descendants.kill(),
                }
            }
            Guard::Spare => {}
        }
    }
}

/// Returns the arguments of a shell that runs the command beside its guard.
fn guarded(command: &str, mark: &str) -> Vec<OsString> {
    vec!["-c".into(), lifeline::GUARDED.into(), "bash".into(), command.into(), mark.into()]
}

#[cfg(target_os = "linux")]
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, BashError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(BashError::Cgroup)
}
