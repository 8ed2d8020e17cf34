//! Installing the artifacts into empty folders, as a user would. Each installed program prints its version and plays the demo.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use super::wrappers::{NPM, npm_files, wheels};
use super::{Outcome, PROGRAM, Release, answers, empty, printed};
use crate::{cargo, package};

/// What the demo prints when it has repaired the project.
const REPAIRED: &str = "`cargo test` there passes now";

/// The demo of the first program that was tried; the others must play the same.
const SEEN: &str = "target/release-tools/demo.txt";

/// The lines of the demo that name new paths.
const PATHS: &[&str] = &["project: ", "session: "];

/// Unpacks the archive and checks the sums of all artifacts.
pub(super) fn archive(release: &Release<'_>) -> anyhow::Result<Outcome> {
    let prefix = prefix(release, "archive")?;
    let archive = release.made(&release.archive_name())?;
    printed(Command::new("tar").arg("-C").arg(&prefix).arg("-xf").arg(&archive))?;
    let folder = prefix.join(release.stem());
    for file in ["README.md", "LICENSE-APACHE", "LICENSE-MIT", "man/looptree.1", "completions/looptree.bash"]
    {
        ensure!(folder.join(file).is_file(), "the archive has no {file}");
    }
    let sums = std::fs::read_to_string(release.made("SHA256SUMS")?)?;
    let now = super::artifacts::checksums_of(&release.folder)?;
    ensure!(sums == now, "the artifacts are not those of SHA256SUMS; run the step checksums");
    let _ = std::fs::remove_file(release.workspace.root.join(SEEN));
    tried(release, &folder.join(release.platform.program()), "the archive")
}

/// Installs the packed crates with `cargo install`.
pub(super) fn cargo(release: &Release<'_>) -> anyhow::Result<Outcome> {
    let root = &release.workspace.root;
    let unpacked = root.join(package::FOLDER).join("unpacked");
    let program = format!("{PROGRAM}-{}", release.version);
    ensure!(unpacked.join(&program).is_dir(), "{program} is not packed; run the step packages");
    // The packages are not on crates.io yet, so a workspace around them takes its place.
    std::fs::write(unpacked.join("Cargo.toml"), manifest(&unpacked, &program, &release.version)?)?;
    std::fs::copy(root.join("Cargo.lock"), unpacked.join("Cargo.lock"))?;
    let prefix = prefix(release, "cargo")?;
    let mut command = cargo::command(&unpacked);
    // Built without optimization: the program of the profile dist was built and tried before.
    command.args(["install", "--debug", "--offline", "--quiet", "--path", &program, "--root"]).arg(&prefix);
    command.env("CARGO_TARGET_DIR", root.join("target"));
    say!("$ cargo install --debug --path {}", unpacked.join(&program).display());
    printed(&mut command)?;
    tried(release, &prefix.join("bin").join(release.platform.program()), "cargo, built without optimization,")
}

/// A workspace of the packed program, in which the other packages stand for crates.io.
fn manifest(unpacked: &Path, program: &str, version: &str) -> anyhow::Result<String> {
    let mut text = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{program:?}]\n\n\
         # As in the project's own workspace, so that compiled dependencies are shared.\n\
         [profile.dev]\ndebug = \"line-tables-only\"\n\n[profile.dev.package.\"*\"]\ndebug = false\n\n[patch.crates-io]\n"
    );
    for entry in std::fs::read_dir(unpacked)? {
        let folder = entry?.file_name().to_string_lossy().into_owned();
        if let Some(name) = folder.strip_suffix(&format!("-{version}"))
            && folder != program
        {
            let _ = writeln!(text, "{name} = {{ path = {folder:?} }}");
        }
    }
    Ok(text)
}

/// Installs the packages of npm from their files.
pub(super) fn npm(release: &Release<'_>) -> anyhow::Result<Outcome> {
    if !answers(NPM, "--version") {
        return Ok(Outcome::Skipped("npm is missing".to_owned()));
    }
    let prefix = prefix(release, "npm")?;
    std::fs::write(prefix.join("package.json"), "{\"private\": true}\n")?;
    let mut command = Command::new(NPM);
    command.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--offline", "--loglevel=error"]);
    command.arg("--prefix").arg(&prefix).current_dir(&prefix);
    for file in npm_files(release) {
        command.arg(release.made(&file)?);
    }
    printed(&mut command)?;
    let name = if cfg!(windows) { "looptree.cmd" } else { "looptree" };
    tried(release, &prefix.join("node_modules/.bin").join(name), "npm")
}

