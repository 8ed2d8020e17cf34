//! What the documentation promises to a newcomer: every public item is described, and the program of the tutorial works.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(dead_code, reason = "the main function of the tutorial is not called")]
#![allow(clippy::disallowed_methods, reason = "the tutorial is a program that reads its environment")]
#![allow(clippy::print_stdout, reason = "the tutorial is a program that talks to the user")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use axum::routing::post;
use axum::{Json, Router};
use looptree::prelude::*;
use serde_json::{Value, json};

/// The program of the tutorial.
mod tutorial {
    include!("../tutorial/program.rs");

    pub(super) fn agent(model: ModelConfig, folder: &str) -> BasicAgent {
        assistant(model, folder).unwrap()
    }

    pub(super) async fn ask_for(agent: &AgentHandle, prompt: &str) {
        follow(agent, agent.prompt(prompt).unwrap()).await.unwrap();
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path.as_ref())
        .unwrap_or_else(|error| panic!("{}: {error}", path.as_ref().display()))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// REQ-173. CI denies warnings, so an item without documentation does not pass. `cargo xtask tidy` demands an example in every
/// public module.
#[test]
fn no_public_item_of_any_library_can_lack_its_documentation() {
    assert!(read(root().join("Cargo.toml")).contains("\nmissing_docs = \"warn\"\n"));
    assert!(read(root().join("xtask/src/ci.rs")).contains(r#"["--", "-D", "warnings"]"#));
    let mut libraries = 0;
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let manifest = read(folder.join("Cargo.toml"));
        assert!(manifest.contains("[lints]\nworkspace = true"), "{} has lints of its own", folder.display());
        let mut files = Vec::new();
        sources(&folder.join("src"), &mut files);
        for file in files {
            for line in read(&file).lines().filter(|line| line.contains("missing_docs")) {
                // One type repeats the fields of another one, which are described.
                assert!(line.contains("expect(missing_docs, reason = "), "{}: {line}", file.display());
            }
        }
        libraries += 1;
    }
    assert!(libraries >= 11);
}

#[test]
fn the_tutorial_contains_the_example() {
    let page = read(root().join("docs/tutorial.md"));
    let (_, page) = page.split_once("## The whole program\n").unwrap();
    let program = page.split("```rust,no_run\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(
        read(root().join("examples/tutorial/program.rs")),
        program,
        "the tutorial has another program"
    );
}

/// An Ollama server whose model reads a file and then repeats its content. Returns its address and the requests.
async fn server() -> (String, Arc<Mutex<Vec<Value>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let reply = move |Json(body): Json<Value>| {
        let last = body["messages"].as_array().unwrap().last().unwrap().clone();
        noted.lock().unwrap().push(body);
        let message = match last["role"].as_str().unwrap() {
            "tool" => {
                json!({"role": "assistant", "content": format!("It says: {}", last["content"].as_str().unwrap())})
            }
            _ => json!({"role": "assistant", "content": "", "tool_calls": [
                {"function": {"name": "read_file", "arguments": {"path": "notes.txt"}}},
            ]}),
        };
        let lines = [
            json!({"model": "tiny", "message": message, "done": false}),
            json!({"model": "tiny", "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop"}),
        ];
        async move { ([("content-type", "application/x-ndjson")], lines.map(|line| format!("{line}\n")).concat()) }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/api/chat", post(reply))).await });
    (url, seen)
}

/// REQ-173. The assistant that a newcomer builds from the tutorial alone, with a model behind HTTP.
#[tokio::test]
async fn the_program_of_the_tutorial_is_an_assistant_that_reads_files_and_continues_its_session() {
    let (url, seen) = server().await;
    let project = tempfile::tempdir().unwrap();
    std::fs::write(project.path().join("notes.txt"), "the code is 4711\n").unwrap();
    let sessions = tempfile::tempdir().unwrap();
    let store = JsonStore::open(sessions.path()).unwrap();
    let model = ModelConfig::ollama("tiny").with_base_url(&url);
    let make = || tutorial::agent(model.clone(), project.path().to_str().unwrap());

    let mut agent = make();
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    tutorial::ask_for(&agent, "What do the notes say?").await;
    assert!(agent.messages().last().unwrap().text().contains("the code is 4711"), "{:?}", agent.messages());
    let tools: Vec<String> = seen.lock().unwrap()[0]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
        .collect();
    for name in ["bash", "read_file", "write_file", "edit_file", "list_files", "search"] {
        assert!(tools.iter().any(|tool| tool == name), "{name} is missing in {tools:?}");
    }
    let id = agent.session_id();
    recorder.close().await.unwrap();
    drop(agent);

    let (agent, recorder) = make().restore_session(store, id.as_str()).await.unwrap();
    assert_eq!(agent.messages().len(), 4);
    tutorial::ask_for(&agent, "Read them again.").await;
    assert_eq!(agent.messages().len(), 8);
    recorder.close().await.unwrap();
}
