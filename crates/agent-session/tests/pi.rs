//! Sessions of pi, read and written.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod scene;

use std::path::Path;

use agent_core::{AgentMessage, Message, StopReason, ToolExecutionStrategy};
use agent_session::pi::{self, Imported};
use agent_session::{LoopStatus, Session, SessionError, SessionRecorder, to_markdown};
use proptest::prelude::*;
use scene::{act, agent, block_on, each_store, perform, play};
use serde_json::Value;

const FILE: &str = include_str!("samples/pi-v3.jsonl");

fn import(text: &str) -> Imported {
    pi::import(text.as_bytes(), Path::new("old.jsonl")).unwrap()
}

fn values(text: &str) -> Vec<Value> {
    text.split('\n').filter(|l| !l.is_empty()).map(|l| serde_json::from_str(l).unwrap()).collect()
}

fn texts(session: &Session, loop_id: &str) -> Vec<String> {
    let history = session.history_after(loop_id).unwrap().unwrap();
    history.messages().map(|m| format!("{}: {}", m.role(), m.text())).collect()
}

/// B-188.
#[test]
fn a_file_of_pi_is_a_tree_of_loops_with_its_conversations() {
    let Imported { session, losses, .. } = import(FILE);
    assert!(losses.is_empty(), "{losses:?}");
    let id = |n: usize| session.loops[n].loop_id.to_string();
    assert_eq!(session.loops.len(), 6);
    assert_eq!(
        texts(&session, &id(0)),
        [
            "user: Why does the build fail?\u{2028}Look at src.",
            "assistant: I look.",
            // In the order of the calls.
            "toolResult: error: no rule",
            "toolResult: int main() {}",
            "assistant: There is no rule for it.",
        ]
    );
    let second = &session.loops[1];
    let Some(Message::Assistant(aborted)) = second.messages[1].as_llm() else { panic!() };
    assert_eq!(aborted.stop_reason, StopReason::Aborted);
    assert_eq!(second.messages[2].text(), "Ran `ls`\n```\na\nb\n```");
    // The compaction keeps what follows its first kept entry.
    assert_eq!(
        texts(&session, &id(3)),
        [
            "user: The build was fixed.",
            "user: Go on.",
            "assistant: Done.",
            "user: And now?",
            "assistant: Nothing is left."
        ]
    );
    // The other path begins after the first answer.
    assert_eq!(session.loops[4].parent_loop_id.as_ref().unwrap().as_str(), id(0));
    let other = texts(&session, &id(4));
    assert_eq!(other[5], "user: On the other path it was fixed.");
    assert_eq!(session.children_of(&id(0)).count(), 2);
    // A call without a result is closed, and what came after it is there.
    let last = texts(&session, session.loops.last().unwrap().loop_id.as_str());
    assert_eq!(last.last().unwrap(), "user: A note for the model.");
    assert!(last.iter().any(|t| t.starts_with("toolResult: ")), "{last:?}");
    let usage = session.loops[0].usage;
    assert_eq!((usage.input, usage.cache_read, usage.cache_write), (200, 10, 14));
}

#[test]
fn an_imported_file_is_written_again_as_it_was_also_from_a_store() {
    let imported = import(FILE);
    assert_eq!(values(&pi::export(&imported.session).unwrap()), values(FILE));
    each_store(|_, store| {
        store.save_session(&imported.session).unwrap();
        let loaded = store.load_session(imported.session.session_id.as_str()).unwrap();
        assert_eq!(*loaded, imported.session);
        assert_eq!(values(&pi::export(&loaded).unwrap()), values(FILE));
    });
}

#[test]
fn older_versions_are_brought_to_the_newest() {
    let first = "{\"type\":\"session\",\"id\":\"s\",\"timestamp\":\"2025-01-01T00:00:00Z\",\"cwd\":\"/\"}\n\
        {\"type\":\"message\",\"timestamp\":\"2025-01-01T00:00:01Z\",\"message\":{\"role\":\"user\",\"content\":\"one\"}}\n\
        {\"type\":\"message\",\"timestamp\":\"2025-01-01T00:00:02Z\",\"message\":{\"role\":\"hookMessage\",\"content\":\"two\"}}\n\
        {\"type\":\"compaction\",\"timestamp\":\"2025-01-01T00:00:03Z\",\"summary\":\"sum\",\"firstKeptEntryIndex\":2,\"tokensBefore\":1}\n";
    let imported = import(first);
    assert!(imported.losses.is_empty(), "{:?}", imported.losses);
    let history = imported.session.history().unwrap();
    assert_eq!(history.messages().map(AgentMessage::text).collect::<Vec<_>>(), ["sum", "two"]);
    let written = values(&pi::export(&imported.session).unwrap());
    assert_eq!(written[0]["version"], 3);
    assert_eq!(written[2]["parentId"], written[1]["id"]);
    assert_eq!(written[3]["firstKeptEntryId"], written[2]["id"]);
    let again = import(&pi::export(&imported.session).unwrap());
    assert_eq!(again.session.history().unwrap(), history);
}

