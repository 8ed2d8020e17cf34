//! The walk of the tools against the one of the crate `ignore`, which reads by path and without limits, on random trees with
//! random ignore files.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is a part of tests")]

mod support;

use std::collections::BTreeSet;

use agent_tools::ListFilesTool;
use ignore::WalkBuilder;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::json;
use support::{Folder, call, folder};

const FOLDERS: [&str; 6] = ["", "a", "a/b", "a/b/c", "b", "b/a"];
const NAMES: [&str; 6] = ["a", "b.x", "c.y", ".h", "d", "e.x"];

fn rule() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a", "b", "c", "d", "*", "*.x", "*.y", "?", "[a-c]", "**", "{a,d}", "b.*", ".h", ".*", "e.x", "",
    ]);
    let before = prop::sample::select(vec!["", "", "", "!", "/", "!/", "**/", "\\", "#"]);
    let after = prop::sample::select(vec!["", "", "", "/", "/**", " ", "\r"]);
    (before, prop::collection::vec(part, 1..3), after)
        .prop_map(|(before, parts, after)| format!("{before}{}{after}", parts.join("/")))
}

#[derive(Debug, Clone)]
struct Tree {
    files: Vec<String>,
    rules: Vec<(String, String)>,
}

fn tree() -> impl Strategy<Value = Tree> {
    let file = (prop::sample::select(FOLDERS.to_vec()), prop::sample::select(NAMES.to_vec()))
        .prop_map(|(folder, name)| format!("{folder}/1/{name}").trim_start_matches('/').to_owned());
    let kind = prop::sample::select(vec![".gitignore", ".gitignore", ".ignore", ".git/info/exclude"]);
    let rules = (prop::sample::select(FOLDERS.to_vec()), kind, prop::collection::vec(rule(), 1..5)).prop_map(
        |(folder, kind, rules)| {
            (format!("{folder}/{kind}").trim_start_matches('/').to_owned(), rules.join("\n"))
        },
    );
    (prop::collection::vec(file, 1..14), prop::collection::vec(rules, 1..5))
        .prop_map(|(files, rules)| Tree { files, rules })
}

fn expected(folder: &Folder, start: &str) -> BTreeSet<String> {
    let root = folder.path().join(start);
    let skipped = ["target", "node_modules", ".git"];
    WalkBuilder::new(&root)
        .hidden(false)
        .require_git(false)
        .git_global(false)
        .filter_entry(move |entry| {
            entry.depth() == 0 || !skipped.iter().any(|name| entry.file_name() == *name)
        })
        .build()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .map(|entry| entry.path().strip_prefix(folder.path()).unwrap().display().to_string())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_same_files_are_left_out(tree in tree(), start in prop::sample::select(vec![".", "a", "a/b", "b"])) {
        let folder = folder();
        for path in &tree.files {
            folder.put(path, "x");
        }
        for (path, rules) in &tree.rules {
            folder.put(path, rules);
        }
        prop_assume!(folder.path().join(start).is_dir());
        let list = ListFilesTool::new(folder.workspace.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let shown = runtime.block_on(call(&list, json!({"path": start, "max_depth": 20}))).unwrap().to_text();
        let found: BTreeSet<String> =
            shown.lines().take_while(|line| !line.is_empty() && !line.starts_with("No files")).map(str::to_owned).collect();
        let expected: BTreeSet<String> =
            expected(&folder, start).into_iter().map(|path| path.trim_start_matches("./").to_owned()).collect();
        prop_assert_eq!(found, expected, "{:?} from {}", tree, start);
    }
}
