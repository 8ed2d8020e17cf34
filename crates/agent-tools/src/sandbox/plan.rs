//! Resolves the paths of the rules before each start.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{Network, SandboxError, SandboxRules, TempFolder, UnixSockets, hidden};

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
    pub(super) unix_sockets: UnixSockets,
    /// The files and folders below the roots of the system that a child cannot read.
    pub(super) hidden: BTreeSet<PathBuf>,
    /// The private temporary folder of the child.
    pub(super) private: Option<tempfile::TempDir>,
    /// The working folder of the child.
    pub(super) folder: PathBuf,
}

/// The real paths of the configured roots. They are resolved once: a command that can write to the folder of a root could
/// replace it by a link, and the next command would get the folder behind the link.
#[derive(Debug, Default)]
pub(super) struct Roots(Mutex<BTreeMap<PathBuf, PathBuf>>);

impl Roots {
    fn resolve(&self, path: &Path) -> Result<PathBuf, SandboxError> {
        let now = real(path)?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = known.entry(path.to_path_buf()).or_insert_with(|| now.clone());
        if *first == now {
            Ok(now)
        } else {
            Err(SandboxError::RootMoved { path: path.to_path_buf(), first: first.clone(), now })
        }
    }
}

impl Plan {
    /// Resolves the rules. Accesses the disk. `folder` is the working folder of the child.
    pub(super) fn new(
        rules: &SandboxRules,
        folder: Option<&Path>,
        roots: &Roots,
    ) -> Result<Self, SandboxError> {
        let mut grants = BTreeMap::new();
        let mut links = Vec::new();
        let mut hidden = BTreeSet::new();
        for root in rules.system_roots() {
            if let Ok(real) = std::fs::canonicalize(root) {
                hidden.extend(hidden::below(&real));
                grants.insert(real, Grant::Read);
            }
            if let Ok(target) = std::fs::read_link(root) {
                links.push((PathBuf::from(root), target));
            }
        }
        for (root, grant) in rules.roots() {
            if grant == Grant::Read {
                rules.check_way_to(root)?;
            }
            let root = roots.resolve(root)?;
            hidden.retain(|path| !path.starts_with(&root));
            grants.insert(root, grant);
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
        let (network, unix_sockets) = (rules.network(), rules.unix_sockets());
        let folder_there = real(&folder)?;
        let mut plan = Self { folder: folder_there, grants, links, network, unix_sockets, hidden, private };
        plan.drop_inner_write_roots();
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

    /// Removes the writable roots in a writable folder. They allow nothing more, and a command can exchange them.
    fn drop_inner_write_roots(&mut self) {
        let is_inner = |path: &PathBuf| {
            self.grants.get(path) == Some(&Grant::Write)
                && path.parent().is_some_and(|above| self.grant_of(above) == Some(Grant::Write))
        };
        let inner: Vec<PathBuf> = self.grants.keys().filter(|path| is_inner(path)).cloned().collect();
        for path in inner {
            self.grants.remove(&path);
        }
    }

    /// Returns the writable folders between a read-only root and the writable root around it.
    pub(super) fn folders_above_read_roots(&self) -> impl Iterator<Item = &Path> {
        let read = self.grants.iter().filter(|(_, grant)| **grant == Grant::Read);
        let above = read.flat_map(|(path, _)| path.ancestors().skip(1));
        let between = above
            .filter(|path| !self.grants.contains_key(*path) && self.grant_of(path) == Some(Grant::Write));
        between.collect::<BTreeSet<_>>().into_iter()
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
