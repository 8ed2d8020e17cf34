//! `cargo xtask docs`: builds the book and the API documentation, and checks the pages.
//!
//! The check reads files only: it needs no compiler, no network and no other program, so that CI can run it early.

mod blocks;
mod book;
mod coverage;
mod limits;
mod links;
mod page;
mod quotes;

use std::fmt;

use anyhow::{Context as _, bail};

use crate::workspace::{SourceFile, Workspace};
use crate::{cargo, features, syntax};
use page::Page;

/// The table of contents of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Something that is wrong with a page.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    /// The file, from the root.
    place: String,
    /// The line, from 1; 0 if the finding concerns the whole file.
    line: usize,
    /// What is wrong and what to do.
    text: String,
}

impl Finding {
    fn new(place: &str, line: usize, text: impl Into<String>) -> Self {
        Self { place: place.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.text)
    }
}

/// What the command was called with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The check, the book and the API documentation.
    Build,
    /// The check only.
    Check,
    /// The page of limits is written.
    Write,
}

/// Checks the pages and builds the book and the API documentation; `false` if something is wrong.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    let mode = mode(arguments)?;
    let files = workspace.texts()?;
    let limits = limits::page(&syntax::libraries(&files)?, &files);
    if mode == Mode::Write {
        let path = workspace.root.join(limits::PAGE);
        std::fs::write(&path, limits).with_context(|| format!("cannot write {}", limits::PAGE))?;
        return Ok(true);
    }
    let mut good = check(workspace, &files, &limits)?;
    if mode == Mode::Build {
        good &= book::build(workspace)?;
        good &= rustdoc(workspace)?;
    }
    Ok(good)
}

fn mode(arguments: &[String]) -> anyhow::Result<Mode> {
    match arguments {
        [] => Ok(Mode::Build),
        [one] if one == "--check" => Ok(Mode::Check),
        [one] if one == "--write" => Ok(Mode::Write),
        _ => bail!("`cargo xtask docs` takes `--check`, `--write` or nothing"),
    }
}

/// Applies every rule and prints what was found and what is not compiled.
fn check(workspace: &Workspace, files: &[SourceFile], limits: &str) -> anyhow::Result<bool> {
    let pages = pages(files);
    let summary =
        pages.iter().find(|p| p.path == SUMMARY).with_context(|| format!("{SUMMARY} is missing"))?;
    let mut findings = Vec::new();
    let links = links::check(&workspace.root, &pages, files, &mut findings);
    let blocks = blocks::check(&pages, files, &mut findings);
    coverage::summary(summary, &pages, &mut findings);
    coverage::features(files, &mut findings);
    coverage::limits(files, limits, &mut findings);
    let quotes = quotes::check(&pages, files, &mut findings);
    for finding in &findings {
        say!("{finding}");
    }
    for block in &blocks.ignored {
        say!("not compiled: {block}");
    }
    say!(
        "{} pages, {links} internal links, {} Rust blocks compiled and {} not, {quotes} quoted errors: {} findings",
        pages.len(),
        blocks.compiled,
        blocks.ignored.len(),
        findings.len()
    );
    Ok(findings.is_empty())
}

/// The pages that are checked: the book, and the pages at the root and of each crate.
fn pages(files: &[SourceFile]) -> Vec<Page> {
    files.iter().filter(|file| is_page(&file.path)).map(|file| Page::parse(&file.path, &file.text)).collect()
}

fn is_page(path: &str) -> bool {
    let in_crate = path.strip_prefix("crates/").is_some_and(|rest| rest.ends_with("/README.md"));
    path.ends_with(".md")
        && (path.starts_with("docs/") || path.starts_with(".github/") || !path.contains('/') || in_crate)
}

fn rustdoc(workspace: &Workspace) -> anyhow::Result<bool> {
    let features = features::everything(workspace)?;
    let mut arguments = vec!["doc", "--locked", "--workspace", "--no-deps"];
    if !features.is_empty() {
        arguments.extend(["--features", &features]);
    }
    cargo::run(&workspace.root, &arguments, &[("RUSTDOCFLAGS", "-D warnings")])
}

#[cfg(test)]
mod tests;
