//! What is killed: an agent whose model, tools and journal say in a file what they are doing.

use agent_core::compat::SeedSetters as _;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent_core::drive::Delegation;
use agent_core::journal::RecordedLoop;
use agent_core::journal::{GroupEntry, Journal, JournalEntry, JournalError};
use agent_core::run::ChildEnd;
use agent_core::testing::ScriptedTool;
use agent_core::tool::{ChildRun, Tools};
use agent_core::{
    AgentError, AgentEvent, AgentLoopConfig, AgentMessage, AgentTool, Answer, BasicAgent, BranchEnd,
    BranchSpec, CancellationToken, Completion, Effects, EventSender, EventSink, LlmJudgeEvaluation, LoopId,
    Message, ModelConfig, ModelRequest, ParallelError, ProviderError, QuestionId, RunEnd, SessionId,
    StopReason, StreamEvent, StreamProvider, ToolContext, ToolError, ToolResult,
};
use agent_session::{LoopRecord, LoopStatus, RestoreSession, Session, SessionError, SessionRecorder};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::Phase;
use crate::scene::Kind;

pub(crate) const SESSION: &str = "killed";
pub(crate) const UNKNOWN: &str = "The outcome of this call is unknown: it was cut off and not run again.";
pub(crate) const EFFECTS: &str = "effects.log";
pub(crate) const PHASE: &str = "phase";
pub(crate) const SEED: &str = "seed";

const PROMPTS: [&str; 2] = ["Do the first part.", "And now the second."];

/// What goes on, as counters: things overlap.
static STREAMS: AtomicUsize = AtomicUsize::new(0);
static TOOLS: AtomicUsize = AtomicUsize::new(0);
static WRITES: AtomicUsize = AtomicUsize::new(0);

/// One of them, from now until it is dropped.
struct During(&'static AtomicUsize);

impl During {
    fn begin(counter: &'static AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::SeqCst);
        tell();
        Self(counter)
    }
}

impl Drop for During {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
        tell();
    }
}

/// Writes the phase down where whoever kills can see it.
fn tell() {
    static FILE: OnceLock<File> = OnceLock::new();
    let file = FILE.get_or_init(|| File::options().write(true).open(PHASE).unwrap());
    let on = |counter: &AtomicUsize| counter.load(Ordering::SeqCst) > 0;
    let phase = if on(&WRITES) {
        Phase::Write
    } else if on(&TOOLS) {
        Phase::Tool
    } else if on(&STREAMS) {
        Phase::Stream
    } else {
        Phase::Between
    };
    file.write_all_at(&[phase.letter()], 0).unwrap();
}

/// What the model says when it has said so many things before.
fn part(said: usize) -> (&'static str, Vec<(&'static str, &'static str)>) {
    match said {
        0 => ("I look around first, and then I will say what I found there.", vec![("c0", "look")]),
        1 => ("Now the first payment has to be made, once.", vec![("c1", "charge")]),
        2 => (
            "Two payments at once now, and more.",
            vec![("c2", "look"), ("c3", "charge"), ("c4", "put"), ("c8", "charge")],
        ),
        3 => ("Two helpers pay the next ones.", vec![("c9", "delegate"), ("c10", "delegate")]),
        4 => ("The first part is done, and all of it is well.", vec![]),
        5 => ("One more payment.", vec![("c5", "charge")]),
        6 => ("A look, and a last payment, side by side.", vec![("c6", "look"), ("c7", "charge")]),
        _ => ("The second part is done, too.", vec![]),
    }
}

