//! Which features there are, which can be built on this machine, and which combinations are tried.

use std::process::Command;

use anyhow::bail;

use crate::cargo;
use crate::release::PROGRAM;
use crate::workspace::{Graph, Metadata, Package, Workspace};

/// The feature that needs the operating system's TLS library and its headers.
pub(crate) const NATIVE_TLS: &str = "tls-native";

/// Pairs of the facade's features that share code and once could disagree.
const FACADE_PAIRS: &[&str] = &[
    "anthropic,tls-rustls",
    "openai-chat,ollama",
    "anthropic,google",
    "tools,session",
    "ollama,tools",
    "anthropic,session",
];

/// The crate that re-exports all others.
pub(crate) const FACADE: &str = "looptree";

/// `--features` with every feature of every member that this machine can build: all but [`NATIVE_TLS`] where the
/// system's TLS library has no headers here.
pub(crate) fn everything(workspace: &Workspace) -> anyhow::Result<String> {
    let metadata = workspace.metadata(Graph::Default)?;
    Ok(join_all(&metadata, has_native_tls()))
}

fn join_all(metadata: &Metadata, native_tls: bool) -> String {
    let mut all: Vec<String> = Vec::new();
    for package in metadata.members() {
        for feature in names(package) {
            if native_tls || !brings_native_tls(package, feature) {
                all.push(format!("{}/{feature}", package.name));
            }
        }
    }
    all.join(",")
}

/// The features that a user can name.
fn names(package: &Package) -> impl Iterator<Item = &str> {
    package.features.keys().map(String::as_str)
}

/// Whether the feature is, or switches on, the system's TLS.
fn brings_native_tls(package: &Package, feature: &str) -> bool {
    let mut open = vec![feature];
    let mut seen = Vec::new();
    while let Some(name) = open.pop() {
        if name == NATIVE_TLS || name.ends_with("/native-tls") || name.ends_with("/tls-native") {
            return true;
        }
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        if let Some(list) = package.features.get(name).and_then(serde_json::Value::as_array) {
            open.extend(list.iter().filter_map(serde_json::Value::as_str));
        }
    }
    false
}

/// Whether [`NATIVE_TLS`] can be built: always where the system brings its own, on other systems when `pkg-config`
/// finds OpenSSL.
pub(crate) fn has_native_tls() -> bool {
    cfg!(any(windows, target_os = "macos"))
        || Command::new("pkg-config").args(["--exists", "openssl"]).status().is_ok_and(|s| s.success())
}

/// One `cargo check` that has to pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Combination {
    /// The package.
    pub(crate) package: String,
    /// The arguments after `-p package`.
    pub(crate) arguments: Vec<String>,
}

/// Which combinations are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The facade with no feature. `cargo xtask test` checks its defaults, with the examples, and clippy all features together.
    Facade,
    /// Each library with no feature, with each feature alone and with all; the facade also with its defaults and with pairs.
    Each,
}

/// The combinations of all published libraries.
fn combinations(metadata: &Metadata, native_tls: bool, scope: Scope) -> Vec<Combination> {
    let mut all = Vec::new();
    // The command is no library: clippy checks it with all features, and its tests with none.
    let libraries = metadata.members().filter(|p| p.is_published() && p.name != PROGRAM);
    for package in libraries.filter(|p| scope == Scope::Each || p.name == FACADE) {
        let mut add = |arguments: &[&str]| {
            let arguments = arguments.iter().map(|a| (*a).to_owned()).collect();
            all.push(Combination { package: package.name.clone(), arguments });
        };
        add(&["--no-default-features"]);
        if scope == Scope::Facade {
            continue;
        }
        if package.name == FACADE {
            add(&[]);
        }
        let features: Vec<&str> = names(package)
            .filter(|f| *f != "default" && (native_tls || !brings_native_tls(package, f)))
            .collect();
        if features.is_empty() {
            continue;
        }
        for feature in &features {
            add(&["--no-default-features", "--features", feature]);
        }
        add(&["--no-default-features", "--features", &features.join(",")]);
        if package.name == FACADE {
            for pair in FACADE_PAIRS.iter().filter(|pair| pair.split(',').all(|f| features.contains(&f))) {
                add(&["--no-default-features", "--features", pair]);
            }
        }
    }
    all
}

/// Runs `cargo xtask features`; `false` when a combination does not build.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    if let Some(unknown) = arguments.first() {
        bail!("`cargo xtask features` takes no argument, but got `{unknown}`");
    }
    check(workspace, Scope::Each)
}

/// Checks the combinations of the scope; `false` when one does not build.
pub(crate) fn check(workspace: &Workspace, scope: Scope) -> anyhow::Result<bool> {
    let native_tls = has_native_tls();
    if !native_tls {
        say!("note: {NATIVE_TLS} is left out, since pkg-config finds no OpenSSL here");
    }
    let metadata = workspace.metadata(Graph::Default)?;
    let mut failed = Vec::new();
    for combination in combinations(&metadata, native_tls, scope) {
        let mut arguments = vec!["check", "--quiet", "--locked", "-p", &combination.package];
        arguments.extend(combination.arguments.iter().map(String::as_str));
        cargo::say(&arguments, &[]);
        // Warnings about code that only another feature uses are not shown; the clippy step checks all features together.
        let output = cargo::output(&workspace.root, &arguments)?;
        if !output.status.success() {
            say!("{}", String::from_utf8_lossy(&output.stderr));
            failed.push(format!("{} {}", combination.package, combination.arguments.join(" ")));
        }
    }
    for name in &failed {
        say!("does not build: {name}");
    }
    Ok(failed.is_empty())
}

#[cfg(test)]
mod tests;
