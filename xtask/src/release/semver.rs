//! The public API against that of an earlier revision.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::Context as _;

use super::{Outcome, Release, printed};
use crate::cargo;

/// The packages whose API only breaks in a breaking release (`docs/stability.md`).
const PROMISED: &[&str] = &["looptree-core", "looptree"];

/// The page that lists the names.
const PAGE: &str = "docs/surface.md";

/// Compares with cargo-semver-checks, or by the list of names where it is not installed.
pub(super) fn check(release: &Release<'_>) -> anyhow::Result<Outcome> {
    let root = &release.workspace.root;
    let git = |arguments: &[&str]| printed(Command::new("git").args(arguments).current_dir(root));
    let baseline = match &release.options.baseline {
        Some(revision) => revision.clone(),
        None => match git(&["describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^"]) {
            Ok(tag) => tag.trim().to_owned(),
            Err(_) => {
                let why = "there is no earlier release; name a revision with --baseline";
                return Ok(Outcome::Skipped(why.to_owned()));
            }
        },
    };
    if cargo::has_subcommand(root, "semver-checks") {
        let mut arguments = vec!["semver-checks", "--baseline-rev", &baseline];
        arguments.extend(PROMISED.iter().flat_map(|name| ["-p", name]));
        return Ok(if cargo::run(root, &arguments, &[])? {
            Outcome::Passed(format!("cargo-semver-checks finds no break since {baseline}"))
        } else {
            Outcome::Failed(format!("cargo-semver-checks finds breaks since {baseline}; see above"))
        });
    }
    say!(
        "cargo-semver-checks is not installed; the names of {PAGE} are compared instead, without types and signatures"
    );
    let before = git(&["show", &format!("{baseline}:{PAGE}")])
        .with_context(|| format!("{baseline} has no {PAGE} to compare with"))?;
    let manifest = git(&["show", &format!("{baseline}:Cargo.toml")])?;
    let old = version_of(&manifest).with_context(|| format!("{baseline} has no version"))?;
    let now = std::fs::read_to_string(root.join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    let removed = removed(&before, &now);
    Ok(judge(&removed, &baseline, old, &release.version))
}

/// What removed names mean for the step from one version to the next.
pub(super) fn judge(removed: &[String], baseline: &str, old: &str, new: &str) -> Outcome {
    if removed.is_empty() {
        return Outcome::Passed(format!("no name of {PAGE} was removed since {baseline} (names only)"));
    }
    let text = format!("removed since {baseline}: {}", removed.join(", "));
    if is_breaking(old, new) {
        Outcome::Passed(format!("{new} is a breaking release after {old}; {text}"))
    } else {
        Outcome::Failed(format!("{new} is no breaking release after {old}, but names were {text}"))
    }
}

/// Whether `new` may break programs that were written for `old`: before 1.0 if the second number increased.
pub(super) fn is_breaking(old: &str, new: &str) -> bool {
    let numbers = |version: &str| {
        let mut parts = version.split(['.', '-', '+']).map(|part| part.parse::<u64>().unwrap_or_default());
        let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if major == 0 { (0, minor) } else { (major, 0) }
    };
    numbers(new) > numbers(old)
}

/// The version of the workspace's packages.
pub(super) fn version_of(manifest: &str) -> Option<&str> {
    let section = manifest.split("[workspace.package]").nth(1)?;
    section.lines().find_map(|line| line.strip_prefix("version = \""))?.strip_suffix('"')
}

/// The names, with the heading that they are listed below, which the second page lacks.
pub(super) fn removed(before: &str, now: &str) -> Vec<String> {
    names(before).difference(&names(now)).map(|(heading, name)| format!("{name} ({heading})")).collect()
}

fn names(page: &str) -> BTreeSet<(String, String)> {
    let mut heading = String::new();
    let mut names = BTreeSet::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            heading = title.replace('`', "");
        } else if !heading.is_empty() && !line.starts_with('|') {
            let quoted = line.split('`').skip(1).step_by(2);
            names.extend(quoted.map(|name| (heading.clone(), name.to_owned())));
        }
    }
    names
}
