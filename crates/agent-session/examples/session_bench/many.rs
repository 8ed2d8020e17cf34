//! Many agents over one recorder, beside the save of a large session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use agent_core::testing::ScriptedTool;
use agent_core::{BasicAgent, RunEnd};
use agent_session::{BoxError, Flushing, JsonStore, LoopStatus, Session, SessionRecorder};
use serde_json::json;

use super::{agent, open, text};

/// Bytes of each tool result of the large session.
const RESULT_BYTES: usize = 2_048;

/// The interval of the ticker.
const TICK: Duration = Duration::from_millis(2);

/// How long a call of the agents that run at once takes, so that all their sessions are open together.
const CALL: Duration = Duration::from_millis(300);

/// How often the descriptors are counted.
const COUNT: Duration = Duration::from_millis(5);

/// The size of a measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) agents: usize,
    pub(crate) at_once: usize,
    /// The turns of the session that is saved meanwhile.
    pub(crate) turns: usize,
}

/// The longest intervals and the largest number of descriptors so far.
#[derive(Debug, Default)]
struct Watch {
    is_over: AtomicBool,
    /// The longest interval of a task of the runtime, in microseconds.
    task: AtomicU64,
    /// The longest interval of a thread, which shows the load of the machine.
    thread: AtomicU64,
    descriptors: AtomicU64,
}

impl Watch {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    async fn tick(self: Arc<Self>) {
        let mut last = Instant::now();
        while !self.is_over() {
            tokio::time::sleep(TICK).await;
            note(&self.task, &mut last);
        }
    }

    fn tick_thread(&self) {
        let mut last = Instant::now();
        while !self.is_over() {
            std::thread::sleep(TICK);
            note(&self.thread, &mut last);
        }
    }

    fn count_descriptors(&self) {
        while !self.is_over() {
            let number = std::fs::read_dir("/proc/self/fd").map_or(u64::MAX, |all| all.count() as u64);
            self.descriptors.fetch_max(number, Ordering::Relaxed);
            std::thread::sleep(COUNT);
        }
    }
}

fn note(longest: &AtomicU64, last: &mut Instant) {
    let interval = u64::try_from(last.elapsed().as_micros()).unwrap_or(u64::MAX);
    longest.fetch_max(interval, Ordering::Relaxed);
    *last = Instant::now();
}

pub(crate) fn many(load: Load) -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async { tokio::spawn(measure(load)).await? })
}

async fn measure(load: Load) -> Result<(), BoxError> {
    let dir = tempfile::tempdir()?;
    let store = JsonStore::open(dir.path())?;
    let recorder = SessionRecorder::with_store(store.clone()).with_flushing(Flushing::Never);
    let mut large = agent(load.turns, RESULT_BYTES).with_session_id("large");
    recorder.record(&mut large);
    run(&large).await?;
    let recorder = recorder.with_flushing(Flushing::WhenAsked);

    let watch = Arc::new(Watch::default());
    let ticker = tokio::spawn(Arc::clone(&watch).tick());
    let threads = [Watch::tick_thread, Watch::count_descriptors].map(|work| {
        let watch = Arc::clone(&watch);
        std::thread::spawn(move || work(&watch))
    });
    let saves = tokio::spawn(save(recorder.clone(), Arc::clone(&watch)));
    let began = Instant::now();
    for n in 0..load.agents {
        let mut agent = agent(1, 2).with_session_id(format!("turn-{n}"));
        recorder.record(&mut agent);
        run(&agent).await?;
    }
    let in_turn = began.elapsed().as_secs_f64();
    let began = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for n in 0..load.at_once {
        let mut agent = agent(1, 2).with_session_id(format!("once-{n}"));
        agent.set_tools(vec![Arc::new(waiting())]);
        recorder.record(&mut agent);
        running.spawn(async move { run(&agent).await });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    let at_once = began.elapsed().as_secs_f64();
    watch.is_over.store(true, Ordering::Relaxed);
    let saves = saves.await??;
    ticker.await?;
    let [thread, descriptors] = threads.map(std::thread::JoinHandle::join);
    if thread.is_err() || descriptors.is_err() {
        return Err("a thread that measures panicked".into());
    }
    recorder.close().await?;
    check(&store, load)?;
    let millis = |micros: &AtomicU64| micros.load(Ordering::Relaxed) as f64 / 1e3;
    println!(
        "{}",
        json!({
            "gap_ms": millis(&watch.task),
            "thread_gap_ms": millis(&watch.thread),
            "descriptors": watch.descriptors.load(Ordering::Relaxed),
            "in_turn_s": in_turn,
            "at_once_s": at_once,
            "saves": saves,
        })
    );
    Ok(())
}

/// Records so many agents at once over one recorder, and prints the records a second.
pub(crate) fn rate(kind: &str, agents: usize, rounds: usize) -> Result<(), BoxError> {
    let dir = tempfile::tempdir()?;
    let store = open(kind, dir.path())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let recorder = SessionRecorder::with_store(Arc::clone(&store)).with_flushing(Flushing::Never);
        let before = super::cpu()?;
        let began = Instant::now();
        let mut running = tokio::task::JoinSet::new();
        for n in 0..agents {
            let mut agent = agent(rounds, 2).with_session_id(format!("once-{n}"));
            recorder.record(&mut agent);
            running.spawn(async move { run(&agent).await.map(|()| agent) });
        }
        // Kept, so that no session is saved meanwhile.
        let mut ended = Vec::new();
        while let Some(agent) = running.join_next().await {
            ended.push(agent??);
        }
        let seconds = began.elapsed().as_secs_f64();
        let used = super::cpu()?;
        let mut records = 0;
        for session in recorder.sessions() {
            records += number_of_records(&session)?;
        }
        println!(
            "{}",
            json!({
                "records": records,
                "seconds": seconds,
                "records_a_second": records as f64 / seconds,
                "user_us": (used.0 - before.0) / records as f64,
                "system_us": (used.1 - before.1) / records as f64,
            })
        );
        // What a save costs is no part of this.
        std::mem::forget((recorder, ended));
        Ok(())
    })
}

