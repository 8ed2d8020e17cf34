//! What all tools have in common: the root that they stay in, their schemas, their names.

mod support;

use std::collections::BTreeMap;

use agent_core::ToolError;
use agent_tools::{PathError, Workspace, default_tools};
use serde_json::{Value, json};
use support::{call, folder, text};

/// REQ-053.
#[test]
fn there_are_six_tools_in_this_order() {
    let tools = default_tools();
    let names: Vec<_> = tools.iter().map(|tool| (tool.name(), tool.label())).collect();
    assert_eq!(
        names,
        [
            ("bash", "Execute Command"),
            ("read_file", "Read File"),
            ("write_file", "Write File"),
            ("edit_file", "Edit File"),
            ("list_files", "List Files"),
            ("search", "Search Files"),
        ]
    );
}

#[test]
fn every_schema_is_an_object_whose_parameters_are_described() {
    let expect: BTreeMap<&str, (&[&str], &[&str])> = [
        ("bash", (&["command", "timeout"][..], &["command"][..])),
        ("read_file", (&["path", "offset", "limit"], &["path"])),
        ("write_file", (&["path", "content"], &["path", "content"])),
        ("edit_file", (&["path", "old_text", "new_text", "edits"], &["path"])),
        ("list_files", (&["path", "pattern", "max_depth"], &[])),
        ("search", (&["pattern", "path", "include", "case_sensitive"], &["pattern"])),
    ]
    .into();
    for tool in default_tools() {
        let schema = tool.parameters_schema();
        assert_eq!(schema["type"], "object");
        let properties = schema["properties"].as_object().unwrap();
        for (name, property) in properties {
            assert!(property["description"].as_str().is_some_and(|text| text.len() > 10), "{name}");
            assert!(property["type"].is_string(), "{name}");
        }
        let (names, required) = expect[tool.name()];
        assert_eq!(properties.keys().collect::<Vec<_>>(), names, "{}", tool.name());
        let found: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().map(|name| name.as_str().unwrap()).collect();
        assert_eq!(found, required, "{}", tool.name());
        assert!(tool.description().len() > 40);
    }
}

/// What each file tool is asked to do with a path.
fn arguments(tool: &str, path: &str) -> Value {
    match tool {
        "read_file" | "list_files" => json!({"path": path}),
        "write_file" => json!({"path": path, "content": "evil"}),
        "edit_file" => json!({"path": path, "old_text": "secret", "new_text": "evil"}),
        _ => json!({"pattern": "secret", "path": path}),
    }
}

/// D25, B-169.
#[cfg(unix)]
#[tokio::test]
async fn no_path_leads_out_of_the_root() {
    use std::os::unix::fs::symlink;
    let outside = folder();
    outside.put("secret.txt", "secret");
    outside.put("sub/secret.txt", "secret");
    let inside = folder();
    inside.put("sub/ok.txt", "ok");
    let far = |path: &str| outside.path().join(path).display().to_string();
    let link = |target: String, name: &str| symlink(target, inside.path().join(name)).unwrap();
    link(far("secret.txt"), "file_link");
    link(far("sub"), "dir_link");
    link(far("made_later.txt"), "dangling");
    link("dangling".to_owned(), "link_to_dangling");
    link("..".to_owned(), "up");
    link("loop_b".to_owned(), "loop_a");
    link("loop_a".to_owned(), "loop_b");
    link("sub/../../..".to_owned(), "winding");
    let name = outside.path().file_name().unwrap().to_str().unwrap().to_owned();

    let absolute = far("secret.txt");
    let up = format!("../{name}/secret.txt");
    let through_missing = format!("none/../../{name}/secret.txt");
    let long_up = format!("{}etc/passwd", "../".repeat(50));
    let by_link = format!("up/{name}/secret.txt");
    let new_far = far("new/file.txt");
    let new_up = format!("../{name}/new/file.txt");
    let cases = [
        absolute.as_str(),
        "/etc/passwd",
        "/",
        "..",
        "../",
        "sub/../..",
        up.as_str(),
        through_missing.as_str(),
        long_up.as_str(),
        by_link.as_str(),
        new_far.as_str(),
        new_up.as_str(),
        "file_link",
        "dir_link",
        "dir_link/secret.txt",
        "dir_link/new.txt",
        "dir_link/new/deeper/file.txt",
        "dir_link/../secret.txt",
        "dangling",
        "link_to_dangling",
        "winding",
        "loop_a",
        "loop_a/x",
        "new/../../x",
        "",
        "a\nb",
        "a\rb",
        "a\0b",
        "sub/\n",
    ];
    for tool in inside.workspace.tools() {
        if tool.name() == "bash" {
            continue;
        }
        for path in cases {
            // An empty optional argument is absent.
            if path.is_empty() && ["list_files", "search"].contains(&tool.name()) {
                continue;
            }
            let result = call(tool.as_ref(), arguments(tool.name(), path)).await;
            let Err(error @ ToolError::Error(_)) = result else {
                panic!("{} {path:?}: {result:?}", tool.name());
            };
            assert!(!error.to_string().contains("secret\n"), "{error}");
        }
    }
    assert_eq!(outside.get("secret.txt"), b"secret");
    assert_eq!(outside.get("sub/secret.txt"), b"secret");
    let mut left: Vec<_> =
        std::fs::read_dir(outside.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["secret.txt", "sub"]);
    assert_eq!(std::fs::read_dir(outside.path().join("sub")).unwrap().count(), 1);
}

