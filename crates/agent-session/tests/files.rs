//! What the files were, noted by hooks, and what is said of them at a rewind and a fork.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::path::Path;
use std::sync::Arc;

use agent_core::hooks::Hooks;
use agent_core::run::ToolChange;
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{BasicAgent, Content, ModelConfig, ToolResult};
use agent_session::{FileState, FileWatch, JsonStore, Point, Session, SessionRecorder, TimeTravel};
use serde_json::{Value, json};

/// A tool that writes `text` to `path` below the root, or removes it where the text is empty.
fn put(root: &Path) -> ScriptedTool {
    let root: Arc<Path> = root.into();
    ScriptedTool::new("put", move |arguments: Value, _| {
        let root = Arc::clone(&root);
        async move {
            let path = root.join(arguments["path"].as_str().unwrap());
            match arguments["text"].as_str().unwrap() {
                "" => std::fs::remove_file(path).unwrap(),
                text => std::fs::write(path, text).unwrap(),
            }
            Ok(ToolResult::text("done").with_details(json!({ "bytes": 1 })))
        }
    })
}

/// One that names no file, as a shell does.
fn shell(root: &Path) -> ScriptedTool {
    let root: Arc<Path> = root.into();
    ScriptedTool::new("shell", move |_, _| {
        let root = Arc::clone(&root);
        async move {
            std::fs::write(root.join("a.txt"), "by the shell").unwrap();
            Ok(ToolResult::text("done"))
        }
    })
}

fn call(n: usize, tool: &str, path: &str, text: &str) -> ScriptedReply {
    ScriptedReply::call(&format!("c{n}"), tool, json!({ "path": path, "text": text }))
}

struct Scene {
    _dir: tempfile::TempDir,
    root: std::path::PathBuf,
    agent: BasicAgent,
    recorder: SessionRecorder,
    store: JsonStore,
    watch: FileWatch,
}

fn scene(replies: Vec<ScriptedReply>, hooks: Hooks) -> Scene {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("work");
    std::fs::create_dir(&root).unwrap();
    let watch = watch(&root);
    let mut agent = BasicAgent::new(ModelConfig::default())
        .with_provider(ScriptedProvider::new(replies))
        .with_session_id("s-1")
        .with_tool(put(&root))
        .with_tool(shell(&root))
        .with_hooks(watch.hooks(hooks));
    let store = JsonStore::open(dir.path().join("sessions")).unwrap();
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    Scene { _dir: dir, root, agent, recorder, store, watch }
}

/// A watch whose opener refuses links and everything that is no file, as a workspace does.
fn watch(root: &Path) -> FileWatch {
    let below = root.to_owned();
    FileWatch::new(root, move |path: &str| {
        let path = below.join(path);
        if std::fs::symlink_metadata(&path)?.is_file() {
            return std::fs::File::open(path);
        }
        Err(std::io::Error::other("refused"))
    })
}

fn said(watch: &FileWatch, state: &FileState) -> Vec<String> {
    watch.differences(state).iter().map(ToString::to_string).collect()
}

fn after(session: &Session, messages: usize) -> Point {
    Point::new(session.loops[0].loop_id.clone(), messages)
}

