//! The packages of npm and PyPI that hold the program. Their templates are in `packaging`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::{Map, Value};

use super::platform::RELEASED;
use super::{Outcome, Release, answers, empty, mebibytes, printed};

const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// npm, which is a script on Windows.
pub(super) const NPM: &str = if cfg!(windows) { "npm.cmd" } else { "npm" };

/// Packs the package `looptree`, which starts the program, and the one of this platform, which holds it.
pub(super) fn npm(release: &Release<'_>) -> anyhow::Result<Outcome> {
    if !answers(NPM, "--version") {
        return Ok(Outcome::Skipped("npm is missing".to_owned()));
    }
    let templates = release.workspace.root.join("packaging/npm");
    let staged = release.folder.join("npm");
    empty(&staged)?;

    let platform = staged.join("platform");
    std::fs::create_dir_all(platform.join("bin"))?;
    for name in ["package.json", "README.md"] {
        let template = std::fs::read_to_string(templates.join("platform").join(name))?;
        std::fs::write(platform.join(name), platform_file(&template, release))?;
    }
    std::fs::copy(release.built(), platform.join("bin").join(release.platform.program()))
        .context("the program is missing; run the step program")?;

    let launcher = staged.join("looptree");
    std::fs::create_dir_all(&launcher)?;
    let template = std::fs::read_to_string(templates.join("looptree/package.json"))?;
    std::fs::write(launcher.join("package.json"), launcher_manifest(&template, &release.version)?)?;
    for name in ["looptree.js", "README.md"] {
        std::fs::copy(templates.join("looptree").join(name), launcher.join(name))?;
    }

    let mut made = Vec::new();
    for folder in [&platform, &launcher] {
        copy_licences(&release.workspace.root, folder)?;
        let mut pack = Command::new(NPM);
        pack.args(["pack", "--ignore-scripts", "--loglevel=error", "--pack-destination"])
            .arg(&release.folder);
        let name = printed(pack.current_dir(folder))?.trim().to_owned();
        made.push(format!("{name} of {}", size(&release.folder.join(&name))?));
    }
    std::fs::remove_dir_all(&staged)?;
    Ok(Outcome::Passed(made.join(", ")))
}

/// The file names of the packages of npm, the program's first.
pub(super) fn npm_files(release: &Release<'_>) -> [String; 2] {
    let scoped = release.platform.npm_package().trim_start_matches('@').replace('/', "-");
    [format!("{scoped}-{}.tgz", release.version), format!("looptree-{}.tgz", release.version)]
}

/// A file of the package of a platform.
fn platform_file(template: &str, release: &Release<'_>) -> String {
    let platform = &release.platform;
    let filled = template
        .replace("{name}", &platform.npm_package())
        .replace("{version}", &release.version)
        .replace("{os}", platform.npm_os)
        .replace("{cpu}", platform.npm_cpu);
    // The program needs glibc, which npm can only tell on Linux.
    match platform.npm_os {
        "linux" => filled.replace("\"preferUnplugged\"", "\"libc\": [\"glibc\"],\n  \"preferUnplugged\""),
        _ => filled,
    }
}

/// The manifest of the package `looptree`, which depends on the packages of all platforms in the same version.
pub(super) fn launcher_manifest(template: &str, version: &str) -> anyhow::Result<String> {
    let mut manifest: Map<String, Value> = serde_json::from_str(&template.replace("{version}", version))
        .context("packaging/npm/looptree/package.json is no JSON object")?;
    let packages = RELEASED.iter().map(|(os, cpu)| (format!("@looptree/{os}-{cpu}"), Value::from(version)));
    manifest.insert("optionalDependencies".to_owned(), Value::Object(packages.collect()));
    Ok(serde_json::to_string_pretty(&manifest)? + "\n")
}

/// Writes the wheel of PyPI.
pub(super) fn pypi(release: &Release<'_>) -> anyhow::Result<Outcome> {
    if !answers("python3", "--version") {
        return Ok(Outcome::Skipped("python3 is missing".to_owned()));
    }
    let root = &release.workspace.root;
    let program = release.built();
    let bytes = std::fs::read(&program).context("the program is missing; run the step program")?;
    let tag = release.platform.wheel_tag(&bytes)?;
    for old in wheels(&release.folder)? {
        std::fs::remove_file(old)?;
    }
    let mut python = Command::new("python3");
    python.arg(root.join("packaging/pypi/wheel.py")).args([release.version.as_str(), &tag]).arg(&program);
    python.arg(root.join("packaging/pypi/README.md")).args(LICENCES.map(|name| root.join(name)));
    let name = printed(python.arg(&release.folder))?.trim().to_owned();
    Ok(Outcome::Passed(format!("{name} of {}", size(&release.folder.join(&name))?)))
}

/// The wheels among the artifacts.
pub(super) fn wheels(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut wheels = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "whl") {
            wheels.push(path);
        }
    }
    Ok(wheels)
}

fn size(file: &Path) -> anyhow::Result<String> {
    let found = std::fs::metadata(file).with_context(|| format!("{} was not made", file.display()))?;
    ensure!(found.len() > 0, "{} is empty", file.display());
    Ok(mebibytes(found.len()))
}

fn copy_licences(root: &Path, folder: &Path) -> anyhow::Result<()> {
    for name in LICENCES {
        std::fs::copy(root.join(name), folder.join(name)).with_context(|| format!("cannot copy {name}"))?;
    }
    Ok(())
}
