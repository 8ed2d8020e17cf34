//! What a child may read, write and reach.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::Workspace;

/// The folders of programs, libraries and settings that a child may read unless told otherwise, where they exist.
/// Homes, `/var`, `/run` and `/srv` are not among them.
pub const SYSTEM_ROOTS: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix/store"];

/// The network access of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Network {
    /// Nothing: neither TCP nor UDP nor anything else, and no service of this machine. Only bubblewrap can hold this.
    #[default]
    Off,
    /// No TCP. Under Landlock all else is open: UDP (and with it names by DNS), ICMP, and sockets in the file system.
    /// Under bubblewrap it means [`Network::Off`].
    NoTcp,
    /// All that this process reaches.
    Open,
}

/// Where a child puts what is of no use after its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TempFolder {
    /// A new empty folder for each child, removed after its end. `TMPDIR` names it, and so does `HOME` where the home
    /// cannot be read. Under bubblewrap it is `/tmp`.
    #[default]
    Private,
    /// The folder for temporary files that all programs share, with its contents.
    Shared,
    /// The child has no temporary folder.
    None,
}

/// The permissions of a child. Everything else is denied.
///
/// ```
/// use agent_tools::sandbox::{Network, SandboxRules};
/// let rules = SandboxRules::new()
///     .with_write_root("/srv/repository")
///     .with_read_root("/home/me/.cargo/registry")
///     .with_network(Network::Open);
/// assert_eq!(rules.network(), Network::Open);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxRules {
    read: BTreeSet<PathBuf>,
    write: BTreeSet<PathBuf>,
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "sandboxes are on Linux only"))]
    system: SystemRoots,
    network: Network,
    temp: TempFolder,
}

/// Whether the system folders are readable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SystemRoots {
    Readable,
    Hidden,
}

impl Default for SandboxRules {
    fn default() -> Self {
        Self {
            read: BTreeSet::new(),
            write: BTreeSet::new(),
            system: SystemRoots::Readable,
            network: Network::default(),
            temp: TempFolder::default(),
        }
    }
}

impl SandboxRules {
    /// [`SYSTEM_ROOTS`] can be read, nothing but a temporary folder can be written, and there is no network.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates rules that allow writing to the root of this workspace. An unconfined workspace has no root; add roots
    /// by hand.
    #[must_use]
    pub fn for_workspace(workspace: &Workspace) -> Self {
        match workspace.root() {
            Some(root) => Self::new().with_write_root(root),
            None => Self::new(),
        }
    }

    /// A file, or a folder with all that is below it, that can be read and run. `/` stands for everything. It must exist.
    #[must_use]
    pub fn with_read_root(mut self, root: impl Into<PathBuf>) -> Self {
        self.read.insert(root.into());
        self
    }

    /// A file, or a folder with all that is below it, that can be read, run and changed. It must exist.
    #[must_use]
    pub fn with_write_root(mut self, root: impl Into<PathBuf>) -> Self {
        self.write.insert(root.into());
        self
    }

    /// Leaves out [`SYSTEM_ROOTS`]. Then programs and their libraries must lie in roots of the caller.
    #[must_use]
    pub fn without_system_roots(mut self) -> Self {
        self.system = SystemRoots::Hidden;
        self
    }

    /// The network access of the child.
    #[must_use]
    pub fn with_network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// Where it puts temporary files.
    #[must_use]
    pub fn with_temp(mut self, temp: TempFolder) -> Self {
        self.temp = temp;
        self
    }

    /// The network access of the child.
    #[must_use]
    pub fn network(&self) -> Network {
        self.network
    }

    /// Where it puts temporary files.
    #[must_use]
    pub fn temp(&self) -> TempFolder {
        self.temp
    }

    /// The roots that can only be read, as they were given; those of the system are not among them.
    pub fn read_roots(&self) -> impl Iterator<Item = &Path> {
        self.read.iter().map(PathBuf::as_path)
    }

    /// The roots that can be written, as they were given.
    pub fn write_roots(&self) -> impl Iterator<Item = &Path> {
        self.write.iter().map(PathBuf::as_path)
    }

    /// The roots of the system that can be read.
    #[cfg(target_os = "linux")]
    pub(super) fn system_roots(&self) -> &'static [&'static str] {
        match self.system {
            SystemRoots::Readable => &SYSTEM_ROOTS,
            SystemRoots::Hidden => &[],
        }
    }
}
