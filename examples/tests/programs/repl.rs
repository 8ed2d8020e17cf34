//! The example `repl`: its commands, another model, and an interrupted answer.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

use axum::Router;
use axum::routing::post;

use crate::{compare, program, shown_with_input};

/// REQ-175. The chat with `/model`, `/clear` and `/quit`.
#[test]
fn the_repl_streams_answers_clears_the_conversation_and_quits() {
    let shown =
        shown_with_input("repl", &[], "Hi.\nMore.\n/clear\nHi again.\n/model nowhere\n/quit\nunread\n");
    let answers: Vec<&str> = shown.lines().filter(|line| line.contains("I received")).collect();
    assert!(answers[0].contains('1') && answers[1].contains('3'), "the conversation grows:\n{shown}");
    assert!(answers[2].contains('1'), "/clear forgets it:\n{shown}");
    assert_eq!(answers.len(), 3, "/quit ends the program:\n{shown}");
    compare("repl", &shown);
}

/// REQ-175. `/model` goes from the script to a server, which is one of the test.
#[tokio::test]
async fn the_repl_changes_the_model() {
    let reply = || async {
        let lines = [
            r#"{"model":"tiny","message":{"role":"assistant","content":"I am "},"done":false}"#,
            r#"{"model":"tiny","message":{"role":"assistant","content":"another model."},"done":false}"#,
            r#"{"model":"tiny","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}"#,
        ];
        ([("content-type", "application/x-ndjson")], lines.join("\n") + "\n")
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = Router::new().route("/api/chat", post(reply));
    let served = tokio::spawn(async move { axum::serve(listener, server).await });
    let input =
        format!("Hi.\n/model {{\"model\":\"ollama/tiny\",\"base_url\":\"{url}\"}}\nWho are you?\n/quit\n");
    let shown = tokio::task::spawn_blocking(move || shown_with_input("repl", &[], &input)).await.unwrap();
    served.abort();
    assert!(shown.contains("I received 1 messages.\n"), "{shown}");
    assert!(shown.contains("I am another model.\n"), "{shown}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_interrupts_an_answer_and_the_chat_continues() {
    let mut child = program("repl").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    input.write_all(b"wait\n").unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"I wait") {
        let mut byte = [0];
        output.read_exact(&mut byte).unwrap();
        seen.push(byte[0]);
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let mut line = String::new();
    output.read_line(&mut line).unwrap(); // the rest of the line of the answer
    line.clear();
    output.read_line(&mut line).unwrap();
    assert!(line.contains("abort"), "{line:?}");
    input.write_all(b"Hi.\n/quit\n").unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("I received "), "{rest}");
    assert!(child.wait().unwrap().success());
}
