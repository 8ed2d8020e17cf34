//! Patterns and ignore files of a hostile model or a hostile repository: each is a result or a typed error, in time, on a
//! thread with a stack of 2 MiB, as tokio's blocking threads have.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is a part of tests")]

mod support;

use agent_tools::glob::{MAX_PATTERN_BYTES, MAX_PATTERN_COMMAS, MAX_PATTERN_GROUPS};
use agent_tools::{BranchWorkspaces, ListFilesTool, PatternError, SearchTool, Workspace};
use proptest::prelude::*;
use serde_json::{Value, json};
use support::{Folder, call, folder, now_ms, text};

/// The most that one call takes here, on a busy machine and without optimization.
const MOST_MS: u64 = 10_000;

fn hostile_patterns() -> Vec<String> {
    let mut found = Vec::new();
    for n in [17, 300, 3_000, 20_000, 1_000_000] {
        for (open, close) in
            [("{", "}"), ("{a,", "}"), ("{[}]", "}"), ("{\\}", "}"), ("{,", ",}"), ("[{", "}]")]
        {
            found.push(format!("{}a{}", open.repeat(n), close.repeat(n)));
            found.push(open.repeat(n));
            found.push(close.repeat(n));
        }
        for part in [
            "[",
            "[[",
            "]",
            "[!",
            "[a-",
            "\\",
            "**/",
            "**",
            "*",
            "?",
            "!",
            "a,",
            "{a}{b}",
            "[^]]",
            "\u{10FFFF}",
            "*a",
        ] {
            found.push(part.repeat(n));
        }
    }
    found
}

async fn timed(what: &str, tool: &dyn agent_core::AgentTool, arguments: Value) -> Result<String, String> {
    let start = now_ms();
    let done = call(tool, arguments).await;
    let ms = now_ms() - start;
    assert!(ms < MOST_MS, "{} takes {ms} ms", what.chars().take(50).collect::<String>());
    done.map(|result| result.to_text()).map_err(|error| error.to_string())
}

fn small() -> Folder {
    let folder = folder();
    folder.put("a", "needle\n");
    folder.put("b/c.rs", "needle\n");
    folder
}

/// Attack 1.
#[tokio::test]
async fn no_pattern_of_a_model_ends_the_process_or_takes_long() {
    let folder = small();
    let list = ListFilesTool::new(folder.workspace.clone());
    let search = SearchTool::new(folder.workspace.clone());
    for pattern in hostile_patterns() {
        let listed = timed(&pattern, &list, json!({"pattern": pattern})).await;
        let searched = timed(&pattern, &search, json!({"pattern": "needle", "include": pattern})).await;
        if pattern.len() > MAX_PATTERN_BYTES {
            assert!(listed.unwrap_err().contains("at most 4096 are allowed"));
            assert!(searched.unwrap_err().contains("at most 4096 are allowed"));
        }
    }
}

#[test]
fn a_pattern_over_a_limit_is_a_typed_error_that_names_it() {
    let deny = |pattern: String| Workspace::unconfined().with_denied(pattern).map(|_| ());
    assert_eq!(
        deny("a".repeat(MAX_PATTERN_BYTES + 1)),
        Err(PatternError::TooLong { bytes: MAX_PATTERN_BYTES + 1 })
    );
    let groups = |n: usize| deny(format!("{}a{}", "{".repeat(n), "}".repeat(n)));
    assert_eq!(groups(MAX_PATTERN_GROUPS), Ok(()));
    assert_eq!(
        groups(MAX_PATTERN_GROUPS + 1),
        Err(PatternError::TooManyGroups { groups: MAX_PATTERN_GROUPS + 1 })
    );
    let commas = |n: usize| deny(format!("{{a{}}}", ",b".repeat(n)));
    assert_eq!(commas(MAX_PATTERN_COMMAS), Ok(()));
    let error = commas(MAX_PATTERN_COMMAS + 1).unwrap_err();
    assert_eq!(error, PatternError::TooManyAlternatives { commas: MAX_PATTERN_COMMAS + 1 });
    assert!(error.to_string().contains("at most 256 are allowed"), "{error}");
    assert!(matches!(deny("[".to_owned()), Err(PatternError::Invalid(_))));
}

