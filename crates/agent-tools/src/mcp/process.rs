//! The child process of a server: its process group, its pipes and its end.

use std::ffi::OsStr;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{oneshot, watch};

use super::server::StdioTransport;
use super::start_folder;
use super::stderr::Tail;
use crate::bash::marker;
use crate::environment;
#[cfg(unix)]
use crate::lifeline::Lifeline;
use crate::sandbox::{Input, Launch, SandboxKind, StartError, Started};

/// The time that a server has to end by itself after its input is closed.
const EOF_GRACE: Duration = Duration::from_secs(2);

/// The time that the process has to end after the request to end.
#[cfg(unix)]
const TERM_GRACE: Duration = Duration::from_millis(500);

/// The time to wait for the end of a killed process and of its pipes. Only a process that is stuck in the kernel takes
/// longer.
const KILL_GRACE: Duration = Duration::from_millis(500);

/// The time to wait for the end of a child whose pipe is closed. It covers the search for the processes that the child has
/// started, the end of its error output, and as much for the child itself.
const EXIT_WAIT: Duration = marker::MAX_TIME.saturating_add(KILL_GRACE.saturating_mul(2));

/// A running child. Dropping it ends the child in the background, and its whole process group with it.
#[derive(Debug)]
pub(super) struct Process {
    stop: Option<oneshot::Sender<()>>,
    ended: watch::Receiver<Option<String>>,
    stderr: Tail,
    id: Option<u32>,
}

impl Process {
    /// Starts the child and returns its pipes for messages.
    pub(super) async fn start(
        spec: &StdioTransport,
        stderr: Tail,
    ) -> Result<(Self, ChildStdin, ChildStdout), StartError> {
        let mut variables = environment::of_command(&spec.inherited, &spec.env);
        let mark = random_mark();
        marker::add(&mut variables, &mark);
        let search = spec.search_path(variables.get(OsStr::new("PATH")));
        variables.insert("PATH".into(), search.variable());
        spec.sandbox.check_program(&search)?;
        let private = match (&spec.folder, spec.sandbox.kind()) {
            (None, SandboxKind::None) => Some(start_folder::create(&search).map_err(StartError::Spawn)?),
            _ => None,
        };
        let folder = private.as_ref().map(|folder| folder.path().to_path_buf());
        let launch = Launch {
            program: spec.program(&search)?,
            args: spec.args.clone(),
            folder: spec.folder.clone().or(folder).or_else(|| Some("/".into())),
            variables,
            input: Input::Pipe,
        };
        #[cfg(unix)]
        let lifeline = Lifeline::new(&mark, None).map_err(StartError::Spawn)?;
        let mut family = Family {
            started: spec.sandbox.start(launch).await?,
            mark,
            ended: false,
            private,
            #[cfg(unix)]
            lifeline,
        };
        #[cfg(unix)]
        family.lifeline.tie_group(family.started.child.id());
        let missing = || StartError::Spawn(io::Error::other("the child has no pipe"));
        let stdin = family.started.child.stdin().take().ok_or_else(missing)?;
        let stdout = family.started.child.stdout().take().ok_or_else(missing)?;
        let pipe = family.started.child.stderr().take().ok_or_else(missing)?;
        let id = family.started.child.id();
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = watch::channel(None);
        let log = stderr.clone();
        tokio::spawn(async move {
            let reading = tokio::spawn(async move { log.follow(pipe).await });
            let status = family.live(stopped).await;
            // All writers are dead, so the pipe ends now, unless a process has left the group.
            drop(tokio::time::timeout(KILL_GRACE, reading).await);
            end.send_replace(Some(exit_text(status)));
        });
        Ok((Self { stop: Some(stop), ended, stderr, id }, stdin, stdout))
    }

    /// Returns the process id while the child is running.
    pub(super) fn id(&self) -> Option<u32> {
        self.id.filter(|_| !self.has_ended())
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// Returns how the child ended. Waits for its end, because a closed pipe is noticed before it; `None` if it does not end.
    pub(super) async fn exit(&self) -> Option<String> {
        let mut ended = self.ended.clone();
        let end = tokio::time::timeout(EXIT_WAIT, ended.wait_for(Option::is_some)).await;
        end.ok().and_then(Result::ok).and_then(|exit| exit.clone())
    }

    pub(super) fn stderr(&self) -> &Tail {
        &self.stderr
    }

    /// Ends the child and waits until its whole process group has ended. Its input should be closed before.
    pub(super) async fn stop(&mut self) {
        drop(self.stop.take());
        // An error means that the task, and the child with it, has ended.
        drop(self.ended.wait_for(Option::is_some).await);
    }
}

/// The child and all processes that it started.
#[derive(Debug)]
struct Family {
    started: Started,
    mark: String,
    /// Whether all of these processes have ended.
    ended: bool,
    /// The folder in which the child started.
    private: Option<TempDir>,
    /// Ends all of them when this process is killed.
    #[cfg(unix)]
    lifeline: Lifeline,
}

impl Family {
    /// Waits until the child ends or is stopped. Afterwards no process of its group is left.
    async fn live(&mut self, stopped: oneshot::Receiver<()>) -> Option<ExitStatus> {
        let by_itself = tokio::select! {
            status = self.wait() => Some(status),
            // The sender is dropped without a message.
            _ = stopped => None,
        };
        let status = match by_itself {
            Some(status) => status,
            None => self.stop().await,
        };
        self.kill();
        let mark = self.mark.clone();
        let private = self.private.take();
        let clean_up = move || {
            marker::kill_all(&mark);
            drop(private);
        };
        drop(tokio::task::spawn_blocking(clean_up).await);
        self.ended = true;
        match status {
            Some(status) => Some(status),
            None => tokio::time::timeout(KILL_GRACE, self.wait()).await.ok().flatten(),
        }
    }

    /// Waits for the child itself, not for processes that it started.
    async fn wait(&mut self) -> Option<ExitStatus> {
        self.started.child.inner_mut().wait().await.ok()
    }

    /// Gives the child time to end by itself, then sends SIGTERM.
    async fn stop(&mut self) -> Option<ExitStatus> {
        if let Ok(status) = tokio::time::timeout(EOF_GRACE, self.wait()).await {
            return status;
        }
        #[cfg(unix)]
        {
            /// The number is the same on every Unix.
            const SIGTERM: i32 = 15;
            if self.started.child.signal(SIGTERM).is_ok()
                && let Ok(status) = tokio::time::timeout(TERM_GRACE, self.wait()).await
            {
                return status;
            }
        }
        None
    }

    fn kill(&mut self) {
        // An error means that the group has no process left.
        drop(self.started.child.start_kill());
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        if !self.ended {
            self.kill();
            marker::kill_all(&self.mark);
        }
    }
}

/// Returns a random name that no other process has.
fn random_mark() -> String {
    use std::hash::{BuildHasher as _, Hasher as _, RandomState};
    let word = || RandomState::new().build_hasher().finish();
    format!("mcp-{}-{:016x}{:016x}", std::process::id(), word(), word())
}

/// Describes how a process ended.
fn exit_text(status: Option<ExitStatus>) -> String {
    let Some(status) = status else { return "it was killed".to_owned() };
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("it was ended by signal {signal}");
    }
    match status.code() {
        Some(code) => format!("it exited with code {code}"),
        None => "it ended".to_owned(),
    }
}
