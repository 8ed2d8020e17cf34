//! Sandboxes for child processes: none, Landlock, or bubblewrap.
//!
//! Commands of `bash` and MCP servers over stdio run with the permissions of this process unless they have a sandbox.
//! [`SandboxRules`] define what a child can read, write and connect to; [`Sandbox`] enforces them. If a sandbox is not
//! available, starting the child fails with a [`SandboxError`].
//!
//! | | [`Sandbox::none`] | [`Sandbox::landlock`] | [`Sandbox::bwrap`] |
//! |---|---|---|---|
//! | needs | nothing | Linux 6.2 with Landlock and seccomp | Linux, the program `bwrap`, user namespaces, seccomp |
//! | reads outside of the roots | pass | refused; names, sizes and owners can be seen | refused |
//! | writes outside of the roots | pass | refused | refused |
//! | changes of modes, owners, times and attributes outside | pass | **pass** | refused |
//! | [`Network::NoTcp`] | | refuses TCP, not UDP | own network |
//! | [`Network::Off`] | | refuses all sockets except connected pairs | own network |
//! | [`Network::Open`] | | TCP, UDP, ICMP, and no other family | TCP, UDP, ICMP, and no other family |
//! | services with a socket in the file system | pass | refused, unless [`UnixSockets::Allowed`] | only in the roots |
//! | set-uid and set-gid bits | pass | refused | refused |
//! | files of `/etc` that only root can read, as root | pass | refused | refused |
//! | other processes | seen, may be signalled and changed | seen; neither read nor changed; not signalled since Linux 6.12 | not there |
//! | keyring, `io_uring`, eBPF, namespaces, mounts, i386 and x32 calls | pass | refused | refused |
//! | programs with more rights (`sudo`) | run | without more rights | without more rights |
//!
//! Landlock and bubblewrap are completed by a filter of system calls (seccomp). The complete table, of which a test attempts every
//! cell, is in [docs/tools/bash.md](https://github.com/looptree/looptree/blob/main/docs/tools/bash.md#sandboxes).
//!
//! ```
//! use agent_tools::sandbox::{Network, Sandbox, SandboxRules};
//! use agent_tools::{BashTool, Workspace};
//!
//! let workspace = Workspace::open(std::env::temp_dir())?;
//! let rules = SandboxRules::for_workspace(&workspace).with_network(Network::NoTcp);
//! let bash = BashTool::new(workspace).with_sandbox(Sandbox::landlock(rules));
//! # let _ = bash;
//! # Ok::<(), agent_tools::PathError>(())
//! ```

#[cfg(target_os = "linux")]
mod bwrap;
#[cfg(target_os = "linux")]
mod child_thread;
mod error;
#[cfg(target_os = "linux")]
mod hidden;
#[cfg(target_os = "linux")]
mod inherited;
#[cfg(target_os = "linux")]
mod landlock_rules;
mod launch;
#[cfg(target_os = "linux")]
mod plan;
mod rules;
#[cfg(target_os = "linux")]
mod seccomp;
mod way;

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub use error::SandboxError;
pub use rules::{Network, SYSTEM_ROOTS, SandboxRules, TempFolder, UnixSockets};

pub(crate) use launch::{Input, Launch, StartError, Started};

#[cfg(feature = "mcp")]
use crate::program::SearchPath;
use crate::program::{Program, ProgramError};

/// A sandbox for child processes. Cloning is cheap.
#[derive(Debug, Clone, Default)]
pub struct Sandbox {
    kind: SandboxKind,
    rules: Arc<SandboxRules>,
    /// Bubblewrap, which is found when the sandbox is created: later a command may have written to a folder of `PATH`.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "bubblewrap is on Linux only"))]
    program: Option<Result<Program, ProgramError>>,
    /// The real paths of the roots at the first start.
    #[cfg(target_os = "linux")]
    roots: Arc<plan::Roots>,
    /// Set once the sandbox has been tested successfully.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "nothing works elsewhere"))]
    works: Arc<tokio::sync::OnceCell<()>>,
}

/// The kinds of sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum SandboxKind {
    /// No sandbox: a child has all permissions of this process. This is the default.
    #[default]
    None,
    /// Landlock, a part of the Linux kernel, with a filter of system calls: rules that a child cannot remove.
    Landlock,
    /// Bubblewrap: namespaces that contain only the roots.
    Bwrap,
}

impl SandboxKind {
    /// Returns the name of the kind: `none`, `landlock` or `bwrap`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Landlock => "landlock",
            Self::Bwrap => "bwrap",
        }
    }
}

impl fmt::Display for SandboxKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Sandbox {
    /// Creates no sandbox: a child has all permissions of this process.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Creates a Landlock sandbox. It needs no installed program. It does not restrict changes of modes, owners, times and
    /// extended attributes of files that the user owns.
    #[must_use]
    pub fn landlock(rules: SandboxRules) -> Self {
        Self { kind: SandboxKind::Landlock, rules: Arc::new(rules), ..Self::default() }
    }

    /// Creates a bubblewrap sandbox. A child has its own process namespace, and all processes that it started end with it. The
    /// program `bwrap` is looked up now, in the folders of `PATH` outside of the writable roots, and never again.
    #[must_use]
    pub fn bwrap(rules: SandboxRules) -> Self {
        let program = Some(rules.search_path().find("bwrap"));
        Self { kind: SandboxKind::Bwrap, rules: Arc::new(rules), program, ..Self::default() }
    }

    /// Sets the path of the `bwrap` program, which may also be in a folder that commands can write to.
    #[must_use]
    pub fn with_program(mut self, program: impl AsRef<Path>) -> Self {
        self.program = Some(Program::at(program));
        self.works = Arc::default();
        self
    }

    /// Returns the kind of the sandbox.
    #[must_use]
    pub fn kind(&self) -> SandboxKind {
        self.kind
    }

    /// Returns the rules, or `None` for [`Sandbox::none`].
    #[must_use]
    pub fn rules(&self) -> Option<&SandboxRules> {
        (self.kind != SandboxKind::None).then_some(&*self.rules)
    }

    /// Checks that bubblewrap is not in a folder that commands can write to.
    #[cfg(feature = "mcp")]
    pub(crate) fn check_program(&self, search: &SearchPath) -> Result<(), SandboxError> {
        match &self.program {
            Some(Ok(program)) => Ok(search.check(program)?),
            _ => Ok(()),
        }
    }

    /// Tests the sandbox with a program that does nothing.
    ///
    /// # Errors
    /// Returns the reason why the sandbox is not available on this machine.
    pub async fn check(&self) -> Result<(), SandboxError> {
        match self.kind {
            SandboxKind::None => Ok(()),
            SandboxKind::Landlock | SandboxKind::Bwrap => self.probe().await,
        }
    }

    /// Returns the description of `bash` for the model.
    pub(crate) fn bash_description(&self) -> &'static str {
        match (self.kind, self.rules.network()) {
            (SandboxKind::None, _) => {
                "Run a command with bash and get its exit code and output. Standard input is empty. Processes left in \
                 the background are ended with the command."
            }
            (_, Network::Open) => {
                "Run a command with bash and get its exit code and output. Standard input is empty. Processes left in \
                 the background are ended with the command. It runs in a sandbox: only some folders can be read and \
                 fewer written, the working folder among them; this cannot be changed."
            }
            (_, Network::NoTcp | Network::Off) => {
                "Run a command with bash and get its exit code and output. Standard input is empty. Processes left in \
                 the background are ended with the command. It runs in a sandbox: only some folders can be read and \
                 fewer written, the working folder among them, and there is no network; this cannot be changed."
            }
        }
    }
}