/// Attack 1.
#[tokio::test]
async fn no_ignore_file_of_a_repository_ends_the_process_or_takes_long() {
    let nested = format!("{}a{}\n", "{".repeat(30_000), "}".repeat(30_000));
    let wild: String = (0..100_000).map(|n| format!("*x{n}?*y[a-z]*\n")).collect();
    let plain: String = (0..100_000).map(|n| format!("name-{n}\n")).collect();
    let deep: String = (0..5_000).map(|n| format!("**/{n}/**/{{a,b,{{c,d}}}}*[!z]\n")).collect();
    let mut files = vec![nested, wild, plain, deep, "\u{0}\n".repeat(100_000), "a".repeat(3_000_000)];
    files.extend(
        hostile_patterns().into_iter().filter(|pattern| pattern.len() < 100_000).map(|line| line + "\n"),
    );
    files.push(
        hostile_patterns()
            .into_iter()
            .filter(|pattern| pattern.len() <= 1_000)
            .map(|line| line + "\n")
            .collect(),
    );
    for content in files {
        // The four kinds are read by the same function.
        let others: &[&str] =
            if content.len() > 500_000 { &[".ignore", "b/.gitignore", ".git/info/exclude"] } else { &[] };
        for name in [".gitignore"].iter().chain(others).copied() {
            let folder = small();
            folder.put(name, format!("hidden\n{content}"));
            folder.put("hidden", "needle\n");
            let what = format!("{name} {content}");
            let list = ListFilesTool::new(folder.workspace.clone());
            let listed = timed(&what, &list, json!({})).await.unwrap();
            let search = SearchTool::new(folder.workspace.clone());
            timed(&what, &search, json!({"pattern": "needle"})).await.unwrap();
            if content.len() > 1_000_000 {
                assert!(listed.contains("exceed the limits and have no effect"), "{listed}");
            }
            if name != ".gitignore" {
                continue;
            }
            let start = now_ms();
            let branch = BranchWorkspaces::copies_of(folder.path()).unwrap().open().await.unwrap();
            branch.changes().await.unwrap();
            assert!(now_ms() - start < 2 * MOST_MS);
        }
    }
}

/// Attack 1: the rules of all folders above a file are in memory at the same time.
#[tokio::test]
async fn rules_of_many_nested_folders_are_bounded_together() {
    let folder = folder();
    let rules: String = (0..2_000).map(|n| format!("*x{n}?*y[a-z]*{}\n", "?".repeat(60))).collect();
    let mut path = String::new();
    for _ in 0..60 {
        path.push_str("d/");
        folder.put(&format!("{path}.gitignore"), &rules);
        folder.put(&format!("{path}file"), "needle\n");
    }
    let search = SearchTool::new(folder.workspace.clone()).with_max_matches(100);
    let found = timed("nested", &search, json!({"pattern": "needle"})).await.unwrap();
    assert!(found.contains("(60 matches)") && found.contains("have no effect"), "{found}");
    let list = ListFilesTool::new(folder.workspace.clone());
    timed("nested", &list, json!({"max_depth": 1_000})).await.unwrap();
}

/// The rules within the limits work beside those that exceed them.
#[tokio::test]
async fn lines_over_a_limit_are_skipped_and_counted_and_the_others_have_effect() {
    let folder = small();
    let bad = format!("{}a{}", "{".repeat(30), "}".repeat(30));
    folder.put(".gitignore", format!("{bad}\n*.rs\r\n{}\n# comment\n\n!c.rs\n", "x".repeat(2_000)));
    folder.put("b/d.rs", "");
    let list = ListFilesTool::new(folder.workspace.clone());
    let shown = text(call(&list, json!({"pattern": "**/*"})).await);
    assert_eq!(
        shown,
        ".gitignore\na\nb/c.rs\n\n(3 files)\n(2 lines of ignore files exceed the limits and have no effect)"
    );
}

#[tokio::test]
async fn no_expression_ends_the_process_or_takes_long() {
    let folder = small();
    folder.put("line", "a".repeat(100_000));
    let search = SearchTool::new(folder.workspace.clone());
    for n in [90, 300, 5_000, 100_000, 1_000_000] {
        for (open, close) in [
            ("(", ")"),
            ("(?:a|", ")"),
            ("[", "]"),
            ("[[a]--", "]"),
            ("(?i:", ")"),
            ("", "+"),
            ("", "{9}"),
            ("a|", ""),
        ] {
            let pattern = format!("{}a{}", open.repeat(n), close.repeat(n));
            let done = timed(&pattern, &search, json!({"pattern": pattern})).await;
            if pattern.len() > agent_tools::search::MAX_PATTERN_BYTES {
                assert!(done.unwrap_err().contains("at most 16384 are allowed"));
            }
        }
    }
}

/// More folders in each other than a walk enters.
#[tokio::test]
async fn a_very_deep_tree_is_listed_and_searched_as_far_as_the_limit() {
    let folder = folder();
    folder.put(&format!("{}file", "d/".repeat(600)), "needle\n");
    folder.put("near", "needle\n");
    let list = ListFilesTool::new(folder.workspace.clone());
    let listed = timed("deep", &list, json!({"max_depth": 1_000_000})).await.unwrap();
    assert_eq!(listed, "near\n\n(1 files)");
    let search = SearchTool::new(folder.workspace.clone());
    let found = timed("deep", &search, json!({"pattern": "needle"})).await.unwrap();
    assert!(found.ends_with("(1 matches)\n(1 files could not be read)"), "{found}");
    // A copy is whole or an error.
    let branch = BranchWorkspaces::copies_of(folder.path()).unwrap().open().await;
    assert!(branch.unwrap_err().to_string().contains("more than 512 folders"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_random_pattern_is_a_pattern_or_an_error(pattern in r"[{}\[\],*?/\\!^.ab\-é-]{0,400}", path in "[a{}/,é]{0,30}") {
        let folder = small();
        if let Ok(workspace) = folder.workspace.clone().with_denied(&pattern) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                for tool in workspace.read_only_tools() {
                    drop(call(tool.as_ref(), json!({"path": path, "pattern": pattern})).await);
                    drop(call(tool.as_ref(), json!({"path": ".", "pattern": "a", "include": pattern})).await);
                }
            });
        }
    }
}
