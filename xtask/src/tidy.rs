//! `cargo xtask tidy`: checks the invariants that a tool can check. Each finding has the name of its rule and a place.

mod code;
mod doc_tags;
mod graph;
mod impls;
mod language;
mod layers;
mod licence;
mod words;
mod wrappers;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use anyhow::{Context as _, bail};

use crate::syntax::{self, Crate};
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
    /// It needs a reviewer's judgement.
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

/// A rule that checks one file.
type FileRule = fn(&SourceFile, &mut Vec<Finding>);
/// A rule that needs all files.
type ProjectRule = fn(&[SourceFile], &mut Vec<Finding>);
/// A rule that needs the modules of all library crates.
type ModuleRule = fn(&[Crate], &mut Vec<Finding>);

const FILE_RULES: &[FileRule] = &[
    code::core_does_no_io,
    code::protocols_are_pure,
    code::sockets_in_few_places,
    code::one_way_to_the_terminal,
    code::programs_are_found_once,
    code::facade_only_re_exports,
    code::file_size,
    code::inline_tests,
    code::unordered_maps,
    code::panics,
    code::module_names,
    words::machine_paths,
    words::unfinished,
    doc_tags::tags,
    language::codes,
    language::phrases,
    language::short_docs,
];

const PROJECT_RULES: &[ProjectRule] = &[code::public_modules_are_described, licence::copies];

const MODULE_RULES: &[ModuleRule] = &[layers::modules, impls::in_few_files, wrappers::forward_all];

/// The names under which findings are reported, for `--only`.
const NAMES: &[&str] = &[
    "bans",
    "core-dependencies",
    "core-does-no-io",
    "doc-tags",
    "facade-only-re-exports",
    "file-size",
    "impl-files",
    "inline-tests",
    "language-codes",
    "language-docs",
    "language-phrases",
    "layers",
    "licence-copies",
    "licences",
    "lock-file",
    "machine-paths",
    "member-licence",
    "module-cycles",
    "module-docs",
    "module-layers",
    "module-names",
    "panics",
    "protocols-are-pure",
    "single-version",
    "sockets-in-few-places",
    "sources",
    "terminal",
    "unfinished",
    "unordered-maps",
    "wrappers",
];

/// What `cargo xtask tidy` was called with.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// The rules whose findings are shown; all if empty.
    only: Vec<String>,
    /// Whether findings are counted per rule, crate and file instead of listed.
    count: bool,
}

/// Applies the rules; `false` if one is broken.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    let options = options(arguments)?;
    let files = workspace.texts()?;
    let mut findings = check_files(&files);
    let crates = syntax::libraries(&files)?;
    for rule in MODULE_RULES {
        rule(&crates, &mut findings);
    }
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
    findings.retain(|finding| options.shows(finding.rule));
    if options.count {
        say_as_is!("{}", counts(&findings));
    } else {
        for finding in &findings {
            say!("{finding}");
        }
    }
    let errors = findings.iter().filter(|f| f.weight == Weight::Error).count();
    say!("{} files: {errors} errors, {} warnings", files.len(), findings.len() - errors);
    Ok(errors == 0)
}

/// Reads `--only RULE[,RULE]` and `--count`, in any order.
fn options(arguments: &[String]) -> anyhow::Result<Options> {
    let mut options = Options::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--count" => options.count = true,
            "--only" => {
                let list = rest.next().context("`--only` needs the names of rules, separated by commas")?;
                options.only.extend(list.split(',').map(str::to_owned));
            }
            other => bail!("`cargo xtask tidy` takes `--only RULE[,RULE]` and `--count`, but got `{other}`"),
        }
    }
    if let Some(unknown) = options.only.iter().find(|name| !NAMES.iter().any(|rule| covers(name, rule))) {
        bail!("there is no rule `{unknown}`; the rules are {}", NAMES.join(", "));
    }
    Ok(options)
}

impl Options {
    fn shows(&self, rule: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| covers(name, rule))
    }
}

/// Whether `name` is the rule or the group of rules whose names begin with it: `language` covers `language-codes`.
fn covers(name: &str, rule: &str) -> bool {
    rule.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// A table of the number of findings per rule and part of the project, and below it per file.
fn counts(findings: &[Finding]) -> String {
    let mut parts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut files: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for finding in findings {
        *parts.entry((finding.rule, part_of(&finding.place))).or_default() += 1;
        *files.entry((finding.rule, &finding.place)).or_default() += 1;
    }
    let mut text = String::new();
    for list in [parts, files] {
        let mut rows: Vec<_> = list.into_iter().collect();
        rows.sort_by_key(|((rule, _), count)| (*rule, std::cmp::Reverse(*count)));
        for ((rule, place), count) in rows {
            let _ = writeln!(text, "{count:>6}  {rule:<22} {place}");
        }
        text.push('\n');
    }
    text
}

/// The crate or the top folder of a path: `crates/agent-core`, `xtask`, `docs`, `README.md`.
fn part_of(place: &str) -> &str {
    let depth = if place.starts_with("crates/") { 2 } else { 1 };
    place.match_indices('/').nth(depth - 1).map_or(place, |(at, _)| place.get(..at).unwrap_or(place))
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
