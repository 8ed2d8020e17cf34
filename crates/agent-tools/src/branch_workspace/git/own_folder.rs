//! A git folder of our own for the commands that read or write files.
//!
//! It uses the objects of the repository. It has its own settings and attributes, so no filter, hook, monitor, alias or
//! included file of the repository or of the user applies. The conversions that git itself makes, such as those of line
//! ends, remain.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::BranchWorkspaceError;
use super::repository::Repository;
use super::run::git;
use crate::bounded::BoundedFolder;
use crate::program::Program;

/// The maximum size of the repository's own file of ignored names.
const MAX_EXCLUDE_BYTES: u64 = 1 << 20;

/// The mode of an entry of the index that is a commit of another repository.
const SUBMODULE: &str = "160000 ";

/// The number of paths in the arguments of one command.
const PATHS_OF_A_COMMAND: usize = 200;

/// The author of the internal commits, which are not visible to the user.
const AUTHOR: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "looptree"),
    ("GIT_AUTHOR_EMAIL", "looptree@localhost"),
    ("GIT_COMMITTER_NAME", "looptree"),
    ("GIT_COMMITTER_EMAIL", "looptree@localhost"),
];

/// A git folder with the objects of a repository.
#[derive(Debug)]
pub(super) struct OwnFolder {
    place: PathBuf,
    index: PathBuf,
    objects: PathBuf,
    program: Program,
}

impl OwnFolder {
    /// Creates the folder `git` in `scratch`, which must not be writable by others.
    pub(super) fn new(scratch: &Path, repository: &Repository) -> Result<Self, BranchWorkspaceError> {
        let place = scratch.join("git");
        let own = Self {
            index: place.join("index"),
            objects: repository.common.join("objects"),
            place: place.clone(),
            program: repository.program.clone(),
        };
        let write = || -> std::io::Result<()> {
            for folder in ["", "refs", "objects", "info"] {
                std::fs::create_dir(place.join(folder))?;
            }
            std::fs::write(place.join("HEAD"), "ref: refs/heads/none\n")?;
            std::fs::write(place.join("config"), config(repository))?;
            std::fs::write(place.join("info/exclude"), excluded(&repository.common))
        };
        write().map_err(|e| BranchWorkspaceError::io("made", &place, e))?;
        Ok(own)
    }

    pub(super) fn index(&self) -> &Path {
        &self.index
    }

    pub(super) fn remove(self) -> Result<(), BranchWorkspaceError> {
        std::fs::remove_dir_all(&self.place).map_err(|e| BranchWorkspaceError::io("removed", &self.place, e))
    }

    /// Writes the files of a commit into the empty folder `tree`.
    pub(super) async fn check_out(&self, commit: &str, tree: &Path) -> Result<(), BranchWorkspaceError> {
        drop(std::fs::remove_file(&self.index));
        self.git(tree, &["read-tree", "--reset", "-u", commit]).await.map(drop)
    }

    /// Stores the current files of the repository as a commit and returns its id.
    pub(super) async fn commit_files(&self, repository: &Repository) -> Result<String, BranchWorkspaceError> {
        let top = &repository.top;
        let head = repository.commit("HEAD").await.ok();
        if let Some(head) = &head {
            self.git(top, &["read-tree", head]).await?;
            self.skip_submodules(top).await?;
        }
        self.git(top, &["add", "--all"]).await?;
        let tree = self.git(top, &["write-tree"]).await?;
        let mut parts = vec!["commit-tree", "-m", "The files as a branch found them", &tree];
        if let Some(head) = &head {
            parts.extend(["-p", head]);
        }
        self.git(top, &parts).await
    }

    /// Marks submodules as unchanged. Git would otherwise look into them with the settings of their own repositories.
    async fn skip_submodules(&self, top: &Path) -> Result<(), BranchWorkspaceError> {
        let listed = self.git(top, &["ls-files", "--stage", "-z"]).await?;
        let submodules = listed.split('\0').filter(|entry| entry.starts_with(SUBMODULE));
        let paths: Vec<&str> =
            submodules.filter_map(|entry| entry.split_once('\t')).map(|(_, path)| path).collect();
        for paths in paths.chunks(PATHS_OF_A_COMMAND) {
            let parts: Vec<&str> =
                ["update-index", "--skip-worktree", "--"].iter().chain(paths).copied().collect();
            self.git(top, &parts).await?;
        }
        Ok(())
    }

    async fn git(&self, tree: &Path, parts: &[&str]) -> Result<String, BranchWorkspaceError> {
        let mut variables: Vec<(&str, &OsStr)> = vec![
            ("GIT_DIR", self.place.as_os_str()),
            ("GIT_WORK_TREE", tree.as_os_str()),
            ("GIT_INDEX_FILE", self.index.as_os_str()),
            ("GIT_OBJECT_DIRECTORY", self.objects.as_os_str()),
            ("GIT_CONFIG_NOSYSTEM", "1".as_ref()),
            ("GIT_CONFIG_GLOBAL", "/dev/null".as_ref()),
            ("GIT_ATTR_NOSYSTEM", "1".as_ref()),
        ];
        variables.extend(AUTHOR.iter().map(|(name, value)| (*name, OsStr::new(value))));
        git(&self.program, tree, parts, &variables).await
    }
}

/// Returns the settings of the folder.
fn config(repository: &Repository) -> String {
    let mut text = String::from("[core]\n\tbare = false\n\trepositoryformatversion = 1\n");
    for (name, value) in &repository.settings {
        let name = name.strip_prefix("core.").unwrap_or(name);
        text.push_str(&format!("\t{name} = {value}\n"));
    }
    if let Some(path) = &repository.excludes {
        let path = path.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        text.push_str(&format!("\texcludesFile = \"{path}\"\n"));
    }
    if repository.object_format == "sha256" {
        text.push_str("[extensions]\n\tobjectformat = sha256\n");
    }
    text
}

/// Returns the repository's own list of ignored names, which is in no commit.
fn excluded(common: &Path) -> Vec<u8> {
    // A file that is missing or cannot be read excludes nothing.
    let read = BoundedFolder::open(common).and_then(|folder| folder.read("info/exclude", MAX_EXCLUDE_BYTES));
    read.map(|read| read.bytes).unwrap_or_default()
}
