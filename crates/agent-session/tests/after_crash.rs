//! What a crash of the machine leaves behind the flushed records of a journal.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::path::Path;

use agent_core::compat::SeedSetters as _;
use agent_core::testing::{Latch, ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{AgentEvent, BasicAgent, ModelConfig, ToolExecutionStrategy, ToolResult};
use agent_session::{BlockingSessionStore as _, JsonStore, SessionError, SessionRecorder};
use serde_json::json;

const JOURNAL: &str = "s-1.journal.jsonl";

/// The journal of a turn that was flushed, and of one whose records were not.
fn journal() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let latch = Latch::new();
        let begun = Latch::new();
        let (wait, tell) = (latch.clone(), begun.clone());
        let calls = ScriptedReply::call("c1", "say", json!({})).and_call("c2", "say", json!({}));
        let provider = ScriptedProvider::new(["One.".into(), calls.and_call("c3", "wait", json!({}))]);
        let mut agent = BasicAgent::new(ModelConfig::default())
            .with_provider(provider)
            .with_session_id("s-1")
            .with_tool_execution(ToolExecutionStrategy::Sequential)
            .with_tool(ScriptedTool::saying("say", "said"))
            .with_tool(ScriptedTool::new("wait", move |_, _| {
                let (wait, tell) = (wait.clone(), tell.clone());
                async move {
                    tell.open();
                    wait.wait().await;
                    Ok(ToolResult::text("waited"))
                }
            }));
        let recorder = SessionRecorder::attach(&mut agent, store);
        agent.chat("First.").await.unwrap();
        let events = agent.prompt("word ".repeat(2_000)).unwrap();
        begun.wait().await;
        std::mem::forget((recorder, events, agent));
    });
    std::fs::read(dir.path().join(JOURNAL)).unwrap()
}

/// The offsets of the lines of a journal, and the number of its flushed records.
fn lines_of(journal: &[u8]) -> (Vec<usize>, usize) {
    let mut at = 0;
    let lines = journal.split_inclusive(|byte| *byte == b'\n').map(|line| {
        at += line.len();
        at - line.len()
    });
    let lines: Vec<usize> = lines.collect();
    let mark: serde_json::Value = serde_json::from_slice(&journal[lines[1]..lines[2]]).unwrap();
    (lines, usize::try_from(mark["flushed"].as_u64().unwrap()).unwrap())
}

/// As another start of the machine finds it.
fn after_a_crash(journal: &[u8]) -> Vec<u8> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let boot = boot.trim().as_bytes();
    let at = journal.windows(boot.len()).position(|bytes| bytes == boot).unwrap();
    let mut other = journal.to_vec();
    other[at..at + boot.len()].fill(b'0');
    other
}

fn store(dir: &Path, journal: &[u8]) -> JsonStore {
    std::fs::write(dir.join(JOURNAL), journal).unwrap();
    JsonStore::open(dir).unwrap()
}

/// Pages of zeros and of other bytes behind the flushed records, with later records intact: all flushed records are there, and
/// what is salvaged has the later ones, too. Where the machine has not crashed, it is damage.
#[cfg(target_os = "linux")]
#[test]
fn what_a_crash_leaves_behind_the_flushed_records_loses_none_of_them() {
    let whole = journal();
    let (lines, flushed) = lines_of(&whole);
    // The records begin after three lines.
    let (first_lost, count) = (lines[3 + flushed], lines.len() - 3);
    assert!(flushed > 0 && count > flushed + 3, "{flushed} of {count} records");
    let long = lines[3 + flushed + 1] - first_lost;
    assert!(long > 8_192, "the prompt is longer than two pages: {long}");
    let other: Vec<u8> = (0..4_096_u32).map(|n| (n * 31 + n / 7) as u8).collect();
    for (name, page) in [("zeros", vec![0; 4_096]), ("bytes", other), ("ones", vec![0xff; 4_096])] {
        for shift in [0, 1, 700] {
            let at = first_lost + shift;
            let mut damaged = whole.clone();
            damaged[at..at + page.len()].copy_from_slice(&page);
            let label = format!("{name} {shift} bytes behind record {flushed}");
            let dir = tempfile::tempdir().unwrap();
            let here = store(dir.path(), &damaged);
            let error = here.load_session("s-1").unwrap_err();
            assert!(matches!(error, SessionError::Corrupt { .. }), "{label}: {error}");

            let crashed = after_a_crash(&damaged);
            let store = store(dir.path(), &crashed);
            let loaded = store.load_session("s-1").unwrap_or_else(|error| panic!("{label}: {error}"));
            assert_eq!(loaded.torn_bytes(), damaged.len() - first_lost, "{label}");
            assert_eq!(loaded.loops.len(), 1, "{label}");
            assert_eq!(loaded.loops[0].messages.len(), 2, "{label}");

            let salvaged = store.salvage_session("s-1").unwrap();
            let is_end = |id: &str| {
                let mut events = salvaged.session.loops.iter().flat_map(|r| &r.events);
                events.any(|e| matches!(e.known(), Some(AgentEvent::ToolExecutionEnd(end)) if end.tool_call_id == *id))
            };
            assert!(is_end("c1") && is_end("c2"), "{label}: {:?}", salvaged.losses);
            assert!(!salvaged.losses.is_empty(), "{label}");
        }
    }
}

/// A mebibyte of damaged lines is counted, and the first of them are described.
#[test]
fn many_damaged_lines_are_counted() {
    let mut damaged = journal();
    damaged.resize(damaged.len() + (1 << 20), b'\n');
    let dir = tempfile::tempdir().unwrap();
    let salvaged = store(dir.path(), &damaged).salvage_session("s-1").unwrap();
    assert_eq!(salvaged.losses.len(), 101);
    let last = salvaged.losses.last().unwrap().to_string();
    assert!(last.contains(&format!("{} more places are damaged", (1 << 20) - 100)), "{last}");
    assert_eq!(salvaged.session.loops.len(), 2);
}
