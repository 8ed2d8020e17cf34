//! `cargo xtask browser` installs Chromium and ChromeDriver, and `cargo xtask view-pictures` writes the pictures of the viewer.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::bail;

use crate::cargo;
use crate::workspace::Workspace;

/// The packages of Debian and its relatives, with a font for the pictures.
const PACKAGES: &[&str] = &["chromium", "chromium-driver", "fonts-dejavu-core", "fonts-noto-core"];

/// The programs that the tests look for.
const PROGRAMS: &[&str] = &["chromium", "chromedriver"];

/// Installs the browser for the tests of `looptree-view`. Prints one line and returns `true` also if it is not available.
pub(crate) fn install(_: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    if !arguments.is_empty() {
        bail!("`cargo xtask browser` takes no arguments");
    }
    if let Some(found) = found() {
        say!("found {}", found.join(" and "));
        return Ok(true);
    }
    for arguments in [
        vec!["update", "-qq"],
        [vec!["install", "-y", "-qq", "--no-install-recommends"], PACKAGES.to_vec()].concat(),
    ] {
        let mut apt = Command::new("apt-get");
        apt.args(&arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        match apt.status() {
            Ok(status) if status.success() => {}
            Ok(status) => {
                say!("skipped: apt-get could not install chromium and chromium-driver ({status})");
                return Ok(true);
            }
            Err(error) => {
                say!("skipped: there is no chromium, and apt-get is not available ({error})");
                return Ok(true);
            }
        }
    }
    match found() {
        Some(found) => say!("installed {}", found.join(" and ")),
        None => say!("skipped: the packages have no chromium and chromedriver"),
    }
    Ok(true)
}

/// Writes the pictures in `docs/images`.
pub(crate) fn pictures(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    if !arguments.is_empty() {
        bail!("`cargo xtask view-pictures` takes no arguments");
    }
    let test = ["test", "--package", "looptree-view", "--test", "viewer", "--", "--ignored", "--nocapture"];
    let arguments: Vec<&str> = test.into_iter().chain(["write_the_pictures"]).collect();
    cargo::run(&workspace.root, &arguments, &[])
}

/// The versions of the programs; `None` if one is missing.
fn found() -> Option<Vec<String>> {
    PROGRAMS.iter().map(|program| version(program)).collect()
}

fn version(program: &str) -> Option<String> {
    let path = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&path).map(|folder: PathBuf| folder.join(program));
    let file = files.find(|file| file.is_file())?;
    let output = Command::new(file).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    output.status.success().then(|| words.join(" "))
}
