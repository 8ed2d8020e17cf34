//! `read_file` through its public face.

mod support;

use agent_core::{AgentTool as _, Content, Effects, ImageContent, ToolError};
use agent_tools::ReadFileTool;
use base64::Engine as _;
use serde_json::json;
use support::{Folder, call, call_cancelled, failure, folder, text};

async fn read(folder: &Folder, arguments: serde_json::Value) -> Result<agent_core::ToolResult, ToolError> {
    call(&ReadFileTool::new(folder.workspace.clone()), arguments).await
}

/// REQ-048, REQ-137.
#[tokio::test]
async fn a_whole_file_comes_with_line_numbers_and_their_count() {
    let folder = folder();
    folder.put("a.txt", "one\ntwo\nthree\n");
    let result = read(&folder, json!({"path": "a.txt"})).await.unwrap();
    assert_eq!(result.to_text(), "[3 lines]\n   1 | one\n   2 | two\n   3 | three");
    assert_eq!(result.details, json!({"path": "a.txt"}));
}

/// REQ-048, B-169.
#[tokio::test]
async fn offset_and_limit_choose_lines() {
    async fn check(arguments: serde_json::Value, expect: &str) {
        let folder = folder();
        folder.put("a.txt", "one\ntwo\nthree");
        let mut arguments = arguments;
        arguments["path"] = json!("a.txt");
        assert_eq!(text(read(&folder, arguments).await), expect);
    }
    check(json!({"offset": 2, "limit": 1}), "[Lines 2-2 of 3]\n   2 | two").await;
    check(json!({"offset": 2}), "[Lines 2-3 of 3]\n   2 | two\n   3 | three").await;
    check(json!({"limit": 2}), "[Lines 1-2 of 3]\n   1 | one\n   2 | two").await;
    check(json!({"offset": 0, "limit": 1}), "[Lines 1-1 of 3]\n   1 | one").await;
    check(json!({"offset": 3, "limit": u64::MAX}), "[Lines 3-3 of 3]\n   3 | three").await;
}

/// B-169.
#[tokio::test]
async fn an_offset_past_the_end_is_an_error_with_the_line_count() {
    async fn check(content: &str, offset: u64, expect: &str) {
        let folder = folder();
        folder.put("a.txt", content);
        assert_eq!(failure(read(&folder, json!({"path": "a.txt", "offset": offset})).await), expect);
    }
    check("one\ntwo\n", 3, "offset 3 is past the end of a.txt, which has 2 lines").await;
    check("one", u64::MAX, &format!("offset {} is past the end of a.txt, which has 1 line", u64::MAX)).await;
    check("", 2, "offset 2 is past the end of a.txt, which has 0 lines").await;
}

#[tokio::test]
async fn an_empty_file_has_no_lines() {
    let folder = folder();
    folder.put("a.txt", "");
    assert_eq!(text(read(&folder, json!({"path": "a.txt"})).await), "[0 lines]");
    assert_eq!(text(read(&folder, json!({"path": "a.txt", "offset": 1, "limit": 5})).await), "[0 lines]");
}

/// REQ-098, B-169.
#[tokio::test]
async fn a_text_file_over_the_bound_can_only_be_paged() {
    let folder = folder();
    let line = "0123456789abcdef".repeat(8);
    folder.put("big.txt", format!("{line}\n").repeat(10_000));
    let error = failure(read(&folder, json!({"path": "big.txt"})).await);
    assert_eq!(error, "File too large (1290000 bytes, max 1048576). Use offset/limit for partial reads.");
    let page = text(read(&folder, json!({"path": "big.txt", "offset": 9_999, "limit": 5})).await);
    assert_eq!(page, format!("[Lines 9999-10000 of 10000]\n9999 | {line}\n10000 | {line}"));
}

/// B-169.
#[tokio::test]
async fn one_page_has_a_bound_too_and_says_where_to_go_on() {
    let folder = folder();
    folder.put("a.txt", "12345\n".repeat(100));
    let tool = ReadFileTool::new(folder.workspace.clone()).with_max_text_bytes(20);
    let shown = text(call(&tool, json!({"path": "a.txt", "offset": 5})).await);
    assert_eq!(
        shown,
        "[Lines 5-7 of 100]\n   5 | 12345\n   6 | 12345\n   7 | 12345\n\
         ... (output truncated; continue with offset 8)"
    );
}

