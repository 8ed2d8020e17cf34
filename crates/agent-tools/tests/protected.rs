//! The rule that all file tools consult: repositories, the folders of the program, and denied patterns.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is a part of tests")]

mod support;

use agent_tools::Workspace;
use serde_json::{Value, json};
use support::{Folder, call, folder};

const SECRET: &str = "PASSWORD=hunter2";

fn arguments(tool: &str, path: &str) -> Value {
    match tool {
        "write_file" => json!({"path": path, "content": "evil"}),
        "edit_file" => json!({"path": path, "old_text": "PASSWORD", "new_text": "evil"}),
        "search" => json!({"path": path, "pattern": "PASSWORD"}),
        _ => json!({"path": path}),
    }
}

async fn try_tool(workspace: &Workspace, name: &str, path: &str) -> Result<String, String> {
    let tools = workspace.tools();
    let tool = tools.iter().find(|tool| tool.name() == name).unwrap();
    let done = call(tool.as_ref(), arguments(name, path)).await;
    done.map(|result| result.to_text()).map_err(|error| error.to_string())
}

async fn all_refused(workspace: &Workspace, tools: &[&str], path: &str, words: &str) {
    for tool in tools {
        match try_tool(workspace, tool, path).await {
            Ok(text) => panic!("{tool} {path}: {text}"),
            Err(text) => assert!(text.contains(words) && !text.contains("hunter2"), "{tool} {path}: {text}"),
        }
    }
}

fn project() -> Folder {
    let folder = folder();
    for path in [".git/config", ".git/hooks/pre-commit", "sub/.git/config", "docs/a.md"] {
        folder.put(path, "PASSWORD in a repository\n");
    }
    folder.put("worktree/.git", "gitdir: PASSWORD\n");
    folder
}

/// Attack 8.
#[tokio::test]
async fn no_file_tool_accesses_the_data_of_a_repository() {
    let folder = project();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(".git", folder.path().join("alias")).unwrap();
        std::os::unix::fs::symlink(".git/hooks/new", folder.path().join("dangling")).unwrap();
        std::os::unix::fs::symlink(folder.path().join(".git"), folder.path().join("absolute")).unwrap();
    }
    let absolute = folder.path().join(".git/config").display().to_string();
    for path in [
        ".git/config",
        ".git/hooks/pre-commit",
        ".git/info/attributes",
        ".git",
        "sub/.git/config",
        "worktree/.git",
        "new/.git/hooks/x",
        ".GIT/hooks/x",
        ".Git/config",
        "docs/../.git/config",
        "./docs/.././.git/./config",
        absolute.as_str(),
        ".git.",
        ".gi\u{200c}t/config",
    ] {
        all_refused(&folder.workspace, &["write_file", "edit_file"], path, "data of a git repository").await;
    }
    #[cfg(unix)]
    for path in ["alias/config", "alias/new/file", "dangling", "absolute/config"] {
        all_refused(&folder.workspace, &["write_file", "edit_file"], path, "data of a git repository").await;
    }
    assert_eq!(folder.get(".git/config"), b"PASSWORD in a repository\n");
    assert!(!folder.has(".git/info") && !folder.has("new") && !folder.has(".git/hooks/new"));
    // The settings can hold passwords of remotes. Walks pass by.
    let reading = ["read_file", "list_files", "search"];
    for path in [".git/config", ".git", "sub/.git/config", "worktree/.git", ".GIT/config", absolute.as_str()]
    {
        all_refused(&folder.workspace, &reading, path, "data of a git repository").await;
    }
    let found = try_tool(&folder.workspace, "search", ".").await.unwrap();
    assert!(found.contains("docs/a.md") && !found.contains("config"), "{found}");
    // Files of the project that only begin with these letters are files like others.
    for path in [".gitignore", ".gitmodules", ".github/x.yml", "docs/git"] {
        try_tool(&folder.workspace, "write_file", path).await.unwrap();
    }
    let free = Workspace::unconfined();
    all_refused(&free, &["write_file", "edit_file"], &absolute, "data of a git repository").await;
}

