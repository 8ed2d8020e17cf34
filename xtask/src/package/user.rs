//! Users' programs, compiled against the unpacked packages: one that uses `looptree`, one that picks single crates, and the
//! examples of the packages' READMEs.

use std::fmt::Write as _;
use std::path::Path;

use crate::cargo;
use crate::features::FACADE;
use crate::release::PROGRAM;
use crate::workspace::Workspace;

use super::Unpacked;

const FACADE_PROGRAM: &str = include_str!("../../package/facade.rs");
const SINGLE_PROGRAM: &str = include_str!("../../package/single.rs");

/// The features that the program of single crates enables.
const SINGLE_FEATURES: &[(&str, &str)] =
    &[("looptree-core", "\"testing\""), ("looptree-providers", "\"anthropic\", \"openai-chat\", \"ollama\"")];

/// Whether users depend on the package. `cargo xtask release` installs the command.
fn is_library(package: &&Unpacked) -> bool {
    package.name != PROGRAM
}

/// How much is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The program that uses the facade, with its default features.
    Facade,
    /// Both programs, the examples of the READMEs, and the facade with all features.
    All,
}

/// Writes the programs into `folder`, compiles them and runs that of the single crates; `false` if one fails.
pub(super) fn compile(
    workspace: &Workspace,
    packages: &[Unpacked],
    folder: &Path,
    scope: Scope,
) -> anyhow::Result<bool> {
    for (name, program) in [("facade", FACADE_PROGRAM), ("single", SINGLE_PROGRAM)] {
        std::fs::create_dir_all(folder.join(name).join("src"))?;
        std::fs::write(folder.join(name).join("src/main.rs"), program)?;
    }
    std::fs::write(folder.join("Cargo.toml"), workspace_manifest(packages))?;
    std::fs::write(folder.join("facade/Cargo.toml"), facade_manifest(packages))?;
    std::fs::write(folder.join("single/Cargo.toml"), single_manifest(packages))?;
    std::fs::write(folder.join("single/src/lib.rs"), readmes(packages))?;
    // The same versions as in the workspace, so that nothing has to be downloaded.
    std::fs::copy(workspace.root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let target = workspace.root.join("target").display().to_string();
    let environment = [("CARGO_TARGET_DIR", target.as_str())];
    // Checked and not linked, so that the dependencies which the step `features` has checked are used again.
    let mut steps: Vec<&[&str]> = vec![&["check", "--quiet", "--offline", "-p", "looptree-user-facade"]];
    if scope == Scope::All {
        steps.extend::<[&[&str]; 3]>([
            &["run", "--quiet", "--offline", "-p", "looptree-user-single"],
            &["test", "--quiet", "--offline", "-p", "looptree-user-single", "--doc"],
            &["check", "--quiet", "--offline", "-p", "looptree-user-facade", "--features", "looptree/full"],
        ]);
    }
    for step in steps {
        if !cargo::run(folder, step, &environment)? {
            say!(
                "a user's program does not compile against the packages, or fails; it is in {}",
                folder.display()
            );
            return Ok(false);
        }
    }
    Ok(true)
}

/// The workspace of the programs. Its patches take the place of crates.io, where the packages may not be published yet.
fn workspace_manifest(packages: &[Unpacked]) -> String {
    let mut text = String::from(
        "[workspace]\nresolver = \"3\"\nmembers = [\"facade\", \"single\"]\n\n\
         # As in the project's own workspace, so that compiled dependencies are shared.\n\
         [profile.dev]\ndebug = \"line-tables-only\"\n\n[profile.dev.package.\"*\"]\ndebug = false\n\n[patch.crates-io]\n",
    );
    for package in packages.iter().filter(is_library) {
        let _ = writeln!(text, "{} = {{ path = {:?} }}", package.name, package.folder);
    }
    text
}

fn head(name: &str) -> String {
    format!(
        "[package]\nname = \"looptree-user-{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n[dependencies]\n"
    )
}

/// Depends on the facade alone.
fn facade_manifest(packages: &[Unpacked]) -> String {
    let mut text = head("facade");
    for package in packages.iter().filter(|p| p.name == FACADE) {
        let _ = writeln!(text, "{} = \"={}\"", package.name, package.version);
    }
    text
}

/// Depends on the single crates under the names of their libraries.
fn single_manifest(packages: &[Unpacked]) -> String {
    let mut text = head("single");
    for package in packages.iter().filter(is_library).filter(|p| p.name != FACADE) {
        let features = SINGLE_FEATURES.iter().find(|(name, _)| *name == package.name).map_or("", |(_, f)| f);
        let key = package.name.replacen(FACADE, "agent", 1);
        let _ = writeln!(
            text,
            "{key} = {{ package = \"{}\", version = \"={}\", features = [{features}] }}",
            package.name, package.version
        );
    }
    text.push_str("schemars = \"1\"\nserde = { version = \"1\", features = [\"derive\"] }\n");
    text.push_str("tokio = { version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }\n");
    text
}

/// A library whose documentation tests are the examples of the packages' READMEs. The facade's README is that of the project,
/// whose examples are among the tests of `looptree`.
fn readmes(packages: &[Unpacked]) -> String {
    let mut text = String::from("//! The examples of the READMEs.\n");
    for (number, package) in packages.iter().filter(is_library).filter(|p| p.name != FACADE).enumerate() {
        let readme = package.folder.join("README.md");
        let _ = write!(
            text,
            "\n#[cfg(doctest)]\n#[doc = include_str!({readme:?})]\npub struct Readme{number};\n"
        );
    }
    text
}

#[cfg(test)]
mod tests;
