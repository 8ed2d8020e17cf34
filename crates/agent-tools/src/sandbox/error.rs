//! The errors of sandboxes.

use std::io;
use std::path::PathBuf;

use crate::program::ProgramError;

/// The reason why a sandbox is not available. The child was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The sandbox is available only on Linux.
    #[error("the sandbox `{kind}` needs Linux; use a container here, or no sandbox")]
    NotHere {
        /// The kind of sandbox.
        kind: super::SandboxKind,
    },
    /// The kernel has no Landlock, or a version that is too old for these rules.
    #[error(
        "the sandbox `landlock` cannot keep these rules on this kernel: {source}; it needs Linux 6.2, and Landlock must be switched on (`lsm=landlock,...`)"
    )]
    Landlock {
        /// The error of the kernel or the library.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The kernel enforces only a part of the rules.
    #[error("the sandbox `landlock` was not fully put in force by this kernel")]
    NotEnforced,
    /// The filter of system calls cannot be built or installed.
    #[error(
        "the sandbox cannot filter system calls here: {source}; it needs a kernel with seccomp filters, on x86_64, aarch64 or riscv64"
    )]
    Seccomp {
        /// The error of the kernel or the library.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The rules have a read-only root inside of a writable one, which Landlock does not support.
    #[error("the sandbox `landlock` cannot keep {} read-only inside of {}, which may be written; use the sandbox `bwrap`, or give roots that do not lie in each other", .read.display(), .write.display())]
    ReadOnlyInside {
        /// The root that should only be read.
        read: PathBuf,
        /// The root around it.
        write: PathBuf,
    },
    /// A root does not exist or cannot be resolved.
    #[error("the root {} of the sandbox cannot be used: {source}; it must exist", .path.display())]
    Root {
        /// The configured path of the root.
        path: PathBuf,
        /// The underlying I/O error.
        source: io::Error,
    },
    /// The working folder of the child is in none of the roots.
    #[error("the folder {} is in no root of the sandbox; add it with `with_write_root` or `with_read_root`", .folder.display())]
    FolderOutside {
        /// The folder that is refused.
        folder: PathBuf,
    },
    /// A command could exchange a link on the way to a path that it must not change.
    #[error(
        "the way to {} leads over the link {}, which commands could exchange, because they can write to its folder; \
         name the path that the link leads to, or start in another directory", .path.display(), .link.display()
    )]
    LinkInside {
        /// The path that was configured.
        path: PathBuf,
        /// The first such link on the way.
        link: PathBuf,
    },
    /// A root led to another place when the sandbox was used for the first time.
    #[error("the root {} of the sandbox led to {} at first, and now to {}; a command may have changed it. Restore it, or create the sandbox again", .path.display(), .first.display(), .now.display())]
    RootMoved {
        /// The configured path of the root.
        path: PathBuf,
        /// The real path at the first start.
        first: PathBuf,
        /// The real path now.
        now: PathBuf,
    },
    /// The program `bwrap` is not installed.
    #[error("the sandbox `bwrap` needs the program bwrap, and there is none in PATH; install bubblewrap")]
    NoBwrap,
    /// A program that the sandbox needs cannot be used: it is in a folder that commands can write to, or was replaced.
    #[error("the sandbox cannot be used: {0}")]
    Program(#[source] crate::program::ProgramError),
    /// Bubblewrap is installed but failed in a test.
    #[error(
        "the sandbox `bwrap` does not work here ({how}): {text}; it needs user namespaces that this account may make"
    )]
    BwrapFails {
        /// The exit status of the program.
        how: String,
        /// The error output, truncated to 1 KiB.
        text: String,
    },
    /// A thread or a temporary folder could not be created.
    #[error("the sandbox cannot be set up: {0}")]
    SetUp(#[source] io::Error),
}

impl From<ProgramError> for SandboxError {
    fn from(error: ProgramError) -> Self {
        Self::Program(error)
    }
}