/// Git finds its data also by a file or a link `.git`, by a common folder, and in a folder without a working tree.
#[cfg(unix)]
#[tokio::test]
async fn no_file_tool_accesses_the_data_of_a_repository_that_has_another_name() {
    let all = ["read_file", "write_file", "edit_file", "search", "list_files"];
    type Make = fn(&Folder);
    let cases: [(&str, Make, &[&str]); 5] = [
        ("a file", |folder| folder.put(".git", "gitdir: meta\n"), &["meta/config", "meta"]),
        (
            "a file with an absolute name",
            |folder| {
                let name = folder.path().join("meta").display().to_string();
                folder.put(".git", format!("gitdir: {name}\n"));
            },
            &["meta/config", "meta"],
        ),
        (
            "a link",
            |folder| std::os::unix::fs::symlink("meta", folder.path().join(".git")).unwrap(),
            &["meta/config", "meta"],
        ),
        (
            "a common folder",
            |folder| {
                folder.put("meta/commondir", "../common\n");
                folder.put("common/config", "PASSWORD");
                folder.put(".git", "gitdir: meta\n");
            },
            &["meta/config", "common/config", "common"],
        ),
        (
            "no working tree",
            |folder| {
                for name in ["HEAD", "config", "objects/a", "refs/a", "hooks/a"] {
                    folder.put(name, "PASSWORD");
                }
            },
            &["config", "HEAD", "hooks/a", "objects/a"],
        ),
    ];
    for (what, make, refused) in cases {
        let folder = folder();
        folder.put("meta/config", "PASSWORD");
        folder.put("other/config", "PASSWORD");
        make(&folder);
        let workspace = Workspace::open(folder.path()).unwrap();
        for path in refused {
            for tool in all {
                let error = try_tool(&workspace, tool, path).await.unwrap_err();
                assert!(error.contains("data of a git repository"), "{what}: {tool} {path}: {error}");
            }
        }
        let below = folder.path().join("other");
        for workspace in [workspace, Workspace::open(&below).unwrap()] {
            let path = if workspace.root() == Some(&*below.canonicalize().unwrap()) {
                "config"
            } else {
                "other/config"
            };
            try_tool(&workspace, "read_file", path).await.unwrap();
        }
    }
}

/// Opening a workspace reads files of the repository, which can be anything.
#[cfg(unix)]
#[test]
fn a_workspace_opens_at_once_whatever_the_files_are_that_lead_to_the_data_of_a_repository() {
    let fifo = |path: &std::path::Path| {
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    };
    for name in [".git", ".git/commondir", "meta/commondir"] {
        let folder = folder();
        folder.put("meta/HEAD", "x");
        match name {
            ".git/commondir" => folder.put(".git/HEAD", "x"),
            "meta/commondir" => folder.put(".git", "gitdir: meta\n"),
            _ => {}
        }
        fifo(&folder.path().join(name));
        let (path, (done, opened)) = (folder.path().to_path_buf(), std::sync::mpsc::channel());
        std::thread::spawn(move || done.send(Workspace::open(path).is_ok()));
        assert_eq!(opened.recv_timeout(std::time::Duration::from_secs(20)), Ok(true), "{name}");
    }
}

/// Attacks 6 and 7, the side of the tools.
#[tokio::test]
async fn a_protected_folder_is_not_listed_searched_read_or_written() {
    let folder = folder();
    folder.put("place/sessions/one.json", SECRET);
    folder.put("place/other.txt", "PASSWORD is not here");
    let workspace = folder.workspace.clone().with_protected("place/sessions").unwrap();
    let workspace = workspace.with_protected(folder.path().join("later/made")).unwrap();
    let all = ["list_files", "search", "read_file", "write_file", "edit_file"];
    for path in [
        "place/sessions",
        "place/sessions/one.json",
        "place/sessions/new.json",
        "place/../place/sessions/one.json",
        "PLACE/Sessions/one.json",
        "later/made",
        "later/made/x",
    ] {
        for tool in all {
            let refused = try_tool(&workspace, tool, path).await.unwrap_err();
            assert!(refused.contains("belongs to this program"), "{tool} {path}: {refused}");
        }
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("place/sessions", folder.path().join("alias")).unwrap();
        all_refused(&workspace, &all, "alias/one.json", "belongs to this program").await;
        all_refused(&workspace, &all, "alias", "belongs to this program").await;
    }
    for tool in ["list_files", "search"] {
        for path in [".", "place"] {
            let shown = try_tool(&workspace, tool, path).await.unwrap();
            assert!(shown.contains("other.txt") && !shown.contains("sessions"), "{tool}: {shown}");
        }
    }
    // Only whole names count.
    for path in ["place/sessions-old/x", "place/sessionsx", "sessions", "later/made-up"] {
        try_tool(&workspace, "write_file", path).await.unwrap();
        try_tool(&workspace, "read_file", path).await.unwrap();
    }
    // The same without a root.
    let free = Workspace::unconfined().with_protected(folder.path().join("place/sessions")).unwrap();
    let absolute = folder.path().join("place/sessions/one.json").display().to_string();
    all_refused(&free, &all, &absolute, "belongs to this program").await;
    assert_eq!(folder.get("place/sessions/one.json"), SECRET.as_bytes());
    assert_eq!(std::fs::read_dir(folder.path().join("place/sessions")).unwrap().count(), 1);
    assert_eq!(workspace.protected().count(), 2);
}

