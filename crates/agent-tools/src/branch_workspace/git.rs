//! Git worktrees, through the `git` program.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::AsyncReadExt;

use super::error::BranchWorkspaceError;
use crate::environment;
use crate::sandbox::{Input, Launch};

/// The maximum duration of one git command. The checkout of a large repository takes longest.
const GIT_TIMEOUT: Duration = Duration::from_secs(300);

/// The maximum size of the error output of git.
const GIT_OUTPUT: u64 = 64 << 10;

/// The name of the worktree's folder in the folder that was made for it.
const TREE: &str = "tree";

/// The content with which a worktree starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WorktreeStart {
    /// The last commit, without uncommitted changes. This is the default.
    #[default]
    Head,
    /// This commit, given by any name that git accepts.
    Commit(String),
    /// The current files except ignored ones. Git stores them as a commit without a branch, which it removes some weeks
    /// later. The index and the working tree do not change.
    WorkingTree,
}

/// A worktree. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Worktree {
    folder: Option<TempDir>,
    repository: Repository,
}

#[derive(Debug, Clone)]
struct Repository {
    /// The top of its files.
    top: PathBuf,
    /// The origin, relative to it.
    prefix: PathBuf,
    /// The folder in which git stores the repository.
    common: PathBuf,
}

impl Repository {
    async fn of(origin: &Path) -> Result<Self, BranchWorkspaceError> {
        let parts =
            ["rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir", "--show-prefix"];
        let said = git(origin, &parts, &PLAIN).await?;
        let mut lines = said.lines();
        let mut next = || PathBuf::from(lines.next().unwrap_or_default());
        Ok(Self { top: next(), common: next(), prefix: next() })
    }

    /// Returns the commit with which a worktree starts. A separate index is created in `scratch`.
    async fn commit(&self, start: &WorktreeStart, scratch: &Path) -> Result<String, BranchWorkspaceError> {
        let named = async |name: &str| {
            let commit = format!("{name}^{{commit}}");
            let parts = ["rev-parse", "--verify", "--quiet", "--end-of-options", &commit];
            git(&self.top, &parts, &PLAIN).await.map_err(|error| match error {
                BranchWorkspaceError::Git { command, message } if message.is_empty() => {
                    let message = format!("there is no commit {name}");
                    BranchWorkspaceError::Git { command, message }
                }
                other => other,
            })
        };
        match start {
            WorktreeStart::Head => named("HEAD").await,
            WorktreeStart::Commit(name) => named(name).await,
            WorktreeStart::WorkingTree => {
                let head = named("HEAD").await.ok();
                let index = scratch.join("index");
                let vars: [(&str, &OsStr); 1] = [("GIT_INDEX_FILE", index.as_os_str())];
                if let Some(head) = &head {
                    git(&self.top, &["read-tree", head], &vars).await?;
                }
                git(&self.top, &["add", "--all"], &vars).await?;
                let tree = git(&self.top, &["write-tree"], &vars).await?;
                let mut parts = vec!["commit-tree", "-m", "The files as a branch found them", &tree];
                if let Some(head) = &head {
                    parts.extend(["-p", head]);
                }
                let commit = git(&self.top, &parts, &AUTHOR).await;
                drop(std::fs::remove_file(&index));
                commit
            }
        }
    }
}

/// No variables beside the usual ones.
const PLAIN: [(&str, &str); 0] = [];

/// The author of the internal commits, which are not visible to the user.
const AUTHOR: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "looptree"),
    ("GIT_AUTHOR_EMAIL", "looptree@localhost"),
    ("GIT_COMMITTER_NAME", "looptree"),
    ("GIT_COMMITTER_EMAIL", "looptree@localhost"),
];

impl Worktree {
    pub(super) async fn add(
        origin: &Path,
        start: &WorktreeStart,
        folder: TempDir,
    ) -> Result<Self, BranchWorkspaceError> {
        let repository = Repository::of(origin).await?;
        let commit = repository.commit(start, folder.path()).await?;
        let tree = Self { folder: Some(folder), repository };
        let at = tree.folder();
        let parts = [OsStr::new("worktree"), "add".as_ref(), "--detach".as_ref(), "--quiet".as_ref()];
        let parts: Vec<&OsStr> = parts.into_iter().chain([at.as_os_str(), commit.as_ref()]).collect();
        git(&tree.repository.top, &parts, &PLAIN).await?;
        let root = tree.root();
        // The origin may not be in this commit.
        std::fs::create_dir_all(&root).map_err(|e| BranchWorkspaceError::io("made", &root, e))?;
        Ok(tree)
    }

