//! `search` through its public face.

mod support;

use std::time::Duration;

use agent_core::{AgentTool as _, Effects, ToolError, ToolResult};
use agent_tools::SearchTool;
use serde_json::{Value, json};
use support::{Folder, call, call_cancelled, failure, folder, text};

async fn search(folder: &Folder, arguments: Value) -> Result<ToolResult, ToolError> {
    call(&SearchTool::new(folder.workspace.clone()), arguments).await
}

/// REQ-052, REQ-106, REQ-137. No program is started for it, so none can be missing.
#[tokio::test]
async fn matching_lines_come_with_path_and_number() {
    let folder = folder();
    folder.put("src/b.rs", "fn one() {}\nfn two() {}\r\n");
    folder.put("a.txt", "One\n");
    let result = search(&folder, json!({"pattern": "one|two"})).await.unwrap();
    assert_eq!(
        result.to_text(),
        "a.txt:1: One\nsrc/b.rs:1: fn one() {}\nsrc/b.rs:2: fn two() {}\n\n(3 matches)"
    );
    assert_eq!(result.details, json!({"matches": 3, "truncated": false, "unreadable": 0}));
}

/// REQ-052.
#[tokio::test]
async fn folder_include_and_case_choose_lines() {
    async fn check(mut arguments: Value, expect: &str) {
        let folder = folder();
        folder.put("a.txt", "Needle\n");
        folder.put("src/b.rs", "needle\n");
        folder.put("src/deep/c.rs", "a needle\n");
        arguments["pattern"] = json!("needle");
        assert_eq!(text(search(&folder, arguments).await), expect);
    }
    check(
        json!({"case_sensitive": true, "path": "."}),
        "src/b.rs:1: needle\nsrc/deep/c.rs:1: a needle\n\n(2 matches)",
    )
    .await;
    check(json!({"include": "*.txt"}), "a.txt:1: Needle\n\n(1 matches)").await;
    check(json!({"include": "src/*.rs"}), "src/b.rs:1: needle\n\n(1 matches)").await;
    check(json!({"path": "src/deep"}), "src/deep/c.rs:1: a needle\n\n(1 matches)").await;
    check(json!({"path": "src/b.rs"}), "src/b.rs:1: needle\n\n(1 matches)").await;
    check(json!({"include": "*.none"}), "No matches found for 'needle'").await;
}

/// B-173.
#[tokio::test]
async fn ignored_built_and_binary_files_are_left_out_and_hidden_ones_are_not() {
    let folder = folder();
    for path in ["target/a", ".git/b", "x/node_modules/c", "skipped.log", ".env", "seen"] {
        folder.put(path, "needle\n");
    }
    folder.put(".gitignore", "*.log\n");
    folder.put("binary", b"needle\n\0\nneedle\n");
    assert_eq!(
        text(search(&folder, json!({"pattern": "needle"})).await),
        ".env:1: needle\nseen:1: needle\n\n(2 matches)"
    );
}

/// B-173.
#[tokio::test]
async fn fifty_matches_over_all_files_are_shown_and_the_notice_comes_only_when_there_are_more() {
    let folder = folder();
    folder.put("a", "x\n".repeat(30));
    folder.put("b", "x\n".repeat(20));
    let shown = text(search(&folder, json!({"pattern": "x"})).await);
    assert!(shown.ends_with("b:20: x\n\n(50 matches)"), "{shown}");
    folder.put("c", "x\n");
    let result = search(&folder, json!({"pattern": "x"})).await.unwrap();
    assert!(result.to_text().ends_with("b:20: x\n\n... (showing first 50 matches)"));
    assert_eq!(result.details, json!({"matches": 50, "truncated": true, "unreadable": 0}));
}

