//! Lists and searches of many small sessions beside one with a large open journal.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use agent_core::{
    AgentMessage, AssistantMessage, LoopId, Message, MessageRef, RunEnd, StopReason, Timestamp, Usage,
};
use agent_session::{
    BlockingSessionStore, BoxError, Flushing, LoopRecord, LoopStatus, OpenRuns as _, Session, SessionQuery,
    SessionRecorder,
};
use serde_json::json;

use super::{agent_with, cpu, open, text};

/// The number of small sessions.
const SESSIONS: usize = 10_000;

/// The turns of a small session, and the bytes of each reply.
const TURNS: usize = 2;
const REPLY_BYTES: usize = 1_000;

/// The rounds of the large session, and the bytes of each result: 100 MB in all.
const ROUNDS: usize = 500;
const RESULT_BYTES: usize = 200_000;

/// The number of measurements of each operation. The least time counts.
const TIMES: usize = 7;

/// How the run of the large session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Large {
    /// The run has ended, and the session was not saved.
    Idle,
    /// The process was ended during the last call.
    Cut,
}

/// Makes the folder if it does not exist, and measures lists and searches. With [`Large::Cut`], the process that makes the
/// folder ends without a measurement.
pub(crate) async fn lists(kind: &str, folder: &Path, large: Large) -> Result<(), BoxError> {
    if !folder.exists() {
        std::fs::create_dir_all(folder)?;
        let store = open(kind, folder)?;
        for n in 0..SESSIONS {
            store.save_session(&small(n))?;
        }
        record_large(store, large).await?;
    }
    measure(open(kind, folder)?).await
}

fn small(n: usize) -> Session {
    let id = format!("session-{n:05}");
    let mut session =
        Session::new(id.as_str().into(), format!("agent-{}", n % 7).into(), Timestamp(1_000 + n as u64));
    let loop_id = LoopId::from(format!("{id}.m.1"));
    let mut record =
        LoopRecord::new(loop_id, id.as_str().into(), session.agent_id.clone(), session.created_at);
    record.status = LoopStatus::Completed;
    record.config.model = format!("model-{}", n % 3);
    for turn in 0..TURNS {
        let asked = format!("Why does the linker of {n} fail in turn {turn}?");
        record.messages.push(MessageRef::from(AgentMessage::user(asked)));
        let mut reply = AssistantMessage::new("p", record.config.model.clone(), StopReason::Stop);
        reply.usage = Usage::new(n as u64, 10, 0, 0);
        reply.content.push(text(n * TURNS + turn, REPLY_BYTES).into());
        record.usage = record.usage.combine(&reply.usage);
        record.messages.push(MessageRef::from(AgentMessage::from(Message::from(reply))));
    }
    session.loops.push(record);
    session
}

async fn record_large(store: Arc<dyn BlockingSessionStore>, large: Large) -> Result<(), BoxError> {
    let turn = move |round| {
        if large == Large::Cut && round + 1 == ROUNDS {
            std::process::exit(0);
        }
    };
    let mut agent = agent_with(ROUNDS, RESULT_BYTES, true, turn);
    let recorder = SessionRecorder::attach(&mut agent, store).with_flushing(Flushing::Never);
    drop(agent.prompt("Go.")?);
    let Some(RunEnd::Completed(_)) = agent.finish().await else {
        return Err("the run did not end as it should".into());
    };
    // The journal stays open.
    std::mem::forget((recorder, agent));
    Ok(())
}

async fn measure(store: Arc<dyn BlockingSessionStore>) -> Result<(), BoxError> {
    let mut answers = Vec::new();
    for (name, query) in [
        ("list", SessionQuery::new()),
        ("search a rare word", SessionQuery::new().with_text("4711")),
        ("search a word of all", SessionQuery::new().with_text("linker")),
        ("search a word of none", SessionQuery::new().with_text("nowhere")),
    ] {
        let mut found = 0;
        let (ms, cpu) = least(async || {
            let page = store.find_sessions(&query)?;
            found = page.total;
            if page.unreadable.is_empty() { Ok(()) } else { Err("a session cannot be read".into()) }
        })
        .await?;
        answers.push(json!({ "name": name, "ms": ms, "cpu_ms": cpu, "found": found }));
    }
    let mut found = 0;
    let (ms, cpu) = least(async || {
        let open = store.unfinished().await?;
        found = open.runs.len();
        if open.unreadable.is_empty() { Ok(()) } else { Err("a session cannot be read".into()) }
    })
    .await?;
    answers.push(json!({ "name": "unfinished", "ms": ms, "cpu_ms": cpu, "found": found }));
    println!("{}", json!({ "answers": answers, "peak_kib": super::peak() }));
    Ok(())
}

/// Returns the least time of the work, and the least CPU time of all threads, in milliseconds.
async fn least(mut work: impl AsyncFnMut() -> Result<(), BoxError>) -> Result<(f64, f64), BoxError> {
    let mut least = (f64::INFINITY, f64::INFINITY);
    for _ in 0..TIMES {
        let (began, before) = (Instant::now(), cpu()?);
        work().await?;
        let (wall, after) = (began.elapsed().as_secs_f64() * 1e3, cpu()?);
        let used = (after.0 + after.1 - before.0 - before.1) / 1e3;
        least = (least.0.min(wall), least.1.min(used));
    }
    Ok(least)
}
