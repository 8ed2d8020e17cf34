//! Every link between the pages, and from comments to pages, leads to a file and to an anchor of it.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Finding, Page};
use crate::source::comments_only;
use crate::workspace::SourceFile;

/// The address under which the files of the project are shown.
pub(super) const BLOB: &str = "https://github.com/looptree/looptree/blob/main/";

/// Checks the links of all pages and the pages that comments name. Returns the number of internal links.
pub(super) fn check(root: &Path, pages: &[Page], files: &[SourceFile], findings: &mut Vec<Finding>) -> usize {
    let known: BTreeMap<&str, &Page> = pages.iter().map(|p| (p.path.as_str(), p)).collect();
    let mut count = 0;
    for page in pages {
        for link in &page.links {
            let Some(target) = internal(&page.path, &link.target) else { continue };
            count += 1;
            if let Err(problem) = target.and_then(|t| follow(root, &known, &t)) {
                findings.push(Finding::new(&page.path, link.line, format!("`{}`: {problem}", link.target)));
            }
        }
    }
    for file in files.iter().filter(|f| f.path.ends_with(".rs") && f.path.contains("/src/")) {
        for (number, line) in comments_only(&file.text).lines().enumerate() {
            for path in pages_named_in(line) {
                count += 1;
                let target = Target { path, anchor: None };
                if let Err(problem) = follow(root, &known, &target) {
                    findings.push(Finding::new(&file.path, number + 1, problem));
                }
            }
        }
    }
    count
}

/// A place in the project: a file or folder from the root, and an anchor in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) path: String,
    pub(super) anchor: Option<String>,
}

/// Resolves a link of a page; `None` for one that leads out of the project.
pub(super) fn internal(page: &str, link: &str) -> Option<Result<Target, String>> {
    let link = match link.strip_prefix(BLOB) {
        Some(path) => format!("/{path}"),
        None if link.contains("://") || link.starts_with("mailto:") => return None,
        None => link.to_owned(),
    };
    let (path, anchor) = match link.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor.to_owned())),
        None => (link.as_str(), None),
    };
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let full = match path.strip_prefix('/') {
        _ if path.is_empty() => page.to_owned(),
        Some(from_root) => from_root.to_owned(),
        None => format!("{folder}/{path}"),
    };
    Some(normal(&full).map(|path| Target { path, anchor }))
}

/// The path without `.` and `..`.
fn normal(path: &str) -> Result<String, String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or("leads out of the project")?;
            }
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

fn follow(root: &Path, pages: &BTreeMap<&str, &Page>, target: &Target) -> Result<(), String> {
    if !root.join(&target.path).exists() {
        return Err(format!("there is no {}", target.path));
    }
    match (&target.anchor, pages.get(target.path.as_str())) {
        (Some(anchor), Some(page)) if !page.anchors.contains(anchor) => {
            Err(format!("{} has no heading with the anchor `{anchor}`", target.path))
        }
        _ => Ok(()),
    }
}

/// The pages of the project that a comment names: `docs/guides/own-store.md`, also at the end of the project's address.
fn pages_named_in(comment: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in comment.match_indices("docs/") {
        let before = comment.get(..at).unwrap_or_default();
        let of_another = before.ends_with(|c: char| c.is_alphanumeric() || "/.-_".contains(c));
        if of_another && !before.ends_with(BLOB) {
            continue;
        }
        let path: String = comment
            .get(at..)
            .unwrap_or_default()
            .chars()
            .take_while(|c| c.is_alphanumeric() || "/-_.".contains(*c))
            .collect();
        if let Some(end) = path.find(".md") {
            found.extend(path.get(..end + 3).map(str::to_owned));
        }
    }
    found
}

#[cfg(test)]
pub(super) fn named(comment: &str) -> Vec<String> {
    pages_named_in(comment)
}