#[track_caller]
fn refuse(text: &str, expect: &str) {
    let error = pi::import(text.as_bytes(), Path::new("old.jsonl")).unwrap_err().to_string();
    assert!(error.contains(expect) && error.contains("old.jsonl"), "{error}");
}

#[track_caller]
fn lose(line: &str, expect: &str) {
    let head = r#"{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00Z","cwd":"/"}"#;
    let good = r#"{"type":"message","id":"a","parentId":null,"timestamp":"x","message":{"role":"user","content":"hi"}}"#;
    let imported = import(&format!("{head}\n{good}\n{line}\n"));
    let [loss] = &imported.losses[..] else { panic!("{:?}", imported.losses) };
    assert!(loss.place == "old.jsonl: line 3" && loss.reason.contains(expect), "{loss:?}");
    assert_eq!(imported.session.loops[0].messages[0].text(), "hi");
}

/// B-178.
#[test]
fn what_is_no_session_is_an_error_and_what_is_no_entry_is_named() {
    refuse("", "line 1");
    refuse("<html>", "line 1");
    refuse("{\"type\":\"message\"}", "not the head");
    refuse("{\"type\":\"session\",\"id\":\"\"}", "not the head");
    refuse(
        "{\"type\":\"session\",\"id\":\"s\",\"version\":4}",
        "has version 4, and this version reads up to 3",
    );
    refuse("{\"type\":\"session\",\"id\":\"s\",\"version\":\"x\"}", "its version is no number");
    lose("{\"type\":\"mess", "EOF");
    lose("[]", "no entry");
    lose(&"[".repeat(10_000), "recursion limit");
    lose(r#"{"type":"label","id":"a","parentId":null}"#, "was there before");
    lose(r#"{"type":"label","id":"b","parentId":"b"}"#, "no entry before it");
    lose(r#"{"type":"label","id":"b","parentId":7}"#, "no entry before it");
    lose(
        r#"{"type":"message","id":"b","parentId":"a","message":{"role":"toolResult","toolCallId":"c","toolName":"t","content":[]}}"#,
        "answers no call",
    );
    lose(r#"{"type":"compaction","id":"b","parentId":"a"}"#, "no summary");
    assert!(matches!(pi::import_file("/nowhere/x.jsonl"), Err(SessionError::NotFound { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scene::cases(48), failure_persistence: None, ..ProptestConfig::default() })]

    /// What was recorded here, written as pi has it and read again, is the same conversation.
    #[test]
    fn a_recorded_session_goes_to_pi_and_back(
        plays in prop::collection::vec(play(), 0..8),
        acts in prop::collection::vec(act(), 1..6),
    ) {
        let session = block_on(async {
            let mut agent = agent(&plays, ToolExecutionStrategy::Parallel);
            let dir = tempfile::tempdir().unwrap();
            let recorder = SessionRecorder::attach(&mut agent, scene::Kind::Json.open(dir.path()));
            perform(&agent, &acts).await;
            recorder.sessions()
        });
        for session in session {
            let text = pi::export(&session).unwrap();
            let imported = import(&text);
            prop_assert!(imported.losses.is_empty(), "{:?}\n{text}", imported.losses);
            prop_assert_eq!(values(&pi::export(&imported.session).unwrap()), values(&text));
            let compacted = text.contains("\"type\":\"compaction\"");
            if !compacted && session.loops.last().is_some_and(|r| r.status == LoopStatus::Completed) {
                let said = |s: &Session| -> Vec<(String, String)> {
                    let history = s.history().unwrap();
                    let shown = history.messages().filter(|m| m.role() != "extension");
                    shown.map(|m| (m.role().to_owned(), m.text())).collect()
                };
                prop_assert_eq!(said(&imported.session), said(&session));
            }
            prop_assert!(to_markdown(&session).contains("# Session"));
        }
    }
}

#[test]
fn a_page_shows_what_was_said_called_and_given_back() {
    let page = to_markdown(&import(FILE).session);
    for part in [
        "# Session 0199c0de-0000-7000-8000-000000000001\n",
        "- begun: 2026-02-03T04:05:00.000Z\n",
        "### User\n\nWhy does the build fail?",
        "### claude-sonnet-4-6\n",
        "> Let me look.\n",
        "Calls `bash`:\n\n```json\n{\"command\":\"make\"}\n```\n",
        "### Error of bash\n\n```\nerror: no rule\n```\n",
        "Aborted: Request was aborted",
        // A fence that its content cannot end.
        "Ran `ls`\n```\na\nb\n```",
    ] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
}
