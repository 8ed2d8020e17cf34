//! A separate folder for each branch. Concurrent branches write without affecting each other, and the changes of the
//! selected branch are applied to the original folder.
//!
//! | form | what a branch begins with |
//! |---|---|
//! | [`copies_of`](BranchWorkspaces::copies_of) | a copy of the folder; what `.gitignore` excludes is copied only on request |
//! | [`worktrees_of`](BranchWorkspaces::worktrees_of) | a git worktree of the last commit, of any commit, or of the folder as it is |
//!
//! [`take_over`](BranchWorkspace::take_over) writes the changes of a branch to the origin. If the origin has changed at
//! one of the same paths in the meantime, nothing is written and the error names the paths. Dropping a workspace
//! removes it.
//!
//! - Symlinks are copied as links if they are relative and lead to a path inside of the folder. Other links are
//!   skipped.
//! - The number of files and bytes is limited, both for a copy and for the changes of a branch.
//! - Each file is opened relative to the open folders, and no link is followed.
//! - Git runs with a small environment, without prompts, and without any program that the repository names: hooks,
//!   filters, monitors and helpers. Files under Git LFS are pointers in a worktree.
//!
//! ```
//! use agent_tools::BranchWorkspaces;
//!
//! # let dir = tempfile::tempdir()?;
//! # let project = dir.path();
//! # std::fs::write(project.join("notes.txt"), "one")?;
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let workspaces = BranchWorkspaces::copies_of(project)?;
//! let branch = workspaces.open().await?;
//! let tools = branch.tools(|workspace| workspace.tools());
//! assert_eq!(tools.tools().len(), 6);
//!
//! // What a tool of this branch would do:
//! std::fs::write(branch.root().join("notes.txt"), "two")?;
//! assert_eq!(std::fs::read_to_string(project.join("notes.txt"))?, "one");
//! branch.take_over().await?;
//! assert_eq!(std::fs::read_to_string(project.join("notes.txt"))?, "two");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod apply;
mod copy;
mod error;
mod git;
mod manifest;
mod scan;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_core::{AgentTool, Tools};

pub use error::BranchWorkspaceError;
pub use git::WorktreeStart;
pub use manifest::{Change, ChangeKind};

use crate::dir::Dir;
use crate::program::{Program, ProgramError, SearchPath};
use crate::{PathError, Workspace};
use git::Worktree;
use manifest::{Fingerprints, Manifest};
use scan::{Above, Limits, Rules};

/// The default limit for the bytes of a copy, and for the bytes that are read when looking for changes: 1 GiB.
pub const MAX_BRANCH_BYTES: u64 = 1 << 30;

/// The default limit for the files of a copy, and for the files that are checked for changes.
pub const MAX_BRANCH_FILES: usize = 200_000;

/// What happens to files that `.gitignore` and `.ignore` exclude.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Ignored {
    /// They are not copied, and new ones are not taken over, because tools can rebuild them. `.git` is not copied
    /// either. This is the default.
    #[default]
    LeftOut,
    /// They are treated like other files. `.git` is copied as well, and never taken over.
    Included,
}

#[derive(Debug, Clone)]
enum Form {
    Copy(Ignored),
    /// With the `git` that was found when the branches were configured.
    Worktree(WorktreeStart, Result<Program, ProgramError>),
}

/// Creates workspaces for the branches of one folder, as copies or as git worktrees.
#[derive(Debug, Clone)]
pub struct BranchWorkspaces {
    origin: Workspace,
    root: Arc<Path>,
    form: Form,
    folder: Option<PathBuf>,
    limits: Limits,
}

impl BranchWorkspaces {
    /// Creates a copy of this folder for each branch. Files that `.gitignore` excludes are not copied by default.
    ///
    /// # Errors
    /// Returns an error if it is not a folder.
    pub fn copies_of(origin: impl AsRef<Path>) -> Result<Self, BranchWorkspaceError> {
        Self::of(origin.as_ref(), Form::Copy(Ignored::default()))
    }

    /// Creates a git worktree of the repository of this folder for each branch, at the last commit unless
    /// [`starting_at`](Self::starting_at) sets another start. The branch works in the same folder of the worktree.
    ///
    /// # Errors
    /// Returns an error if it is not a folder. A missing repository is reported when the first workspace is opened.
    pub fn worktrees_of(origin: impl AsRef<Path>) -> Result<Self, BranchWorkspaceError> {
        let origin = origin.as_ref();
        let git = SearchPath::outside([origin]).find("git");
        Self::of(origin, Form::Worktree(WorktreeStart::default(), git))
    }

    fn of(origin: &Path, form: Form) -> Result<Self, BranchWorkspaceError> {
        let workspace = Workspace::open(origin)?;
        let root: Arc<Path> = workspace.root().unwrap_or(origin).into();
        let limits = Limits { files: MAX_BRANCH_FILES, bytes: MAX_BRANCH_BYTES };
        Ok(Self { origin: workspace, root, form, folder: None, limits })
    }

