//! `cargo xtask package`: packs the crates as `cargo publish` would, and compiles users' programs against the packed files.
//!
//! Everything runs without the network once `cargo fetch` has run. All files are written below `target/packages`.

mod user;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};

use crate::cargo;
use crate::workspace::{Graph, Package, Workspace};

/// What each package must hold, besides its sources.
const REQUIRED: &[&str] = &["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "src/lib.rs"];

/// What `cargo package` generates or rewrites; all other files are equal to those of the package's folder.
const GENERATED: &[&str] = &[".cargo_vcs_info.json", "Cargo.lock", "Cargo.toml", "Cargo.toml.orig"];

/// A package whose packed files were unpacked.
pub(crate) struct Unpacked {
    /// The name that it is published under.
    pub(crate) name: String,
    version: String,
    /// The folder with the unpacked files.
    pub(crate) folder: PathBuf,
}

/// The folder of everything that is packed, from the root.
pub(crate) const FOLDER: &str = "target/packages";

/// Packs, checks and compiles; `false` if a check fails or a program does not compile.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    if let Some(unknown) = arguments.first() {
        bail!("`cargo xtask package` takes no argument, but got `{unknown}`");
    }
    check_with(workspace, user::Scope::All)
}

/// The checks of CI: the programs that take long to compile are left to the weekly run.
pub(crate) fn run_for_ci(workspace: &Workspace) -> anyhow::Result<bool> {
    check_with(workspace, user::Scope::Facade)
}

fn check_with(workspace: &Workspace, scope: user::Scope) -> anyhow::Result<bool> {
    match prepare(workspace)? {
        Some(unpacked) => {
            user::compile(workspace, &unpacked, &workspace.root.join(FOLDER).join("user"), scope)
        }
        None => Ok(false),
    }
}

/// Packs the published packages, unpacks them, and checks their files; `None` if a check fails.
pub(crate) fn prepare(workspace: &Workspace) -> anyhow::Result<Option<Vec<Unpacked>>> {
    let metadata = workspace.metadata(Graph::Default)?;
    let published: Vec<&Package> = metadata.members().filter(|p| p.is_published()).collect();
    let unpublished = metadata.members().filter(|p| !p.is_published()).map(|p| p.name.as_str());
    let folder = workspace.root.join(FOLDER);
    for old in ["package", "unpacked", "user"] {
        match std::fs::remove_dir_all(folder.join(old)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    if !pack(workspace, unpublished, &folder)? {
        return Ok(None);
    }
    let mut problems = Vec::new();
    let mut unpacked = Vec::new();
    for package in &published {
        let one = unpack(package, &folder)?;
        problems.extend(check(package, &one, &workspace.root)?);
        unpacked.push(one);
    }
    for problem in &problems {
        say!("{problem}");
    }
    if !problems.is_empty() {
        return Ok(None);
    }
    say!(
        "{} packages hold their README, both licences and no other files than their sources",
        unpacked.len()
    );
    Ok(Some(unpacked))
}

/// Runs `cargo package` over the published members. Verification is left out: the users' programs do more.
fn pack<'a>(
    workspace: &Workspace,
    unpublished: impl Iterator<Item = &'a str>,
    folder: &Path,
) -> anyhow::Result<bool> {
    let folder = folder.display().to_string();
    let mut arguments =
        vec!["package", "--workspace", "--quiet", "--offline", "--allow-dirty", "--no-verify"];
    arguments.extend(["--target-dir", &folder]);
    for name in unpublished {
        arguments.extend(["--exclude", name]);
    }
    cargo::run(&workspace.root, &arguments, &[])
}

/// Unpacks the file of one package with `tar`, which all supported systems have.
fn unpack(package: &Package, folder: &Path) -> anyhow::Result<Unpacked> {
    let name = format!("{}-{}", package.name, package.version);
    let file = folder.join(format!("package/{name}.crate"));
    let into = folder.join("unpacked");
    std::fs::create_dir_all(&into)?;
    let status = Command::new("tar")
        .arg("-xzf")
        .arg(&file)
        .arg("-C")
        .arg(&into)
        .stdin(Stdio::null())
        .status()
        .context("tar cannot be started; it unpacks the packages")?;
    ensure!(status.success(), "tar cannot unpack {}", file.display());
    Ok(Unpacked { name: package.name.clone(), version: package.version.clone(), folder: into.join(name) })
}

/// The problems of one package's files.
fn check(package: &Package, unpacked: &Unpacked, root: &Path) -> anyhow::Result<Vec<String>> {
    let own = package.manifest_path.parent().context("a manifest has no folder")?;
    let mut files = BTreeSet::new();
    list(&unpacked.folder, &unpacked.folder, &mut files)?;
    let mut problems: Vec<String> =
        unwanted(&files).into_iter().map(|p| format!("{}: {p}", unpacked.name)).collect();
    for file in files.iter().filter(|f| !GENERATED.contains(&f.as_str())) {
        // The facade's README is that of the project.
        let sources = [own.join(file), root.join(file)];
        let packed = std::fs::read(unpacked.folder.join(file))?;
        if !sources.iter().any(|source| std::fs::read(source).is_ok_and(|text| text == packed)) {
            problems.push(format!("{}: {file} differs from the file in {}", unpacked.name, own.display()));
        }
    }
    Ok(problems)
}

/// What is missing among the packed files, and what does not belong there.
fn unwanted(files: &BTreeSet<String>) -> Vec<String> {
    let missing = REQUIRED.iter().filter(|f| !files.contains(**f)).map(|f| format!("{f} is missing"));
    let foreign = files
        .iter()
        .filter(|f| {
            !(f.starts_with("src/") || REQUIRED.contains(&f.as_str()) || GENERATED.contains(&f.as_str()))
        })
        .map(|f| format!("{f} does not belong into the package; see `include` in its Cargo.toml"));
    missing.chain(foreign).collect()
}

/// Collects the paths of all files below `folder`, from `base` and with `/`.
fn list(base: &Path, folder: &Path, files: &mut BTreeSet<String>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            list(base, &entry.path(), files)?;
        } else if let Ok(path) = entry.path().strip_prefix(base) {
            files.insert(path.to_string_lossy().replace('\\', "/"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