/// What the model of a helper or of a branch says: it pays once, for this call.
fn payment(said: usize, call: &str, of: &str) -> (String, Vec<(String, &'static str, String)>) {
    match said {
        0 => ("I pay that.".to_owned(), vec![(call.to_owned(), "charge", of.to_owned())]),
        _ => (format!("Paid for {of}."), vec![]),
    }
}

/// What the model says to a request, and its calls: their ids, their tools, and what they are for.
fn answer(request: &ModelRequest) -> (String, Vec<(String, &'static str, String)>) {
    let said = request.messages().filter(|m| m.role() == "assistant").count();
    let asked: Vec<String> = request.messages().filter(|m| m.role() == "user").map(Message::text).collect();
    let last = asked.last().map_or("", String::as_str);
    if let Some(call) = last.strip_prefix(TASK) {
        return payment(said, "k", &format!("{call}/k"));
    }
    if let Some(branch) = last.strip_prefix(WAY) {
        return payment(said - 8, branch, branch);
    }
    let (text, calls) = part(said);
    (text.to_owned(), calls.into_iter().map(|(id, name)| (id.to_owned(), name, id.to_owned())).collect())
}

/// The beginnings of the prompts of helpers and branches; their calls follow.
const TASK: &str = "Task: ";
const WAY: &str = "Way: ";

struct Model;

#[async_trait]
impl StreamProvider for Model {
    fn provider_id(&self) -> &'static str {
        "killed"
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        _: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        let _during = During::begin(&STREAMS);
        let (text, calls) = answer(request);
        sink(StreamEvent::Start { response_id: None, model: None });
        sink(StreamEvent::TextStart { index: 0 });
        for word in text.split_inclusive(' ') {
            tokio::time::sleep(Duration::from_millis(2)).await;
            sink(StreamEvent::TextDelta { index: 0, delta: word });
        }
        sink(StreamEvent::BlockEnd { index: 0 });
        for (n, (id, name, of)) in calls.iter().enumerate() {
            let arguments = json!({ "for": of }).to_string();
            sink(StreamEvent::ToolCallStart { index: n as u32 + 1, id, name });
            sink(StreamEvent::ToolCallDelta { index: n as u32 + 1, delta: &arguments });
            sink(StreamEvent::BlockEnd { index: n as u32 + 1 });
        }
        let stop = if calls.is_empty() { StopReason::Stop } else { StopReason::ToolUse };
        Ok(Completion::new(stop))
    }
}

/// A model that selects the second branch.
struct Judge;

#[async_trait]
impl StreamProvider for Judge {
    fn provider_id(&self) -> &'static str {
        "judge"
    }

    async fn stream(
        &self,
        _: &ModelRequest,
        sink: &mut EventSink<'_>,
        _: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        let _during = During::begin(&STREAMS);
        tokio::time::sleep(Duration::from_millis(5)).await;
        sink(StreamEvent::TextStart { index: 0 });
        sink(StreamEvent::TextDelta { index: 0, delta: "2" });
        sink(StreamEvent::BlockEnd { index: 0 });
        Ok(Completion::new(StopReason::Stop))
    }
}

/// A tool that gives each call to a helper with the tool `charge`.
#[derive(Clone)]
struct Helpers;

#[async_trait]
impl AgentTool for Helpers {
    fn name(&self) -> &str {
        "delegate"
    }

    fn description(&self) -> &str {
        "Delegates."
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn delegate(&self, arguments: &Value) -> Option<ChildRun> {
        let task = format!("{TASK}{}", arguments["for"].as_str().unwrap());
        let charge: Arc<dyn AgentTool> = Arc::new(tool("charge", Effects::Once));
        Some(
            ChildRun::new(vec![AgentMessage::user(task)], self.clone()).with_tools(Tools::from(vec![charge])),
        )
    }

    async fn execute(&self, _: Value, _: ToolContext) -> Result<ToolResult, ToolError> {
        unreachable!("the driver runs the helper")
    }
}

#[async_trait]
impl Delegation for Helpers {
    fn configuration(&self, ctx: &ToolContext) -> Result<AgentLoopConfig, ToolError> {
        let mut config =
            AgentLoopConfig::new(Arc::new(Model), ModelConfig::default(), ctx.environment.clone());
        config.services.journal = ctx.journal().cloned();
        Ok(config)
    }

    async fn result(&self, end: &ChildEnd) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::text("delegated").with_child_loop(end.loop_id.clone()))
    }
}

