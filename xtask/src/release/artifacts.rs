//! The packages of crates.io, the program, its archive, and the checksums.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use sha2::{Digest as _, Sha256};

use super::{ARTIFACTS, Outcome, PROGRAM, Release, empty, mebibytes, printed};
use crate::{cargo, package};

/// The most bytes that the program should have.
const GOAL: u64 = 16 * 1_000_000;

/// The list of checksums.
const CHECKSUMS: &str = "SHA256SUMS";

/// The shells with completions, and the file names that they expect.
const SHELLS: &[(&str, &str)] = &[
    ("bash", "looptree.bash"),
    ("zsh", "_looptree"),
    ("fish", "looptree.fish"),
    ("elvish", "looptree.elv"),
    ("powershell", "_looptree.ps1"),
];

/// The time of all files in the archive (2020-01-01), so that the same files give the same archive.
const TIME: &str = "@1577836800";

/// Packs the crates and checks their files, as `cargo xtask package` does.
pub(super) fn packages(release: &Release<'_>) -> anyhow::Result<Outcome> {
    let Some(packages) = package::prepare(release.workspace)? else {
        return Ok(Outcome::Failed("a package has wrong files; see above".to_owned()));
    };
    let packed = release.workspace.root.join(package::FOLDER).join("package");
    let into = release.folder.join("crates");
    empty(&into)?;
    let mut bytes = 0;
    for package in &packages {
        let name = format!("{}-{}.crate", package.name, release.version);
        bytes += std::fs::copy(packed.join(&name), into.join(&name))
            .with_context(|| format!("cannot copy {name}"))?;
    }
    Ok(Outcome::Passed(format!("{} packages of {} together", packages.len(), mebibytes(bytes))))
}

/// Builds the program.
pub(super) fn program(release: &Release<'_>) -> anyhow::Result<Outcome> {
    let profile = release.options.profile.as_str();
    let arguments = ["build", "--locked", "-p", PROGRAM, "--profile", profile];
    if !cargo::run(&release.workspace.root, &arguments, &[])? {
        return Ok(Outcome::Failed("the program does not build".to_owned()));
    }
    let built = release.built();
    let version = printed(Command::new(&built).arg("--version"))?;
    ensure!(
        version.trim() == format!("looptree {}", release.version),
        "{} prints `{}` as its version, not {}",
        built.display(),
        version.trim(),
        release.version
    );
    let bytes = std::fs::metadata(&built)?.len();
    let goal = if bytes > GOAL && profile == "dist" { ", more than the goal of 16 MB" } else { "" };
    Ok(Outcome::Passed(format!("{} ({bytes} bytes{goal}), profile {profile}", mebibytes(bytes))))
}

/// Packs the program with its README, licences, manual pages and completions.
pub(super) fn archive(release: &Release<'_>) -> anyhow::Result<Outcome> {
    let stem = release.stem();
    let staged = release.folder.join("staged");
    empty(&staged)?;
    let folder = staged.join(&stem);
    std::fs::create_dir_all(folder.join("completions"))?;
    let root = &release.workspace.root;
    let built = release.built();
    ensure!(built.is_file(), "{} is missing; run the step program", built.display());
    let sources = [
        (built.clone(), release.platform.program()),
        (root.join("crates").join(PROGRAM).join("README.md"), "README.md"),
        (root.join("CHANGELOG.md"), "CHANGELOG.md"),
        (root.join("LICENSE-APACHE"), "LICENSE-APACHE"),
        (root.join("LICENSE-MIT"), "LICENSE-MIT"),
    ];
    for (from, name) in &sources {
        std::fs::copy(from, folder.join(name)).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    printed(Command::new(&built).arg("man").arg(folder.join("man")))?;
    for (shell, name) in SHELLS {
        let script = printed(Command::new(&built).args(["completions", shell]))?;
        std::fs::write(folder.join("completions").join(name), script)?;
    }
    let file = release.folder.join(release.archive_name());
    pack(&staged, &stem, &file)?;
    std::fs::remove_dir_all(&staged)?;
    Ok(Outcome::Passed(format!(
        "{} of {}",
        release.archive_name(),
        mebibytes(std::fs::metadata(&file)?.len())
    )))
}

/// Packs a folder with `tar`, which all supported systems have. With GNU tar, the bytes depend on the files only.
fn pack(from: &Path, folder: &str, file: &Path) -> anyhow::Result<()> {
    let mut command = Command::new("tar");
    command.arg("-C").arg(from);
    // The tar of Windows writes a zip file if the name ends so.
    let is_zip = file.extension().is_some_and(|extension| extension == "zip");
    command.arg(if is_zip { "-acf" } else { "-czf" }).arg(file);
    if printed(Command::new("tar").arg("--version")).is_ok_and(|text| text.contains("GNU tar")) {
        command.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime", TIME]);
    }
    printed(command.arg(folder)).map(drop)
}

impl Release<'_> {
    /// The file name of the archive.
    pub(super) fn archive_name(&self) -> String {
        let ending = if self.platform.npm_os == "win32" { "zip" } else { "tar.gz" };
        format!("{}.{ending}", self.stem())
    }
}

/// Writes the SHA-256 of each file among the artifacts, in the form that `sha256sum --check` reads.
pub(super) fn checksums(release: &Release<'_>) -> anyhow::Result<Outcome> {
    let text = checksums_of(&release.folder)?;
    std::fs::write(release.folder.join(CHECKSUMS), &text).context("cannot write the checksums")?;
    say_as_is!("{text}");
    Ok(Outcome::Passed(format!("{ARTIFACTS}/{CHECKSUMS} has {} files", text.lines().count())))
}

pub(super) fn checksums_of(folder: &Path) -> anyhow::Result<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_file() && name != CHECKSUMS {
            names.push(name);
        }
    }
    names.sort();
    let mut text = String::new();
    for name in names {
        let bytes = std::fs::read(folder.join(&name)).with_context(|| format!("cannot read {name}"))?;
        let mut sum = String::new();
        for byte in Sha256::digest(&bytes) {
            let _ = write!(sum, "{byte:02x}");
        }
        let _ = writeln!(text, "{sum}  {name}");
    }
    Ok(text)
}
