//! Builds the book with mdBook, from a copy in which links to other files of the project lead to its address.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use super::links;
use crate::cargo;
use crate::workspace::Workspace;

/// The settings of the book, at the root of the project.
const SETTINGS: &str = "book.toml";

/// Builds the book below `target/book`. Without mdBook it prints a line and returns `true`.
pub(super) fn build(workspace: &Workspace) -> anyhow::Result<bool> {
    let Some(program) = mdbook(&workspace.root)? else {
        say!("skipped: mdbook cannot be installed, so the book is not built; the pages are checked");
        return Ok(true);
    };
    let folder = workspace.root.join("target/book");
    let copy = folder.join("copy");
    if copy.exists() {
        std::fs::remove_dir_all(&copy).with_context(|| format!("cannot remove {}", copy.display()))?;
    }
    for path in workspace.paths()?.iter().filter(|p| *p == SETTINGS || p.starts_with("docs/")) {
        let (from, to) = (workspace.root.join(path), copy.join(path));
        let parent = to.parent().context("a page has no folder")?;
        std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        if path.ends_with(".md") {
            let text = std::fs::read_to_string(&from).with_context(|| format!("cannot read {path}"))?;
            std::fs::write(&to, outward(path, &text))
                .with_context(|| format!("cannot write {}", to.display()))?;
        } else {
            std::fs::copy(&from, &to).with_context(|| format!("cannot copy {path}"))?;
        }
    }
    let html = folder.join("html");
    let status = Command::new(&program)
        .arg("build")
        .arg(&copy)
        .arg("--dest-dir")
        .arg(&html)
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if status.success() {
        say!("the book is in {}", html.join("index.html").display());
    }
    Ok(status.success())
}

/// The program: the one in `PATH`, or the one below `target/tools`, which is installed if it is missing.
fn mdbook(root: &Path) -> anyhow::Result<Option<PathBuf>> {
    let works = |program: &Path| {
        let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
        output.is_ok_and(|o| o.status.success())
    };
    let installed = root.join("target/tools/bin/mdbook");
    for program in [PathBuf::from("mdbook"), installed.clone()] {
        if works(&program) {
            return Ok(Some(program));
        }
    }
    let tools = root.join("target/tools").display().to_string();
    let arguments = ["install", "--locked", "--no-default-features", "--root", &tools, "mdbook"];
    let good = cargo::run(root, &arguments, &[])?;
    Ok((good && works(&installed)).then_some(installed))
}

/// The page with the links that leave the book replaced by addresses: `[text](target)`, and `[name]: target` at the start of a line.
pub(super) fn outward(page: &str, text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((at, mark)) = next_link(rest) {
        let (before, after) =
            (rest.get(..at).unwrap_or_default(), rest.get(at + mark.len()..).unwrap_or_default());
        out.push_str(before);
        out.push_str(mark);
        let end = after.find([')', ' ', '\n']).unwrap_or(after.len());
        let (link, behind) = after.split_at(end);
        match links::internal(page, link) {
            Some(Ok(target)) if !is_in_book(&target.path) => {
                out.push_str(links::BLOB);
                out.push_str(&target.path);
                if let Some(anchor) = target.anchor {
                    out.push('#');
                    out.push_str(&anchor);
                }
            }
            _ => out.push_str(link),
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// Where the next link begins, and the mark between its text and its target.
fn next_link(text: &str) -> Option<(usize, &'static str)> {
    let definition = text.match_indices("]: ").find(|(at, _)| {
        text.get(..*at).unwrap_or_default().rsplit('\n').next().is_some_and(|line| line.starts_with('['))
    });
    let inline = text.find("](").map(|at| (at, "]("));
    let definition = definition.map(|(at, _)| (at, "]: "));
    [inline, definition].into_iter().flatten().min()
}

/// Whether the book has this file. Folders are not pages.
fn is_in_book(path: &str) -> bool {
    path.starts_with("docs/") && path.rsplit('/').next().is_some_and(|name| name.contains('.'))
}