    /// Sets the rules of the branches' workspaces: they get the protected paths and the denied patterns of `workspace`, which
    /// must have the same root as the origin. Protected paths are neither copied nor taken over.
    ///
    /// # Errors
    /// Returns an error if the workspace has another root.
    pub fn with_rules_of(mut self, workspace: &Workspace) -> Result<Self, BranchWorkspaceError> {
        if workspace.root() != Some(&*self.root) {
            return Err(PathError::Outside { path: self.root.display().to_string() }.into());
        }
        self.origin = workspace.clone();
        Ok(self)
    }

    /// Sets what happens to ignored files. It has no effect on worktrees, which contain the files that git tracks.
    #[must_use]
    pub fn with_ignored(mut self, ignored: Ignored) -> Self {
        if let Form::Copy(old) = &mut self.form {
            *old = ignored;
        }
        self
    }

    /// Sets the content with which worktrees start. It has no effect on copies, which contain the current files.
    #[must_use]
    pub fn starting_at(mut self, start: WorktreeStart) -> Self {
        if let Form::Worktree(old, _) = &mut self.form {
            *old = start;
        }
        self
    }

    /// Creates workspaces in this folder instead of the system's folder for temporary files. The folder is created if
    /// it does not exist. Copies cannot be inside of their origin.
    #[must_use]
    pub fn in_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Sets the maximum number of files. The default is [`MAX_BRANCH_FILES`].
    #[must_use]
    pub fn with_max_files(mut self, files: usize) -> Self {
        self.limits.files = files;
        self
    }

    /// Sets the maximum number of bytes. The default is [`MAX_BRANCH_BYTES`].
    #[must_use]
    pub fn with_max_bytes(mut self, bytes: u64) -> Self {
        self.limits.bytes = bytes;
        self
    }

    /// Creates a workspace for one branch.
    ///
    /// # Errors
    /// Returns an error if the folder is too large or cannot be read or written, or if git fails. Nothing is left
    /// behind.
    pub async fn open(&self) -> Result<BranchWorkspace, BranchWorkspaceError> {
        let temporary = self.temporary()?;
        let prints = Fingerprints::new();
        let (limits, hashes) = (self.limits, prints.clone());
        let origin = Folder::of(&self.origin)?;
        let (place, branch, rules, base, left_out) = match &self.form {
            Form::Copy(ignored) => {
                let branch = self.branch(temporary.path())?;
                let rules = match ignored {
                    Ignored::LeftOut => Rules::Ignoring(Above::of(&self.root)),
                    Ignored::Included => Rules::All,
                };
                let (from, to, with) = (origin.clone(), branch.clone(), rules.clone());
                let (base, left_out) =
                    blocking(move || copy::copy(&from, &to, &with, limits, &hashes)).await?;
                (Place::Copy(temporary), branch, rules, base, left_out)
            }
            Form::Worktree(start, git) => {
                let git =
                    git.clone().map_err(|error| BranchWorkspaceError::NoGit { source: error.into() })?;
                let tree = Worktree::add(&git, &self.root, start, temporary).await?;
                let branch = self.branch(&tree.root())?;
                let looked_at = branch.clone();
                let base = blocking(move || scan::scan(&looked_at, &Rules::All, limits, &hashes)).await?;
                (Place::Worktree(tree), branch, Rules::Ignoring(Above::nothing()), base, Vec::new())
            }
        };
        let seen = Seen { origin, branch, rules, base, limits: self.limits, prints };
        Ok(BranchWorkspace { seen: Arc::new(seen), left_out, place })
    }

    /// Creates workspaces for this number of branches.
    ///
    /// # Errors
    /// Returns the errors of [`open`](Self::open). Workspaces that were created before the error are removed.
    pub async fn open_many(&self, branches: usize) -> Result<Vec<BranchWorkspace>, BranchWorkspaceError> {
        let mut opened = Vec::new();
        for _ in 0..branches {
            opened.push(self.open().await?);
        }
        Ok(opened)
    }

    /// Opens the folder of a branch, with the rules of the origin.
    fn branch(&self, folder: &Path) -> Result<Folder, PathError> {
        Folder::of(&Workspace::open(folder)?.with_rules_of(&self.origin))
    }

    fn temporary(&self) -> Result<tempfile::TempDir, BranchWorkspaceError> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("looptree-branch-");
        let Some(folder) = &self.folder else {
            let failed = |source| BranchWorkspaceError::io("made", Path::new("a temporary folder"), source);
            return builder.tempdir().map_err(failed);
        };
        std::fs::create_dir_all(folder).map_err(|e| BranchWorkspaceError::io("made", folder, e))?;
        let real = folder.canonicalize().map_err(|e| BranchWorkspaceError::io("found", folder, e))?;
        if matches!(self.form, Form::Copy(_)) && real.starts_with(&self.root) {
            return Err(BranchWorkspaceError::InsideOrigin { folder: folder.clone() });
        }
        builder.tempdir_in(&real).map_err(|e| BranchWorkspaceError::io("made", &real, e))
    }
}