#[tokio::test]
async fn at_a_place_of_the_past_the_files_that_differ_are_named() {
    let script = vec![
        call(0, "put", "a.txt", "one"),
        call(1, "put", "./sub/../b.txt", "new"),
        call(2, "shell", "", ""),
        call(3, "put", "a.txt", ""),
        ScriptedReply::text("done"),
    ];
    let s = scene(script, Hooks::new());
    std::fs::create_dir(s.root.join("sub")).unwrap();
    s.agent.chat("go").await.unwrap();
    let session = s.recorder.session("s-1").unwrap();
    let at = |messages| said(&s.watch, &session.files_at(&after(&session, messages)).unwrap());
    // Messages: the prompt, four exchanges of two, the answer.
    assert_eq!(at(1), ["b.txt was not there then"], "neither was there before the first call, one is now");
    assert_eq!(at(3), ["a.txt is not there any more", "b.txt was not there then"]);
    assert_eq!(at(5), ["a.txt is not there any more"]);
    assert_eq!(at(9), Vec::<String>::new());
    assert_eq!(at(10), Vec::<String>::new());

    // Agent and file say the same, and nothing but marks is kept.
    let arrival = s.agent.fork(&s.store, &session, &after(&session, 5)).await.unwrap();
    let differences = s.watch.differences(&arrival.files);
    assert_eq!(differences.len(), 1);
    assert_eq!(differences[0].then.as_ref().unwrap().len, 3);
    let fork = s.store.load_session(arrival.session_id.as_str()).unwrap();
    assert_eq!(fork.files_at(&fork.end_point().unwrap()).unwrap(), arrival.files);
    let between = session.compare(&after(&session, 3), &after(&session, 7)).unwrap();
    let names: Vec<_> = between.files.iter().map(|f| f.path.as_str()).collect();
    assert_eq!(names, ["a.txt", "b.txt"]);

    std::fs::write(s.root.join("a.txt"), "one").unwrap();
    assert_eq!(s.watch.differences(&arrival.files), [], "put back by hand, with another time");
}

#[tokio::test]
async fn a_rewind_says_what_it_does_not_take_back() {
    let script =
        vec![call(0, "put", "a.txt", "one"), ScriptedReply::text("ok"), call(1, "put", "a.txt", "two")];
    let s = scene(script, Hooks::new());
    s.agent.chat("first").await.unwrap();
    let end = s.recorder.session("s-1").unwrap().end_point().unwrap();
    drop(s.agent.prompt("second").unwrap().collect().await);
    let session = s.recorder.session("s-1").unwrap();
    let arrival = s.agent.rewind(&session, &end).unwrap();
    assert_eq!(said(&s.watch, &arrival.files), ["a.txt has other content"]);
    // From here on the watch notes against what the conversation believes.
    s.watch.adopt(&arrival.files);
    assert_eq!(s.watch.state(), arrival.files);
}

#[tokio::test]
async fn notes_go_into_the_details_beside_what_the_tool_and_other_hooks_say() {
    let hooks = Hooks::new().after_tool(|ended| async move {
        let mut details = ended.end.result.details.clone();
        details["seen"] = json!(true);
        ToolChange::content(vec![Content::text("changed")]).with_details(details)
    });
    let s = scene(vec![call(0, "put", "a.txt", "one"), ScriptedReply::text("ok")], hooks);
    s.agent.chat("go").await.unwrap();
    let messages = s.agent.messages();
    let Some(agent_core::Message::ToolResult(result)) = messages[2].as_llm() else { panic!() };
    assert_eq!(messages[2].text(), "changed");
    assert_eq!((&result.details["bytes"], &result.details["seen"]), (&json!(1), &json!(true)));
    let notes = &result.details["file_state"];
    assert_eq!(notes["before"], json!({ "a.txt": null }));
    assert_eq!(notes["after"]["a.txt"]["len"], 3);
    let (key, hash) = notes["after"]["a.txt"]["hash"].as_str().unwrap().split_once('-').unwrap();
    assert_eq!((key.len(), hash.len()), (16, 16));
}

#[tokio::test]
async fn a_hook_that_refuses_still_refuses_and_paths_elsewhere_are_not_looked_at() {
    let hooks = Hooks::new().before_tool(|_| async { agent_core::Verdict::Deny("no".to_owned()) });
    let script = vec![call(0, "put", "a.txt", "one"), ScriptedReply::text("ok")];
    let s = scene(script, hooks);
    s.agent.chat("go").await.unwrap();
    assert!(!s.root.join("a.txt").exists());
    std::fs::write(s.root.join("../outside.txt"), "x").unwrap();
    let outside = s.root.join("../outside.txt").display().to_string();
    s.watch.look_at(["../outside.txt", "sub/../../outside.txt", "/etc/hostname", outside.as_str(), ""]);
    s.watch.look_at(["inside.txt"]);
    let known: Vec<String> = s.watch.state().iter().map(|(path, _)| path.to_owned()).collect();
    assert_eq!(known, ["inside.txt"], "a refused call touches no file");
}

