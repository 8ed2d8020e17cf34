//! Every Rust block of a page is compiled as a documentation test, or its page gives the reason why not.

use std::collections::BTreeSet;

use super::{Finding, Page, links};
use crate::workspace::SourceFile;

/// The comment in front of a block that is not compiled.
const REASON: &str = "<!-- not compiled: ";

/// The blocks of all pages.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Blocks {
    /// How many are compiled.
    pub(super) compiled: usize,
    /// The place and the reason of each block that is not.
    pub(super) ignored: Vec<String>,
}

/// Checks the code blocks of all pages.
pub(super) fn check(pages: &[Page], files: &[SourceFile], findings: &mut Vec<Finding>) -> Blocks {
    let included = included(files);
    let mut blocks = Blocks::default();
    for page in pages {
        // `cargo xtask package` compiles the READMEs of the packages.
        let is_included = included.contains(&page.path) || page.path.starts_with("crates/");
        for block in &page.blocks {
            let mut words = block.info.split([',', ' ']).map(str::trim);
            match words.next().unwrap_or_default() {
                "" if is_included => {
                    let text = "a block without a language is compiled as Rust; write `text` if it is none";
                    findings.push(Finding::new(&page.path, block.line, text));
                }
                "rust" => {}
                _ => continue,
            }
            if words.any(|word| word == "ignore") {
                let reason = block.before.strip_prefix(REASON).and_then(|rest| rest.strip_suffix("-->"));
                match reason.map(str::trim).filter(|reason| !reason.is_empty()) {
                    Some(reason) => {
                        blocks.ignored.push(format!("{}:{}: {reason}", page.path, block.line));
                    }
                    None => {
                        let text =
                            format!("the block is not compiled; write `{REASON}reason -->` in front of it");
                        findings.push(Finding::new(&page.path, block.line, text));
                    }
                }
            } else if is_included {
                blocks.compiled += 1;
            } else {
                let text = "no documentation test includes this page, so its Rust is not compiled; see crates/looptree/src/lib.rs";
                findings.push(Finding::new(&page.path, block.line, text));
            }
        }
    }
    blocks
}

/// The pages that documentation tests include: `#[doc = include_str!("...")]` and its form for a module.
fn included(files: &[SourceFile]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in files.iter().filter(|f| f.path.ends_with(".rs")) {
        for (at, mark) in file.text.match_indices("doc = include_str!(\"") {
            let rest = file.text.get(at + mark.len()..).unwrap_or_default();
            let path = rest.split('"').next().unwrap_or_default();
            if let Some(Ok(target)) = links::internal(&file.path, path) {
                found.insert(target.path);
            }
        }
    }
    found
}
