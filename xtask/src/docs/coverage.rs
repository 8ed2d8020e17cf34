//! The table of contents has every page, and the reference has every feature and every limit.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Page, SUMMARY, limits, links};
use crate::workspace::SourceFile;

/// The page with the features of `looptree`.
const FEATURES: &str = "docs/reference/features.md";

/// The page that names every feature.
const README: &str = "README.md";

/// Where the features are declared.
const MANIFEST: &str = "crates/looptree/Cargo.toml";

/// Every page of the book is in its table of contents, once.
pub(super) fn summary(summary: &Page, pages: &[Page], findings: &mut Vec<Finding>) {
    let mut listed = BTreeSet::new();
    for link in &summary.links {
        if let Some(Ok(target)) = links::internal(SUMMARY, &link.target)
            && !listed.insert(target.path.clone())
        {
            findings.push(Finding::new(SUMMARY, link.line, format!("lists {} twice", target.path)));
        }
    }
    for page in pages.iter().filter(|p| p.path.starts_with("docs/") && p.path != SUMMARY) {
        if !listed.contains(&page.path) {
            findings.push(Finding::new(&page.path, 0, format!("is not in {SUMMARY}; add it there")));
        }
    }
}

/// Every feature of `looptree` is a row of the page, with the right default, and every row is a feature. The README names
/// all of them.
pub(super) fn features(files: &[SourceFile], findings: &mut Vec<Finding>) {
    let text = |path: &str| files.iter().find(|f| f.path == path).map_or("", |f| f.text.as_str());
    let declared = declared_features(text(MANIFEST));
    let page = Page::parse(FEATURES, text(FEATURES));
    let mut rows: BTreeMap<String, (usize, bool)> = BTreeMap::new();
    for row in page.rows.iter().filter(|row| row.header == "feature") {
        let name = row.cells.first().map_or("", String::as_str).trim_matches('`').to_owned();
        let default = row.cells.last().is_some_and(|cell| cell == "yes");
        rows.insert(name, (row.line, default));
    }
    for (name, default) in &declared {
        match rows.remove(name) {
            None => findings.push(Finding::new(FEATURES, 0, format!("has no row for the feature `{name}`"))),
            Some((line, stated)) if stated != *default => {
                findings.push(Finding::new(FEATURES, line, format!("the default of `{name}` is wrong")));
            }
            Some(_) => {}
        }
    }
    let readme = text(README);
    for name in declared.keys().filter(|name| !readme.contains(&format!("`{name}`"))) {
        findings.push(Finding::new(README, 0, format!("does not name the feature `{name}`")));
    }
    for (name, (line, _)) in rows {
        findings.push(Finding::new(FEATURES, line, format!("`looptree` has no feature `{name}`")));
    }
}

/// The features that a manifest declares, and whether each of them is a default one.
pub(super) fn declared_features(manifest: &str) -> BTreeMap<String, bool> {
    let section = manifest.split_once("[features]").map_or("", |(_, rest)| rest);
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    let declared: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(" = [")).collect();
    let defaults: Vec<&str> = declared
        .iter()
        .find(|(name, _)| *name == "default")
        .map(|(_, list)| list.split('"').skip(1).step_by(2).collect())
        .unwrap_or_default();
    declared
        .iter()
        .filter(|(name, _)| *name != "default")
        .map(|(name, _)| ((*name).to_owned(), defaults.contains(name)))
        .collect()
}

/// The page of limits is the one that the sources give.
pub(super) fn limits(files: &[SourceFile], page: &str, findings: &mut Vec<Finding>) {
    let written = files.iter().find(|f| f.path == limits::PAGE).map_or("", |f| f.text.as_str());
    if written != page {
        findings.push(Finding::new(limits::PAGE, 0, "is out of date; run `cargo xtask docs --write`"));
    }
}
