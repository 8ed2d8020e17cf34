//! `cargo xtask requirements`: every row of `docs/requirements.md` against the tests that carry its tag.

mod known;
mod rows;
mod tags;

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};

use crate::source;
use crate::workspace::{SourceFile, Workspace};
use rows::{Row, Status};

pub(crate) use known::Requirement;
pub(crate) use tags::{MAX_TAGS, Tag, tags_in};

/// The list of requirements.
pub(crate) const DOCUMENT: &str = "docs/requirements.md";

/// The folders whose tests count.
const TESTED_FOLDERS: &[&str] = &["crates/", "examples/", "xtask/"];

/// Where a test stands.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    path: String,
    line: usize,
    name: String,
}

/// Compares rows and tests; `false` when they disagree.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    let list = match arguments {
        [] => false,
        [one] if one == "--list" => true,
        _ => bail!("`cargo xtask requirements` takes `--list` or nothing"),
    };
    let document = std::fs::read_to_string(workspace.root.join(DOCUMENT))
        .with_context(|| format!("cannot read {DOCUMENT}"))?;
    let (rows, mut problems) = rows::parse(&document);
    let (places, unknown) = collect(&workspace.texts()?);
    problems.extend(unknown);
    problems.extend(compare(&rows, &places));
    if list {
        for row in &rows {
            println!("{} {}", row.requirement, row.status);
            for place in places.get(&row.requirement).into_iter().flatten() {
                println!("    {}:{} {}", place.path, place.line, place.name);
            }
        }
    }
    for problem in &problems {
        println!("{problem}");
    }
    println!("{}", summary(&rows, &places, problems.len()));
    Ok(problems.is_empty())
}

/// The tests by tag, and what is wrong with tags.
fn collect(files: &[SourceFile]) -> (BTreeMap<Requirement, Vec<Place>>, Vec<String>) {
    let mut places: BTreeMap<Requirement, Vec<Place>> = BTreeMap::new();
    let mut problems = Vec::new();
    for file in files {
        if !file.path.ends_with(".rs") || !TESTED_FOLDERS.iter().any(|f| file.path.starts_with(f)) {
            continue;
        }
        for test in source::tests_in(&file.text) {
            for tag in tags_in(&test.docs) {
                let place = Place { path: file.path.clone(), line: test.line, name: test.name.clone() };
                match tag {
                    Tag::Known(requirement) => places.entry(requirement).or_default().push(place),
                    Tag::Unknown(text) => {
                        problems
                            .push(format!("{}:{}: no requirement is called {text}", place.path, place.line));
                    }
                }
            }
        }
    }
    (places, problems)
}

fn compare(rows: &[Row], places: &BTreeMap<Requirement, Vec<Place>>) -> Vec<String> {
    let mut problems = Vec::new();
    for requirement in known::all() {
        match rows.iter().filter(|r| r.requirement == requirement).count() {
            1 => {}
            0 => problems.push(format!("{DOCUMENT}: no row for {requirement}")),
            n => problems.push(format!("{DOCUMENT}: {n} rows for {requirement}")),
        }
    }
    for row in rows {
        let tested = places.get(&row.requirement).is_some_and(|p| !p.is_empty());
        match &row.status {
            Status::Later(_) => {}
            Status::Tested | Status::Deviates(_) if !tested => {
                problems.push(format!("{DOCUMENT}:{}: {} has no test", row.line, row.requirement));
            }
            Status::Tested | Status::Deviates(_) => {}
        }
    }
    problems
}

fn summary(rows: &[Row], places: &BTreeMap<Requirement, Vec<Place>>, problems: usize) -> String {
    let count = |wanted: fn(&Status) -> bool| rows.iter().filter(|r| wanted(&r.status)).count();
    let shown = rows.iter().filter(|r| places.contains_key(&r.requirement)).count();
    let tests: usize = places.values().map(Vec::len).sum();
    format!(
        "{} rows: {} tested, {} deviate, {} later; {shown} have a test, by {tests} tags; {problems} problems",
        rows.len(),
        count(|s| matches!(s, Status::Tested)),
        count(|s| matches!(s, Status::Deviates(_))),
        count(|s| matches!(s, Status::Later(_))),
    )
}

#[cfg(test)]
mod tests;