    fn folder(&self) -> PathBuf {
        self.folder.as_ref().map(|f| f.path().join(TREE)).unwrap_or_default()
    }

    /// Returns the path of the origin in the worktree.
    pub(super) fn root(&self) -> PathBuf {
        self.folder().join(&self.repository.prefix)
    }

    pub(super) async fn remove(mut self) -> Result<(), BranchWorkspaceError> {
        let tree = self.folder();
        let parts = [OsStr::new("worktree"), "remove".as_ref(), "--force".as_ref(), tree.as_os_str()];
        let removed = git(&self.repository.top, &parts, &PLAIN).await;
        let Some(folder) = self.folder.take() else { return Ok(()) };
        let path = folder.path().to_path_buf();
        folder.close().map_err(|e| BranchWorkspaceError::io("removed", &path, e))?;
        removed.map(drop)
    }

    pub(super) fn keep(mut self) {
        if let Some(folder) = self.folder.take() {
            drop(folder.keep());
        }
    }

    /// Returns the folder with git's data about this worktree, if it is in the repository.
    fn administration(&self) -> Option<PathBuf> {
        let said = std::fs::read_to_string(self.folder().join(".git")).ok()?;
        let path = PathBuf::from(said.strip_prefix("gitdir: ")?.trim_end());
        let all = self.repository.common.join("worktrees");
        (path.parent() == Some(all.as_path())).then_some(path)
    }
}

/// A drop must not wait for a program, so this removes the same files as `git worktree remove` without calling git.
impl Drop for Worktree {
    fn drop(&mut self) {
        let Some(folder) = self.folder.as_ref() else { return };
        let administration = self.administration();
        // If files cannot be removed, git's data about the worktree remains as well.
        if std::fs::remove_dir_all(folder.path().join(TREE)).is_ok()
            && let Some(path) = administration
        {
            drop(std::fs::remove_dir_all(path));
        }
    }
}

/// Runs git and returns its output without the last line end.
async fn git<S: AsRef<OsStr>>(
    folder: &Path,
    parts: &[S],
    set: &[(&str, impl AsRef<OsStr>)],
) -> Result<String, BranchWorkspaceError> {
    let mut variables: BTreeMap<OsString, OsString> = BTreeMap::new();
    for (name, value) in [("GIT_TERMINAL_PROMPT", "0"), ("LC_ALL", "C")] {
        variables.insert(name.into(), value.into());
    }
    for (name, value) in set {
        variables.insert(name.into(), value.into());
    }
    let variables = environment::of_command(&[], &variables);
    // The repository's hooks must not run when a branch starts.
    let fixed = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"].map(OsStr::new);
    let launch = Launch {
        program: "git".into(),
        args: fixed.into_iter().chain(parts.iter().map(AsRef::as_ref)).map(OsStr::to_owned).collect(),
        folder: Some(folder.to_path_buf()),
        variables,
        input: Input::Empty,
    };
    let mut child = launch.spawn().map_err(|source| BranchWorkspaceError::NoGit { source })?;
    let (stdout, stderr) = (child.stdout().take(), child.stderr().take());
    let said = async { tokio::join!(read(stdout), read(stderr), child.wait()) };
    let command = parts.first().map(|p| p.as_ref().display().to_string()).unwrap_or_default();
    let failed = |message: String| BranchWorkspaceError::Git { command: command.clone(), message };
    let Ok((out, error, status)) = tokio::time::timeout(GIT_TIMEOUT, said).await else {
        return Err(failed(format!("it took longer than {} seconds", GIT_TIMEOUT.as_secs())));
    };
    match status {
        Ok(status) if status.success() => Ok(out.trim_end_matches('\n').to_owned()),
        Ok(_) => Err(failed(error.trim().to_owned())),
        Err(source) => Err(failed(source.to_string())),
    }
}

/// Collects output up to the limit. The rest is read and dropped, so the writer never blocks.
async fn read(pipe: Option<impl tokio::io::AsyncRead + Unpin>) -> String {
    let Some(mut pipe) = pipe else { return String::new() };
    let mut kept = Vec::new();
    drop((&mut pipe).take(GIT_OUTPUT).read_to_end(&mut kept).await);
    drop(tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await);
    String::from_utf8_lossy(&kept).into_owned()
}