/// A line of what a tool did to the world; it is there when this returns, whoever dies after it.
fn effect(line: &str) {
    let mut file = File::options().create(true).append(true).open(EFFECTS).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn tool(name: &'static str, effects: Effects) -> ScriptedTool {
    ScriptedTool::new(name, move |arguments: Value, ctx| async move {
        let _during = During::begin(&TOOLS);
        let call = arguments["for"].as_str().unwrap().to_owned();
        tokio::time::sleep(Duration::from_millis(3)).await;
        effect(&format!("begin {name} {call} {}", ctx.idempotency_key()));
        tokio::time::sleep(Duration::from_millis(6)).await;
        effect(&format!("end {name} {call} {}", ctx.idempotency_key()));
        tokio::time::sleep(Duration::from_millis(3)).await;
        Ok(ToolResult::text(format!("{name} for {call}: done")))
    })
    .with_effects(effects)
}

/// The recorder's journal, with time around each write, a save now and then, and a word when something is safe.
#[derive(Debug)]
struct Slow {
    inner: Arc<dyn Journal>,
    recorder: SessionRecorder,
    safe: AtomicUsize,
}

#[async_trait]
impl Journal for Slow {
    async fn append(&self, entry: JournalEntry<'_>) -> Result<(), JournalError> {
        let _during = During::begin(&WRITES);
        // Those of the helpers are in sessions of their own.
        let is_own = entry.run.setup().loop_id.as_str().starts_with(SESSION);
        let events = entry.events.iter().filter(|e| is_own && !e.is_live()).count();
        let rests = entry.events.iter().any(|e| matches!(e, AgentEvent::TurnEnd { .. }));
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.inner.append(entry).await?;
        let safe = self.safe.fetch_add(events, Ordering::Relaxed) + events;
        let mut out = std::io::stdout();
        writeln!(out, "\nack {safe}").and_then(|()| out.flush()).unwrap();
        if rests {
            let recorder = self.recorder.clone();
            // A panic here would be the result of a helper's call.
            if let Err(error) = recorder.save().await {
                writeln!(out, "\nthe session was not saved: {error}").unwrap();
                std::process::exit(1);
            }
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(())
    }

    async fn append_group(&self, entry: GroupEntry<'_>) -> Result<(), JournalError> {
        let _during = During::begin(&WRITES);
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.inner.append_group(entry).await
    }

    async fn recorded_loop(&self, session: &SessionId, id: &LoopId) -> Result<RecordedLoop, JournalError> {
        self.inner.recorded_loop(session, id).await
    }
}

pub(crate) fn events_of(session: &Session) -> usize {
    session.loops.iter().map(|r| r.events.len()).sum()
}

/// The loops of the prompts, without branches and judges.
pub(crate) fn prompted(session: &Session) -> impl Iterator<Item = &LoopRecord> {
    session.loops.iter().filter(|r| r.group.is_none())
}

/// Whether the session goes on from a branch.
pub(crate) fn has_explored(session: &Session) -> bool {
    session.head().is_some_and(|head| head.group.is_some())
}

/// Goes on with what is there until everything is done. A call that was cut off is run again or closed, by the seed.
pub(crate) async fn live() {
    tell();
    let seed: usize = std::fs::read_to_string(SEED).unwrap().trim().parse().unwrap();
    let store = Kind::noted(Path::new(".")).open(Path::new("."));
    let mut agent = BasicAgent::new(ModelConfig::default())
        .with_provider(Model)
        .with_session_id(SESSION)
        .with_tool(tool("look", Effects::ReadOnly))
        .with_tool(tool("charge", Effects::Once))
        .with_tool(tool("put", Effects::Idempotent))
        .with_tool(Helpers);
    let (mut done, mut safe, mut open, mut explored) = (0, 0, false, false);
    match store.load_session(SESSION) {
        Ok(loaded) => {
            safe = events_of(&loaded);
            open = loaded.open_run().unwrap().is_some();
            done = prompted(&loaded).filter(|r| r.status == LoopStatus::Completed).count();
            explored = has_explored(&loaded);
            agent = agent.restore_unrecorded(&loaded).unwrap();
        }
        Err(SessionError::NotFound { .. }) => {}
        Err(error) => panic!("the session does not load: {error}"),
    }
    let recorder = SessionRecorder::attach(&mut agent, store);
    let inner = agent.config().services.journal.unwrap();
    agent.set_journal(Some(Arc::new(Slow {
        inner,
        recorder: recorder.clone(),
        safe: AtomicUsize::new(safe),
    })));
    if open {
        drop(agent.resume().unwrap());
        finish(&agent, seed).await;
        done += 1;
    }
    for prompt in PROMPTS.iter().skip(done) {
        drop(agent.prompt(*prompt).unwrap());
        finish(&agent, seed).await;
    }
    if !explored {
        let mut judge = agent.config();
        judge.services.provider = Arc::new(Judge);
        explore(&agent, &LlmJudgeEvaluation::new(judge), seed).await;
    }
    {
        let _during = During::begin(&WRITES);
        recorder.close().await.unwrap();
    }
}

fn nth_answer(n: usize) -> Answer {
    if n.is_multiple_of(2) { Answer::Allow } else { Answer::deny(UNKNOWN) }
}

/// Answers the questions of a run until it completes. A run that a fault ends otherwise ends the child.
async fn finish(agent: &BasicAgent, seed: usize) {
    let mut n = seed;
    loop {
        match agent.finish().await {
            Some(RunEnd::Suspended(questions)) => {
                n += 1;
                drop(agent.answer(questions[0].id.clone(), nth_answer(n)).unwrap());
            }
            Some(RunEnd::Completed(_)) => return,
            end => panic!("the run ended: {end:?}"),
        }
    }
}

/// Explores two ways, and answers what the branches ask.
async fn explore(agent: &BasicAgent, judge: &LlmJudgeEvaluation, seed: usize) {
    let mut answers: [Vec<(QuestionId, Answer)>; 2] = Default::default();
    loop {
        let ways = ["b0", "b1"].iter().zip(&answers).map(|(branch, answers)| {
            let spec = BranchSpec::asking(format!("{WAY}{branch}"));
            answers.iter().fold(spec, |spec, (id, answer)| spec.answering(id.clone(), answer.clone()))
        });
        let error = match agent.explore_and_adopt(ways, judge, EventSender::none()).await {
            Ok(_) => return,
            Err(AgentError::Branches(error)) => error,
            Err(error) => panic!("{error}"),
        };
        assert!(matches!(*error, ParallelError::Waiting { .. }), "{error}");
        for (n, (outcome, answers)) in error.outcomes().iter().zip(&mut answers).enumerate() {
            if let BranchEnd::Suspended { questions } = &outcome.end {
                answers.extend(questions.iter().map(|q| (q.id.clone(), nth_answer(seed + n))));
            }
        }
    }
}

pub(crate) fn prepare(dir: &Path, kind: Kind, seed: usize) {
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join(crate::GO), "").unwrap();
    kind.note(dir);
    std::fs::write(dir.join(SEED), seed.to_string()).unwrap();
}
