//! What a session costs on the disk.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use agent_core::compat::SeedSetters as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent_core::testing::{Latch, ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{AgentEvent, BasicAgent, ExecutionLimits, ModelConfig, QueueMode, RunEnd, ToolResult};
use agent_session::{JsonStore, RestoreSession as _, SessionRecorder};
use serde_json::json;

/// Bytes of conversation in one turn: a reply's text, a call's argument and a result, each of this size and each different.
const PART: usize = 2_000;

fn part(kind: &str, n: usize) -> String {
    format!("{kind} {n} ").chars().cycle().take(PART).collect()
}

/// The bytes of journal and file after so many turns.
async fn bytes(turns: usize) -> (u64, u64) {
    let dir = tempfile::tempdir().unwrap();
    let replies = (0..turns).map(|n| {
        ScriptedReply::text(part("text", n)).and_call(
            &format!("c{n}"),
            "echo",
            json!({"n": n, "text": part("call", n)}),
        )
    });
    let tool = ScriptedTool::new("echo", |arguments, _| async move {
        let n = usize::try_from(arguments["n"].as_u64().unwrap()).unwrap();
        Ok(ToolResult::text(part("result", n)))
    });
    let mut agent = BasicAgent::new(ModelConfig::default())
        // With the real clock the size of the file depends a little on how busy the machine is.
        .with_environment(Arc::new(ManualEnvironment::skipping(1_800_000_000_000)))
        .with_provider(ScriptedProvider::new(replies.chain([ScriptedReply::text("done")])))
        .with_session_id("s-1")
        .with_execution_limits(ExecutionLimits::unlimited())
        .with_context_config(None)
        .with_tool(tool);
    let recorder = SessionRecorder::attach(&mut agent, JsonStore::open(dir.path()).unwrap());
    agent.chat("go").await.unwrap();
    let journal = std::fs::metadata(dir.path().join("s-1.journal.jsonl")).unwrap().len();
    recorder.close().await.unwrap();
    assert!(!dir.path().join("s-1.lock").exists());
    (journal, std::fs::metadata(dir.path().join("s-1.json")).unwrap().len())
}

/// D30, REQ-216.
#[tokio::test]
async fn twice_the_turns_are_twice_the_bytes_and_every_message_is_written_once() {
    let (journal_100, file_100) = bytes(100).await;
    let (journal_200, file_200) = bytes(200).await;
    for (name, small, large) in [("journal", journal_100, journal_200), ("file", file_100, file_200)] {
        // In tenths of a percent.
        let ratio = large * 1_000 / small;
        assert!((1_990..=2_020).contains(&ratio), "{name}: {small} bytes, then {large}");
    }
    let said = 200 * 3 * PART as u64;
    // One part more a turn would be 400,000 bytes; ids, times and the events themselves take some 5,000 a turn.
    assert!(journal_200 < said + 200 * 6_000, "{journal_200} bytes of journal for {said}");
    assert!(file_200 < said + 200 * 6_000, "{file_200} bytes of file for {said}");
}

/// The first record of a loop refers to the conversation before it, however long that is.
#[tokio::test]
async fn a_new_prompt_does_not_write_the_conversation_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut agent = BasicAgent::new(ModelConfig::default())
        .with_provider(ScriptedProvider::responding(|_| ScriptedReply::text("ok")))
        .with_session_id("s-1");
    let recorder = SessionRecorder::attach(&mut agent, JsonStore::open(dir.path()).unwrap());
    let size = || std::fs::metadata(dir.path().join("s-1.journal.jsonl")).unwrap().len();
    agent.chat(part("long", 1)).await.unwrap();
    agent.chat("short").await.unwrap();
    let mut sizes = vec![size()];
    for _ in 0..20 {
        agent.chat("short").await.unwrap();
        sizes.push(size());
    }
    let steps: Vec<u64> = sizes.windows(2).map(|w| w[1] - w[0]).collect();
    let (first, last) = (steps[0], steps[19]);
    assert!(last <= first + 40, "a loop cost {first} bytes, the 20th {last}");
    drop(recorder);
}

