//! `write_file` through its public face.

mod support;

use agent_core::{AgentTool as _, Effects, ToolError};
use agent_tools::WriteFileTool;
use agent_tools::file_change::ChangeOf;
use serde_json::json;
use support::{Folder, call, call_cancelled, failure, folder, text};

async fn write(folder: &Folder, path: &str, content: &str) -> Result<agent_core::ToolResult, ToolError> {
    call(&WriteFileTool::new(folder.workspace.clone()), json!({"path": path, "content": content})).await
}

/// REQ-049, REQ-137.
#[tokio::test]
async fn a_file_is_written_with_its_missing_folders() {
    let folder = folder();
    let result = write(&folder, "a/b/c.txt", "héllo\r\n").await.unwrap();
    assert_eq!(result.to_text(), "Wrote 8 bytes to a/b/c.txt");
    assert_eq!((&result.details["path"], &result.details["bytes"]), (&json!("a/b/c.txt"), &json!(8)));
    let changes = agent_tools::file_change::changes_of(&result.details);
    assert_eq!((changes[0].kind, changes[0].added), (ChangeOf::Added, 1));
    let result = write(&folder, "a/b/c.txt", "h\n").await.unwrap();
    let changes = agent_tools::file_change::changes_of(&result.details);
    assert_eq!(changes[0].diff, "@@ -1 +1 @@\n-héllo\r\n+h\n");
    write(&folder, "a/b/c.txt", "héllo\r\n").await.unwrap();
    assert_eq!(folder.get("a/b/c.txt"), "héllo\r\n".as_bytes());
}

#[tokio::test]
async fn a_file_that_exists_is_replaced_and_nothing_else_is_left() {
    let folder = folder();
    folder.put("a.txt", "old and much longer");
    text(write(&folder, "a.txt", "new").await);
    assert_eq!(folder.get("a.txt"), b"new");
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["a.txt"]);
}

/// REQ-104.
#[tokio::test]
async fn a_cancelled_write_writes_nothing() {
    let folder = folder();
    let tool = WriteFileTool::new(folder.workspace.clone());
    let result = call_cancelled(&tool, json!({"path": "sub/a.txt", "content": "x"})).await;
    assert_eq!(result, Err(ToolError::Cancelled));
    assert!(!folder.has("sub"));
}

#[tokio::test]
async fn what_is_no_file_is_not_written_over() {
    let folder = folder();
    folder.put("sub/a.txt", "x");
    assert_eq!(failure(write(&folder, "sub", "y").await), "Cannot write sub: it is a directory");
    assert!(failure(write(&folder, "sub/a.txt/b", "y").await).contains("Cannot access sub/a.txt/b"));
    assert_eq!(folder.get("sub/a.txt"), b"x");
}

#[cfg(unix)]
#[tokio::test]
async fn permissions_are_kept_and_new_files_get_the_usual_ones() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let mode = |name: &str| folder.path().join(name).metadata().unwrap().permissions().mode() & 0o7777;
    folder.put("run.sh", "old");
    std::fs::set_permissions(folder.path().join("run.sh"), PermissionsExt::from_mode(0o751)).unwrap();
    text(write(&folder, "run.sh", "new").await);
    assert_eq!(mode("run.sh"), 0o751);
    // As any other new file here, whatever the umask is.
    folder.put("usual", "");
    text(write(&folder, "new", "x").await);
    assert_eq!(mode("new"), mode("usual"));
}

#[cfg(unix)]
#[tokio::test]
async fn a_symlink_is_followed_and_stays() {
    let folder = folder();
    folder.put("real.txt", "old");
    std::os::unix::fs::symlink("real.txt", folder.path().join("link")).unwrap();
    std::os::unix::fs::symlink("later/made.txt", folder.path().join("dangling")).unwrap();
    text(write(&folder, "link", "new").await);
    text(write(&folder, "dangling", "made").await);
    assert_eq!(folder.get("real.txt"), b"new");
    assert_eq!(folder.get("later/made.txt"), b"made");
    assert!(folder.path().join("link").is_symlink() && folder.path().join("dangling").is_symlink());
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_may_not_be_written_is_not_replaced() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    folder.put("fixed.txt", "old");
    let path = folder.path().join("fixed.txt");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
    if std::fs::File::options().write(true).open(&path).is_ok() {
        println!("skipped: this account may write to read-only files (root), so there is nothing to see");
        return;
    }
    assert!(failure(write(&folder, "fixed.txt", "new").await).contains("Permission denied"));
    assert_eq!(folder.get("fixed.txt"), b"old");
}

#[test]
fn a_reader_sees_the_old_or_the_new_content_and_nothing_between() {
    let folder = folder();
    let contents = ["a".repeat(200_000), "b".repeat(100_000)];
    folder.put("a.txt", &contents[0]);
    let path = folder.path().join("a.txt");
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = 0;
            while !done.load(std::sync::atomic::Ordering::SeqCst) {
                let now = std::fs::read_to_string(&path).unwrap();
                assert!(contents.contains(&now), "{} bytes", now.len());
                seen += 1;
            }
            seen
        });
        scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                for n in 0..40 {
                    text(write(&folder, "a.txt", &contents[n % 2]).await);
                }
            });
            done.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        assert!(reader.join().unwrap() > 0);
    });
}

#[test]
fn writing_twice_is_the_same_as_writing_once() {
    assert_eq!(
        WriteFileTool::default().effects(&json!({"path": "a.txt", "content": ""})),
        Effects::Idempotent
    );
}

/// Attack 17.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn extended_attributes_are_kept_by_a_write_and_by_an_edit() {
    use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
    let folder = folder();
    folder.put("a.txt", "old");
    let open = || std::fs::File::open(folder.path().join("a.txt")).unwrap();
    if let Err(error) = fsetxattr(open(), "user.note", b"mine", XattrFlags::empty()) {
        println!("skipped: this file system has no attributes of users: {error}");
        return;
    }
    text(write(&folder, "a.txt", "new").await);
    let edit = agent_tools::EditFileTool::new(folder.workspace.clone());
    text(call(&edit, json!({"path": "a.txt", "old_text": "new", "new_text": "newer"})).await);
    let mut value = vec![0; 100];
    let length = fgetxattr(open(), "user.note", &mut *value).unwrap();
    assert_eq!(&value[..length], b"mine");
    assert_eq!(folder.get("a.txt"), b"newer");
}

/// Attack 17: a hard link may lead to a file outside of the root, so its content is not changed through it.
#[cfg(unix)]
#[tokio::test]
async fn a_file_with_several_names_is_replaced_under_one_of_them() {
    let (outside, folder) = (folder(), folder());
    outside.put("far.txt", "one");
    std::fs::hard_link(outside.path().join("far.txt"), folder.path().join("near.txt")).unwrap();
    text(write(&folder, "near.txt", "two").await);
    assert_eq!((folder.get("near.txt"), outside.get("far.txt")), (b"two".to_vec(), b"one".to_vec()));
    std::fs::hard_link(outside.path().join("far.txt"), folder.path().join("other.txt")).unwrap();
    let edit = agent_tools::EditFileTool::new(folder.workspace.clone());
    text(call(&edit, json!({"path": "other.txt", "old_text": "one", "new_text": "three"})).await);
    assert_eq!((folder.get("other.txt"), outside.get("far.txt")), (b"three".to_vec(), b"one".to_vec()));
}

#[cfg(unix)]
#[tokio::test]
async fn new_content_does_not_get_the_rights_of_the_owner() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    folder.put("tool", "old");
    let path = folder.path().join("tool");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o6755)).unwrap();
    text(write(&folder, "tool", "new").await);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o755);
}
