use std::sync::Arc;

use agent_core::{AgentTool as _, SystemEnvironment};

use super::*;
use crate::file_change::changes_of;

struct Memory {
    outside: tempfile::TempDir,
    tool: MemoryTool,
}

fn memory() -> Memory {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    let tool = MemoryTool::open(outside.path().join("own/memory")).unwrap();
    Memory { outside, tool }
}

impl Memory {
    async fn call(&self, arguments: Value) -> Result<ToolResult, ToolError> {
        self.tool.execute(arguments, ToolContext::detached("memory", Arc::new(SystemEnvironment))).await
    }

    async fn ok(&self, arguments: Value) -> String {
        self.call(arguments).await.unwrap().to_text()
    }

    async fn error(&self, arguments: Value) -> String {
        self.call(arguments).await.unwrap_err().to_string()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.outside.path().join("own/memory").join(name)
    }
}

fn create(path: &str, text: &str) -> Value {
    json!({"command": "create", "path": path, "file_text": text})
}

/// Issue 16, item 2.
#[tokio::test]
async fn notes_are_created_changed_renamed_and_deleted() {
    let memory = memory();
    assert_eq!(
        memory.ok(json!({"command": "view", "path": "/memories"})).await,
        "The files and folders in /memories, two levels deep:\n(none)"
    );
    assert_eq!(
        memory.ok(create("/memories/a/b.md", "one\ntwo\n")).await,
        "File created successfully at: /memories/a/b.md"
    );
    let listed = memory.ok(json!({"command": "view", "path": "/memories/"})).await;
    assert_eq!(
        listed,
        "The files and folders in /memories, two levels deep:\n/memories/a/\n/memories/a/b.md (8 bytes)"
    );
    let replace =
        json!({"command": "str_replace", "path": "/memories/a/b.md", "old_str": "two", "new_str": "2"});
    let result = memory.call(replace).await.unwrap();
    assert_eq!(result.to_text(), "The file /memories/a/b.md has been edited.");
    assert_eq!(changes_of(&result.details)[0].diff, "@@ -1,2 +1,2 @@\n one\n-two\n+2\n");
    for (line, text) in [(0, "zero"), (3, "three\n")] {
        memory.ok(json!({"command": "insert", "path": "/memories/a/b.md", "insert_line": line, "insert_text": text})).await;
    }
    let view = |range: Value| json!({"command": "view", "path": "/memories/a/b.md", "view_range": range});
    let head = "Here's the content of /memories/a/b.md with line numbers:";
    assert_eq!(
        memory.ok(view(json!([2, -1]))).await,
        format!("{head}\n     2\tone\n     3\t2\n     4\tthree")
    );
    assert_eq!(memory.ok(view(json!([1, 1]))).await, format!("{head}\n     1\tzero"));
    let rename = json!({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/c/d"});
    assert_eq!(memory.ok(rename).await, "Successfully renamed /memories/a to /memories/c/d");
    assert_eq!(std::fs::read_to_string(memory.path("c/d/b.md")).unwrap(), "zero\none\n2\nthree\n");
    assert_eq!(
        memory.ok(json!({"command": "delete", "path": "/memories/c"})).await,
        "Successfully deleted /memories/c"
    );
    assert_eq!(std::fs::read_dir(memory.path("")).unwrap().count(), 0);
}

#[tokio::test]
async fn commands_that_cannot_be_executed_change_nothing() {
    let memory = memory();
    memory.ok(create("/memories/a.md", "x\nx\n")).await;
    std::fs::write(memory.path("binary"), b"\xff").unwrap();
    let long = "x".repeat(128 * 1024 + 1);
    for (arguments, expect) in [
        (create("/memories/a.md", "y"), "/memories/a.md exists already"),
        (create("/memories/b.md", &long), "would have 131073 bytes (max 131072)"),
        (json!({"command": "create", "path": "/memories/b.md"}), "the command create needs file_text"),
        (json!({"command": "view"}), "the command view needs path"),
        (json!({"command": "view", "path": "/memories/none"}), "The path /memories/none does not exist."),
        (json!({"command": "view", "path": "/memories/binary"}), "/memories/binary is not a text file"),
        (json!({"command": "view", "path": "/memories/a.md", "view_range": [3, 4]}), "has 2 lines"),
        (json!({"command": "view", "path": "/memories/a.md", "view_range": [-5, 2]}), "has 2 lines"),
        (
            json!({"command": "str_replace", "path": "/memories/a.md", "old_str": "x", "new_str": "y"}),
            "old_str occurs 2 times",
        ),
        (
            json!({"command": "str_replace", "path": "/memories/a.md", "old_str": "", "new_str": "y"}),
            "old_str occurs 0 times",
        ),
        (
            json!({"command": "insert", "path": "/memories/a.md", "insert_line": 3, "insert_text": "y"}),
            "give a line from 0 to 2",
        ),
        (json!({"command": "delete", "path": "/memories"}), "/memories itself cannot be deleted"),
        (json!({"command": "delete", "path": "/memories/x/.."}), "behind a folder that does not exist"),
        (
            json!({"command": "rename", "old_path": "/memories", "new_path": "/memories/b"}),
            "cannot be deleted or renamed",
        ),
        (
            json!({"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/binary"}),
            "exists already",
        ),
        (json!({"command": "rename", "old_path": "/memories/a.md"}), "the command rename needs new_path"),
    ] {
        let error = memory.error(arguments.clone()).await;
        assert!(error.contains(expect), "{arguments}: {error}");
    }
    assert_eq!(std::fs::read_to_string(memory.path("a.md")).unwrap(), "x\nx\n");
    assert_eq!(std::fs::read_dir(memory.path("")).unwrap().count(), 2);
}

/// Every way out of the folder, with every command.
#[tokio::test]
async fn no_path_leads_out_of_the_memory() {
    let memory = memory();
    let absolute = memory.outside.path().join("secret").display().to_string();
    let mut paths = vec![
        "/memories/../../secret".to_owned(),
        "/memories/./../../secret".to_owned(),
        "/memories/../memory/../../secret".to_owned(),
        "/memories//../../secret".to_owned(),
        "/memoriesx/secret".to_owned(),
        "../secret".to_owned(),
        "/etc/passwd".to_owned(),
        String::new(),
        absolute,
        "/memories/.git/config".to_owned(),
        "/memories/a\0b".to_owned(),
        "/memories/%2e%2e/%2e%2e/../../../secret".to_owned(),
    ];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("../../secret", memory.path("link")).unwrap();
        std::os::unix::fs::symlink("../..", memory.path("folder")).unwrap();
        paths.extend([
            "/memories/link".to_owned(),
            "/memories/folder/secret".to_owned(),
            "/memories/folder/new".to_owned(),
        ]);
    }
    memory.ok(create("/memories/a.md", "x")).await;
    for path in paths {
        for arguments in [
            json!({"command": "view", "path": path}),
            create(&path, "taken"),
            json!({"command": "str_replace", "path": path, "old_str": "secret", "new_str": "taken"}),
            json!({"command": "insert", "path": path, "insert_line": 0, "insert_text": "taken"}),
            json!({"command": "delete", "path": path}),
            json!({"command": "rename", "old_path": path, "new_path": "/memories/stolen"}),
            json!({"command": "rename", "old_path": "/memories/a.md", "new_path": path}),
        ] {
            let error = memory.error(arguments.clone()).await;
            let words = ["is not in /memories", "git repository", "holds a NUL", "behind a folder"];
            assert!(words.iter().any(|word| error.contains(word)), "{arguments}: {error}");
        }
    }
    assert_eq!(std::fs::read_to_string(memory.outside.path().join("secret")).unwrap(), "secret");
    assert!(memory.path("a.md").exists());
    assert_eq!(std::fs::read_dir(memory.outside.path()).unwrap().count(), 2);
}

#[cfg(unix)]
#[tokio::test]
async fn links_are_not_followed_by_a_delete_and_pipes_are_not_read() {
    let memory = memory();
    memory.ok(create("/memories/d/a.md", "x")).await;
    std::os::unix::fs::symlink(memory.outside.path(), memory.path("d/out")).unwrap();
    memory.ok(json!({"command": "delete", "path": "/memories/d"})).await;
    assert!(memory.outside.path().join("secret").exists() && !memory.path("d").exists());
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        memory.path("pipe"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    );
    if made.is_ok() {
        let error = memory.error(json!({"command": "view", "path": "/memories/pipe"})).await;
        assert!(error.contains("not a regular file"), "{error}");
    }
}

#[tokio::test]
async fn the_number_of_files_is_bounded() {
    let memory = memory();
    for number in 0..MAX_FILES {
        std::fs::write(memory.path(&number.to_string()), "").unwrap();
    }
    assert!(memory.error(create("/memories/more", "")).await.contains("the memory has 1000 files"));
    let listed = memory.ok(json!({"command": "view", "path": "/memories"})).await;
    assert_eq!(listed.lines().count(), 1 + MAX_LISTED + 1);
    assert!(listed.ends_with("(and more)"));
}

/// Hidden files, deep folders and the folders of one path count as well.
#[tokio::test]
async fn no_path_evades_the_number_of_files() {
    let memory = memory();
    for number in 0..MAX_FILES - 3 {
        std::fs::write(memory.path(&format!(".{number}")), "").unwrap();
    }
    assert!(memory.error(create("/memories/a/b/c/d", "")).await.contains("the memory has 1000 files"));
    memory.ok(create("/memories/a/b/c", "")).await;
    assert!(memory.error(create("/memories/.more", "")).await.contains("the memory has 1000 files"));
    let rename = |from: &str, to: &str| json!({"command": "rename", "old_path": from, "new_path": to});
    assert!(
        memory.error(rename("/memories/a/b/c", "/memories/x/c")).await.contains("the memory has 1000 files")
    );
    memory.ok(rename("/memories/a", "/memories/z")).await;
    memory.ok(json!({"command": "delete", "path": "/memories/z"})).await;

    let deep = format!("/memories{}", "/d".repeat(MAX_DEPTH));
    assert!(
        memory.error(create(&format!("{deep}/d"), "")).await.contains("nested too deeply (max 16 levels")
    );
    std::fs::remove_file(memory.path(".0")).unwrap();
    for number in 1..MAX_DEPTH {
        std::fs::remove_file(memory.path(&format!(".{number}"))).unwrap();
    }
    memory.ok(create(&deep, "")).await;
    memory.ok(create("/memories/e/f", "")).await;
    let error = memory.error(rename("/memories/d/d", "/memories/e/g/h")).await;
    assert!(error.contains("nested too deeply"), "{error}");
    memory.ok(json!({"command": "delete", "path": "/memories/d"})).await;
    assert!(!memory.path("e/g").exists());
}

/// A folder carries its files along: those that a rule protects are not removed, moved or given another name by it.
#[tokio::test]
async fn a_folder_does_not_carry_along_what_the_call_cannot_access() {
    let folder = tempfile::tempdir().unwrap();
    for path in ["repo/.git/config", "kept/secret/key", "open/a.md"] {
        std::fs::create_dir_all(folder.path().join(path).parent().unwrap()).unwrap();
        std::fs::write(folder.path().join(path), path).unwrap();
    }
    let workspace = Workspace::open(folder.path()).unwrap().with_denied("secret/**").unwrap();
    let tool = MemoryTool::new(workspace.with_denied("kept/secret/*").unwrap()).unwrap();
    let run = async |arguments: Value| {
        let context = ToolContext::detached("memory", Arc::new(SystemEnvironment));
        tool.execute(arguments, context).await.map(|result| result.to_text())
    };
    for path in ["/memories/repo", "/memories/kept", "/memories/kept/secret"] {
        for arguments in [
            json!({"command": "delete", "path": path}),
            json!({"command": "rename", "old_path": path, "new_path": "/memories/other"}),
        ] {
            let error = run(arguments.clone()).await.unwrap_err().to_string();
            let words = ["git repository", "denied pattern"];
            assert!(words.iter().any(|word| error.contains(word)), "{arguments}: {error}");
        }
    }
    let inwards = json!({"command": "rename", "old_path": "/memories/open", "new_path": "/memories/secret"});
    assert!(run(inwards).await.unwrap_err().to_string().contains("denied pattern"));
    let delete = json!({"command": "delete", "path": "/memories/open"});
    assert_eq!(
        Tool::resolved_arguments(&tool, &delete).unwrap()["paths"],
        json!(["/memories/open", "/memories/open/a.md"])
    );
    run(delete).await.unwrap();
    for path in ["repo/.git/config", "kept/secret/key"] {
        assert_eq!(std::fs::read_to_string(folder.path().join(path)).unwrap(), path);
    }
}

/// Policies about reading and changing notes hold for the folders that contain them, and for other names of them.
#[tokio::test]
async fn a_policy_about_a_note_is_not_evaded_by_its_folder_or_another_name() {
    use agent_core::testing::{ScriptedProvider, ScriptedReply};
    use agent_core::{AgentEvent, BasicAgent, Decision, Hooks, ModelConfig, ToolPolicy, ToolRule};
    let reading = ToolRule::tool("read_file").argument("/path", "*secret.md");
    let changing = || ToolRule::tool("memory").argument("/path", "/memories/own/*");
    let allow = || ToolPolicy::new(Decision::Allow);
    for (policy, arguments) in [
        (
            allow().deny(reading),
            json!({"command": "rename", "old_path": "/memories/own/secret.md", "new_path": "/memories/x"}),
        ),
        (allow().deny(changing()), json!({"command": "delete", "path": "/memories/own"})),
        (allow().ask(changing()), json!({"command": "delete", "path": "/memories/own"})),
        (
            allow().ask(changing()),
            json!({"command": "rename", "old_path": "/memories/own", "new_path": "/memories/x"}),
        ),
        (
            allow().deny(changing()),
            json!({"command": "rename", "path": "/memories/x", "old_path": "/memories/own/secret.md", "new_path": "/memories/x"}),
        ),
    ] {
        let memory = memory();
        std::fs::create_dir(memory.path("own")).unwrap();
        std::fs::write(memory.path("own/secret.md"), "secret").unwrap();
        let replies = [ScriptedReply::call("c", "memory", arguments.clone()), ScriptedReply::text("done")];
        let agent = BasicAgent::new(ModelConfig::default())
            .with_provider(ScriptedProvider::new(replies))
            .with_hooks(Hooks::new().policy(policy))
            .with_tool(memory.tool.clone());
        let events = agent.prompt("go").unwrap().collect().await;
        let asked = events.iter().any(|event| matches!(event, AgentEvent::QuestionAsked { .. }));
        let refused = agent
            .history()
            .llm_messages()
            .any(|message| message.as_tool_result().is_some_and(|r| r.is_error));
        assert!(asked || refused, "{arguments}");
        assert!(memory.path("own/secret.md").exists(), "{arguments}");
    }
}

#[test]
fn paths_are_resolved_for_policies_and_an_unconfined_memory_is_refused() {
    let memory = memory();
    std::fs::create_dir(memory.path("a")).unwrap();
    let resolved =
        Tool::resolved_arguments(&memory.tool, &json!({"command": "view", "path": "/memories/a/../b.md"}));
    assert_eq!(resolved.unwrap()["path"], "/memories/b.md");
    let rename = json!({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/a/../c"});
    assert_eq!(
        Tool::resolved_arguments(&memory.tool, &rename).unwrap()["paths"],
        json!(["/memories/a", "/memories/c"])
    );
    assert!(MemoryTool::new(Workspace::unconfined()).is_err());
}
