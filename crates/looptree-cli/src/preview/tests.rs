use looptree::Question;
use serde_json::json;

use super::*;

fn question(tool: &str, arguments: &serde_json::Value) -> Question {
    let call = json!({"id": "c", "name": tool, "arguments": arguments});
    serde_json::from_value(json!({"id": "q", "text": "Allow this call?", "call": call})).unwrap()
}

/// Attack 11 of the second review: files whose lines all differ.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_waits_for_no_comparison() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(folder.path()).unwrap();
    let lines = |salt: usize| {
        (0..20_000).map(|n| format!("{:06}.\n", n * 7919 % 1_000_003 + salt)).collect::<String>()
    };
    std::fs::write(folder.path().join("f"), lines(0)).unwrap();
    std::fs::write(folder.path().join("a"), "a".repeat(1 << 18)).unwrap();
    let edits: Vec<_> =
        (0..200).map(|n| json!({"old_text": "a".repeat(1_000 + n) + " ", "new_text": "b"})).collect();
    for (tool, arguments) in [
        ("write_file", json!({"path": "f", "content": lines(1)})),
        ("edit_file", json!({"path": "f", "old_text": lines(0), "new_text": lines(1)})),
        ("edit_file", json!({"path": "a", "edits": edits})),
    ] {
        let question = question(tool, &arguments);
        // The runtime is free meanwhile: nothing of it runs on this thread.
        // The comparison itself takes far longer than this, also on a busy machine.
        let made = tokio::time::timeout(PATIENCE * 50, preview(&workspace, &question)).await;
        assert!(matches!(made, Ok(Preview::Cut(_) | Preview::Nothing)), "{tool}: {made:?}");
    }
}

/// The preview is what the tool does, also where it is lenient, and reads nothing that the tool would not.
#[tokio::test]
async fn the_preview_is_the_effect_of_the_call() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "old").unwrap();
    std::fs::write(folder.path().join("f"), "say “hello”  \r\nend\r\n").unwrap();
    let workspace = Workspace::open(folder.path()).unwrap();
    let made = preview(
        &workspace,
        &question("edit_file", &json!({"path": "f", "oldText": "say \"hello\"\nend", "newText": "x\nend"})),
    )
    .await;
    let Preview::Change(plan) = made else { panic!("{made:?}") };
    assert_eq!(plan.after, "x\r\nend\r\n");
    #[cfg(unix)]
    std::os::unix::fs::symlink(outside.path().join("secret"), folder.path().join("link")).unwrap();
    for path in ["link", "../secret", "/etc/passwd", ".git/config", "."] {
        let made =
            preview(&workspace, &question("write_file", &json!({"path": path, "content": "new"}))).await;
        assert!(matches!(made, Preview::Nothing), "{path}: {made:?}");
    }
}