fn number_of_records(session: &Session) -> Result<u64, BoxError> {
    let value = serde_json::to_value(session)?;
    Ok(value.get("journal_records").and_then(serde_json::Value::as_u64).unwrap_or_default())
}

/// Saves all sessions again and again, and returns how often.
async fn save(recorder: SessionRecorder, watch: Arc<Watch>) -> Result<u64, BoxError> {
    let mut saves = 0;
    while !watch.is_over() {
        recorder.save().await?;
        saves += 1;
    }
    Ok(saves)
}

/// A tool whose calls take as long as a command.
fn waiting() -> ScriptedTool {
    ScriptedTool::new("noop", |_, _| async {
        tokio::time::sleep(CALL).await;
        Ok(agent_core::ToolResult::text(text(0, 10)))
    })
}

async fn run(agent: &BasicAgent) -> Result<(), BoxError> {
    drop(agent.prompt("Go.")?);
    match agent.finish().await {
        Some(RunEnd::Completed(_)) => Ok(()),
        other => Err(format!("a run of {} ended as {other:?}", agent.session_id()).into()),
    }
}

/// Loads every session and checks that nothing of it is missing.
fn check(store: &JsonStore, load: Load) -> Result<(), BoxError> {
    let small = (0..load.agents).map(|n| (format!("turn-{n}"), 1));
    let small = small.chain((0..load.at_once).map(|n| (format!("once-{n}"), 1)));
    for (id, rounds) in small.chain([("large".to_owned(), load.turns)]) {
        let session = store.load_session(&id)?;
        let [record] = &session.loops[..] else {
            return Err(format!("session {id} has not one loop").into());
        };
        if record.status != LoopStatus::Completed || record.messages.len() != 2 * rounds + 2 {
            return Err(format!("session {id} is not whole: {record:?}").into());
        }
    }
    Ok(())
}

/// Records prompts in one session, and prints the microseconds of one at the beginning and at the end.
pub(crate) async fn prompts(kind: &str, count: usize) -> Result<(), BoxError> {
    let dir = tempfile::tempdir()?;
    let mut parts = Vec::new();
    for is_recorded in [true, false] {
        let mut agent = agent(0, 2);
        let recorder = is_recorded.then(|| open(kind, dir.path())).transpose()?;
        let recorder =
            recorder.map(|store| SessionRecorder::attach(&mut agent, store).with_flushing(Flushing::Never));
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let began = Instant::now();
            run(&agent).await?;
            times.push(began.elapsed().as_secs_f64() * 1e6);
        }
        let part = (count / 10).max(1);
        let least = |times: &[f64]| {
            let mut sorted = times.to_vec();
            sorted.sort_by(f64::total_cmp);
            sorted.get(sorted.len() / 2).copied().unwrap_or_default()
        };
        let (first, last) =
            (times.get(..part).unwrap_or_default(), times.get(count - part..).unwrap_or_default());
        parts.push(json!({ "recorded": is_recorded, "first": least(first), "last": least(last) }));
        // What a save costs is no part of this.
        std::mem::forget((recorder, agent));
    }
    println!("{}", json!({ "prompts": parts }));
    Ok(())
}
