//! A folder with files, and git in it.
#![allow(clippy::disallowed_methods, reason = "tests may start git as it is")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A project in a temporary folder.
pub(crate) struct Project {
    pub(crate) dir: tempfile::TempDir,
}

impl Project {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let project = Self { dir: tempfile::tempdir().unwrap() };
        for (path, text) in files {
            project.write(path, text);
        }
        project
    }

    /// The same as a repository with one commit.
    pub(crate) fn committed(files: &[(&str, &str)]) -> Self {
        let project = Self::new(files);
        project.git(&["init", "--quiet", "--initial-branch=main"]);
        project.commit("first");
        project
    }

    pub(crate) fn commit(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "--quiet", "-m", message]);
    }

    pub(crate) fn git(&self, parts: &[&str]) -> String {
        let out = std::process::Command::new("git").args(parts).current_dir(self.root()).output().unwrap();
        assert!(out.status.success(), "git {parts:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap().trim_end().to_owned()
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        write(self.root(), path, text);
    }

    pub(crate) fn files(&self) -> Vec<String> {
        files(self.root()).into_keys().collect()
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap()
    }
}

pub(crate) fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// All files below a folder but git's own, with what is in them.
pub(crate) fn files(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path: PathBuf = entry.path();
            if entry.file_name() == ".git" {
                continue;
            }
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_symlink() {
                found.insert(name, format!("-> {}", fs::read_link(path).unwrap().display()));
            } else if kind.is_file() {
                found.insert(name, fs::read_to_string(path).unwrap_or_default());
            } else {
                found.insert(name, "special".into());
            }
        }
    }
    found
}
