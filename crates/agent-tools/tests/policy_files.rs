//! Policies about files, in runs with the real tools.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

mod support;

use agent_core::compat::SeedSetters as _;
use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::{
    AgentEvent, Answer, BasicAgent, Decision, Effects, Hooks, ModelConfig, Question, RetryConfig, ToolPolicy,
    ToolRule, Verdict,
};
use serde_json::{Value, json};
use support::{Folder, folder};

/// What came of a call: its text, or the question that was asked about it.
#[derive(Debug, PartialEq)]
enum Outcome {
    Ran(String),
    Refused(String),
    Asked,
}

/// The policy of `docs/tools.md`.
fn documented() -> ToolPolicy {
    ToolPolicy::new(Decision::Ask)
        .deny(ToolRule::any().argument("/path", "*.env").saying("secrets stay where they are"))
        .allow(ToolRule::any().effects(Effects::ReadOnly))
        .allow(ToolRule::tool("write_file").argument("/path", "docs/*"))
}

async fn call(folder: &Folder, policy: ToolPolicy, tool: &str, arguments: Value) -> Outcome {
    call_with(folder, Hooks::new().policy(policy), tool, arguments).await
}

async fn call_with(folder: &Folder, hooks: Hooks, tool: &str, arguments: Value) -> Outcome {
    let provider =
        ScriptedProvider::new([ScriptedReply::call("c", tool, arguments), ScriptedReply::text("done")]);
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(provider)
        .with_retry_config(RetryConfig::none())
        .with_hooks(hooks)
        .with_tools(agent_tools::CodingTools::new(folder.workspace.clone()).with_apply_patch().tools());
    let events = agent.prompt("go").unwrap().collect().await;
    let outcome = events.iter().find_map(|event| match event {
        AgentEvent::QuestionAsked { .. } => Some(Outcome::Asked),
        AgentEvent::MessageEnd { message, .. } => {
            let message = message.as_llm()?;
            let result = message.as_tool_result()?;
            Some(if result.is_error {
                Outcome::Refused(message.text())
            } else {
                Outcome::Ran(message.text())
            })
        }
        _ => None,
    });
    outcome.expect("the call has an outcome")
}

fn write(path: &str) -> Value {
    json!({"path": path, "content": "evil"})
}

/// Attack 8.
#[tokio::test]
async fn a_path_that_is_resolved_elsewhere_is_not_allowed_by_its_spelling() {
    let folder = folder();
    folder.put("docs/a.md", "");
    folder.put("build.rs", "fn main() {}");
    #[cfg(unix)]
    std::os::unix::fs::symlink("..", folder.path().join("docs/up")).unwrap();
    assert!(matches!(call(&folder, documented(), "write_file", write("docs/b.md")).await, Outcome::Ran(_)));
    let mut paths = vec![
        "docs/../build.rs",
        "docs/./../build.rs",
        "docs/../docs/../build.rs",
        "docs/../.git/hooks/pre-commit",
    ];
    if cfg!(unix) {
        paths.push("docs/up/build.rs");
    }
    for path in paths {
        assert_eq!(call(&folder, documented(), "write_file", write(path)).await, Outcome::Asked, "{path}");
    }
    let other = call(&folder, documented(), "write_file", write("x/../docs/c.md")).await;
    assert!(matches!(other, Outcome::Refused(_) | Outcome::Asked), "{other:?}");
    assert_eq!(folder.get("build.rs"), b"fn main() {}");
    assert!(!folder.has(".git"));
}

/// Attack 8.
#[tokio::test]
async fn a_denied_file_is_not_shown_by_any_tool() {
    let folder = folder();
    folder.put("config/prod.env", "PASSWORD=hunter2\n");
    folder.put("open.txt", "PASSWORD is elsewhere\n");
    #[cfg(unix)]
    std::os::unix::fs::symlink("config/prod.env", folder.path().join("innocent.txt")).unwrap();
    let rules = [
        documented(),
        ToolPolicy::new(Decision::Allow).deny(ToolRule::tool("read_file").argument("/path", "*.env")),
        ToolPolicy::new(Decision::Allow).ask(ToolRule::tool("read_file").argument("/path", "config/*")),
    ];
    for policy in rules {
        for path in [".", "config"] {
            let found =
                call(&folder, policy.clone(), "search", json!({"pattern": "PASSWORD", "path": path})).await;
            assert!(matches!(&found, Outcome::Ran(text) if !text.contains("hunter2")), "{path}: {found:?}");
        }
        let mut named = vec!["config/prod.env", "config/../config/prod.env"];
        if cfg!(unix) {
            named.push("innocent.txt");
        }
        for path in named {
            for (tool, arguments) in [
                ("read_file", json!({"path": path})),
                ("search", json!({"path": path, "pattern": "PASSWORD"})),
                ("edit_file", json!({"path": path, "old_text": "PASSWORD", "new_text": "x"})),
            ] {
                let outcome = call(&folder, policy.clone(), tool, arguments).await;
                assert!(!matches!(&outcome, Outcome::Ran(_)), "{tool} {path}: {outcome:?}");
            }
        }
    }
    assert_eq!(folder.get("config/prod.env"), b"PASSWORD=hunter2\n");
}

