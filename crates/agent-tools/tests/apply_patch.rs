//! `apply_patch` through its public face: what it does, what it refuses, and attempts to misuse it.
#![allow(clippy::disallowed_methods, reason = "a test makes a named pipe")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is a part of tests")]

mod support;

use agent_core::{AgentTool as _, Effects, ToolError, ToolResult};
use agent_tools::file_change::{ChangeOf, changes_of};
use agent_tools::{ApplyPatchTool, Workspace};
use serde_json::json;
use support::{Folder, call, call_cancelled, failure, folder, text};

fn patch(body: &str) -> String {
    format!("*** Begin Patch\n{body}*** End Patch")
}

async fn apply(folder: &Folder, body: &str) -> Result<ToolResult, ToolError> {
    apply_in(&folder.workspace, body).await
}

async fn apply_in(workspace: &Workspace, body: &str) -> Result<ToolResult, ToolError> {
    call(&ApplyPatchTool::new(workspace.clone()), json!({"input": patch(body)})).await
}

/// All files of a folder.
fn files(folder: &Folder) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![folder.path().to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            found.push(path.strip_prefix(folder.path()).unwrap().display().to_string());
            if path.is_dir() && !path.is_symlink() {
                open.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Issue 16, item 2.
#[tokio::test]
async fn a_patch_adds_changes_moves_and_deletes_files() {
    let folder = folder();
    folder.put("a.txt", "one\ntwo\nthree\n");
    folder.put("old.txt", "x\n");
    folder.put("gone.txt", "y\n");
    let body = "*** Update File: a.txt\n@@\n one\n-two\n+2\n three\n*** Add File: new/b.txt\n+hello\n+\n*** Update File: old.txt\n\
                *** Move to: sub/moved.txt\n@@\n-x\n+X\n*** Delete File: gone.txt\n";
    let result = apply(&folder, body).await.unwrap();
    assert_eq!(
        result.to_text(),
        "Success. Updated the following files:\nM a.txt\nA new/b.txt\nM old.txt -> sub/moved.txt\nD gone.txt"
    );
    assert_eq!(folder.get("a.txt"), b"one\n2\nthree\n");
    assert_eq!(folder.get("new/b.txt"), b"hello\n\n");
    assert_eq!(folder.get("sub/moved.txt"), b"X\n");
    assert_eq!(files(&folder), ["a.txt", "new", "new/b.txt", "sub", "sub/moved.txt"]);

    let changes = changes_of(&result.details);
    let kinds: Vec<_> = changes.iter().map(|change| change.kind).collect();
    assert_eq!(kinds, [ChangeOf::Updated, ChangeOf::Added, ChangeOf::Updated, ChangeOf::Deleted]);
    assert_eq!(changes[0].diff, "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n");
    assert_eq!(changes[2].moved_to.as_deref(), Some("sub/moved.txt"));
}

#[tokio::test]
async fn the_forms_that_models_write_are_understood() {
    let cases: &[(&str, &str, &str)] = &[
        // The first hunk needs no header.
        ("a\nb\n", " a\n-b\n+c\n", "a\nc\n"),
        // The numbers of a unified diff are ignored.
        ("a\nb\n", "@@ -7,2 +7,2 @@ fn x\n a\n-b\n+c\n", "a\nc\n"),
        // The lines behind the named function.
        (
            "fn a() {\n  1\n}\nfn b() {\n  1\n}\n",
            "@@ fn b() {\n-  1\n+  2\n",
            "fn a() {\n  1\n}\nfn b() {\n  2\n}\n",
        ),
        // The named line is also the first of the hunk.
        (
            "fn a() {\n  1\n}\nfn b() {\n  1\n}\n",
            "@@ fn b() {\n fn b() {\n-  1\n+  2\n",
            "fn a() {\n  1\n}\nfn b() {\n  2\n}\n",
        ),
        (
            "class A\n f\n  1\nclass B\n f\n  1\n",
            "@@ class B\n@@  f\n-  1\n+  2\n",
            "class A\n f\n  1\nclass B\n f\n  2\n",
        ),
        // Blanks and typographic characters.
        ("a  \nb\n", "@@\n a\n-b\n+c\n", "a  \nc\n"),
        ("\ta\nb\n", "@@\n   a\n-b\n+c\n", "\ta\nc\n"),
        (
            "\u{201c}a\u{201d} \u{2013} x\nb\n",
            "@@\n \"a\" - x\n-b\n+c\n",
            "\u{201c}a\u{201d} \u{2013} x\nc\n",
        ),
        // Empty lines without a mark.
        ("a\n\nb\n", "@@\n a\n\n-b\n+c\n\n\n", "a\n\nc\n"),
        // New lines only: behind the named line, or at the end.
        ("a\nb\n", "@@ a\n+x\n", "a\nx\nb\n"),
        ("a\nb\n", "@@\n+x\n", "a\nb\nx\n"),
        ("a\na\n", "@@\n-a\n+b\n*** End of File\n", "a\nb\n"),
        // Line ends, a mark and a missing last line end stay.
        ("a\r\nb\r\n", "@@\n a\n-b\n+c\n+d\n", "a\r\nc\r\nd\r\n"),
        ("\u{feff}a\nb", "@@\n a\n-b\n+c\n", "\u{feff}a\nc"),
        ("a\nb", "@@\n b\n+c\n", "a\nb\nc"),
        ("a\r\nb", "@@\n b\n+c\n", "a\r\nb\r\nc"),
    ];
    for (before, hunk, after) in cases {
        let folder = folder();
        folder.put("f", before);
        text(apply(&folder, &format!("*** Update File: f\n{hunk}")).await);
        assert_eq!(String::from_utf8(folder.get("f")).unwrap(), *after, "{hunk}");
    }
}

#[tokio::test]
async fn bytes_that_are_not_text_stay_and_permissions_do_too() {
    let folder = folder();
    folder.put("f", b"\xff\xfe\na\n\x80\n");
    text(apply(&folder, "*** Update File: f\n@@\n-a\n+b\n").await);
    assert_eq!(folder.get("f"), b"\xff\xfe\nb\n\x80\n");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let set = |mode| {
            std::fs::set_permissions(folder.path().join("f"), PermissionsExt::from_mode(mode)).unwrap()
        };
        let mode = |name: &str| folder.path().join(name).metadata().unwrap().permissions().mode() & 0o7777;
        set(0o751);
        text(apply(&folder, "*** Update File: f\n@@\n-b\n+c\n").await);
        assert_eq!(mode("f"), 0o751);
        text(apply(&folder, "*** Update File: f\n*** Move to: g\n@@\n-c\n+d\n").await);
        assert_eq!(mode("g"), 0o751);
    }
}

/// A patch whose last part cannot be applied changes nothing.
#[tokio::test]
async fn a_patch_that_cannot_be_applied_changes_nothing() {
    let good =
        "*** Update File: a.txt\n@@\n-one\n+1\n*** Add File: new/x/b.txt\n+x\n*** Delete File: c.txt\n";
    let many = "*** Add File: n\n+x\n".repeat(101);
    let cases: &[(&str, &str)] = &[
        ("*** Update File: missing.txt\n@@\n-a\n+b\n", "Cannot read missing.txt: No such file"),
        (
            "*** Update File: d.txt\n@@\n-fn b() {\n+x\n",
            "hunk 1 of d.txt: these lines were not found:\nfn b() {\n",
        ),
        ("*** Update File: d.txt\n@@\n-fn a(y) {\n+x\n", "The nearest place is at line 1:\nfn a() {"),
        (
            "*** Update File: d.txt\n@@\n-fn a() {\n+x\n@@\n-fn a() {\n+x\n",
            "hunk 2 of d.txt: these lines were not found after line 1",
        ),
        (
            "*** Update File: d.txt\n@@ nowhere\n-  1\n+x\n",
            "hunk 1 of d.txt: the line `nowhere` of `@@` was not found.",
        ),
        ("*** Update File: d.txt\n@@\n-  1\n+x\n", "hunk 1 of d.txt matches 2 places (lines 2, 3)"),
        ("*** Update File: d.txt\n@@\n-fn a() {\n+x\n*** End of File\n", "it must be the end of the file"),
        ("*** Update File: d.txt\n@@\n-}\n+}\n", "the section of d.txt changes nothing"),
        ("*** Add File: d.txt\n+x\n", "d.txt exists already"),
        ("*** Update File: d.txt\n*** Move to: e.txt\n", "e.txt exists already"),
        ("*** Update File: d.txt\n*** Move to: a.txt/x\n", "a.txt/x"),
        ("*** Delete File: ./a.txt\n", "./a.txt occurs in the patch more than once"),
        (
            "*** Update File: d.txt\n*** Move to: new/x/b.txt\n",
            "new/x/b.txt occurs in the patch more than once",
        ),
        ("*** Add File: new/x\n+x\n", "cannot both be files of the patch"),
        ("*** Delete File: sub\n", "it is a directory"),
        ("*** Update File: sub\n@@\n-a\n+b\n", "sub is a directory, not a file"),
        ("*** Update File: d.txt\n", "line 10 of the patch: the section has no hunk"),
        ("*** Update File: d.txt\n@@\n", "line 11 of the patch: the hunk has no lines"),
        ("*** Update File: d.txt\n@@\nwrong\n", "line 11 of the patch: each line of a hunk begins with"),
        ("*** Add File: n.txt\nwrong\n", "line 10 of the patch: each line of a new file begins with `+`"),
        ("*** Rename File: n.txt\n", "line 9 of the patch: expected `*** Add File:`"),
        ("*** Delete File:  \n", "line 9 of the patch: the path is missing"),
        ("*** End Patch\n", "nothing may follow `*** End Patch`"),
        (&many, "the patch has more than 100 files"),
    ];
    for (bad, expect) in cases {
        let folder = folder();
        folder.put("a.txt", "one\n");
        folder.put("c.txt", "c\n");
        folder.put("d.txt", "fn a() {\n  1\n  1\n}\n");
        folder.put("e.txt", "");
        folder.put("sub/f", "");
        let before = files(&folder);
        let error = failure(apply(&folder, &format!("{good}{bad}")).await);
        assert!(error.contains(expect), "{bad}\n{error}");
        assert_eq!(files(&folder), before, "{bad}");
        assert_eq!(folder.get("a.txt"), b"one\n", "{bad}");
    }
    for (input, expect) in [
        ("", "line 1 of the patch: a patch begins with `*** Begin Patch`"),
        ("*** Begin Patch\n*** End Patch", "the patch has no section"),
        ("*** Begin Patch\n*** Delete File: a", "the patch is cut"),
    ] {
        let folder = folder();
        let tool = ApplyPatchTool::new(folder.workspace.clone());
        let error = failure(call(&tool, json!({"input": input})).await);
        assert!(error.contains(expect), "{error}");
    }
}

#[tokio::test]
async fn a_here_document_around_the_patch_is_ignored() {
    let folder = folder();
    let tool = ApplyPatchTool::new(folder.workspace.clone());
    for (number, open) in ["apply_patch <<'EOF'", "<<EOF", "<<\"EOF\""].iter().enumerate() {
        let input = format!("{open}\n{}\nEOF\n", patch(&format!("*** Add File: {number}\n+x\n")));
        text(call(&tool, json!({"patch": input})).await);
        assert_eq!(folder.get(&number.to_string()), b"x\n");
    }
}

/// Every way to a file outside, of a repository, or that the workspace denies.
#[tokio::test]
async fn no_section_accesses_a_file_that_the_workspace_refuses() {
    let (inside, outside) = (folder(), folder());
    outside.put("secret.txt", "secret\n");
    inside.put("ok.txt", "secret\n");
    inside.put(".git/config", "secret\n");
    inside.put(".env", "secret\n");
    inside.put("own/state.json", "secret\n");
    let workspace = inside.workspace.clone().with_denied("*.env").unwrap().with_protected("own").unwrap();
    let far = outside.path().display().to_string();
    let name = outside.path().file_name().unwrap().to_str().unwrap();
    let mut paths = vec![
        format!("{far}/secret.txt"),
        format!("../{name}/secret.txt"),
        ".git/config".to_owned(),
        "x/../.GIT/config".to_owned(),
        ".env".to_owned(),
        "own/state.json".to_owned(),
    ];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(outside.path(), inside.path().join("out")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret.txt"), inside.path().join("link")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("new.txt"), inside.path().join("dangling")).unwrap();
        std::os::unix::fs::symlink(".git", inside.path().join("alias")).unwrap();
        paths.extend(
            ["out/secret.txt", "link", "dangling", "alias/config", "/proc/self/root/etc/x"]
                .map(str::to_owned),
        );
    }
    let before = (files(&inside), files(&outside));
    for path in paths {
        for body in [
            format!("*** Update File: {path}\n@@\n-secret\n+taken\n"),
            format!("*** Delete File: {path}\n"),
            format!("*** Add File: {path}\n+taken\n"),
            format!("*** Add File: {path}/new\n+taken\n"),
            format!("*** Update File: {path}\n*** Move to: stolen.txt\n"),
            format!("*** Update File: ok.txt\n*** Move to: {path}\n@@\n-secret\n+taken\n"),
        ] {
            let error = failure(apply_in(&workspace, &body).await);
            let words = [
                "outside the workspace",
                "git repository",
                "denied pattern",
                "belongs to this program",
                "behind a folder",
                "Not a directory",
            ];
            assert!(words.iter().any(|word| error.contains(word)), "{body}{error}");
            assert_eq!((files(&inside), files(&outside)), before, "{body}");
        }
    }
    assert_eq!(outside.get("secret.txt"), b"secret\n");
}

#[cfg(unix)]
#[tokio::test]
async fn pipes_read_only_files_and_sizes_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    assert!(std::process::Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap().success());
    folder.put("fixed", "a\n");
    std::fs::set_permissions(folder.path().join("fixed"), PermissionsExt::from_mode(0o444)).unwrap();
    std::fs::File::create(folder.path().join("huge")).unwrap().set_len(8 * 1024 * 1024 + 1).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    for body in ["*** Delete File: NAME\n", "*** Update File: NAME\n@@\n-a\n+b\n"] {
        for (name, expect) in [
            ("pipe", "not a regular file"),
            ("huge", "is too large to patch (8388609 bytes"),
            ("fixed", "ermission denied"),
        ] {
            if name == "fixed" && is_root {
                continue;
            }
            let error = failure(
                apply(&folder, &format!("*** Add File: new/a\n+x\n{}", body.replace("NAME", name))).await,
            );
            assert!(error.contains(expect), "{error}");
            assert!(!folder.has("new"), "{name}");
        }
    }
    let long = format!("*** Add File: a\n+{}\n", "x".repeat(1024 * 1024));
    assert!(failure(apply(&folder, &long).await).contains("the patch is too large"));
}

