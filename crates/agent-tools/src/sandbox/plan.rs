//! Resolves the paths of the rules before each start.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::{Network, SandboxError, SandboxRules, TempFolder};

/// The configuration of host name resolution, often a link into `/run`.
const RESOLVER: &str = "/etc/resolv.conf";

/// The access to a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grant {
    Read,
    Write,
}

/// The roots by their real paths, the outer ones first.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) grants: BTreeMap<PathBuf, Grant>,
    /// Links such as `/bin` and `/lib64` with their targets. Their real paths are roots, and programs use these names.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    pub(super) network: Network,
    /// The private temporary folder of the child.
    pub(super) private: Option<tempfile::TempDir>,
    /// The working folder of the child.
    pub(super) folder: PathBuf,
}

impl Plan {
    /// Resolves the rules. Accesses the disk. `folder` is the working folder of the child.
    pub(super) fn new(rules: &SandboxRules, folder: Option<&Path>) -> Result<Self, SandboxError> {
        let mut grants = BTreeMap::new();
        let mut links = Vec::new();
        for root in rules.system_roots() {
            if let Ok(real) = std::fs::canonicalize(root) {
                grants.insert(real, Grant::Read);
            }
            if let Ok(target) = std::fs::read_link(root) {
                links.push((PathBuf::from(root), target));
            }
        }
        for root in rules.read_roots() {
            grants.insert(real(root)?, Grant::Read);
        }
        for root in rules.write_roots() {
            grants.insert(real(root)?, Grant::Write);
        }
        if rules.network() == Network::Open
            && let Ok(real) = std::fs::canonicalize(RESOLVER)
        {
            grants.entry(real).or_insert(Grant::Read);
        }
        let private = match rules.temp() {
            TempFolder::Private => Some(private_folder()?),
            TempFolder::Shared => {
                grants.insert(real(&std::env::temp_dir())?, Grant::Write);
                None
            }
            TempFolder::None => None,
        };
        let folder = match folder {
            Some(folder) => folder.to_path_buf(),
            None => std::env::current_dir().map_err(SandboxError::SetUp)?,
        };
        let plan = Self { folder: real(&folder)?, grants, links, network: rules.network(), private };
        // A process in `/` cannot access anything there without a root.
        if plan.folder != Path::new("/") && plan.grant_of(&plan.folder).is_none() {
            return Err(SandboxError::FolderOutside { folder });
        }
        Ok(plan)
    }

    /// Returns the access to a path, which the innermost root around it defines.
    pub(super) fn grant_of(&self, path: &Path) -> Option<Grant> {
        path.ancestors().find_map(|above| self.grants.get(above).copied())
    }

    /// Returns the first read-only root that is inside of a writable one.
    pub(super) fn read_inside_write(&self) -> Option<(&Path, &Path)> {
        self.grants.iter().filter(|(_, grant)| **grant == Grant::Read).find_map(|(read, _)| {
            let mut above = read.ancestors().skip(1);
            let write = above.find(|path| self.grants.get(*path) == Some(&Grant::Write))?;
            Some((read.as_path(), write))
        })
    }
}

fn real(path: &Path) -> Result<PathBuf, SandboxError> {
    std::fs::canonicalize(path).map_err(|source| SandboxError::Root { path: path.to_path_buf(), source })
}

fn private_folder() -> Result<tempfile::TempDir, SandboxError> {
    let folder = || -> io::Result<_> {
        use std::os::unix::fs::PermissionsExt as _;
        tempfile::Builder::new()
            .prefix("looptree-")
            .permissions(std::fs::Permissions::from_mode(0o700))
            .tempdir_in(std::fs::canonicalize(std::env::temp_dir())?)
    };
    folder().map_err(SandboxError::SetUp)
}
