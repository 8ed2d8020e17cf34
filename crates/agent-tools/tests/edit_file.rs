//! `edit_file` through its public face.

mod support;

use agent_core::{AgentTool as _, Effects, ToolError, ToolResult};
use agent_tools::EditFileTool;
use serde_json::{Value, json};
use support::{Folder, call, call_cancelled, failure, folder, text};

async fn edit(folder: &Folder, arguments: Value) -> Result<ToolResult, ToolError> {
    call(&EditFileTool::new(folder.workspace.clone()), arguments).await
}

/// REQ-050, REQ-137.
#[tokio::test]
async fn an_edit_says_how_many_lines_took_the_place_of_how_many() {
    let folder = folder();
    folder.put("a.txt", "one\ntwo\nthree\n");
    let result =
        edit(&folder, json!({"path": "a.txt", "old_text": "two", "new_text": "2\n2.5"})).await.unwrap();
    assert_eq!(result.to_text(), "Replaced 1 line with 2 lines in a.txt");
    assert_eq!((&result.details["old_lines"], &result.details["new_lines"]), (&json!(1), &json!(2)));
    let changes = agent_tools::file_change::changes_of(&result.details);
    assert_eq!((changes[0].path.as_str(), changes[0].added, changes[0].removed), ("a.txt", 2, 1));
    assert!(changes[0].diff.starts_with("@@ -"), "{}", changes[0].diff);
    assert_eq!(folder.get("a.txt"), b"one\n2\n2.5\nthree\n");
}

/// B-171.
#[tokio::test]
async fn many_edits_are_made_in_one_call() {
    let folder = folder();
    folder.put("a.txt", "one\ntwo\nthree\n");
    let edits = json!([{"old_text": "three", "new_text": "3"}, {"old_text": "one\n", "new_text": ""}]);
    assert_eq!(
        text(edit(&folder, json!({"path": "a.txt", "edits": edits})).await),
        "Replaced 2 lines with 1 line in a.txt (2 edits)"
    );
    assert_eq!(folder.get("a.txt"), b"two\n3\n");
}

/// B-171.
#[tokio::test]
async fn an_edit_that_changes_nothing_says_so_as_an_error() {
    let folder = folder();
    folder.put("a.txt", "one\r\n");
    for (old, new) in [("one", "one"), ("one\n", "one\n")] {
        let result = edit(&folder, json!({"path": "a.txt", "old_text": old, "new_text": new})).await.unwrap();
        assert!(result.is_error);
        assert_eq!(result.to_text(), "No changes (old_text == new_text)");
    }
    assert_eq!(folder.get("a.txt"), b"one\r\n");
}

#[tokio::test]
async fn an_edit_that_fails_leaves_the_file_alone() {
    let folder = folder();
    folder.put("a.txt", "one\ntwo\n");
    let edits = json!([{"old_text": "one", "new_text": "1"}, {"old_text": "three", "new_text": "3"}]);
    let error = failure(edit(&folder, json!({"path": "a.txt", "edits": edits})).await);
    assert!(error.starts_with("edit 2: old_text not found in a.txt."), "{error}");
    assert_eq!(folder.get("a.txt"), b"one\ntwo\n");
}

#[tokio::test]
async fn a_file_that_is_not_there_is_for_write_file() {
    let folder = folder();
    let error = failure(edit(&folder, json!({"path": "a.txt", "old_text": "a", "new_text": "b"})).await);
    assert!(
        error.starts_with("Cannot read a.txt: ") && error.ends_with(". Use write_file to create new files.")
    );
    folder.put("sub/x", "");
    let error = failure(edit(&folder, json!({"path": "sub", "old_text": "a", "new_text": "b"})).await);
    assert!(error.contains("is a directory"), "{error}");
}

