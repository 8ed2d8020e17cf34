//! `cargo xtask release --dry-run`: checks, builds and installs what a release would publish, and publishes nothing.
//!
//! All files are written to `target/release-artifacts`. `docs/release.md` describes the steps.

mod artifacts;
mod install;
mod platform;
mod sbom;
mod semver;
mod versions;
mod wrappers;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::steps::{self, Outcome};
use crate::workspace::{Graph, Workspace};
use platform::Platform;

/// The package of the command.
pub(crate) const PROGRAM: &str = "looptree-cli";

/// Where everything is written, from the root.
const ARTIFACTS: &str = "target/release-artifacts";

/// The answer to a call without `--dry-run`.
const REFUSAL: &str = "`cargo xtask release` publishes nothing: .github/workflows/release.yml publishes when a tag `vX.Y.Z` is pushed. \
`cargo xtask release --dry-run` checks, builds and installs what it would publish";

/// What the command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Options {
    /// The version that the release is meant to have.
    version: Option<String>,
    /// The revision whose public API is compared; the newest tag of a release if it is `None`.
    baseline: Option<String>,
    /// The cargo profile of the program.
    profile: String,
    /// The steps that run.
    steps: Vec<&'static str>,
}

/// What the steps share.
struct Release<'a> {
    workspace: &'a Workspace,
    options: &'a Options,
    /// The version of the published packages.
    version: String,
    platform: Platform,
    /// The folder with the artifacts.
    folder: PathBuf,
}

/// One step: its name and what it does. A later step may need the files of an earlier one.
struct Step {
    name: &'static str,
    run: fn(&Release<'_>) -> anyhow::Result<Outcome>,
}

const STEPS: &[Step] = &[
    Step { name: "versions", run: versions::check },
    Step { name: "changelog", run: versions::changelog },
    Step { name: "packages", run: artifacts::packages },
    Step { name: "semver", run: semver::check },
    Step { name: "program", run: artifacts::program },
    Step { name: "archive", run: artifacts::archive },
    Step { name: "sbom", run: sbom::write },
    Step { name: "npm", run: wrappers::npm },
    Step { name: "pypi", run: wrappers::pypi },
    Step { name: "checksums", run: artifacts::checksums },
    Step { name: "install-archive", run: install::archive },
    Step { name: "install-cargo", run: install::cargo },
    Step { name: "install-npm", run: install::npm },
    Step { name: "install-pip", run: install::pip },
];

/// The steps that need no build; they are a step of CI.
const CHEAP: &[&str] = &["versions", "changelog"];

/// Runs the dry run; `false` when a step failed.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    if let [only] = arguments
        && only == "--order"
    {
        for name in versions::order(&workspace.metadata(Graph::Default)?)? {
            say!("{name}");
        }
        return Ok(true);
    }
    if !arguments.iter().any(|word| word == "--dry-run") {
        bail!(REFUSAL);
    }
    play(workspace, &options(arguments)?)
}

/// Runs the steps that need no build.
pub(crate) fn run_for_ci(workspace: &Workspace) -> anyhow::Result<bool> {
    let options =
        Options { version: None, baseline: None, profile: "dist".to_owned(), steps: CHEAP.to_vec() };
    play(workspace, &options)
}

fn options(arguments: &[String]) -> anyhow::Result<Options> {
    let all: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
    let mut options =
        Options { version: None, baseline: None, profile: "dist".to_owned(), steps: all.clone() };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().cloned().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--dry-run" => {}
            "--version" => options.version = Some(value()?.trim_start_matches('v').to_owned()),
            "--baseline" => options.baseline = Some(value()?),
            "--profile" => options.profile = value()?,
            "--only" | "--without" => {
                let left = steps::chosen(&all, word, &value()?)?;
                options.steps.retain(|step| left.contains(step));
            }
            other => bail!(
                "`cargo xtask release --dry-run` takes --version X, --baseline REV, --profile NAME, --only STEP,STEP and \
                 --without STEP,STEP, but got `{other}`"
            ),
        }
    }
    Ok(options)
}

fn play(workspace: &Workspace, options: &Options) -> anyhow::Result<bool> {
    let metadata = workspace.metadata(Graph::Default)?;
    let program = metadata
        .members()
        .find(|package| package.name == PROGRAM)
        .with_context(|| format!("the workspace has no package {PROGRAM}"))?;
    let release = Release {
        workspace,
        options,
        version: program.version.clone(),
        platform: Platform::of(&crate::cargo::host()?)?,
        folder: workspace.root.join(ARTIFACTS),
    };
    std::fs::create_dir_all(&release.folder)
        .with_context(|| format!("cannot make {}", release.folder.display()))?;
    let chosen = STEPS.iter().filter(|step| options.steps.contains(&step.name));
    let results: Vec<_> = chosen.map(|step| steps::play(step.name, || (step.run)(&release))).collect();
    say!("\n{}", steps::table(&results));
    say!("dry run of {} for {}: nothing was published", release.version, release.platform.target);
    Ok(steps::succeeded(&results))
}

impl Release<'_> {
    /// The name of the archive without its ending, which is also the folder in it.
    fn stem(&self) -> String {
        format!("looptree-{}-{}", self.version, self.platform.target)
    }

    /// The built program.
    fn built(&self) -> PathBuf {
        let folder = if self.options.profile == "dev" { "debug" } else { &self.options.profile };
        self.workspace.root.join("target").join(folder).join(self.platform.program())
    }

    /// An artifact, which an earlier step has made.
    fn made(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.folder.join(name);
        if path.is_file() {
            Ok(path)
        } else {
            bail!("{name} is not in {ARTIFACTS}; run the step that makes it")
        }
    }
}

/// Makes an empty folder.
fn empty(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| format!("cannot clear {}", folder.display()))?;
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// Whether a program can be started.
fn answers(program: &str, argument: &str) -> bool {
    let output =
        std::process::Command::new(program).arg(argument).stdin(std::process::Stdio::null()).output();
    output.is_ok_and(|output| output.status.success())
}

/// Runs a command to its end and returns what it printed.
fn printed(command: &mut std::process::Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(std::process::Stdio::null())
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("{name} failed with {}:\n{text}{error}", output.status);
    }
    Ok(text)
}

/// A number of bytes for readers.
fn mebibytes(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "no artifact is larger than 2^52 bytes")]
    let size = bytes as f64 / 1_048_576.0;
    format!("{size:.1} MiB")
}

#[cfg(test)]
mod tests;