/// A reply that takes its time is written no other way than one that is there at once, in the journal and in the file.
#[tokio::test]
async fn how_long_a_reply_takes_costs_the_bytes_of_a_time() {
    async fn sizes(each: u64) -> (u64, u64, usize) {
        let dir = tempfile::tempdir().unwrap();
        let clock = ManualEnvironment::at(1_800_000_000_000);
        let (ticking, latch) = (clock.clone(), Latch::new());
        let model = ScriptedProvider::new([ScriptedReply::text("one").and_wait(&latch).and_text("two")]);
        let mut agent = BasicAgent::new(ModelConfig::default())
            .with_environment(Arc::new(clock))
            .with_provider(model)
            .with_session_id("s-1");
        let store = JsonStore::open(dir.path()).unwrap();
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        let mut events = agent.prompt("go").unwrap();
        while let Some(event) = events.recv().await {
            if matches!(event, AgentEvent::MessageUpdate { .. }) {
                ticking.advance(Duration::from_millis(each));
                latch.open();
            }
        }
        let journal = std::fs::metadata(dir.path().join("s-1.journal.jsonl")).unwrap().len();
        let held = recorder.session("s-1").unwrap();
        recorder.close().await.unwrap();
        let loaded = store.load_session("s-1").unwrap();
        assert_eq!(loaded.loops[0].events, held.loops[0].events, "nothing of it is lost");
        (journal, std::fs::metadata(dir.path().join("s-1.json")).unwrap().len(), held.loops[0].events.len())
    }
    let (at_once, slow) = (sizes(0).await, sizes(5_000).await);
    assert_eq!(at_once.2, slow.2);
    assert!(slow.0 <= at_once.0 + 40 && slow.1 <= at_once.1 + 100, "{at_once:?}, then {slow:?}");
}

/// The bytes of the journal and of the messages as JSON, after a run was cut off in a call and resumed by another process.
struct CutOff {
    journal: u64,
    messages: usize,
}

fn agent_of(replies: Vec<ScriptedReply>, begun: &Latch, goes_on: &Latch) -> BasicAgent {
    let (begun, goes_on) = (begun.clone(), goes_on.clone());
    let wait = ScriptedTool::new("wait", move |_, _| {
        let (begun, goes_on) = (begun.clone(), goes_on.clone());
        async move {
            begun.open();
            goes_on.wait().await;
            Ok(ToolResult::text("waited"))
        }
    });
    BasicAgent::new(ModelConfig::default())
        .with_provider(ScriptedProvider::new(replies))
        .with_session_id("s-1")
        .with_execution_limits(ExecutionLimits::unlimited())
        .with_context_config(None)
        .with_tool(ScriptedTool::saying("echo", "some words for the tool to repeat"))
        .with_tool(wait)
}

/// Takes what a killed process leaves, and finishes its run in another one.
async fn resumed(left: &Path, replies: Vec<ScriptedReply>, mode: QueueMode, wanted: usize) -> CutOff {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let journal = std::fs::copy(left, store.dir().join("s-1.journal.jsonl")).unwrap();
    let open = Latch::new();
    open.open();
    let agent = agent_of(replies, &open, &open);
    let (mut agent, recorder) = agent.restore_session(store.clone(), "s-1").await.unwrap();
    agent.set_follow_up_mode(mode);
    let end = agent.resume().unwrap().end().await;
    assert!(matches!(end, RunEnd::Completed(_)), "{end:?}");
    let messages = agent.messages();
    assert_eq!(messages.len(), wanted);
    recorder.close().await.unwrap();
    assert_eq!(store.load_session("s-1").unwrap().history().unwrap(), agent.history());
    CutOff { journal, messages: serde_json::to_vec(&messages).unwrap().len() }
}

