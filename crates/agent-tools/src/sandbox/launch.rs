//! Starts a child process, confined or not.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};

use super::{Sandbox, SandboxError, SandboxKind};
use crate::program::{Program, ProgramError};

/// The program to start. It does not implement `Debug`, because its environment may contain secrets.
pub(crate) struct Launch {
    pub(crate) program: Program,
    pub(crate) args: Vec<OsString>,
    pub(crate) folder: Option<PathBuf>,
    /// The whole environment.
    pub(crate) variables: BTreeMap<OsString, OsString>,
    pub(crate) input: Input,
}

/// The standard input of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// Empty input.
    Empty,
    /// A pipe to which the caller writes.
    Pipe,
}

/// A child in its own process group. Its outputs are pipes.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) child: Box<dyn ChildWrapper>,
    /// Dropped after the child, which removes the rest of the sandbox.
    #[cfg(target_os = "linux")]
    _thread: Option<super::child_thread::ChildThread>,
}

/// The reason why a child did not start.
#[derive(Debug)]
pub(crate) enum StartError {
    Sandbox(SandboxError),
    Spawn(io::Error),
}

impl From<SandboxError> for StartError {
    fn from(error: SandboxError) -> Self {
        Self::Sandbox(error)
    }
}

impl From<ProgramError> for StartError {
    fn from(error: ProgramError) -> Self {
        Self::Spawn(error.into())
    }
}

impl Launch {
    /// Starts the program from the calling thread, whose restrictions it inherits. Must be called inside of a runtime.
    pub(crate) fn spawn(self) -> io::Result<Box<dyn ChildWrapper>> {
        self.spawn_after(|_| ())
    }

    /// Starts the program with one more descriptor, which has the same number in the child.
    #[cfg(target_os = "linux")]
    pub(super) fn spawn_with(self, descriptor: std::os::fd::OwnedFd) -> io::Result<Box<dyn ChildWrapper>> {
        use command_fds::CommandFdExt as _;

        self.spawn_after(|command| {
            command.preserved_fds(vec![descriptor]);
        })
    }

    fn spawn_after(
        self,
        prepare: impl FnOnce(&mut tokio::process::Command),
    ) -> io::Result<Box<dyn ChildWrapper>> {
        let mut command = tokio::process::Command::from(self.program.command()?);
        command.args(&self.args);
        command.stdin(match self.input {
            Input::Empty => Stdio::null(),
            Input::Pipe => Stdio::piped(),
        });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env_clear().envs(&self.variables);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        prepare(&mut command);
        let mut wrap = CommandWrap::from(command);
        wrap.wrap(KillOnDrop);
        #[cfg(unix)]
        wrap.wrap(process_wrap::tokio::ProcessGroup::leader());
        wrap.spawn()
    }
}

impl Sandbox {
    /// Starts a child in this sandbox, or returns an error without starting it.
    pub(crate) async fn start(&self, launch: Launch) -> Result<Started, StartError> {
        match self.kind {
            SandboxKind::None => {
                let child = launch.spawn().map_err(StartError::Spawn)?;
                Ok(Started {
                    child,
                    #[cfg(target_os = "linux")]
                    _thread: None,
                })
            }
            SandboxKind::Landlock | SandboxKind::Bwrap => self.start_held(launch).await,
        }
    }

    #[cfg(not(target_os = "linux"))]
    async fn start_held(&self, _: Launch) -> Result<Started, StartError> {
        self.probe().await?;
        Err(SandboxError::NotHere { kind: self.kind }.into())
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) async fn probe(&self) -> Result<(), SandboxError> {
        Err(SandboxError::NotHere { kind: self.kind })
    }
}

#[cfg(target_os = "linux")]
mod held {
    use super::super::SandboxKind;
    use super::super::child_thread::ChildThread;
    use super::{Input, Launch, Sandbox, SandboxError, StartError, Started};
    use crate::environment;

    impl Sandbox {
        pub(super) async fn start_held(&self, launch: Launch) -> Result<Started, StartError> {
            if self.kind == SandboxKind::Bwrap {
                // An error text of bubblewrap cannot be distinguished from the output of a command, so bubblewrap is
                // tested first.
                self.probe().await?;
            }
            self.start_unchecked(launch).await
        }

        async fn start_unchecked(&self, launch: Launch) -> Result<Started, StartError> {
            let (child, thread) = ChildThread::start(self.clone(), launch).await?;
            Ok(Started { child, _thread: Some(thread) })
        }

        /// Tests the sandbox with a program that does nothing, until this has succeeded once.
        pub(in super::super) async fn probe(&self) -> Result<(), SandboxError> {
            self.works.get_or_try_init(|| self.try_out()).await.copied()
        }

        async fn try_out(&self) -> Result<(), SandboxError> {
            self.bubblewrap()?;
            let launch = Launch {
                program: self.rules.search_path().find("true")?,
                args: Vec::new(),
                folder: Some("/".into()),
                variables: environment::of_command(&[], &std::collections::BTreeMap::new()),
                input: Input::Empty,
            };
            let started = match self.start_unchecked(launch).await {
                Ok(started) => started,
                Err(StartError::Sandbox(error)) => return Err(error),
                Err(StartError::Spawn(error)) => return Err(SandboxError::SetUp(error)),
            };
            super::super::child_thread::outcome_of_probe(self.kind, started).await
        }
    }
}
