//! Rules about who depends on whom, from `cargo metadata`.

use std::collections::BTreeMap;

use super::{Finding, licence};
use crate::features::FACADE;
use crate::workspace::{Metadata, Package};

/// The crate that everything stands on.
const CORE: &str = "looptree-core";

/// The crates beside each other on agent-core.
const SIBLINGS: &[&str] = &["looptree-providers", "looptree-tools", "looptree-session"];

/// What agent-core may depend on: nothing here opens a file or a socket with the features below.
const CORE_DEPENDENCIES: &[&str] = &[
    "async-trait",
    "base64",
    "bytes",
    "chrono",
    "futures-core",
    "futures-util",
    "getrandom",
    "indexmap",
    "jiter",
    "memchr",
    "schemars",
    "serde",
    "serde_json",
    "sha2",
    "thiserror",
    "tokio",
    "tokio-util",
    "tracing",
    "uuid",
];

/// Features that would bring I/O or a clock into agent-core.
const IO_FEATURES: &[(&str, &[&str])] = &[
    ("tokio", &["full", "fs", "io-std", "net", "process", "rt-multi-thread", "signal"]),
    ("tokio-util", &["full", "net", "codec"]),
    ("chrono", &["clock", "now", "default"]),
];

/// Packages that are never taken, with the reason.
const BANNED: &[(&str, &str)] = &[
    ("reqwest-eventsource", "it sends a billed POST again when a stream ends; see docs/dependencies.md"),
    (
        "eventsource-stream",
        "it panics on a byte order mark and is quadratic on long lines; see docs/dependencies.md",
    ),
    ("ring", "the graph has one crypto library, and that is aws-lc"),
    ("serde_yaml", "it is no longer kept"),
    ("serde_yml", "it is archived with an advisory (RUSTSEC-2025-0068)"),
];

/// Packages that only the feature `tls-native` may bring.
const NATIVE_ONLY: &[&str] = &["openssl", "openssl-sys", "native-tls"];

/// Packages of which the graph holds one version that its users can see.
const SINGLE: &[&str] = &["reqwest", "hyper", "rustls", "h2", "http", "tokio", "serde", "aws-lc-rs"];

/// Where packages may come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Rules about the members themselves.
pub(super) fn members(metadata: &Metadata, findings: &mut Vec<Finding>) {
    let names: Vec<&str> = metadata.members().map(|p| p.name.as_str()).collect();
    for package in metadata.members() {
        let manifest = manifest(&package.name);
        if package.license.as_deref() != Some("MIT OR Apache-2.0") {
            findings.push(Finding::error("member-licence", &manifest, 0, "write `license.workspace = true`"));
        }
        for dependency in &package.dependencies {
            let name = dependency.name.as_str();
            let dev = dependency.kind.as_deref() == Some("dev");
            if package.name == CORE && !dev && !CORE_DEPENDENCIES.contains(&name) {
                let text =
                    format!("{CORE} depends on {name}, which is not on its list in xtask/src/tidy/graph.rs");
                findings.push(Finding::error("core-dependencies", &manifest, 0, text));
            }
            if package.name == CORE && !dev {
                for feature in io_features(name, &dependency.features) {
                    let text = format!("{CORE} takes {name} with `{feature}`, which does I/O or has a clock");
                    findings.push(Finding::error("core-dependencies", &manifest, 0, text));
                }
            }
            let itself = name == package.name;
            if package.name == CORE && names.contains(&name) && !itself {
                findings.push(Finding::error("layers", &manifest, 0, format!("{CORE} depends on {name}")));
            }
            if SIBLINGS.contains(&package.name.as_str())
                && !itself
                && (SIBLINGS.contains(&name) || name == FACADE)
            {
                let text =
                    format!("{} depends on {name}; of this workspace it may use {CORE} only", package.name);
                findings.push(Finding::error("layers", &manifest, 0, text));
            }
        }
    }
}

fn io_features<'a>(dependency: &str, features: &'a [String]) -> impl Iterator<Item = &'a str> {
    let forbidden =
        IO_FEATURES.iter().find(|(name, _)| *name == dependency).map_or(&[] as &[&str], |(_, list)| list);
    features.iter().map(String::as_str).filter(|f| forbidden.contains(f))
}

fn manifest(package: &str) -> String {
    match package {
        "xtask" => "xtask/Cargo.toml".to_owned(),
        FACADE => format!("crates/{FACADE}/Cargo.toml"),
        name if name == CORE || SIBLINGS.contains(&name) => {
            format!("crates/{}/Cargo.toml", name.replacen(FACADE, "agent", 1))
        }
        _ => "examples/Cargo.toml".to_owned(),
    }
}

/// Rules about every package that any feature can bring.
pub(super) fn packages(metadata: &Metadata, findings: &mut Vec<Finding>) {
    for package in &metadata.packages {
        let place = place(package);
        match package.license.as_deref() {
            None => findings.push(Finding::error("licences", &place, 0, "names no licence")),
            Some(expression) if !licence::is_allowed(expression) => {
                let text = format!("licence `{expression}` is not on the list in xtask/src/tidy/licence.rs");
                findings.push(Finding::error("licences", &place, 0, text));
            }
            Some(_) => {}
        }
        match package.source.as_deref() {
            None | Some(REGISTRY) => {}
            Some(other) => {
                findings.push(Finding::error(
                    "sources",
                    &place,
                    0,
                    format!("comes from {other}; use a release"),
                ));
            }
        }
    }
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in metadata.built() {
        if let Some((_, why)) = BANNED.iter().find(|(name, _)| *name == package.name) {
            findings.push(Finding::error("bans", &place(package), 0, *why));
        }
        if let Some(name) = SINGLE.iter().find(|n| **n == package.name) {
            versions.entry(name).or_default().push(&package.version);
        }
    }
    for (name, versions) in versions {
        if versions.len() > 1 {
            let text = format!("stands {} times in the graph: {}", versions.len(), versions.join(", "));
            findings.push(Finding::error("single-version", name, 0, text));
        }
    }
}

/// Rules about the packages that come without a feature being named.
pub(super) fn default_packages(metadata: &Metadata, findings: &mut Vec<Finding>) {
    for package in metadata.built().filter(|p| NATIVE_ONLY.contains(&p.name.as_str())) {
        let text = "comes without `tls-native` being asked for; the default is rustls with aws-lc";
        findings.push(Finding::error("bans", &place(package), 0, text));
    }
}

fn place(package: &Package) -> String {
    format!("{} {}", package.name, package.version)
}