/// A reply with so many calls, which is cut off in the last one.
async fn calls(calls: usize) -> CutOff {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let reply = (0..calls).fold(ScriptedReply::text("calls"), |reply, n| {
        let name = if n + 1 == calls { "wait" } else { "echo" };
        reply.and_call(
            &format!("call-{n}"),
            name,
            json!({ "n": n, "text": "some words for the tool to repeat" }),
        )
    });
    let (begun, never) = (Latch::new(), Latch::new());
    let mut agent = agent_of(vec![reply], &begun, &never);
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    let _events = agent.prompt("go").unwrap();
    begun.wait().await;
    let left = store.dir().join("s-1.journal.jsonl");
    // The other calls have ended.
    let ended = || std::fs::read_to_string(&left).unwrap().matches("\"tool_execution_end\"").count();
    while ended() + 1 < calls {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let found = resumed(&left, vec![ScriptedReply::text("done")], QueueMode::All, calls + 3).await;
    std::mem::forget((agent, recorder));
    found
}

/// So many messages in the queue, of which each turn takes one. The run is cut off after this number of turns. In the resumed
/// run, a turn takes one or all of the others.
async fn queued(messages: usize, taken: usize, mode: QueueMode) -> CutOff {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let (begun, goes_on, never, half) = (Latch::new(), Latch::new(), Latch::new(), taken);
    let mut replies = vec![ScriptedReply::call("c", "wait", json!({})), ScriptedReply::text("first")];
    replies.extend((0..half).map(|_| ScriptedReply::text("ok")));
    replies.push(ScriptedReply::text("cut").and_wait(&never));
    let mut agent = agent_of(replies, &begun, &goes_on);
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    let _events = agent.prompt("go").unwrap();
    begun.wait().await;
    for n in 0..messages {
        agent.follow_up(format!("message {n} of those that wait in the queue of the run"));
    }
    goes_on.open();
    let turns = |agent: &BasicAgent| agent.messages().len();
    while turns(&agent) < 4 + 2 * half {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let left = store.dir().join("s-1.journal.jsonl");
    let turns = if mode == QueueMode::All { 2 } else { messages - taken };
    let rest = vec![ScriptedReply::text("ok"); turns];
    let found = resumed(&left, rest, mode, 4 + messages + taken + turns).await;
    std::mem::forget((agent, recorder));
    found
}

#[tokio::test]
async fn a_reply_of_many_calls_costs_linear_bytes_and_resumes_after_a_kill() {
    let (half, all) = (calls(400).await, calls(800).await);
    assert!(all.journal * 100 <= half.journal * 205, "{} bytes, then {}", half.journal, all.journal);
    assert!(all.journal <= 3 * all.messages as u64, "{} bytes for {}", all.journal, all.messages);
}

#[tokio::test]
async fn many_queued_messages_cost_linear_bytes_and_resume_after_a_kill() {
    let (half, all) =
        (queued(500, 250, QueueMode::OneAtATime).await, queued(1_000, 500, QueueMode::OneAtATime).await);
    assert!(all.journal * 100 <= half.journal * 205, "{} bytes, then {}", half.journal, all.journal);
    assert!(all.journal <= 3 * all.messages as u64, "{} bytes for {}", all.journal, all.messages);
}

/// The largest reply and a long queue: `cargo test -p looptree-session --test growth -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "takes seconds; the tests above have the same bounds"]
#[expect(clippy::disallowed_methods, reason = "a real time for whoever runs it")]
async fn the_largest_reply_and_a_long_queue_cost_linear_bytes() {
    let begun = std::time::Instant::now();
    let reply = calls(1_024).await;
    println!("1,024 calls: {:?}, {} bytes for {}", begun.elapsed(), reply.journal, reply.messages);
    let begun = std::time::Instant::now();
    let queue = queued(10_000, 100, QueueMode::All).await;
    println!("10,000 messages: {:?}, {} bytes for {}", begun.elapsed(), queue.journal, queue.messages);
    for found in [reply, queue] {
        assert!(found.journal <= 3 * found.messages as u64);
    }
}
