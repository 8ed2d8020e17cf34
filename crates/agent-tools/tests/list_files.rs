//! `list_files` through its public face.

mod support;

use std::time::Duration;

use agent_core::{AgentTool as _, Effects, ToolError, ToolResult};
use agent_tools::ListFilesTool;
use serde_json::{Value, json};
use support::{Folder, call, call_cancelled, failure, folder, text};

async fn list(folder: &Folder, arguments: Value) -> Result<ToolResult, ToolError> {
    call(&ListFilesTool::new(folder.workspace.clone()), arguments).await
}

fn tree() -> Folder {
    let folder = folder();
    for path in [
        "b.rs",
        "a.txt",
        ".env",
        "src/lib.rs",
        "src/deep/er/x.rs",
        "src/deep/y.rs",
        "target/debug/out.rs",
        "src/node_modules/m/index.js",
        ".git/config",
        ".github/workflow.yml",
        "skipped.log",
        "src/deep/skipped.log",
        "src/secret.rs",
    ] {
        folder.put(path, "");
    }
    folder.put(".gitignore", "*.log\n");
    folder.put("src/.gitignore", "secret.rs\n");
    folder
}

/// REQ-051, B-173, REQ-137.
#[tokio::test]
async fn files_are_listed_in_order_without_what_is_built_fetched_or_ignored() {
    let result = list(&tree(), json!({})).await.unwrap();
    assert_eq!(
        result.to_text(),
        ".env\n.github/workflow.yml\n.gitignore\na.txt\nb.rs\nsrc/.gitignore\nsrc/deep/y.rs\nsrc/lib.rs\n\n(8 files)"
    );
    assert_eq!(result.details, json!({"total": 8, "truncated": false}));
}

/// REQ-051, B-173.
#[tokio::test]
async fn folder_pattern_and_depth_choose_files() {
    async fn check(arguments: Value, expect: &str) {
        assert_eq!(text(list(&tree(), arguments).await), expect);
    }
    check(json!({"max_depth": 1, "pattern": "*.rs"}), "b.rs\n\n(1 files)").await;
    check(json!({"max_depth": 0, "pattern": "*.rs"}), "b.rs\n\n(1 files)").await;
    check(json!({"max_depth": 9, "pattern": "x.*"}), "src/deep/er/x.rs\n\n(1 files)").await;
    // Paths are such that other tools can be given them.
    check(
        json!({"path": "src", "pattern": "*.rs"}),
        "src/deep/er/x.rs\nsrc/deep/y.rs\nsrc/lib.rs\n\n(3 files)",
    )
    .await;
    check(json!({"path": "src", "pattern": "deep/*.rs"}), "src/deep/y.rs\n\n(1 files)").await;
    check(json!({"path": "./src/../src/deep", "max_depth": 1}), "src/deep/y.rs\n\n(1 files)").await;
    check(json!({"pattern": "*.none"}), "No files found in .").await;
    // One who names such a folder means it.
    check(json!({"path": "target"}), "target/debug/out.rs\n\n(1 files)").await;
}

/// REQ-105, REQ-137.
#[tokio::test]
async fn two_hundred_of_more_files_are_shown_with_a_notice() {
    let folder = folder();
    for n in 0..500 {
        folder.put(&format!("f{n:03}"), "");
    }
    let result = list(&folder, json!({})).await.unwrap();
    let shown = result.to_text();
    let (files, notice) = shown.split_once("\n\n").unwrap();
    assert_eq!(notice, "... (500 files, showing first 200)");
    let expect: Vec<_> = (0..200).map(|n| format!("f{n:03}")).collect();
    assert_eq!(files.lines().collect::<Vec<_>>(), expect);
    assert_eq!(result.details, json!({"total": 500, "truncated": true}));
}

#[tokio::test]
async fn what_is_no_folder_is_not_found() {
    let folder = tree();
    for path in ["none", "a.txt", "--help"] {
        let error = failure(list(&folder, json!({"path": path})).await);
        assert_eq!(error, format!("Directory not found: {path}. Check the path and try again."));
    }
    assert!(failure(list(&folder, json!({"pattern": "["})).await).starts_with("Invalid pattern: "));
}

/// REQ-105.
#[tokio::test]
async fn a_listing_that_takes_too_long_or_is_cancelled_ends() {
    let folder = tree();
    let tool = ListFilesTool::new(folder.workspace.clone());
    assert_eq!(call_cancelled(&tool, json!({})).await, Err(ToolError::Cancelled));
    // All that this machine has takes longer than no time at all.
    let tool = ListFilesTool::default().with_timeout(Duration::ZERO);
    assert_eq!(failure(call(&tool, json!({"path": "/", "max_depth": 50})).await), "Listing timed out");
    let tool = ListFilesTool::default();
    let result = support::call_and_cancel(&tool, json!({"path": "/", "max_depth": 50}), async || {
        tokio::task::yield_now().await;
    });
    assert_eq!(result.await, Err(ToolError::Cancelled));
}

#[cfg(unix)]
#[tokio::test]
async fn names_with_line_ends_stay_on_one_line_and_links_are_not_followed() {
    let folder = folder();
    folder.put("a\nb", "");
    std::os::unix::fs::symlink("/etc", folder.path().join("etc")).unwrap();
    std::os::unix::fs::symlink(".", folder.path().join("loop")).unwrap();
    assert_eq!(text(list(&folder, json!({"max_depth": 9})).await), "a\\nb\n\n(1 files)");
}

#[test]
fn listing_changes_nothing() {
    assert_eq!(ListFilesTool::default().effects(&json!({})), Effects::ReadOnly);
}