/// The search takes linear time also for texts that repeat.
#[tokio::test]
async fn a_file_and_a_hunk_of_equal_lines_are_searched_quickly() {
    let folder = folder();
    folder.put("f", "a\n".repeat(400_000));
    let hunk = format!("@@\n{}-b\n+c\n", " a\n".repeat(100_000));
    let body = format!("*** Update File: f\n{hunk}");
    let work = apply(&folder, &body);
    let error = failure(tokio::time::timeout(support::PATIENCE, work).await.unwrap());
    assert!(error.contains("were not found"), "{error}");
}

/// The search must not compare each hunk with the whole rest of the file.
#[tokio::test]
async fn many_hunks_of_a_large_file_are_found_quickly_or_refused() {
    let folder = folder();
    let lines = 100_000;
    folder.put("f", (0..lines).map(|number| format!("{number}\n")).collect::<String>());
    // Unique lines, in hunks and in lines of `@@`.
    let hunks: String = (0..20_000).map(|number| format!("@@\n-{number}\n+\n")).collect();
    let contexts: String = (0..20_000).map(|number| format!("@@ {number}\n")).collect();
    for body in [format!("*** Update File: f\n{hunks}"), format!("*** Update File: f\n{contexts}+x\n")] {
        text(tokio::time::timeout(support::PATIENCE, apply(&folder, &body)).await.unwrap());
        folder.put("f", (0..lines).map(|number| format!("{number}\n")).collect::<String>());
    }
    // Lines that repeat: each hunk and each `@@` has as many places as the file has lines.
    folder.put("f", "a\n".repeat(lines));
    for body in [
        format!("*** Update File: f\n{}+x\n", "@@ a\n".repeat(100_000)),
        format!("*** Update File: f\n{}", "@@ a\n-a\n+b\n*** End of File\n".repeat(10_000)),
    ] {
        let work = tokio::time::timeout(support::PATIENCE, apply(&folder, &body));
        let error = failure(work.await.unwrap());
        assert!(error.contains("take too long to find") || error.contains("was not found"), "{error}");
    }
    assert_eq!(folder.get("f"), "a\n".repeat(lines).as_bytes());
}

