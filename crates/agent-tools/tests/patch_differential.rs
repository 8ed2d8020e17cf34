//! `apply_patch` against `git apply`: from each generated pair of trees both formats are made and applied to two copies.
//!
//! The trees must be equal afterwards, or `apply_patch` refuses because lines occur more than once, and changes nothing.
//! `LOOPTREE_PATCH_SEED` and `LOOPTREE_PATCH_CASES` change the random cases and their number.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests say what is wrong by ending"
)]
#![allow(clippy::print_stderr, reason = "the counts show that the test was not idle")]

mod support;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::Stdio;

use agent_tools::ApplyPatchTool;
use proptest::prelude::*;
use serde_json::json;
use similar::{Algorithm, DiffOp, TextDiff};
use support::random::{in_memory, runner};
use support::{Folder, call};

const CASES: u32 = 300;
const SEED: u64 = 0x0070_6174_6368;

const WORDS: &[&str] = &[
    "fn main() {",
    "}",
    "",
    "    let x = 1;",
    "    let y = \u{201c}two\u{201d};",
    "\treturn",
    "*** End Patch",
    "@@ here",
    "+plus",
    "-minus",
    " blank",
    "a \u{2013} b",
    "struct A;",
    "impl A {",
    "    x",
    "end",
    "\u{e9}t\u{e9}",
    "// note",
    "if a {",
    "} else {",
    "loop {",
    "break;",
    "let z = 3;",
    "call();",
    "match z {",
    "1 => 2,",
    "_ => 3,",
    "};",
    "use a::b;",
    "mod c;",
];

#[derive(Debug, Clone)]
struct FilePair {
    before: Option<Vec<usize>>,
    after: Option<Vec<usize>>,
    moved: bool,
    crlf: bool,
    final_end: bool,
    mark: bool,
}

fn lines() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        // Each line once, or lines that repeat.
        Just((0..WORDS.len()).collect::<Vec<_>>()).prop_shuffle(),
        prop::collection::vec(0..WORDS.len(), 0..40),
        prop::collection::vec(0..3usize, 0..60),
    ]
}

fn pair() -> impl Strategy<Value = FilePair> {
    let edits = prop::collection::vec((any::<prop::sample::Index>(), 0..3u8, 0..WORDS.len()), 1..5);
    let flags = (0..10u8, any::<bool>(), any::<bool>(), prop::bool::weighted(0.2));
    (lines(), edits, flags).prop_map(|(before, edits, (kind, crlf, final_end, mark))| {
        let mut after = before.clone();
        for (index, edit, word) in edits {
            let at = index.index(after.len() + 1);
            match edit {
                0 => after.insert(at, word),
                1 if at < after.len() => drop(after.remove(at)),
                _ if at < after.len() => after[at] = word,
                _ => after.push(word),
            }
        }
        let (before, after) = match kind {
            0 => (None, Some(after)),
            1 => (Some(before), None),
            _ => (Some(before), Some(after)),
        };
        // A new file always ends with a line end, and so does what was empty.
        let is_open = before.as_ref().is_some_and(|before| !before.is_empty());
        // A last line that is empty and has no end is none.
        let is_none = |words: &Option<Vec<usize>>| {
            words.as_ref().and_then(|words| words.last()).is_some_and(|last| WORDS[*last].is_empty())
        };
        let final_end = final_end || !is_open || is_none(&before) || is_none(&after);
        // One line without an end does not show which ends the file has.
        let shows_ends = before.as_ref().is_some_and(|before| before.len() > usize::from(!final_end));
        let crlf = crlf && kind > 3 && shows_ends;
        FilePair { before, after, moved: kind == 2, crlf, final_end, mark: mark && is_open }
    })
}

impl FilePair {
    fn text(&self, words: &[usize], crlf: bool) -> String {
        let end = if crlf { "\r\n" } else { "\n" };
        let mut text: String = words.iter().map(|word| format!("{}{end}", WORDS[*word])).collect();
        if !self.final_end {
            text.truncate(text.len() - if words.is_empty() { 0 } else { end.len() });
        }
        if self.mark { format!("\u{feff}{text}") } else { text }
    }