/// D25.
#[cfg(unix)]
#[tokio::test]
async fn paths_that_stay_inside_work_also_through_links_and_absolute() {
    use std::os::unix::fs::symlink;
    let folder = folder();
    folder.put("sub/a.txt", "needle\n");
    symlink("sub", folder.path().join("link")).unwrap();
    symlink(folder.path(), folder.path().join("self")).unwrap();
    let absolute = folder.path().join("sub/a.txt").display().to_string();
    for path in
        ["sub/a.txt", "./sub/a.txt", "sub/../sub/a.txt", "link/a.txt", "self/link/a.txt", absolute.as_str()]
    {
        for tool in folder.workspace.tools() {
            match tool.name() {
                "read_file" => {
                    assert_eq!(
                        text(call(tool.as_ref(), json!({"path": path})).await),
                        "[1 line]\n   1 | needle"
                    );
                }
                "search" => {
                    let found = text(call(tool.as_ref(), json!({"path": path, "pattern": "needle"})).await);
                    assert_eq!(found, "sub/a.txt:1: needle\n\n(1 matches)");
                }
                _ => {}
            }
        }
    }
}

/// D25.
#[cfg(unix)]
#[tokio::test]
async fn walks_do_not_leave_the_root_through_links() {
    let outside = folder();
    outside.put("secret.txt", "needle");
    let inside = folder();
    inside.put("a.txt", "needle");
    std::os::unix::fs::symlink(outside.path(), inside.path().join("dir")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret.txt"), inside.path().join("file")).unwrap();
    for tool in inside.workspace.read_only_tools() {
        match tool.name() {
            "list_files" => assert_eq!(text(call(tool.as_ref(), json!({})).await), "a.txt\n\n(1 files)"),
            "search" => {
                let found = text(call(tool.as_ref(), json!({"pattern": "needle"})).await);
                assert_eq!(found, "a.txt:1: needle\n\n(1 matches)");
            }
            _ => {}
        }
    }
}

#[test]
fn a_root_must_be_a_folder() {
    let folder = folder();
    folder.put("a.txt", "");
    assert!(matches!(Workspace::open(folder.path().join("a.txt")), Err(PathError::NotADirectory { .. })));
    assert!(matches!(Workspace::open(folder.path().join("none")), Err(PathError::Access { .. })));
}

#[test]
fn a_tool_outside_of_a_runtime_says_so() {
    let folder = folder();
    folder.put("a.txt", "x");
    for tool in folder.workspace.tools() {
        let arguments = match tool.name() {
            "bash" => json!({"command": "true"}),
            name => arguments(name, if name == "list_files" { "." } else { "a.txt" }),
        };
        let call = call(tool.as_ref(), arguments);
        let mut call = std::pin::pin!(call);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let std::task::Poll::Ready(Err(error)) = call.as_mut().poll(&mut context) else {
            panic!("{} waits for a runtime that is not there", tool.name());
        };
        assert!(error.to_string().contains("no tokio runtime"), "{}: {error}", tool.name());
    }
}

#[tokio::test]
async fn a_small_task_beside_a_tool_is_not_held_up() {
    // One worker: if the tool blocked it, the other task could not count.
    let folder = folder();
    let file = std::fs::File::create(folder.path().join("huge.txt")).unwrap();
    std::io::Write::write_all(&mut &file, "line\n".repeat(4_000_000).as_bytes()).unwrap();
    let tools = folder.workspace.read_only_tools();
    for (tool, arguments) in [
        (&tools[0], json!({"path": "huge.txt", "limit": 1})),
        (&tools[2], json!({"path": "huge.txt", "pattern": "(a|b)+x"})),
    ] {
        let mut turns = 0;
        let work = call(tool.as_ref(), arguments);
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => {
                    text(done);
                    break;
                }
                () = tokio::task::yield_now() => turns += 1,
            }
        }
        assert!(turns > 10, "{}: {turns}", tool.name());
    }
}