#[tokio::test]
async fn a_file_over_the_bound_is_not_loaded() {
    let folder = folder();
    let file = std::fs::File::create(folder.path().join("huge.txt")).unwrap();
    file.set_len(40 << 30).unwrap();
    let error = failure(edit(&folder, json!({"path": "huge.txt", "old_text": "a", "new_text": "b"})).await);
    assert!(error.contains("too large to edit (42949672960 bytes"), "{error}");
}

/// REQ-103.
#[tokio::test]
async fn a_cancelled_edit_changes_nothing() {
    let folder = folder();
    folder.put("a.txt", "one");
    let tool = EditFileTool::new(folder.workspace.clone());
    let arguments = json!({"path": "a.txt", "old_text": "one", "new_text": "1"});
    assert_eq!(call_cancelled(&tool, arguments).await, Err(ToolError::Cancelled));
    assert_eq!(folder.get("a.txt"), b"one");
}

/// B-172.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_of_one_file_at_the_same_time_all_survive() {
    const EDITS: usize = 40;
    let folder = folder();
    let lines: String = (0..EDITS).map(|n| format!("<{n}>\n")).collect();
    folder.put("a.txt", lines);
    #[cfg(unix)]
    std::os::unix::fs::symlink("a.txt", folder.path().join("link")).unwrap();
    let names: &[&str] = if cfg!(unix) { &["a.txt", "link", "./a.txt"] } else { &["a.txt", "./a.txt"] };
    let mut calls = Vec::new();
    for n in 0..EDITS {
        // Another tool each time, as two agents would have.
        let tool = EditFileTool::new(folder.workspace.clone());
        let arguments = json!({"path": names[n % names.len()], "old_text": format!("<{n}>"), "new_text": format!("done {n}")});
        calls.push(tokio::spawn(async move { call(&tool, arguments).await }));
    }
    for call in calls {
        text(call.await.unwrap());
    }
    let expect: String = (0..EDITS).map(|n| format!("done {n}\n")).collect();
    assert_eq!(String::from_utf8(folder.get("a.txt")).unwrap(), expect);
}

/// B-171.
#[tokio::test]
async fn sloppy_forms_of_the_arguments_are_understood() {
    async fn check(mut arguments: Value) {
        let folder = folder();
        folder.put("a.txt", "one two");
        if arguments.get("file_path").is_none() {
            arguments["path"] = json!("a.txt");
        }
        text(edit(&folder, arguments).await);
        assert_eq!(folder.get("a.txt"), b"1 two");
    }
    check(json!({"oldText": "one", "newText": "1"})).await;
    check(json!({"file_path": "a.txt", "old_string": "one", "new_string": "1"})).await;
    check(json!({"edits": {"old_text": "one", "new_text": "1"}})).await;
    check(json!({"edits": "[{\"oldText\": \"one\", \"newText\": \"1\"}]"})).await;
    check(json!({"edits": [], "old_text": "one", "new_text": "1"})).await;
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_named() {
    let folder = folder();
    folder.put("a.txt", "one");
    let one = json!({"old_text": "one", "new_text": "1"});
    for (arguments, expect) in [
        (json!({"old_text": "a", "new_text": "b"}), "missing field `path`"),
        (json!({"path": "a.txt"}), "nothing to edit"),
        (json!({"path": "a.txt", "old_text": "one"}), "nothing to edit"),
        (json!({"path": "a.txt", "edits": []}), "nothing to edit"),
        (json!({"path": "a.txt", "edits": "nonsense"}), "expected a sequence"),
        (json!({"path": "a.txt", "edits": [one], "old_text": "one", "new_text": "1"}), "not both"),
        (json!({"path": "a.txt", "edits": vec![one.clone(); 201]}), "too many edits"),
        (json!("a.txt"), "expected struct"),
    ] {
        let result = edit(&folder, arguments).await;
        assert!(matches!(&result, Err(ToolError::InvalidArgs(text)) if text.contains(expect)), "{result:?}");
    }
}

#[test]
fn an_edit_may_not_be_made_twice() {
    assert_eq!(EditFileTool::default().effects(&json!({})), Effects::Once);
}