/// A link that is exchanged after the policies decided leads a tool nowhere.
#[cfg(unix)]
#[tokio::test]
async fn a_path_that_leads_elsewhere_after_the_decision_is_refused() {
    let folder = folder();
    folder.put("docs/a.md", "public\n");
    folder.put("docs/own/b.md", "public\n");
    folder.put("build.rs", "fn main() {}\n");
    // The second target is outside of the workspace, so that the path is not resolved when the policy decides.
    for before in ["own", "../../elsewhere"] {
        let link = folder.path().join("docs/link");
        std::os::unix::fs::symlink(before, &link).unwrap();
        let exchanged = link.clone();
        // The hook runs after the arguments were resolved.
        let hooks = Hooks::new().policy(documented()).before_tool(move |_| {
            std::fs::remove_file(&exchanged).unwrap();
            std::os::unix::fs::symlink("..", &exchanged).unwrap();
            async { Verdict::Allow }
        });
        let outcome = call_with(&folder, hooks, "write_file", write("docs/link/build.rs")).await;
        assert!(
            matches!(&outcome, Outcome::Refused(text) if text.contains("changed while the call was prepared")),
            "{before}: {outcome:?}"
        );
        assert_eq!(folder.get("build.rs"), b"fn main() {}\n");
        std::fs::remove_file(&link).unwrap();
    }
}

/// Returns an agent that asked about one call of a tool through the link, which leads to another file since then.
#[cfg(unix)]
async fn asked_before_the_link_changed(
    folder: &Folder,
    (tool, arguments): (&str, Value),
    link: &std::path::Path,
    target: &std::path::Path,
) -> (BasicAgent, Question) {
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(ScriptedProvider::new([ScriptedReply::call("c", tool, arguments), "done".into()]))
        .with_hooks(Hooks::new().policy(ToolPolicy::new(Decision::Ask)))
        .with_tools(folder.workspace.tools());
    agent.prompt("go").unwrap().collect().await;
    let question = agent.questions().into_iter().next().unwrap();
    std::fs::remove_file(link).unwrap();
    std::os::unix::fs::symlink(target, link).unwrap();
    (agent, question)
}

/// An approval of a call applies to the file that the question showed.
#[cfg(unix)]
#[tokio::test]
async fn an_approved_path_that_leads_elsewhere_is_asked_about_again() {
    let folder = folder();
    folder.put("docs/a.md", "public\n");
    folder.put("build.rs", "fn main() {}\n");
    let link = folder.path().join("docs/link.md");
    std::os::unix::fs::symlink("a.md", &link).unwrap();
    let edit = json!({"path": "docs/link.md", "old_text": "()", "new_text": "(x)"});
    let (agent, question) =
        asked_before_the_link_changed(&folder, ("edit_file", edit), &link, "../build.rs".as_ref()).await;
    let shown = question.approval().unwrap();
    assert!(shown.to_string().contains("docs/a.md"), "{shown}");
    agent.answer(question.id, Answer::Allow).unwrap().collect().await;
    assert_eq!(folder.get("build.rs"), b"fn main() {}\n");
    let again = agent.questions().into_iter().next().expect("it asks again").approval().unwrap();
    assert!(again.to_string().contains("build.rs"), "{again}");
    assert_ne!(again.hash(), shown.hash());
}

/// Names that are not UTF-8 are different for an approval, too.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_approval_for_a_name_that_is_not_utf8_does_not_apply_to_another() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let folder = folder();
    let name = |byte: u8| OsStr::from_bytes(&[b'x', byte]).to_owned();
    for byte in [0xfe, 0xff] {
        std::fs::create_dir(folder.path().join(name(byte))).unwrap();
    }
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(name(0xfe), &link).unwrap();
    let (agent, question) =
        asked_before_the_link_changed(&folder, ("write_file", write("link/f")), &link, name(0xff).as_ref())
            .await;
    agent.answer(question.id, Answer::Allow).unwrap().collect().await;
    assert!(!agent.questions().is_empty(), "it asks again");
    assert!(!folder.path().join(name(0xff)).join("f").exists());
}

fn patch(body: &str) -> Value {
    json!({"input": format!("*** Begin Patch\n{body}*** End Patch")})
}

