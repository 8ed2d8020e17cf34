//! `cargo xtask tidy`: what a tool can check of the project's invariants. Each rule has a name and says where.

mod code;
mod doc_tags;
mod graph;
mod licence;
mod words;

use std::fmt;

use anyhow::bail;

use crate::workspace::{Graph, SourceFile, Workspace};

/// Something that a rule found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The rule's name.
    rule: &'static str,
    /// Where: a path, or the name of a package.
    place: String,
    /// The line, from 1; 0 when it is about the whole.
    line: usize,
    /// What is wrong and what to do.
    text: String,
    /// Whether it ends the check with a failure.
    weight: Weight,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// The invariant is broken.
    Error,
    /// A person should look at it.
    Warning,
}

impl Finding {
    fn error(rule: &'static str, place: &str, line: usize, text: impl Into<String>) -> Self {
        Self { rule, place: place.to_owned(), line, text: text.into(), weight: Weight::Error }
    }

    fn warning(rule: &'static str, place: &str, line: usize, text: impl Into<String>) -> Self {
        Self { weight: Weight::Warning, ..Self::error(rule, place, line, text) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        let weight = if self.weight == Weight::Warning { "warning, " } else { "" };
        write!(f, ": [{weight}{}] {}", self.rule, self.text)
    }
}

/// A rule that looks at one file.
type FileRule = fn(&SourceFile, &mut Vec<Finding>);
/// A rule that needs all files.
type ProjectRule = fn(&[SourceFile], &mut Vec<Finding>);

const FILE_RULES: &[FileRule] = &[
    code::core_does_no_io,
    code::protocols_are_pure,
    code::sockets_in_few_places,
    code::facade_only_re_exports,
    code::file_size,
    code::inline_tests,
    code::unordered_maps,
    code::panics,
    code::module_names,
    words::machine_paths,
    words::unfinished,
    doc_tags::tags,
];

const PROJECT_RULES: &[ProjectRule] = &[code::public_modules_are_described];

/// Applies every rule; `false` when one is broken.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    if let Some(unknown) = arguments.first() {
        bail!("`cargo xtask tidy` takes no argument, but got `{unknown}`");
    }
    let files = workspace.texts()?;
    let mut findings = check_files(&files);
    words::paths_of_the_checkout(&workspace.root, &files, &mut findings);
    if !workspace.root.join("Cargo.lock").is_file() {
        findings.push(Finding::error(
            "lock-file",
            "Cargo.lock",
            0,
            "is missing; it belongs into the repository",
        ));
    } else {
        graph::members(&workspace.metadata(Graph::Default)?, &mut findings);
        graph::packages(&workspace.metadata(Graph::AllFeatures)?, &mut findings);
        graph::default_packages(&workspace.metadata(Graph::Default)?, &mut findings);
    }
    let errors = findings.iter().filter(|f| f.weight == Weight::Error).count();
    for finding in &findings {
        say!("{finding}");
    }
    say!("{} files: {errors} errors, {} warnings", files.len(), findings.len() - errors);
    Ok(errors == 0)
}

fn check_files(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        for rule in FILE_RULES {
            rule(file, &mut findings);
        }
    }
    for rule in PROJECT_RULES {
        rule(files, &mut findings);
    }
    findings
}

/// Whether a Rust file holds tests only.
fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/") || path.contains("/benches/")
}

/// The library crate that the file is source of.
fn library_of(path: &str) -> Option<&str> {
    let (name, rest) = path.strip_prefix("crates/")?.split_once('/')?;
    (rest.starts_with("src/") && path.ends_with(".rs")).then_some(name)
}

#[cfg(test)]
mod tests;
