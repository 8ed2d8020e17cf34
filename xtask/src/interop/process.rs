//! A third-party process in its own process group. Its output goes to a file, and dropping the handle ends it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::process::{Child, ChildStdin, Command};

/// How much of what a process printed is shown when it failed.
const SHOWN_LINES: usize = 12;

/// How long a process that was killed may take to be gone.
const GONE: Duration = Duration::from_secs(10);

/// A running process and those that it has started.
#[derive(Debug)]
pub(super) struct Process {
    name: String,
    child: Child,
    /// Apart from the child, which closes its own when it is waited for.
    input: Option<ChildStdin>,
    group: Option<u32>,
    log: PathBuf,
}

impl Process {
    /// Starts it. What it prints goes to the file `log`, its standard input stays open as long as this is there.
    pub(super) fn start(name: &str, mut command: Command, log: &Path) -> anyhow::Result<Self> {
        let folder = log.parent().context("a log has a folder")?;
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let too = file.try_clone().with_context(|| format!("cannot write {}", log.display()))?;
        #[cfg(unix)]
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(file).stderr(too).kill_on_drop(true);
        let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let (group, input) = (child.id(), child.stdin.take());
        Ok(Self { name: name.to_owned(), child, input, group, log: log.to_path_buf() })
    }

    /// Waits until it ends by itself.
    pub(super) async fn done(mut self, patience: Duration) -> anyhow::Result<(ExitStatus, String)> {
        drop(self.input.take());
        let Ok(status) = tokio::time::timeout(patience, self.child.wait()).await else {
            bail!("{} did not end within {} s", self.name, patience.as_secs());
        };
        Ok((status.with_context(|| format!("{} was lost", self.name))?, self.printed()))
    }

    /// Waits until `ready` returns true.
    ///
    /// # Errors
    /// When the process ends before that, or is not ready in time: with the last lines that it printed.
    pub(super) async fn ready<F>(&mut self, patience: Duration, ready: impl Fn() -> F) -> anyhow::Result<()>
    where
        F: Future<Output = bool>,
    {
        let asked = async {
            while !ready().await {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let why = tokio::select! {
            () = asked => return Ok(()),
            ended = self.child.wait() => format!("ended at once ({})", ended.context("a process was lost")?),
            () = tokio::time::sleep(patience) => format!("was not ready within {} s", patience.as_secs()),
        };
        bail!("{} {why}; the last lines of {}:\n{}", self.name, self.log.display(), self.last_lines())
    }

    /// What it printed so far.
    fn printed(&self) -> String {
        std::fs::read(&self.log).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
    }

    /// The last lines that it printed.
    pub(super) fn last_lines(&self) -> String {
        last_lines(&self.printed())
    }

    /// Ends it and everything that it has started, and waits until it is gone.
    pub(super) async fn end(mut self) -> anyhow::Result<()> {
        self.kill();
        let gone = tokio::time::timeout(GONE, self.child.wait()).await;
        gone.with_context(|| format!("{} does not end", self.name))?.map(|_| ()).context("a process was lost")
    }

    fn kill(&mut self) {
        #[cfg(unix)]
        if let Some(group) = self.group.take().and_then(|g| rustix::process::Pid::from_raw(g.cast_signed())) {
            // It may be gone already, with its group.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.start_kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The last lines of a text, as they are shown.
pub(super) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    lines.iter().skip(lines.len().saturating_sub(SHOWN_LINES)).map(|l| format!("  | {l}\n")).collect()
}

/// Returns when this program receives a signal to end.
pub(super) async fn asked_to_end() -> anyhow::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).context("cannot listen for signals");
        let (mut interrupt, mut terminate) =
            (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        let mut hangup = listen(SignalKind::hangup())?;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await.context("cannot listen for signals")?;
    Ok(())
}
