//! cargo-mutants: it lists the mutants of a module.

use std::ops::Range;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::{Module, rewrite};
use crate::cargo;

/// A mutant: a place in a file and the text that replaces the text at that place.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Mutant {
    pub(super) name: String,
    /// The path of the file from the root of the workspace.
    pub(super) file: String,
    pub(super) span: Span,
    pub(super) replacement: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct Span {
    start: Position,
    end: Position,
}

/// A line and a column in characters, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
struct Position {
    line: usize,
    column: usize,
}

impl Mutant {
    /// Returns what it replaces in the text of its file.
    pub(super) fn range(&self, text: &str) -> Option<Range<usize>> {
        let offset = |at: Position| rewrite::offset(text, at.line, at.column.checked_sub(1)?);
        let range = offset(self.span.start)?..offset(self.span.end)?;
        text.get(range.clone()).map(|_| range)
    }

    /// Returns the text of its file with the mutant in it.
    pub(super) fn applied(&self, text: &str) -> anyhow::Result<String> {
        let range = self.range(text).with_context(|| format!("{} is not in its file", self.name))?;
        let mut text = text.to_owned();
        text.replace_range(range, &self.replacement);
        Ok(text)
    }
}

/// Returns all mutants of a module.
pub(super) fn listed(root: &Path, module: &Module) -> anyhow::Result<Vec<Mutant>> {
    let Module { package, sources, name } = module;
    let (file, folder) = (format!("{sources}/{name}.rs"), format!("{sources}/{name}/**/*.rs"));
    let arguments = ["mutants", "--list", "--json", "--package", package, "--file", &file, "--file", &folder];
    let output = cargo::output(root, &arguments)?;
    ensure!(
        output.status.success(),
        "cargo mutants cannot list: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).context("cargo mutants printed no list of mutants")
}

#[cfg(test)]
pub(super) fn mutant(file: &str, start: (usize, usize), end: (usize, usize), replacement: &str) -> Mutant {
    let position = |(line, column)| Position { line, column };
    let span = Span { start: position(start), end: position(end) };
    Mutant { name: replacement.to_owned(), file: file.to_owned(), span, replacement: replacement.to_owned() }
}