/// The location of a workspace, and how it is removed.
#[derive(Debug)]
enum Place {
    Copy(tempfile::TempDir),
    Worktree(Worktree),
}

/// The open root of a workspace.
#[derive(Debug, Clone)]
struct Folder {
    workspace: Workspace,
    real: PathBuf,
    dir: Dir,
}

impl Folder {
    fn of(workspace: &Workspace) -> Result<Self, PathError> {
        let (Some(real), Some(dir)) = (workspace.root(), workspace.root_dir()) else {
            return Err(PathError::NotADirectory { path: ".".to_owned() });
        };
        Ok(Self { workspace: workspace.clone(), real: real.to_path_buf(), dir: dir.clone() })
    }
}

/// The data for finding and applying changes.
#[derive(Debug)]
struct Seen {
    origin: Folder,
    branch: Folder,
    rules: Rules,
    /// The state with which the branch started.
    base: Manifest,
    limits: Limits,
    prints: Fingerprints,
}

/// The workspace of one branch. Dropping it removes its folder, unless [`keep`](Self::keep) was called.
#[derive(Debug)]
pub struct BranchWorkspace {
    seen: Arc<Seen>,
    left_out: Vec<PathBuf>,
    place: Place,
}

impl BranchWorkspace {
    /// Returns the workspace that confines the branch's file tools.
    #[must_use]
    pub fn workspace(&self) -> &Workspace {
        &self.seen.branch.workspace
    }

    /// Returns the folder of the branch.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.seen.branch.real
    }

    /// Returns the original folder.
    #[must_use]
    pub fn origin(&self) -> &Path {
        &self.seen.origin.real
    }

    /// Returns the paths that were not copied, relative to the origin: links that are absolute or lead out, devices,
    /// pipes and sockets. Ignored files are not listed.
    #[must_use]
    pub fn left_out(&self) -> &[PathBuf] {
        &self.left_out
    }

    /// Returns the tools of `factory` for this branch's workspace, as a list that agents can share. The same factory can
    /// serve every branch.
    #[must_use]
    pub fn tools(&self, factory: impl FnOnce(&Workspace) -> Vec<Arc<dyn AgentTool>>) -> Tools {
        factory(self.workspace()).into()
    }

    /// Returns the changes since the branch started, ordered by path. Empty folders do not count.
    ///
    /// # Errors
    /// Returns an error if it cannot be read or is too large.
    pub async fn changes(&self) -> Result<Vec<Change>, BranchWorkspaceError> {
        let seen = Arc::clone(&self.seen);
        blocking(move || Ok(seen.changed()?.0)).await
    }

    /// Writes the branch's changes to the origin and returns what was written. Each file is replaced in one step. A file
    /// that the origin already has is left alone, so the caller can apply again after an error.
    ///
    /// # Errors
    /// Returns [`Conflict`](BranchWorkspaceError::Conflict) if the origin has changed at one of these paths since the
    /// branch started, and [`LeadsOut`](BranchWorkspaceError::LeadsOut) if a new link leads out; in both cases nothing
    /// is written. Returns another error if a file cannot be read or written.
    pub async fn take_over(&self) -> Result<Vec<Change>, BranchWorkspaceError> {
        let seen = Arc::clone(&self.seen);
        blocking(move || {
            let (changes, now) = seen.changed()?;
            apply::apply(&seen, &changes, &now)
        })
        .await
    }

    /// Removes the workspace and reports whether this failed.
    ///
    /// # Errors
    /// Returns an error if a part of it cannot be removed.
    pub async fn close(self) -> Result<(), BranchWorkspaceError> {
        match self.place {
            Place::Copy(folder) => {
                let path = folder.path().to_path_buf();
                blocking(move || folder.close().map_err(|e| BranchWorkspaceError::io("removed", &path, e)))
                    .await
            }
            Place::Worktree(tree) => tree.remove().await,
        }
    }

    /// Leaves the folder on disk and returns its path. A worktree stays registered with git.
    #[must_use]
    pub fn keep(self) -> PathBuf {
        let root = self.seen.branch.real.clone();
        match self.place {
            Place::Copy(folder) => drop(folder.keep()),
            Place::Worktree(tree) => tree.keep(),
        }
        root
    }
}

impl Seen {
    /// Returns the changes and the current content.
    fn changed(&self) -> Result<(Vec<Change>, Manifest), BranchWorkspaceError> {
        let now = scan::scan_again(&self.branch, &self.rules, self.limits, &self.prints, &self.base)?;
        Ok((self.base.changes_to(&now), now))
    }
}

/// Runs blocking work on a blocking thread if there is a runtime.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BranchWorkspaceError> + Send + 'static,
) -> Result<T, BranchWorkspaceError> {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return work() };
    match runtime.spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => {
            let source = std::io::Error::other(error);
            Err(BranchWorkspaceError::io("worked on", Path::new("the branch's folder"), source))
        }
    }
}