/// Installs the wheel of PyPI from its file.
pub(super) fn pip(release: &Release<'_>) -> anyhow::Result<Outcome> {
    if !answers("python3", "--version") {
        return Ok(Outcome::Skipped("python3 is missing".to_owned()));
    }
    let prefix = prefix(release, "pip")?;
    let made = wheels(&release.folder)?;
    let [wheel] = made.as_slice() else {
        bail!("there is not one wheel but {}; run the step pypi", made.len())
    };
    let environment = prefix.join("venv");
    if printed(Command::new("python3").args(["-m", "venv"]).arg(&environment)).is_err() {
        return Ok(Outcome::Skipped("python's venv is missing".to_owned()));
    }
    let scripts = environment.join(if cfg!(windows) { "Scripts" } else { "bin" });
    let mut pip = Command::new(scripts.join(if cfg!(windows) { "python.exe" } else { "python" }));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]).arg(wheel);
    printed(&mut pip)?;
    tried(release, &scripts.join(release.platform.program()), "pip")
}

/// An empty folder to install into.
fn prefix(release: &Release<'_>, name: &str) -> anyhow::Result<PathBuf> {
    let prefix = release.workspace.root.join("target/release-tools/installed").join(name);
    empty(&prefix)?;
    Ok(prefix)
}

/// Lets an installed program print its version and play the demo, in the home of a user who has nothing.
fn tried(release: &Release<'_>, program: &Path, by: &str) -> anyhow::Result<Outcome> {
    ensure!(program.exists(), "{} was not installed", program.display());
    let version = printed(&mut in_empty_home(release, program, &["--version"])?)?;
    ensure!(
        version.trim() == format!("looptree {}", release.version),
        "the program of {by} prints `{}` as its version",
        version.trim()
    );
    if !answers("cargo", "--version") {
        return Ok(Outcome::Skipped(format!("{by} prints {}; the demo needs cargo on PATH", version.trim())));
    }
    let played = normalized(&printed(&mut in_empty_home(release, program, &["--demo"])?)?);
    ensure!(played.contains(REPAIRED), "the demo of {by} does not repair its project:\n{played}");
    let seen = release.workspace.root.join(SEEN);
    match std::fs::read_to_string(&seen) {
        Ok(first) if first != played => {
            bail!("the demo of {by} differs from that of the archive, which is in {SEEN}:\n{played}")
        }
        Ok(_) => {}
        Err(_) => {
            std::fs::write(&seen, &played).with_context(|| format!("cannot write {}", seen.display()))?
        }
    }
    Ok(Outcome::Passed(format!(
        "installed by {by} prints `{}` and plays the demo: {} lines",
        version.trim(),
        played.lines().count()
    )))
}

/// A command with an environment that has no key, no model server and no files of this machine's user.
fn in_empty_home(release: &Release<'_>, program: &Path, arguments: &[&str]) -> anyhow::Result<Command> {
    let home = release.workspace.root.join("target/release-tools/home");
    empty(&home)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .env("HOME", &home)
        .env("OLLAMA_HOST", "127.0.0.1:9")
        .current_dir(&home);
    for name in ["PATH", "SYSTEMROOT", "TMPDIR", "TEMP", "TMP", "PATHEXT"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    // rustup looks for toolchains below the home, which is another one here.
    for (name, folder) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
        let usual = || Some(PathBuf::from(std::env::var_os("HOME")?).join(folder).into_os_string());
        if let Some(value) = std::env::var_os(name).or_else(usual) {
            command.env(name, value);
        }
    }
    Ok(command)
}

/// What the demo printed, without paths and times, and without the number of lines that it left out: cargo prints one more
/// while it waits for another cargo.
pub(super) fn normalized(printed: &str) -> String {
    let mut text = String::new();
    for line in printed.lines().filter(|line| PATHS.iter().all(|start| !line.starts_with(start))) {
        let line = line.split("; finished in ").next().unwrap_or_default();
        let line = if line.trim_start().starts_with("… ") { "  … more lines" } else { line };
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
