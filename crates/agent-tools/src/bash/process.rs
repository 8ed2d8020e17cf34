//! The shell and all that it started.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::process::{ChildStderr, ChildStdout};

use super::strays;
#[cfg(target_os = "linux")]
use super::{BashError, cgroup::Cgroup};
use crate::sandbox::{Input, Launch, Sandbox, StartError, Started};

/// How long processes have to end by themselves when they are told to. Short: an aborted call must answer before the
/// agent stops waiting for it.
#[cfg(unix)]
const TERM_GRACE: Duration = Duration::from_millis(100);

/// How long the shell is waited for after it was killed; only a process stuck in the kernel takes longer.
const KILL_GRACE: Duration = Duration::from_millis(200);

/// A running shell. Dropping it kills its whole process group.
#[derive(Debug)]
pub(super) struct Shell {
    started: Started,
    leavings: Leavings,
    guard: Guard,
}

/// How what a command started is found, wherever it went.
#[derive(Debug, Default)]
struct Leavings {
    mark: String,
    #[cfg(target_os = "linux")]
    group: Option<super::cgroup::Cgroup>,
}

impl Leavings {
    fn known_by(mark: String) -> Self {
        Self {
            mark,
            #[cfg(target_os = "linux")]
            group: None,
        }
    }

    /// Blocks for some milliseconds.
    fn end(&self) {
        #[cfg(target_os = "linux")]
        if let Some(group) = &self.group {
            group.end();
        }
        strays::end(&self.mark);
    }
}

/// Who may live on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guard {
    /// Nobody.
    KillAll,
    /// All that is left.
    Spare,
}

impl Shell {
    /// Starts `bash -c command`. The variables hold the mark by which its strays are known.
    pub(super) async fn start(
        command: &str,
        folder: Option<&Path>,
        variables: BTreeMap<OsString, OsString>,
        mark: String,
        sandbox: &Sandbox,
    ) -> Result<Self, StartError> {
        let launch = Launch {
            program: "bash".into(),
            args: vec!["-c".into(), command.into()],
            folder: folder.map(Path::to_path_buf),
            variables,
            input: Input::Empty,
        };
        let leavings = Leavings::known_by(mark);
        Ok(Self { started: sandbox.start(launch).await?, leavings, guard: Guard::KillAll })
    }

    /// The same in a cgroup of its own. The shell waits until it is in there, so that nothing is started outside.
    #[cfg(target_os = "linux")]
    pub(super) async fn start_in_group(
        command: &str,
        folder: Option<&Path>,
        variables: BTreeMap<OsString, OsString>,
        mark: String,
        sandbox: &Sandbox,
    ) -> Result<Self, BashError> {
        use tokio::io::AsyncWriteExt as _;

        /// Waits for a line, then becomes the shell that it was to be.
        const GATE: &str = "IFS= read -r _ && exec bash -c \"$1\" < /dev/null";
        let name = mark.clone();
        let group = blocking(move || Cgroup::new(&name)).await?;
        let launch = Launch {
            program: "bash".into(),
            args: vec!["-c".into(), GATE.into(), "bash".into(), command.into()],
            folder: folder.map(Path::to_path_buf),
            variables,
            input: Input::Pipe,
        };
        let leavings = Leavings { mark, group: Some(group) };
        let started = match sandbox.start(launch).await {
            Ok(started) => started,
            Err(error) => {
                drop(
                    blocking(move || {
                        leavings.end();
                        Ok(())
                    })
                    .await,
                );
                return Err(error.into());
            }
        };
        let mut shell = Self { started, leavings, guard: Guard::KillAll };
        if let (Some(group), Some(process)) = (shell.leavings.group.clone(), shell.started.child.id()) {
            blocking(move || group.take(process)).await?;
        }
        if let Some(mut gate) = shell.started.child.stdin().take() {
            // An error says that the shell is dead, which is seen by whoever waits for it.
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

    /// Waits for the shell itself, not for what it left in the background.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        // The wait of the group would wait for orphans too, where this process is the one that inherits them.
        self.started.child.inner_mut().wait().await
    }

    /// Asks the whole group to end, and ends it.
    pub(super) async fn stop(&mut self) {
        #[cfg(unix)]
        {
            /// The same number on every Unix.
            const SIGTERM: i32 = 15;
            if self.started.child.signal(SIGTERM).is_ok() {
                // The shell may be gone before; others of the group then have no more time.
                drop(tokio::time::timeout(TERM_GRACE, self.wait()).await);
            }
        }
        self.kill().await;
        // Only to leave no dead process behind; the answer does not depend on it.
        drop(tokio::time::timeout(KILL_GRACE, self.wait()).await);
    }

    /// Kills the whole group at once, then those who left it.
    pub(super) async fn kill(&mut self) {
        self.kill_group();
        let leavings = std::mem::take(&mut self.leavings);
        drop(tokio::task::spawn_blocking(move || leavings.end()).await);
        self.guard = Guard::Spare;
    }

    fn kill_group(&mut self) {
        // An error says that nobody is left in it.
        drop(self.started.child.start_kill());
    }

    /// Lets what is left in the background go on.
    pub(super) fn spare_the_rest(&mut self) {
        self.guard = Guard::Spare;
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        match self.guard {
            Guard::KillAll => {
                self.kill_group();
                let leavings = std::mem::take(&mut self.leavings);
                match tokio::runtime::Handle::try_current() {
                    Ok(runtime) => drop(runtime.spawn_blocking(move || leavings.end())),
                    Err(_) => leavings.end(),
                }
            }
            Guard::Spare => {}
        }
    }
}

#[cfg(target_os = "linux")]
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, BashError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(BashError::Cgroup)
}
