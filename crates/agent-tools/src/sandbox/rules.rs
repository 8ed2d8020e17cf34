//! The rules of a sandbox: what a child can read, write and connect to.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::SandboxError;
#[cfg(target_os = "linux")]
use super::plan::Grant;
use super::way::exchangeable_link;
use crate::Workspace;
use crate::program::SearchPath;

/// The system folders with programs, libraries and settings that a child can read by default, if they exist. Home
/// folders, `/var`, `/run` and `/srv` are not included.
pub const SYSTEM_ROOTS: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix/store"];

/// The network access of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Network {
    /// No network and no service of this machine. With Landlock, a child can create no sockets except connected pairs;
    /// with bubblewrap it has its own network, in which only its own processes are. This is the default.
    #[default]
    Off,
    /// No TCP. With Landlock, a child can use UDP, and with it DNS. With bubblewrap it means [`Network::Off`].
    NoTcp,
    /// The same network access as this process, with TCP, UDP and ICMP. Other socket families, such as `AF_VSOCK`, are
    /// refused.
    Open,
}

/// Whether a child under Landlock can create Unix sockets. Before Linux 7.1 Landlock cannot restrict to which socket of the
/// file system they connect, and services such as a container engine or `systemd` run programs for every process that
/// connects. With bubblewrap there are only the sockets in the roots, and this has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum UnixSockets {
    /// Only pairs of connected sockets can be created. This is the default.
    #[default]
    Refused,
    /// The child can create them, whatever the [`Network`], and reaches every service whose socket its user can open.
    Allowed,
}

/// The folder for temporary files of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TempFolder {
    /// A new empty folder for each child, which is removed after its end. `TMPDIR` names it, and `HOME` as well if the
    /// home folder is not readable. With bubblewrap it is `/tmp`. This is the default.
    #[default]
    Private,
    /// The folder for temporary files that all programs share, with its content.
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
    unix_sockets: UnixSockets,
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
            unix_sockets: UnixSockets::default(),
            temp: TempFolder::default(),
        }
    }
}

impl SandboxRules {
    /// Creates rules with which a child can read [`SYSTEM_ROOTS`], write only to a temporary folder, and has no
    /// network.
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

    /// Allows reading and executing a file, or a folder with everything below it. `/` means all files. The path must
    /// exist.
    #[must_use]
    pub fn with_read_root(mut self, root: impl Into<PathBuf>) -> Self {
        self.read.insert(root.into());
        self
    }

    /// Allows reading, executing and changing a file, or a folder with everything below it. The path must exist.
    #[must_use]
    pub fn with_write_root(mut self, root: impl Into<PathBuf>) -> Self {
        self.write.insert(root.into());
        self
    }

    /// Removes [`SYSTEM_ROOTS`] from the rules. Programs and their libraries must then be in other roots.
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

    /// Sets whether a child under Landlock can create Unix sockets, and so reach services of this machine.
    #[must_use]
    pub fn with_unix_sockets(mut self, sockets: UnixSockets) -> Self {
        self.unix_sockets = sockets;
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

    /// Returns whether a child under Landlock can create Unix sockets.
    #[must_use]
    pub fn unix_sockets(&self) -> UnixSockets {
        self.unix_sockets
    }

    /// Where it puts temporary files.
    #[must_use]
    pub fn temp(&self) -> TempFolder {
        self.temp
    }

    /// Returns the configured read-only roots, without those of the system.
    pub fn read_roots(&self) -> impl Iterator<Item = &Path> {
        self.read.iter().map(PathBuf::as_path)
    }

    /// Returns the configured writable roots.
    pub fn write_roots(&self) -> impl Iterator<Item = &Path> {
        self.write.iter().map(PathBuf::as_path)
    }

    /// Returns the folders that a child can write to and that remain after it.
    pub(crate) fn writable(&self) -> impl Iterator<Item = PathBuf> {
        let shared = (self.temp == TempFolder::Shared).then(std::env::temp_dir);
        self.write.iter().cloned().chain(shared)
    }

    /// Checks that no child can exchange a link on the way to `path`. Use it for each file outside of the writable roots that your
    /// program trusts, such as its settings: a file that was put in the place of a link would be read instead.
    ///
    /// # Errors
    /// Returns [`SandboxError::LinkInside`] with the first link in a folder that a child can write to.
    pub fn check_way_to(&self, path: impl AsRef<Path>) -> Result<(), SandboxError> {
        let path = path.as_ref();
        let writable: Vec<PathBuf> = self.writable().filter_map(|root| root.canonicalize().ok()).collect();
        match exchangeable_link(path, &writable) {
            None => Ok(()),
            Some(link) => Err(SandboxError::LinkInside { path: path.to_path_buf(), link }),
        }
    }

    /// Returns the folders of `PATH` that a child cannot write to.
    pub(crate) fn search_path(&self) -> SearchPath {
        SearchPath::outside(self.writable())
    }

    /// Returns the configured roots, the writable ones last: they take precedence.
    #[cfg(target_os = "linux")]
    pub(super) fn roots(&self) -> impl Iterator<Item = (&Path, Grant)> {
        let read = self.read_roots().map(|root| (root, Grant::Read));
        read.chain(self.write_roots().map(|root| (root, Grant::Write)))
    }

    /// Returns the readable roots of the system.
    #[cfg(target_os = "linux")]
    pub(super) fn system_roots(&self) -> &'static [&'static str] {
        match self.system {
            SystemRoots::Readable => &SYSTEM_ROOTS,
            SystemRoots::Hidden => &[],
        }
    }
}