/// The methods for the program that owns the workspace.
mod own_methods {
    use std::io::ErrorKind;

    use agent_tools::workspace::{EntryKind, FolderEntry, ReadFileBytesError};

    use super::*;

    /// Whether the error has its source, and that one says that there is no such file.
    fn is_missing(error: &PathError) -> bool {
        let source =
            std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
        source.is_some_and(|source| source.kind() == ErrorKind::NotFound)
    }

    fn described(entries: &[FolderEntry]) -> Vec<(&str, EntryKind, u64)> {
        entries.iter().map(|entry| (entry.name.as_str(), entry.kind, entry.bytes)).collect()
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_is_listed_by_name_with_kinds_and_sizes() {
        let folder = folder();
        folder.put("b.txt", "four");
        folder.put("a/inner.txt", "x");
        folder.put("secret/key", "x");
        std::os::unix::fs::symlink("b.txt", folder.path().join("c")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("d")).unwrap();
        let workspace = Workspace::open(folder.path()).unwrap().with_protected("secret").unwrap();
        let (entries, total) = workspace.list(".", 10).unwrap();
        let all = [
            ("a", EntryKind::Folder, 0),
            ("b.txt", EntryKind::File, 4),
            ("c", EntryKind::Link, 0),
            ("d", EntryKind::Other, 0),
        ];
        assert_eq!((described(&entries), total), (all.to_vec(), 4), "without what is protected");
        for limit in [0, 1, 3, 4, 5] {
            let (entries, total) = workspace.list(".", limit).unwrap();
            assert_eq!(
                (described(&entries), total),
                (all.iter().copied().take(limit).collect(), 4),
                "{limit}"
            );
        }
        assert_eq!(described(&workspace.list("a", 10).unwrap().0), [("inner.txt", EntryKind::File, 1)]);
        assert!(matches!(workspace.list("b.txt", 10), Err(PathError::NotADirectory { .. })));
        assert!(is_missing(&workspace.list("none", 10).unwrap_err()));
        assert!(workspace.list("secret", 10).is_err() && workspace.list("..", 10).is_err());
    }

    #[test]
    fn a_file_is_read_up_to_the_limit() {
        let folder = folder();
        folder.put("five.txt", "12345");
        let read = |path: &str, limit| folder.workspace.read_bytes(path, limit);
        assert_eq!(read("five.txt", 5).unwrap(), b"12345");
        assert_eq!(read("five.txt", u64::MAX).unwrap(), b"12345");
        for limit in [0, 4] {
            let error = read("five.txt", limit).unwrap_err();
            assert!(matches!(error, ReadFileBytesError::TooLarge { limit: l, .. } if l == limit), "{error}");
        }
        let Err(ReadFileBytesError::Path(error)) = read("none.txt", 5) else {
            panic!("there is no such file")
        };
        assert!(is_missing(&error));
        assert!(read("../five.txt", 5).is_err());
    }

    /// The size of such a file is 0 before it is read.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_is_longer_than_its_size_is_not_read_beyond_the_limit() {
        let workspace = Workspace::open("/proc/self").unwrap();
        let error = workspace.read_bytes("status", 10).unwrap_err();
        assert!(matches!(error, ReadFileBytesError::TooLarge { limit: 10, .. }), "{error}");
        let length = workspace.read_bytes("comm", 64).unwrap().len();
        assert!((1..64).contains(&length));
        let exact = workspace.read_bytes("comm", length as u64).unwrap();
        assert_eq!(exact.len(), length);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_written_as_a_whole_and_nothing_else_is_replaced() {
        let folder = folder();
        let write = |path: &str| folder.workspace.write_bytes(path, b"new");
        write("made/for/it.txt").unwrap();
        assert_eq!(folder.get("made/for/it.txt"), b"new");
        folder.put("old.txt", "a longer text");
        write("old.txt").unwrap();
        assert_eq!(folder.get("old.txt"), b"new");
        assert!(matches!(write("made"), Err(PathError::IsADirectory { .. })));
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        assert!(matches!(write("socket"), Err(PathError::NotRegular { .. })));
        // A path below a file is another error than that of a file that is missing.
        let error = write("old.txt/below").unwrap_err();
        assert!(!is_missing(&error), "{error}");
        assert_eq!(folder.get("old.txt"), b"new");
    }
}