/// A patch of several files is judged by each of them.
#[tokio::test]
async fn a_rule_about_a_path_is_compared_with_each_file_of_a_patch() {
    let folder = folder();
    folder.put("docs/a.md", "one\n");
    folder.put("build.rs", "one\n");
    folder.put("prod.env", "one\n");
    let policy = || {
        ToolPolicy::new(Decision::Ask)
            .deny(ToolRule::any().argument("/path", "*.env"))
            .allow(ToolRule::tool("apply_patch").argument("/path", "docs/*"))
    };
    let update = |path: &str| format!("*** Update File: {path}\n@@\n-one\n+evil\n");
    let run =
        async |policy: ToolPolicy, body: String| call(&folder, policy, "apply_patch", patch(&body)).await;
    let both = |a: &str, b: &str| format!("{}{}", update(a), update(b));
    assert_eq!(run(policy(), both("docs/a.md", "build.rs")).await, Outcome::Asked);
    assert_eq!(run(policy(), both("docs/a.md", "docs/../build.rs")).await, Outcome::Asked);
    assert_eq!(
        run(policy(), format!("{}*** Add File: new.rs\n+x\n", update("docs/a.md"))).await,
        Outcome::Asked
    );
    let moved = "*** Update File: docs/a.md\n*** Move to: build2.rs\n".to_owned();
    assert_eq!(run(policy(), moved).await, Outcome::Asked);
    for path in ["prod.env", "docs/../prod.env"] {
        assert!(matches!(run(policy(), both("docs/a.md", path)).await, Outcome::Refused(_)), "{path}");
    }
    // A policy that allows the rest, and asks about or denies one file.
    let asks = ToolPolicy::new(Decision::Allow).ask(ToolRule::any().argument("/path", "*.env"));
    assert_eq!(run(asks, both("docs/a.md", "prod.env")).await, Outcome::Asked);
    let reads = ToolPolicy::new(Decision::Allow).deny(ToolRule::tool("read_file").argument("/path", "*.env"));
    assert!(matches!(run(reads, both("docs/a.md", "prod.env")).await, Outcome::Refused(_)));
    for path in ["docs/a.md", "build.rs", "prod.env"] {
        assert_eq!(folder.get(path), b"one\n", "{path}");
    }
    assert!(matches!(run(policy(), update("docs/a.md")).await, Outcome::Ran(_)));
    assert_eq!(folder.get("docs/a.md"), b"evil\n");
}

/// The model adds arguments of its own, whose names are those that policies look at.
#[tokio::test]
async fn a_path_that_the_model_adds_does_not_hide_the_files_of_a_call() {
    let folder = folder();
    folder.put("docs/a.md", "one\n");
    folder.put("build.rs", "one\n");
    let allows = || ToolPolicy::new(Decision::Ask).allow(ToolRule::any().argument("/path", "docs/*"));
    let asks = || ToolPolicy::new(Decision::Allow).ask(ToolRule::any().argument("/path", "build.rs"));
    let patched = "*** Begin Patch\n*** Update File: build.rs\n@@\n-one\n+evil\n*** End Patch";
    for policy in [allows, asks] {
        for (tool, arguments) in [
            ("apply_patch", json!({"input": patched, "path": "docs/a.md"})),
            ("apply_patch", json!({"input": patched, "paths": ["docs/a.md"]})),
            ("apply_patch", json!({"input": patched, "path": "docs/a.md", "paths": ["docs/a.md"]})),
            ("write_file", json!({"path": "build.rs", "content": "evil", "paths": ["docs/a.md"]})),
            ("write_file", json!({"path": "build.rs", "content": "evil", "paths": []})),
        ] {
            // Some models send the object as the text of a JSON string.
            let quoted = Value::String(arguments.to_string());
            for arguments in [arguments, quoted] {
                let outcome = call(&folder, policy(), tool, arguments.clone()).await;
                assert_eq!(outcome, Outcome::Asked, "{arguments}");
            }
        }
    }
    assert_eq!(folder.get("build.rs"), b"one\n");
}

/// A path that cannot be resolved when the policy decides, and can be when the call runs.
#[tokio::test]
async fn a_path_that_is_resolved_only_after_the_decision_is_refused() {
    for (tool, arguments) in [
        ("write_file", json!({"path": "docs/new/../../build.rs", "content": "evil"})),
        (
            "apply_patch",
            json!({
                "input": "*** Begin Patch\n*** Add File: docs/new/../../build.rs\n+evil\n*** End Patch",
                "path": "docs/a.md",
                "paths": ["build.rs"],
            }),
        ),
    ] {
        let folder = folder();
        folder.put("docs/a.md", "one\n");
        let new = folder.path().join("docs/new");
        let policy = ToolPolicy::new(Decision::Allow).ask(ToolRule::any().argument("/path", "build.rs"));
        // The hook runs after the arguments were resolved.
        let hooks = Hooks::new().policy(policy).before_tool(move |_| {
            std::fs::create_dir(&new).unwrap();
            async { Verdict::Allow }
        });
        let outcome = call_with(&folder, hooks, tool, arguments).await;
        assert!(
            matches!(&outcome, Outcome::Refused(text) if text.contains("changed while the call was prepared")),
            "{tool}: {outcome:?}"
        );
        assert!(!folder.has("build.rs"), "{tool}");
    }
}