    fn before(&self) -> Option<String> {
        self.before.as_ref().map(|words| self.text(words, self.crlf))
    }

    fn after(&self) -> Option<String> {
        self.after.as_ref().map(|words| self.text(words, self.crlf))
    }
}

/// The changes as git writes them.
fn git_form(pairs: &[FilePair]) -> String {
    let mut patch = String::new();
    for (number, pair) in pairs.iter().enumerate() {
        let (from, to) = names(number, pair);
        let (before, after) = (pair.before(), pair.after());
        if before == after && !pair.moved {
            continue;
        }
        patch.push_str(&format!("diff --git a/{from} b/{to}\n"));
        match (&before, &after) {
            (None, _) => patch.push_str("new file mode 100644\n"),
            (_, None) => patch.push_str("deleted file mode 100644\n"),
            _ if pair.moved => patch.push_str(&format!("rename from {from}\nrename to {to}\n")),
            _ => {}
        }
        let old = before.as_ref().map_or("/dev/null".to_owned(), |_| format!("a/{from}"));
        let new = after.as_ref().map_or("/dev/null".to_owned(), |_| format!("b/{to}"));
        let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
        let diff = TextDiff::configure().algorithm(Algorithm::Myers).diff_lines(&before, &after);
        let hunks = diff.unified_diff().context_radius(3).to_string();
        if !hunks.is_empty() {
            patch.push_str(&format!("--- {old}\n+++ {new}\n{hunks}"));
        }
    }
    patch
}

fn names(number: usize, pair: &FilePair) -> (String, String) {
    let from = format!("d{}/f{number}.txt", number % 2);
    let to = if pair.moved { format!("new{number}/moved.txt") } else { from.clone() };
    (from, to)
}

/// How the unchanged lines of our form differ from those of the file.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fuzz {
    None,
    End,
    Blanks,
    Style,
}

fn fuzzed(line: &str, fuzz: Fuzz) -> String {
    match fuzz {
        Fuzz::None => line.to_owned(),
        Fuzz::End => format!("{line}  "),
        Fuzz::Blanks => format!("  {} ", line.trim()),
        Fuzz::Style => line.replace(['\u{201c}', '\u{201d}'], "\"").replace('\u{2013}', "-"),
    }
}

/// The same changes in the form of `apply_patch`.
fn our_form(pairs: &[FilePair], fuzz: Fuzz, says_end: bool) -> String {
    let mut patch = "*** Begin Patch\n".to_owned();
    for (number, pair) in pairs.iter().enumerate() {
        let (from, to) = names(number, pair);
        let plain = |words: &Option<Vec<usize>>| -> Option<Vec<&str>> {
            words.as_ref().map(|words| words.iter().map(|word| WORDS[*word]).collect())
        };
        match (plain(&pair.before), plain(&pair.after)) {
            (None, after) => {
                patch.push_str(&format!("*** Add File: {from}\n"));
                after.unwrap_or_default().iter().for_each(|line| patch.push_str(&format!("+{line}\n")));
            }
            (Some(_), None) => patch.push_str(&format!("*** Delete File: {from}\n")),
            (Some(before), Some(after)) if before != after || pair.moved => {
                patch.push_str(&format!("*** Update File: {from}\n"));
                if pair.moved {
                    patch.push_str(&format!("*** Move to: {to}\n"));
                }
                let diff = TextDiff::configure().algorithm(Algorithm::Myers).diff_slices(&before, &after);
                for group in diff.grouped_ops(3) {
                    patch.push_str("@@\n");
                    patch.push_str(&hunk(&group, &before, &after, fuzz));
                    if says_end && group.last().is_some_and(|op| op.old_range().end == before.len()) {
                        patch.push_str("*** End of File\n");
                    }
                }
            }
            (Some(_), Some(_)) => {}
        }
    }
    patch + "*** End Patch\n"
}