#[test]
fn a_large_file_is_known_by_length_and_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(agent_session::files::MAX_HASHED_BYTES + 1).unwrap();
    let watch = watch(dir.path());
    watch.look_at(["large"]);
    let state = watch.state();
    let mark = state.iter().next().unwrap().1.unwrap();
    assert_eq!((mark.len, &mark.hash), (agent_session::files::MAX_HASHED_BYTES + 1, &None));
    assert_eq!(watch.differences(&state), []);
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(watch.differences(&state).len(), 1);
}

#[test]
fn no_more_files_are_watched_than_the_bound() {
    let dir = tempfile::tempdir().unwrap();
    let watch = watch(dir.path());
    let most = agent_session::files::MAX_WATCHED_FILES;
    watch.look_at((0..most + 10).map(|n| format!("file-{n}")));
    assert_eq!(watch.state().iter().count(), most);
}

#[test]
fn equal_contents_have_other_hashes_in_another_watch_and_are_compared_by_length_and_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pin");
    std::fs::write(&path, "4711").unwrap();
    let state = |watch: &FileWatch| {
        watch.look_at(["pin"]);
        watch.state()
    };
    let (one, other) = (watch(dir.path()), watch(dir.path()));
    let (a, b) = (state(&one), state(&other));
    let hash = |state: &FileState| state.iter().next().unwrap().1.unwrap().hash.clone().unwrap();
    assert_ne!(hash(&a), hash(&b));
    assert!((a.compared_to(&b), one.differences(&b)) == (vec![], vec![]));
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1)).unwrap();
    assert_eq!((one.differences(&a).len(), one.differences(&b).len()), (0, 1));
}

#[test]
fn states_of_earlier_versions_are_read_and_compared() {
    let mark = json!({ "len": 3, "modified_ms": 1_000, "hash": "186a8d1c5a1b4e3f" });
    let old = |mark: &Value| serde_json::from_value::<FileState>(json!({ "a.txt": mark })).unwrap();
    let (mut touched, mut changed) = (mark.clone(), mark.clone());
    touched["modified_ms"] = json!(2_000);
    changed["hash"] = json!("0000000000000000");
    assert_eq!(old(&mark).compared_to(&old(&touched)), []);
    assert_eq!(old(&mark).compared_to(&old(&changed)).len(), 1);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "one").unwrap();
    let file = std::fs::File::options().write(true).open(dir.path().join("a.txt")).unwrap();
    file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1)).unwrap();
    assert_eq!(watch(dir.path()).differences(&old(&mark)), []);
}

#[tokio::test]
async fn a_file_that_a_failed_call_named_and_what_the_opener_refuses_are_not_recorded() {
    let refuse = ScriptedTool::new("refuse", |_, _| async { Err(agent_core::ToolError::failed("no")) });
    let script = vec![
        call(0, "refuse", "denied", ""),
        call(1, "put", "folder/../link", "x"),
        call(2, "put", "known", "new"),
        ScriptedReply::text("ok"),
    ];
    let mut s = scene(script, Hooks::new());
    s.agent = s.agent.with_tool(refuse);
    std::fs::create_dir(s.root.join("folder")).unwrap();
    std::fs::write(s.root.join("denied"), "secret").unwrap();
    std::fs::write(s.root.join("../outside"), "secret").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("../outside", s.root.join("link")).unwrap();
    s.agent.chat("go").await.unwrap();
    let known: Vec<String> = s.watch.state().iter().map(|(path, _)| path.to_owned()).collect();
    assert_eq!(known, ["known"]);
    let text = serde_json::to_string(&s.recorder.session("s-1").unwrap()).unwrap();
    assert!(!text.contains("\"denied\":") && !text.contains("\"link\":"), "{text}");
}
