//! The thread that starts each confined child.
//!
//! Landlock restricts a thread and the processes that it starts, so each child is started from its own thread and no
//! other thread of this process is restricted. Bubblewrap ends its children when the thread that started it ends, so
//! that thread must live as long as the child, which the workers of a runtime do not guarantee. The thread also removes
//! the child's temporary folder after its end, so that no async worker is blocked.

use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use process_wrap::tokio::ChildWrapper;
use tokio::io::AsyncReadExt as _;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::launch::{Launch, StartError, Started};
use super::plan::{Grant, Plan};
use super::seccomp::{self, Beside};
use super::{Sandbox, SandboxError, SandboxKind, bwrap, inherited, landlock_rules};
use crate::program::{Program, ProgramError};

/// The maximum duration of the test program.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);

/// The maximum size of the error output of bubblewrap.
const PROBE_TEXT_BYTES: u64 = 1024;

/// The number of attempts to remove a temporary folder. Killed processes may need a moment to end.
const REMOVALS: usize = 20;

/// The delay between two attempts.
const REMOVAL_PAUSE: Duration = Duration::from_millis(50);

/// Keeps the thread alive. When it is dropped, the thread cleans up and ends.
#[derive(Debug)]
pub(super) struct ChildThread {
    _release: mpsc::Sender<()>,
}

impl ChildThread {
    /// Starts a confined child, or returns an error without starting it.
    pub(super) async fn start(
        sandbox: Sandbox,
        launch: Launch,
    ) -> Result<(Box<dyn ChildWrapper>, Self), StartError> {
        let set_up = |error| StartError::Sandbox(SandboxError::SetUp(error));
        let runtime = Handle::try_current().map_err(|error| set_up(io::Error::other(error)))?;
        let (tell, told) = oneshot::channel();
        let (release, released) = mpsc::channel();
        std::thread::Builder::new()
            .name("looptree-child".to_owned())
            .spawn(move || keep(&sandbox, launch, &runtime, tell, &released))
            .map_err(set_up)?;
        let child = told.await.map_err(|_| set_up(io::Error::other("the thread of the child ended")))??;
        Ok((child, Self { _release: release }))
    }
}

type Begun = Result<Box<dyn ChildWrapper>, StartError>;

fn keep(
    sandbox: &Sandbox,
    launch: Launch,
    runtime: &Handle,
    tell: oneshot::Sender<Begun>,
    released: &mpsc::Receiver<()>,
) {
    let _inside = runtime.enter();
    let folder = launch.folder.clone();
    let mut plan = match Plan::new(&sandbox.rules, folder.as_deref(), &sandbox.roots) {
        Ok(plan) => plan,
        Err(error) => return drop(tell.send(Err(error.into()))),
    };
    match tell.send(begin(sandbox, &plan, launch, runtime)) {
        // The sender is dropped without a message.
        Ok(()) => drop(released.recv()),
        // The caller that requested the child has gone.
        Err(Ok(mut child)) => drop(child.start_kill()),
        Err(Err(_)) => {}
    }
    if let Some(private) = plan.private.take() {
        remove(private);
    }
}

fn begin(sandbox: &Sandbox, plan: &Plan, mut launch: Launch, runtime: &Handle) -> Begun {
    inherited::close(&mut launch, &sandbox.rules)?;
    match sandbox.bubblewrap()? {
        None => {
            if let Some(private) = &plan.private {
                at_home(&mut launch, plan, private.path());
            }
            let restricted = || -> Begun {
                let _inside = runtime.enter();
                landlock_rules::restrict(plan)?;
                launch.spawn().map_err(StartError::Spawn)
            };
            std::thread::scope(|scope| {
                let thread = std::thread::Builder::new().name("looptree-landlock".to_owned());
                let thread = thread.spawn_scoped(scope, restricted).map_err(SandboxError::SetUp)?;
                thread.join().unwrap_or_else(|_| {
                    let text = "the thread that Landlock restricts panicked";
                    Err(SandboxError::SetUp(io::Error::other(text)).into())
                })
            })
        }
        Some(program) => {
            if plan.private.is_some() {
                at_home(&mut launch, plan, Path::new(bwrap::TEMP));
            }
            let inner = std::mem::replace(&mut launch.program, program.clone());
            inner.check().map_err(SandboxError::from)?;
            let filter = seccomp::file(Beside::Bwrap, plan.network)?;
            let mut args = bwrap::arguments(plan, filter.as_raw_fd());
            args.push(inner.path().into());
            args.append(&mut launch.args);
            launch.args = args;
            launch.spawn_with(filter).map_err(StartError::Spawn)
        }
    }
}

impl Sandbox {
    /// Returns the program of bubblewrap, or `None` for Landlock.
    pub(super) fn bubblewrap(&self) -> Result<Option<&Program>, SandboxError> {
        match &self.program {
            None => Ok(None),
            Some(Ok(program)) => {
                program.check()?;
                Ok(Some(program))
            }
            Some(Err(ProgramError::NotFound { .. })) => Err(SandboxError::NoBwrap),
            Some(Err(error)) => Err(error.clone().into()),
        }
    }
}

/// Sets `TMPDIR` to the child's private folder, and `HOME` as well if the child cannot read the home folder.
fn at_home(launch: &mut Launch, plan: &Plan, private: &Path) {
    launch.variables.insert("TMPDIR".into(), private.into());
    let reachable = launch.variables.get(std::ffi::OsStr::new("HOME")).is_some_and(|home| {
        std::fs::canonicalize(home)
            .is_ok_and(|home| matches!(plan.grant_of(&home), Some(Grant::Read | Grant::Write)))
    });
    if !reachable {
        launch.variables.insert("HOME".into(), private.into());
    }
}

fn remove(private: tempfile::TempDir) {
    let folder = private.keep();
    for _ in 0..REMOVALS {
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => std::thread::sleep(REMOVAL_PAUSE),
            _ => return,
        }
    }
}

/// Returns the result of a program that does nothing.
pub(super) async fn outcome_of_probe(kind: SandboxKind, started: Started) -> Result<(), SandboxError> {
    let mut started = started;
    let mut said = Vec::new();
    let work = async {
        if let Some(pipe) = started.child.stderr().take() {
            pipe.take(PROBE_TEXT_BYTES).read_to_end(&mut said).await?;
        }
        started.child.inner_mut().wait().await
    };
    let how = match tokio::time::timeout(PROBE_TIMEOUT, work).await {
        Ok(Ok(status)) if status.success() => return Ok(()),
        Ok(Ok(status)) => status.to_string(),
        Ok(Err(error)) => return Err(SandboxError::SetUp(error)),
        Err(_) => format!("no answer in {} s", PROBE_TIMEOUT.as_secs()),
    };
    let text = String::from_utf8_lossy(&said).trim().to_owned();
    Err(match kind {
        SandboxKind::Bwrap => SandboxError::BwrapFails { how, text },
        SandboxKind::None | SandboxKind::Landlock => {
            SandboxError::SetUp(io::Error::other(format!("`true` did not work in it ({how}): {text}")))
        }
    })
}

#[cfg(test)]
mod tests;