/// Attack 8.
#[tokio::test]
async fn denied_files_are_not_read_written_or_searched_by_any_name() {
    let folder = folder();
    for path in [".env", "config/test.ENV", "secrets/deep/key.txt", "private/a/b.txt", "open.txt"] {
        folder.put(path, SECRET);
    }
    let mut workspace = folder.workspace.clone();
    for pattern in ["*.env", "secrets/", "private/**", "/root.txt"] {
        workspace = workspace.with_denied(pattern).unwrap();
    }
    let tools = ["read_file", "write_file", "edit_file", "search"];
    for path in [
        ".env",
        "./config/../.env",
        "config/test.ENV",
        "config/new.env",
        "secrets/deep/key.txt",
        "secrets/new",
        "SECRETS/new",
        "private/a/b.txt",
        "root.txt",
    ] {
        all_refused(&workspace, &tools, path, "denied pattern").await;
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(".env", folder.path().join("innocent.txt")).unwrap();
        std::os::unix::fs::symlink("secrets/deep", folder.path().join("also")).unwrap();
        all_refused(&workspace, &tools, "innocent.txt", "denied pattern").await;
        all_refused(&workspace, &tools, "also/key.txt", "denied pattern").await;
    }
    let found = try_tool(&workspace, "search", ".").await.unwrap();
    assert_eq!(found, format!("open.txt:1: {SECRET}\n\n(1 matches)"));
    // Names are no secret.
    let tools = workspace.tools();
    let list = tools.iter().find(|tool| tool.name() == "list_files").unwrap();
    let shown = call(list.as_ref(), json!({"max_depth": 9})).await.unwrap().to_text();
    assert!(shown.contains(".env") && shown.contains("secrets/deep/key.txt"), "{shown}");
    try_tool(&workspace, "write_file", "sub/root.txt").await.unwrap();
    assert_eq!(folder.get(".env"), SECRET.as_bytes());
}

/// Attack of a model or a client: settings that the next start of the command would read.
#[tokio::test]
async fn no_file_tool_changes_the_settings_of_a_project() {
    let folder = folder();
    folder.put(".looptree/skills/a/SKILL.md", "PASSWORD\n");
    #[cfg(unix)]
    std::os::unix::fs::symlink(".looptree", folder.path().join("alias")).unwrap();
    for path in [
        ".looptree/config.toml",
        ".Looptree/skills/a/SKILL.md",
        "sub/.looptree/x",
        ".looptree",
        ".looptree./x",
    ] {
        all_refused(&folder.workspace, &["write_file", "edit_file"], path, "settings of a project").await;
    }
    #[cfg(unix)]
    all_refused(&folder.workspace, &["write_file"], "alias/config.toml", "settings of a project").await;
    folder.workspace.write_bytes(".looptree/config.toml", b"evil").unwrap_err();
    let patch = "*** Begin Patch\n*** Add File: .looptree/config.toml\n+evil\n*** End Patch\n";
    let apply = agent_tools::ApplyPatchTool::new(folder.workspace.clone());
    call(&apply, json!({"patch": patch, "input": patch})).await.unwrap_err();
    assert!(!folder.has(".looptree/config.toml") && !folder.has("sub"));
    // Skills are read from there.
    let text = try_tool(&folder.workspace, "read_file", ".looptree/skills/a/SKILL.md").await.unwrap();
    assert!(text.contains("PASSWORD"), "{text}");
}
