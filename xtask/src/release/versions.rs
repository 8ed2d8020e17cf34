//! The versions of the packages, the order in which they are published, and the changelog.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};

use super::{Outcome, Release};
use crate::workspace::{Graph, Metadata, Package};

/// The heading of changes that no release has.
const UNRELEASED: &str = "Unreleased";

/// Checks that the published packages have one version, and that they require each other in exactly this version.
pub(super) fn check(release: &Release<'_>) -> anyhow::Result<Outcome> {
    let metadata = release.workspace.metadata(Graph::Default)?;
    let mut problems = problems(&metadata, &release.version);
    if let Some(wanted) = &release.options.version
        && *wanted != release.version
    {
        problems.push(format!(
            "the release is to be {wanted}, but the packages have {}; change these lines of Cargo.toml:",
            release.version
        ));
        let manifest = std::fs::read_to_string(release.workspace.root.join("Cargo.toml"))?;
        problems.extend(lines_with_version(&manifest, &release.version));
    }
    let order = order(&metadata)?;
    if !problems.is_empty() {
        return Ok(Outcome::Failed(problems.join("\n")));
    }
    Ok(Outcome::Passed(format!(
        "{} packages have version {} and are published in this order: {}",
        order.len(),
        release.version,
        order.join(", ")
    )))
}

/// What is wrong with the versions of the published packages.
pub(super) fn problems(metadata: &Metadata, version: &str) -> Vec<String> {
    let published: BTreeMap<&str, &Package> = published(metadata);
    let exact = format!("={version}");
    let mut problems = Vec::new();
    for package in published.values() {
        if package.version != version {
            problems.push(format!("{} has version {}, not {version}", package.name, package.version));
        }
        for dependency in package.dependencies.iter().filter(|d| is_member(metadata, &d.name)) {
            let is_test_only = dependency.kind.as_deref() == Some("dev");
            if !published.contains_key(dependency.name.as_str()) && !is_test_only {
                problems.push(format!("{} needs {}, which is not published", package.name, dependency.name));
            }
            // A requirement of tests without a version is left out of the published package.
            if dependency.req != exact && !(is_test_only && dependency.req == "*") {
                problems.push(format!(
                    "{} requires {} {}, not {exact}",
                    package.name, dependency.name, dependency.req
                ));
            }
        }
    }
    problems
}

fn published(metadata: &Metadata) -> BTreeMap<&str, &Package> {
    let members = metadata.members().filter(|package| package.is_published());
    members.map(|package| (package.name.as_str(), package)).collect()
}

fn is_member(metadata: &Metadata, name: &str) -> bool {
    metadata.members().any(|member| member.name == name)
}

/// The published packages, each after all that it depends on: the order in which they have to be published.
pub(super) fn order(metadata: &Metadata) -> anyhow::Result<Vec<String>> {
    let mut open = published(metadata);
    let mut order: Vec<String> = Vec::new();
    while !open.is_empty() {
        let waiting: BTreeSet<&str> = open.keys().copied().collect();
        let is_ready = |package: &&Package| {
            let mut needed = package.dependencies.iter().filter(|d| d.name != package.name && d.req != "*");
            needed.all(|dependency| !waiting.contains(dependency.name.as_str()))
        };
        let ready: Vec<&str> = open.values().filter(|p| is_ready(p)).map(|p| p.name.as_str()).collect();
        if ready.is_empty() {
            bail!(
                "these packages depend on each other: {}",
                waiting.into_iter().collect::<Vec<_>>().join(", ")
            );
        }
        for name in ready {
            open.remove(name);
            order.push(name.to_owned());
        }
    }
    Ok(order)
}

/// The lines of the manifest that hold the version of the packages, with their numbers.
pub(super) fn lines_with_version(manifest: &str, version: &str) -> Vec<String> {
    let (own, exact) = (format!("version = \"{version}\""), format!("version = \"={version}\""));
    let lines = manifest.lines().enumerate();
    let found = lines
        .filter(|(_, line)| *line == own || (line.contains(&exact) && line.contains("path = \"crates/")));
    found.map(|(number, line)| format!("{}: {line}", number + 1)).collect()
}

/// Checks that the changelog has a section for the version.
pub(super) fn changelog(release: &Release<'_>) -> anyhow::Result<Outcome> {
    let text = std::fs::read_to_string(release.workspace.root.join("CHANGELOG.md"))
        .context("cannot read CHANGELOG.md")?;
    Ok(section(&text, &release.version, release.options.version.is_some())
        .map_or_else(Outcome::Failed, Outcome::Passed))
}

/// Describes the section of a version. With `tagged`, the version must have a section of its own; otherwise the changes that no
/// release has are enough.
pub(super) fn section(changelog: &str, version: &str, tagged: bool) -> Result<String, String> {
    let mut entries: BTreeMap<&str, usize> = BTreeMap::new();
    let mut at = None;
    for line in changelog.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            let name = heading.split(" - ").next().unwrap_or_default().trim();
            let name = name.trim_start_matches('[').trim_end_matches(']');
            at = Some(name);
            entries.entry(name).or_default();
        } else if let Some(name) = at
            && line.starts_with("- ")
        {
            *entries.entry(name).or_default() += 1;
        }
    }
    let count = |name: &str| entries.get(name).copied();
    match (count(version), count(UNRELEASED)) {
        (Some(0), _) => Err(format!("the section {version} of CHANGELOG.md has no entry")),
        (Some(entries), None | Some(0)) => Ok(format!("CHANGELOG.md has {entries} entries for {version}")),
        (Some(_), Some(left)) if tagged => Err(format!(
            "CHANGELOG.md has a section {version} and {left} entries below `## {UNRELEASED}`; move those into it"
        )),
        (Some(_), Some(left)) => Ok(format!(
            "CHANGELOG.md has a section {version} and {left} entries below `## {UNRELEASED}` for the next release"
        )),
        (None, Some(entries)) if entries > 0 && !tagged => Ok(format!(
            "CHANGELOG.md has {entries} entries below `## {UNRELEASED}`; the release renames it to `## {version} - DATE`"
        )),
        (None, _) => Err(format!("CHANGELOG.md has no section `## {version} - DATE`")),
    }
}
