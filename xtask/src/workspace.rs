//! Where the workspace is, which files belong to it, and what cargo knows of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::Value;

use crate::cargo;

/// The largest file that is read as text.
const MAX_TEXT_FILE: u64 = 4 << 20;

/// The checked-out project.
pub(crate) struct Workspace {
    /// The folder that holds the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
}

/// A text file of the project.
pub(crate) struct SourceFile {
    /// Its path from the root, with `/`.
    pub(crate) path: String,
    /// What is in it.
    pub(crate) text: String,
}

/// What `cargo metadata` says, as far as it is used here.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_members: Vec<String>,
    /// `name version` of each package that is really built, from `cargo tree`: the metadata also lists packages that
    /// are behind a weak feature which nothing switches on.
    #[serde(default)]
    pub(crate) built: BTreeSet<String>,
}

#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) license: Option<String>,
    #[serde(default)]
    pub(crate) source: Option<String>,
    /// The registries that it may be published to; `None` for any, an empty list for `publish = false`.
    #[serde(default)]
    pub(crate) publish: Option<Vec<String>>,
    /// The absolute path of its `Cargo.toml`.
    #[serde(default)]
    pub(crate) manifest_path: PathBuf,
    #[serde(default)]
    pub(crate) dependencies: Vec<Dependency>,
    #[serde(default)]
    pub(crate) features: serde_json::Map<String, Value>,
}

#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// The versions that it may have; `*` for any.
    #[serde(default)]
    pub(crate) req: String,
    /// `null` for a normal one, else `dev` or `build`.
    #[serde(default)]
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) features: Vec<String>,
}

impl Package {
    /// Whether its manifest lets `cargo publish` upload it.
    pub(crate) fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }
}

/// The features of a dependency graph.
#[derive(Clone, Copy)]
pub(crate) enum Graph {
    /// What a user gets who names no feature.
    Default,
    /// Every feature of every member.
    AllFeatures,
}

impl Workspace {
    /// The workspace that this program was built in.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest.parent().context("xtask has no parent folder")?.to_path_buf();
        if !root.join("Cargo.toml").is_file() {
            bail!("{} holds no Cargo.toml; start this with `cargo xtask`", root.display());
        }
        Ok(Self { root })
    }

    /// The files that belong to the project: those that git knows or would add, or all outside of `target` where
    /// there is no git.
    pub(crate) fn paths(&self) -> anyhow::Result<Vec<String>> {
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&self.root)
            .output();
        let mut paths = match listed {
            Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout)
                .split('\0')
                .filter(|p| !p.is_empty() && self.root.join(p).is_file())
                .map(str::to_owned)
                .collect(),
            _ => {
                let mut found = Vec::new();
                walk(&self.root, &self.root, &mut found)?;
                found
            }
        };
        paths.sort();
        paths.dedup();
        Ok(paths)
    }

    /// The text files among them. Files that are not UTF-8, or too large to be written by hand, are left out.
    pub(crate) fn texts(&self) -> anyhow::Result<Vec<SourceFile>> {
        let mut texts = Vec::new();
        for path in self.paths()? {
            let full = self.root.join(&path);
            let size = std::fs::metadata(&full).with_context(|| format!("cannot read {path}"))?.len();
            if size > MAX_TEXT_FILE {
                continue;
            }
            let bytes = std::fs::read(&full).with_context(|| format!("cannot read {path}"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                texts.push(SourceFile { path, text });
            }
        }
        Ok(texts)
    }

    /// The dependency graph.
    ///
    /// It covers all platforms. If their packages are not on this machine and cannot be fetched, it covers the platform of this
    /// machine only and prints a note.
    pub(crate) fn metadata(&self, graph: Graph) -> anyhow::Result<Metadata> {
        let features: &[&str] = match graph {
            Graph::Default => &[],
            Graph::AllFeatures => &["--all-features"],
        };
        let host = cargo::host()?;
        let here = ["--offline", "--filter-platform", &host];
        let metadata =
            self.ask(&[&["metadata", "--format-version", "1", "--locked"], features].concat(), &here)?;
        let mut metadata: Metadata =
            serde_json::from_str(&metadata).context("cargo metadata printed something unexpected")?;
        let tree = ["tree", "--workspace", "--locked", "--prefix", "none", "--format", "{p}"];
        let tree =
            self.ask(&[&tree, features, &["--target", "all"]].concat(), &["--offline", "--target", &host])?;
        metadata.built = tree.lines().filter_map(name_and_version).collect();
        Ok(metadata)
    }

    /// Runs cargo for all platforms and returns its output. If their packages are not on this machine and cannot be fetched, runs
    /// it for the platform of this machine (`here`) and prints a note.
    fn ask(&self, arguments: &[&str], here: &[&str]) -> anyhow::Result<String> {
        let mut output = cargo::output(&self.root, arguments)?;
        if !output.status.success() {
            let first = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            let arguments: Vec<&str> = arguments
                .iter()
                .copied()
                .filter(|a| !["--target", "all"].contains(a))
                .chain(here.iter().copied())
                .collect();
            output = cargo::output(&self.root, &arguments)?;
            if !output.status.success() {
                bail!("cargo {} failed: {first}", arguments.join(" "));
            }
            say!("note: only this machine's packages are looked at, those of other platforms are not here");
        }
        String::from_utf8(output.stdout).context("cargo printed something that is not UTF-8")
    }
}

/// `serde 1.0.229` of a line such as `serde v1.0.229 (proc-macro) (*)`.
pub(crate) fn name_and_version(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let (name, version) = (words.next()?, words.next()?);
    Some(format!("{name} {}", version.strip_prefix('v')?))
}

impl Metadata {
    /// The packages of this workspace.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|p| self.workspace_members.contains(&p.id))
    }

    /// The packages that are built, members included.
    pub(crate) fn built(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|p| self.built.contains(&format!("{} {}", p.name, p.version)))
    }
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if !(name == ".git" || name == "target" || name.starts_with("target-")) {
                walk(root, &entry.path(), found)?;
            }
        } else if kind.is_file()
            && let Ok(path) = entry.path().strip_prefix(root)
        {
            found.push(path.to_string_lossy().replace('\\', "/"));
        }
    }
    Ok(())
}