fn hunk(group: &[DiffOp], before: &[&str], after: &[&str], fuzz: Fuzz) -> String {
    let mut text = String::new();
    for op in group {
        if let DiffOp::Equal { .. } = op {
            before[op.old_range()]
                .iter()
                .for_each(|line| text.push_str(&format!(" {}\n", fuzzed(line, fuzz))));
        } else {
            before[op.old_range()].iter().for_each(|line| text.push_str(&format!("-{line}\n")));
            after[op.new_range()].iter().for_each(|line| text.push_str(&format!("+{line}\n")));
        }
    }
    text
}

type Tree = BTreeMap<String, Vec<u8>>;

fn tree(folder: &Folder) -> Tree {
    let mut found = Tree::new();
    let mut open = vec![folder.path().to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder.path()).unwrap().display().to_string();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn folder_of(pairs: &[FilePair]) -> Folder {
    let folder = in_memory();
    for (number, pair) in pairs.iter().enumerate() {
        if let Some(text) = pair.before() {
            folder.put(&names(number, pair).0, text);
        }
    }
    folder
}

#[expect(clippy::disallowed_methods, reason = "the patch is applied by git as it is")]
fn git_apply(folder: &Folder, patch: &str) {
    let mut child = std::process::Command::new("git")
        // The library that makes the patch counts the lines of some hunks wrongly.
        .args(["apply", "--recount", "--whitespace=nowarn", "--unidiff-zero", "-"])
        .current_dir(folder.path())
        .env("GIT_CEILING_DIRECTORIES", folder.path().parent().unwrap())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(patch.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{}\n{patch}", String::from_utf8_lossy(&out.stderr));
}

#[derive(Debug, Default)]
struct Coverage {
    equal: u32,
    refused: u32,
    fuzzed: u32,
}

/// Issue 16, item 2.
#[test]
fn generated_patches_leave_the_tree_that_git_apply_leaves_or_change_nothing() {
    let (mut runner, seed, cases) = runner("PATCH", SEED, CASES);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let coverage = RefCell::new(Coverage::default());
    let fuzz = prop::sample::select(vec![Fuzz::None, Fuzz::None, Fuzz::End, Fuzz::Blanks, Fuzz::Style]);
    let case = (prop::collection::vec(pair(), 1..4), fuzz, any::<bool>());
    let done = runner.run(&case, |(pairs, fuzz, says_end)| {
        let theirs = folder_of(&pairs);
        let diff = git_form(&pairs);
        if diff.is_empty() {
            return Ok(());
        }
        git_apply(&theirs, &diff);
        let expected: Tree = pairs
            .iter()
            .enumerate()
            .filter_map(|(number, pair)| Some((names(number, pair).1, pair.after()?.into_bytes())))
            .collect();
        prop_assert_eq!(&tree(&theirs), &expected, "git");

        let ours = folder_of(&pairs);
        let before = tree(&ours);
        let patch = our_form(&pairs, fuzz, says_end);
        let tool = ApplyPatchTool::new(ours.workspace.clone());
        let mut coverage = coverage.borrow_mut();
        match runtime.block_on(call(&tool, json!({"input": patch}))) {
            Ok(_) => {
                prop_assert_eq!(tree(&ours), expected, "{}", patch);
                coverage.equal += 1;
                coverage.fuzzed += u32::from(fuzz != Fuzz::None);
            }
            Err(error) => {
                let text = error.to_string();
                prop_assert!(text.contains(" matches ") && text.contains(" places "), "{}\n{}", text, patch);
                prop_assert_eq!(tree(&ours), before, "{}", patch);
                coverage.refused += 1;
            }
        }
        Ok(())
    });
    if let Err(failure) = done {
        panic!("LOOPTREE_PATCH_SEED={seed}: {failure}");
    }
    let coverage = coverage.borrow();
    eprintln!("{coverage:?}");
    // A generator that makes only one kind of case would prove little.
    assert!(
        coverage.equal * 2 > cases && coverage.fuzzed * 8 > cases && coverage.refused * 100 > cases,
        "{coverage:?}"
    );
}