/// REQ-106.
#[tokio::test]
async fn a_pattern_is_never_taken_for_an_option() {
    let folder = folder();
    folder.put("a", "--pre=evil\n-e x\n");
    assert_eq!(
        text(search(&folder, json!({"pattern": "--pre=evil"})).await),
        "a:1: --pre=evil\n\n(1 matches)"
    );
    assert_eq!(text(search(&folder, json!({"pattern": "-e"})).await), "a:2: -e x\n\n(1 matches)");
}

#[tokio::test]
async fn a_wrong_expression_is_named_with_one_that_finds_the_text_itself() {
    let folder = folder();
    folder.put("a", "call(x\n");
    let error = failure(search(&folder, json!({"pattern": "call("})).await);
    assert!(error.starts_with("Invalid regex 'call(': "), "{error}");
    assert!(error.ends_with("To search for the text itself, use 'call\\('"), "{error}");
    assert_eq!(text(search(&folder, json!({"pattern": "call\\("})).await), "a:1: call(x\n\n(1 matches)");
    assert!(failure(search(&folder, json!({"pattern": "x", "include": "["})).await).contains("include"));
    // An expression that would need endless memory is refused in time.
    let error = failure(search(&folder, json!({"pattern": "(\\w{500}){500}"})).await);
    assert!(error.starts_with("Invalid regex"), "{error}");
}

#[tokio::test]
async fn a_place_that_is_not_there_is_an_error() {
    let folder = folder();
    assert!(
        failure(search(&folder, json!({"pattern": "x", "path": "none"})).await)
            .contains("Cannot access none")
    );
}

/// B-173.
#[tokio::test]
async fn a_long_line_is_cut() {
    let folder = folder();
    folder.put("a", format!("{}needle{}\n", "é".repeat(2_000), "é".repeat(2_000)));
    let shown = text(search(&folder, json!({"pattern": "needle"})).await);
    assert!(
        shown.starts_with("a:1: ... é") && shown.contains("éneedleé") && shown.contains("é ... (line cut)")
    );
    assert!(shown.len() < 600);
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_cannot_be_read_does_not_cost_the_other_matches() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    folder.put("a", "needle\n");
    // One line longer than is searched.
    folder.put("b", "x".repeat(agent_tools::search::MAX_SEARCHED_LINE_BYTES + 1));
    let shown = text(search(&folder, json!({"pattern": "needle"})).await);
    assert_eq!(shown, "a:1: needle\n\n(1 matches)\n(1 files could not be read)");
    std::fs::remove_file(folder.path().join("b")).unwrap();

    folder.put("b", "needle\n");
    std::fs::set_permissions(folder.path().join("b"), PermissionsExt::from_mode(0o000)).unwrap();
    if std::fs::File::open(folder.path().join("b")).is_ok() {
        println!("skipped: this account may read every file (root), so there is nothing to see");
        return;
    }
    let shown = text(search(&folder, json!({"pattern": "needle"})).await);
    assert_eq!(shown, "a:1: needle\n\n(1 matches)\n(1 files could not be read)");
}

/// REQ-106.
#[tokio::test]
async fn a_search_that_takes_too_long_or_is_cancelled_ends() {
    let folder = folder();
    let file = std::fs::File::create(folder.path().join("huge")).unwrap();
    std::io::Write::write_all(&mut &file, "y\n".repeat(20_000_000).as_bytes()).unwrap();
    let tool = SearchTool::new(folder.workspace.clone());
    assert_eq!(call_cancelled(&tool, json!({"pattern": "x"})).await, Err(ToolError::Cancelled));
    let tool = tool.with_timeout(Duration::from_millis(1));
    let slow = json!({"pattern": "[yz]\\w{3}"});
    assert_eq!(failure(call(&tool, slow.clone()).await), "Search timed out");
    let tool = SearchTool::new(folder.workspace.clone());
    let result = support::call_and_cancel(&tool, slow, async || tokio::task::yield_now().await);
    assert_eq!(result.await, Err(ToolError::Cancelled));
}

#[test]
fn searching_changes_nothing() {
    assert_eq!(SearchTool::default().effects(&json!({"pattern": "x"})), Effects::ReadOnly);
}
