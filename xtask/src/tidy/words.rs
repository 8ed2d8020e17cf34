//! Rules about any text: nothing of the machine it was written on, nothing half done.

use std::path::Path;

use super::Finding;
use crate::source::lines_with;
use crate::workspace::SourceFile;

/// Folders at the root in which homes are: what is below them is of one machine.
const HOMES: &[&str] = &["root", "home", "Users"];

/// Folders that every machine has: what stands in one is not of one machine.
const EVERYWHERE: &[&str] = &["/", "/tmp", "/var", "/opt", "/srv", "/mnt", "/usr", "/home", "/Users"];

/// Names of people who do not exist, for examples of a home folder.
const EXAMPLE_PEOPLE: &[&str] = &["user", "me", "alice", "bob", "ada"];

/// What is said of code that is not done. In pieces where a word would find this list.
const UNFINISHED: &[&str] = &[
    "placeholder",
    "for now",
    "not implemented",
    "in a real implementation",
    "todo:",
    "todo!",
    "fixme",
    "xxx:",
];

/// The files of this rule, which have to name what they look for.
const OWN: &str = "xtask/src/tidy/";

/// No path of the machine that a file was written on.
pub(super) fn machine_paths(file: &SourceFile, findings: &mut Vec<Finding>) {
    if file.path.starts_with(OWN) || file.path == "Cargo.lock" {
        return;
    }
    for home in HOMES {
        paths_below(&format!("/{home}/"), file, findings);
    }
}

/// Nor one of where this checkout stands, nor of what stands beside it.
pub(super) fn paths_of_the_checkout(root: &Path, files: &[SourceFile], findings: &mut Vec<Finding>) {
    let beside = root.parent().filter(|parent| !EVERYWHERE.contains(&&*parent.to_string_lossy()));
    let folder = format!("{}/", beside.unwrap_or(root).display());
    if HOMES.iter().any(|home| folder.starts_with(&format!("/{home}/"))) {
        return;
    }
    for file in files.iter().filter(|file| file.path != "Cargo.lock") {
        paths_below(&folder, file, findings);
    }
}

fn paths_below(folder: &str, file: &SourceFile, findings: &mut Vec<Finding>) {
    for (number, line) in file.text.lines().enumerate() {
        if let Some(path) = machine_path(line, folder) {
            let text = format!("`{path}` is a path of one machine; write it from the root of the project");
            findings.push(Finding::error("machine-paths", &file.path, number + 1, text));
        }
    }
}

/// The path below `folder` that `line` names; a path that goes on from something else (an address, a template) is none.
fn machine_path<'a>(line: &'a str, folder: &str) -> Option<&'a str> {
    for (at, _) in line.match_indices(folder) {
        let before = line.get(..at).and_then(|s| s.chars().next_back());
        let begins = before.is_none_or(|c| c.is_whitespace() || "\"'`(=:<>[,;@".contains(c));
        let rest = line.get(at..).unwrap_or_default();
        let end = rest.find(|c: char| c.is_whitespace() || "\"'`)<>],;".contains(c)).unwrap_or(rest.len());
        let path = rest.get(..end).unwrap_or(rest);
        let first = path.get(folder.len()..).and_then(|p| p.split('/').next()).unwrap_or_default();
        let example = folder == "/home/" && (EXAMPLE_PEOPLE.contains(&first) || first.starts_with('{'));
        if begins && !example {
            return Some(path);
        }
    }
    None
}

/// Nothing that says it is not done.
pub(super) fn unfinished(file: &SourceFile, findings: &mut Vec<Finding>) {
    let written = [".rs", ".md", ".toml", ".yml"].iter().any(|e| file.path.ends_with(e));
    if !written || file.path.starts_with(OWN) {
        return;
    }
    for (number, line) in file.text.lines().enumerate() {
        let lower = line.to_lowercase();
        // The reason phrase of HTTP 501 is a vendor's word.
        let lower = lower.replace("501 not implemented", "501");
        for word in UNFINISHED {
            if !lines_with(&lower, word).is_empty() {
                let text = format!("`{word}`: finish it, or open an issue and say what holds today");
                findings.push(Finding::error("unfinished", &file.path, number + 1, text));
            }
        }
    }
}