/// REQ-098.
#[tokio::test]
async fn the_size_is_looked_at_before_the_content() {
    let folder = folder();
    // 40 GiB without a byte on the disk: reading it would take minutes.
    let file = std::fs::File::create(folder.path().join("huge.txt")).unwrap();
    file.set_len(40 << 30).unwrap();
    assert!(
        failure(read(&folder, json!({"path": "huge.txt"})).await)
            .starts_with("File too large (42949672960 bytes")
    );
    std::fs::write(folder.path().join("huge.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    let file = std::fs::File::options().write(true).open(folder.path().join("huge.png")).unwrap();
    file.set_len(40 << 30).unwrap();
    assert_eq!(
        failure(read(&folder, json!({"path": "huge.png"})).await),
        "Image too large (40960MB, max 20MB)"
    );
}

/// REQ-099, REQ-137.
#[tokio::test]
async fn a_picture_comes_as_a_picture() {
    let folder = folder();
    let bytes = b"\x89PNG\r\n\x1a\nand more";
    // The name says nothing.
    for name in ["a.png", "a.txt", "a"] {
        folder.put(name, bytes);
        let result = read(&folder, json!({"path": name})).await.unwrap();
        let [Content::Image(ImageContent::Base64 { data, mime_type })] = result.content.as_slice() else {
            panic!("{:?}", result.content)
        };
        assert_eq!(base64::engine::general_purpose::STANDARD.decode(data).unwrap(), bytes);
        assert_eq!(mime_type, "image/png");
        assert_eq!(result.details, json!({"path": name, "bytes": bytes.len(), "mime_type": "image/png"}));
    }
}

/// B-169.
#[tokio::test]
async fn text_with_the_name_of_a_picture_is_text() {
    let folder = folder();
    folder.put("a.png", "<html>not found</html>");
    assert_eq!(
        text(read(&folder, json!({"path": "a.png"})).await),
        "[1 line]\n   1 | <html>not found</html>"
    );
}

#[tokio::test]
async fn text_in_another_encoding_is_read_as_well_as_it_can_be() {
    let folder = folder();
    folder.put("a.txt", b"caf\xE9\n");
    assert_eq!(text(read(&folder, json!({"path": "a.txt"})).await), "[1 line]\n   1 | caf\u{FFFD}");
}

#[tokio::test]
async fn what_is_no_text_file_is_refused_with_its_kind() {
    let folder = folder();
    folder.put("a.bin", b"ab\0cd");
    let error = failure(read(&folder, json!({"path": "a.bin"})).await);
    assert_eq!(
        error,
        "Cannot read a.bin: it is a binary file (5 bytes), neither text nor a known kind of picture"
    );
    folder.put("sub/x", "");
    assert!(failure(read(&folder, json!({"path": "sub"})).await).contains("is a directory"));
    let error = failure(read(&folder, json!({"path": "none.txt"})).await);
    assert!(error.starts_with("Cannot access none.txt: No such file"), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn pipes_and_devices_are_refused_and_never_waited_for() {
    let folder = folder();
    let pipe = folder.path().join("pipe");
    let mkfifo = agent_tools::BashTool::new(folder.workspace.clone());
    assert_eq!(text(call(&mkfifo, json!({"command": "mkfifo pipe"})).await), "Exit code: 0\n");
    assert!(pipe.exists());
    let refused = tokio::time::timeout(support::PATIENCE, read(&folder, json!({"path": "pipe"})));
    assert!(failure(refused.await.unwrap()).contains("is not a regular file"));
    let anywhere = ReadFileTool::default();
    for device in ["/dev/zero", "/dev/tty", "/dev/stdin"] {
        let refused = tokio::time::timeout(support::PATIENCE, call(&anywhere, json!({"path": device}))).await;
        let error = failure(refused.unwrap());
        assert!(
            error.contains("is not a regular file") || error.contains("Cannot access"),
            "{device}: {error}"
        );
    }
}

/// REQ-100.
#[tokio::test]
async fn a_cancelled_read_touches_nothing() {
    let folder = folder();
    folder.put("a.txt", "one");
    let tool = ReadFileTool::new(folder.workspace.clone());
    assert_eq!(call_cancelled(&tool, json!({"path": "a.txt"})).await, Err(ToolError::Cancelled));
    // Not even enough to see that there is nothing.
    assert_eq!(call_cancelled(&tool, json!({"path": "none.txt"})).await, Err(ToolError::Cancelled));
}

/// REQ-100.
#[tokio::test]
async fn a_read_that_is_on_its_way_is_cancelled() {
    let folder = folder();
    let file = std::fs::File::create(folder.path().join("huge.txt")).unwrap();
    // The first part has no zeros, so it counts as text; counting the lines of the rest would take minutes.
    std::io::Write::write_all(&mut &file, &[b'x'; 70_000]).unwrap();
    file.set_len(400 << 30).unwrap();
    let tool = ReadFileTool::new(folder.workspace.clone());
    let result = support::call_and_cancel(&tool, json!({"path": "huge.txt", "limit": 1}), async || {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    });
    assert_eq!(tokio::time::timeout(support::PATIENCE, result).await.unwrap(), Err(ToolError::Cancelled));
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_named() {
    let folder = folder();
    folder.put("a.txt", "one");
    for (arguments, expect) in [
        (json!({}), "missing field `path`"),
        (json!({"path": "a.txt", "offset": -1}), "invalid value"),
        (json!({"path": "a.txt", "limit": 0}), "limit must be at least 1"),
    ] {
        let result = read(&folder, arguments).await;
        assert!(matches!(&result, Err(ToolError::InvalidArgs(text)) if text.contains(expect)), "{result:?}");
    }
}

#[test]
fn reading_changes_nothing() {
    assert_eq!(ReadFileTool::default().effects(&json!({"path": "a"})), Effects::ReadOnly);
}