#[tokio::test]
async fn the_files_of_a_patch_are_bounded_together() {
    let folder = folder();
    let mut body = String::new();
    for number in 0..9 {
        std::fs::File::create(folder.path().join(format!("{number}"))).unwrap().set_len(8 << 20).unwrap();
        body.push_str(&format!("*** Delete File: {number}\n"));
    }
    let error = failure(apply(&folder, &body).await);
    assert!(error.contains("have more than 67108864 bytes together"), "{error}");
    assert!(folder.has("0") && folder.has("8"));
}

#[tokio::test]
async fn an_aborted_patch_changes_nothing_and_a_patch_runs_once() {
    let folder = folder();
    let tool = ApplyPatchTool::new(folder.workspace.clone());
    let arguments = json!({"input": patch("*** Add File: a\n+x\n")});
    assert_eq!(call_cancelled(&tool, arguments.clone()).await, Err(ToolError::Cancelled));
    assert!(!folder.has("a"));
    assert_eq!(tool.effects(&arguments), Effects::Once);
    let resolved =
        tool.resolved_arguments(&json!({"input": patch("*** Update File: ./a\n*** Move to: b\n")}));
    assert_eq!(resolved.unwrap()["paths"], json!(["a", "b"]));
}

/// Calls whose files overlap wait for each other and all succeed.
#[tokio::test(flavor = "multi_thread")]
async fn patches_of_the_same_files_in_other_orders_do_not_block_each_other() {
    let folder = folder();
    folder.put("a", "0\n");
    folder.put("b", "0\n");
    let workspace = folder.workspace.clone();
    let one = |first: &str, second: &str| {
        let body = format!("*** Update File: {first}\n@@\n+x\n*** Update File: {second}\n@@\n+x\n");
        let workspace = workspace.clone();
        async move { apply_in(&workspace, &body).await.unwrap() }
    };
    let calls = (0..20).map(|n| tokio::spawn(if n % 2 == 0 { one("a", "b") } else { one("b", "a") }));
    for running in calls.collect::<Vec<_>>() {
        tokio::time::timeout(support::PATIENCE, running).await.unwrap().unwrap();
    }
    assert_eq!(folder.get("a").len(), 2 + 40);
    assert_eq!(folder.get("b").len(), 2 + 40);
}
