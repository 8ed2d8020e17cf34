//! What holds a child of this process: nothing, Landlock, or bubblewrap.
//!
//! Commands of `bash` and MCP servers over stdio run with the rights of this process unless they are given a sandbox.
//! [`SandboxRules`] say what a child may read, write and reach; [`Sandbox`] says who sees to it. A sandbox that was asked
//! for and cannot be had is a [`SandboxError`], and the child is not started.
//!
//! | | [`Sandbox::none`] | [`Sandbox::landlock`] | [`Sandbox::bwrap`] |
//! |---|---|---|---|
//! | needs | nothing | Linux 6.2 with Landlock | Linux, the program `bwrap`, user namespaces |
//! | reads outside of the roots | yes | refused; names and sizes can be seen | not there |
//! | writes outside of the roots | yes | refused | refused or not there |
//! | TCP with [`Network::NoTcp`] | | refused (Linux 6.7) | no network at all |
//! | [`Network::Off`]: UDP and all else too | | an error: it cannot be held | no network at all |
//! | other processes | seen, may be signalled | seen, not read; not signalled since Linux 6.12 | not there |
//! | programs with more rights (`sudo`) | run | without more rights | without more rights |
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
mod error;
#[cfg(target_os = "linux")]
mod keeper;
#[cfg(target_os = "linux")]
mod landlocked;
mod launch;
#[cfg(target_os = "linux")]
mod plan;
mod rules;

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

pub use error::SandboxError;
pub use rules::{Network, SYSTEM_ROOTS, SandboxRules, TempFolder};

pub(crate) use launch::{Input, Launch, StartError, Started};

/// Who holds a child. A clone is cheap.
#[derive(Debug, Clone, Default)]
pub struct Sandbox {
    kind: SandboxKind,
    rules: Arc<SandboxRules>,
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "bubblewrap is on Linux only"))]
    program: Option<PathBuf>,
    /// Whether it was seen to work.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "nothing works elsewhere"))]
    works: Arc<tokio::sync::OnceCell<()>>,
}

/// The kinds of sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum SandboxKind {
    /// Nothing: a child can do all that this process can.
    #[default]
    None,
    /// Landlock, a part of the Linux kernel: file and TCP rules that a child cannot take off.
    Landlock,
    /// Bubblewrap: namespaces in which only the roots are there.
    Bwrap,
}

impl SandboxKind {
    /// `none`, `landlock`, `bwrap`.
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
    /// No sandbox: a child reads, writes and reaches all that this process can.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Landlock. Nothing needs to be installed. It holds TCP and no other network, so [`Network::Off`] is refused when a
    /// child is started.
    #[must_use]
    pub fn landlock(rules: SandboxRules) -> Self {
        Self { kind: SandboxKind::Landlock, rules: Arc::new(rules), ..Self::default() }
    }

    /// Bubblewrap, by the program `bwrap` that is found in `PATH`. A child has process ids of its own, and all that it
    /// started ends with it, in whatever session it is.
    #[must_use]
    pub fn bwrap(rules: SandboxRules) -> Self {
        Self { kind: SandboxKind::Bwrap, rules: Arc::new(rules), ..Self::default() }
    }

    /// This program in place of the `bwrap` in `PATH`.
    #[must_use]
    pub fn with_program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self.works = Arc::default();
        self
    }

    /// The strongest one that keeps these rules here: bubblewrap, else Landlock.
    ///
    /// # Errors
    /// When neither does, with the reason of each. It never answers with [`Sandbox::none`].
    pub async fn best(rules: SandboxRules) -> Result<Self, SandboxError> {
        let bwrap = Self::bwrap(rules.clone());
        let of_bwrap = match bwrap.check().await {
            Ok(()) => return Ok(bwrap),
            Err(error) => error,
        };
        let landlock = Self::landlock(rules);
        match landlock.check().await {
            Ok(()) => Ok(landlock),
            Err(of_landlock) => {
                Err(SandboxError::NoneWorks { bwrap: Box::new(of_bwrap), landlock: Box::new(of_landlock) })
            }
        }
    }

    /// Which kind it is.
    #[must_use]
    pub fn kind(&self) -> SandboxKind {
        self.kind
    }

    /// What it lets a child do; nothing is said by [`Sandbox::none`].
    #[must_use]
    pub fn rules(&self) -> Option<&SandboxRules> {
        (self.kind != SandboxKind::None).then_some(&*self.rules)
    }

    /// Tries it with a program that does nothing.
    ///
    /// # Errors
    /// Why a child cannot be held by it here.
    pub async fn check(&self) -> Result<(), SandboxError> {
        match self.kind {
            SandboxKind::None => Ok(()),
            SandboxKind::Landlock | SandboxKind::Bwrap => self.probe().await,
        }
    }

    /// What a model reads of a shell in it.
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
