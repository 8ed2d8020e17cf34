//! A program with branches that is cut off at each of its steps, and started again: it continues the group.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

mod scene;

use agent_core::compat::SeedSetters as _;
use agent_core::compat::SeedVerbs as _;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_core::agent::discard_branches;
use agent_core::drive::Delegation;
use agent_core::journal::{GroupEntry, Journal, JournalEntry, JournalError, RecordedLoop};
use agent_core::run::ChildEnd;
use agent_core::testing::{Latch, ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::tool::{ChildRun, Tools};
use agent_core::{
    AgentError, AgentLoopConfig, AgentMessage, AgentTool, Answer, BasicAgent, BranchEnd, BranchSpec, Effects,
    EventSender, GroupRole, LlmJudgeEvaluation, LoopId, Message, ModelConfig, ModelRequest, ParallelError,
    ParallelLoopOutcome, PickFirstEvaluation, QuestionId, SessionId, ToolContext, ToolError, ToolResult,
};
use agent_session::{LoopRecord, RestoreSession, Session, SessionRecorder};
use async_trait::async_trait;
use scene::{Kind, Store, kinds};
use serde_json::{Value, json};
use tokio::sync::Notify;

const SESSION: &str = "s-1";
const INNER: &str = "inner";
const UNKNOWN: &str = "It is not known whether this call ran.";

/// What a process does is counted in steps, and it stops at one of them for good.
#[derive(Clone)]
struct Steps(Arc<Counter>);

struct Counter {
    passed: AtomicUsize,
    last: usize,
    reached: Notify,
}

impl Steps {
    fn until(last: usize) -> Self {
        Self(Arc::new(Counter { passed: AtomicUsize::new(0), last, reached: Notify::new() }))
    }

    fn passes(&self) -> bool {
        let passes = self.0.passed.fetch_add(1, Ordering::SeqCst) < self.0.last;
        if !passes {
            self.0.reached.notify_one();
        }
        passes
    }

    async fn step(&self) {
        if !self.passes() {
            std::future::pending::<()>().await;
        }
    }
}

/// The world outside of the process, which remembers what was done to it.
#[derive(Default)]
struct World {
    /// How often a payment began, by what it is for and by its key.
    paid: Mutex<BTreeMap<(String, String), usize>>,
    /// How often the program allowed a payment again, by what it is for.
    allowed: Mutex<BTreeMap<String, usize>>,
    denied: Mutex<Vec<String>>,
    /// The requests to judges, and those that a judge answered.
    judged: AtomicUsize,
}

/// One process: a folder with its store, the steps until it is cut off, and its answer to questions.
#[derive(Clone)]
struct Process {
    kind: Kind,
    home: PathBuf,
    steps: Steps,
    world: Arc<World>,
    answer: Answer,
    /// Whether the branches have a sub-agent and a group of their own.
    nested: bool,
}

/// A journal with a step before and after each record.
struct Stepping {
    inner: Arc<dyn Journal>,
    steps: Steps,
}

impl fmt::Debug for Stepping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stepping")
    }
}

#[async_trait]
impl Journal for Stepping {
    async fn append(&self, entry: JournalEntry<'_>) -> Result<(), JournalError> {
        self.steps.step().await;
        self.inner.append(entry).await?;
        self.steps.step().await;
        Ok(())
    }

    async fn append_group(&self, entry: GroupEntry<'_>) -> Result<(), JournalError> {
        self.steps.step().await;
        self.inner.append_group(entry).await?;
        self.steps.step().await;
        Ok(())
    }

    async fn recorded_loop(&self, session: &SessionId, id: &LoopId) -> Result<RecordedLoop, JournalError> {
        self.inner.recorded_loop(session, id).await
    }
}

/// A tool that gives each call to a helper, which pays.
#[derive(Clone)]
struct Helper(Process);

#[async_trait]
impl AgentTool for Helper {
    fn name(&self) -> &str {
        "delegate"
    }

    fn description(&self) -> &str {
        "Delegates."
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn delegate(&self, _: &Value) -> Option<ChildRun> {
        let pay: Arc<dyn AgentTool> = Arc::new(self.0.pay());
        let prompt = vec![AgentMessage::user("pay helper")];
        Some(ChildRun::new(prompt, self.clone()).with_tools(Tools::from(vec![pay])))
    }

    async fn execute(&self, _: Value, _: ToolContext) -> Result<ToolResult, ToolError> {
        unreachable!("the driver runs the helper")
    }
}

#[async_trait]
impl Delegation for Helper {
    fn configuration(&self, ctx: &ToolContext) -> Result<AgentLoopConfig, ToolError> {
        let model = Arc::new(self.0.model());
        let mut config = AgentLoopConfig::new(model, ModelConfig::default(), ctx.environment.clone());
        config.services.journal = ctx.journal().cloned();
        Ok(config)
    }

    async fn result(&self, end: &ChildEnd) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::text("delegated").with_child_loop(end.loop_id.clone()))
    }
}

/// What a model says to a request: a user who asks it to pay for something gets one payment, or what stands for it.
fn reply(request: &ModelRequest) -> ScriptedReply {
    let messages: Vec<&Message> = request.messages().collect();
    let asked = messages.iter().rposition(|m| m.role() == "user").unwrap();
    let replied = messages[asked..].iter().any(|m| m.role() == "assistant");
    let text = messages[asked].text();
    let Some(purpose) = text.strip_prefix("pay ") else { return "Hello.".into() };
    let tool = match purpose {
        "through a helper" => "delegate",
        "through a group" => "explore",
        _ => "pay",
    };
    match replied {
        false => ScriptedReply::call("c1", tool, json!({"for": purpose})),
        true => ScriptedReply::text(format!("Paid {purpose}.")),
    }
}

impl Process {
    fn model(&self) -> ScriptedProvider {
        let steps = self.steps.clone();
        ScriptedProvider::responding(move |request| match steps.passes() {
            true => reply(request),
            false => ScriptedReply::new().and_hang(),
        })
    }

    fn judge(&self, agent: &BasicAgent) -> LlmJudgeEvaluation {
        let (steps, world) = (self.steps.clone(), Arc::clone(&self.world));
        let model = ScriptedProvider::responding(move |_| {
            world.judged.fetch_add(1, Ordering::SeqCst);
            match steps.passes() {
                true => ScriptedReply::text("2"),
                false => ScriptedReply::new().and_hang(),
            }
        });
        let mut config = agent.config();
        config.services.provider = Arc::new(model);
        LlmJudgeEvaluation::new(config)
    }

    /// Pays, which must not happen twice.
    fn pay(&self) -> ScriptedTool {
        let (steps, world) = (self.steps.clone(), Arc::clone(&self.world));
        ScriptedTool::new("pay", move |arguments: Value, ctx: ToolContext| {
            let (steps, world) = (steps.clone(), Arc::clone(&world));
            async move {
                steps.step().await;
                let purpose = arguments["for"].as_str().unwrap().to_owned();
                *world.paid.lock().unwrap().entry((purpose.clone(), ctx.idempotency_key())).or_default() += 1;
                steps.step().await;
                Ok(ToolResult::text(format!("receipt for {purpose}")))
            }
        })
        .with_effects(Effects::Once)
    }

    /// Explores in a group of its own, which continues by itself when the call is repeated.
    fn explore(&self) -> ScriptedTool {
        let process = Self { nested: false, ..self.clone() };
        ScriptedTool::new("explore", move |_, _| {
            let process = process.clone();
            async move {
                let agent = Box::pin(process.group(INNER, ["pay left", "pay right"])).await;
                Ok(ToolResult::text(agent.messages().last().unwrap().text()))
            }
        })
        .with_effects(Effects::Idempotent)
    }

    /// An agent with the session if there is one, whose journal has steps.
    async fn agent(&self, session: &str) -> (BasicAgent, SessionRecorder) {
        let store = self.kind.open(&self.home);
        let mut agent = BasicAgent::new(ModelConfig::default())
            .with_provider(self.model())
            .with_session_id(session)
            .with_tool(self.pay());
        if self.nested {
            agent = agent.with_tool(Helper(self.clone())).with_tool(self.explore());
        }
        let (mut agent, recorder) = match store.load_session(session) {
            Ok(_) => agent.restore_session(store, session).await.unwrap(),
            Err(_) => {
                let recorder = SessionRecorder::attach(&mut agent, store);
                (agent, recorder)
            }
        };
        let inner = agent.config().services.journal.unwrap();
        agent.set_journal(Some(Arc::new(Stepping { inner, steps: self.steps.clone() })));
        (agent, recorder)
    }

    /// The program: it says hello, explores, and answers what it is asked.
    async fn group(&self, session: &str, prompts: [&str; 2]) -> BasicAgent {
        let (agent, recorder) = self.agent(session).await;
        if agent.is_suspended() {
            drop(agent.resume().unwrap());
            agent.finish().await;
        } else if agent.messages().is_empty() {
            agent.chat("hello").await.unwrap();
        }
        let mut answers: [Vec<QuestionId>; 2] = Default::default();
        // The conversation is that of a branch if its end is recorded.
        while agent.messages().len() <= 2 {
            let specs = prompts.iter().zip(&answers).map(|(prompt, questions)| {
                let spec = BranchSpec::asking(*prompt);
                questions.iter().fold(spec, |spec, id| spec.answering(id.clone(), self.answer.clone()))
            });
            let explored = agent.explore_and_adopt(specs, self.judge(&agent), EventSender::none()).await;
            match explored {
                Ok(_) => break,
                Err(AgentError::Branches(error)) if matches!(*error, ParallelError::Waiting { .. }) => {
                    let open = error.outcomes().iter().zip(&mut answers);
                    open.for_each(|(outcome, answers)| self.answer_all(outcome, answers));
                }
                Err(error) => panic!("{error}"),
            }
        }
        recorder.close().await.unwrap();
        agent
    }

    fn answer_all(&self, outcome: &ParallelLoopOutcome, answers: &mut Vec<QuestionId>) {
        let BranchEnd::Suspended { questions } = &outcome.end else { return };
        for question in questions {
            assert!(question.outcome_unknown, "{question:?}");
            let arguments = question.call.as_ref().unwrap().arguments.value().unwrap();
            let purpose = arguments["for"].as_str().unwrap().to_owned();
            match self.answer {
                Answer::Allow => *self.world.allowed.lock().unwrap().entry(purpose).or_default() += 1,
                _ => self.world.denied.lock().unwrap().push(purpose),
            }
            answers.push(question.id.clone());
        }
    }

    /// Waits until what runs beside the step that is cut off has come to a step of its own, and no session is being saved.
    async fn quiet(&self) {
        let mut before = None;
        loop {
            tokio::time::sleep(Duration::from_millis(4)).await;
            let now = Some(sizes(&self.home));
            if now == before {
                return;
            }
            before = now;
        }
    }

    fn prompts(&self) -> [&'static str; 2] {
        if self.nested { ["pay through a helper", "pay through a group"] } else { ["pay one", "pay two"] }
    }

    /// Runs the program until it ends, or until it is cut off: then the folder of the next process has what is stored.
    async fn run(&self, next: &Path) -> bool {
        let mut program = std::pin::pin!(self.group(SESSION, self.prompts()));
        tokio::select! {
            biased;
            _ = &mut program => true,
            () = self.steps.0.reached.notified() => {
                self.quiet().await;
                match self.kind.is_in_folder() {
                    true => copy_files(&self.home, next),
                    false => self.kind.copy(&self.home, next),
                }
                false
            }
        }
    }
}

/// The files in a folder with their sizes.
fn sizes(folder: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    for file in std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        match file.metadata() {
            Ok(meta) if meta.is_dir() => found.append(&mut sizes(&file.path())),
            Ok(meta) => drop(found.insert(file.path(), meta.len())),
            Err(_) => drop(found.insert(file.path(), 0)),
        }
    }
    found
}

/// Copies what is in a folder, without locks.
fn copy_files(from: &Path, to: &Path) {
    for file in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(file.file_name());
        if file.path().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy_files(&file.path(), &target);
        } else if file.path().extension().is_none_or(|e| e != "lock") {
            std::fs::copy(file.path(), target).unwrap();
        }
    }
}

fn branches(session: &Session) -> Vec<&LoopRecord> {
    let role = |r: &LoopRecord| r.group.as_ref().map(|group| group.role);
    session.loops.iter().filter(|r| matches!(role(r), Some(GroupRole::Branch { .. }))).collect()
}

fn judges(session: &Session) -> usize {
    session.loops.iter().filter(|r| r.group.as_ref().is_some_and(|g| g.role == GroupRole::Judge)).count()
}

/// Whether a judge has answered, according to what is stored.
fn verdicts(store: &Store) -> usize {
    let of = |id: &str| {
        let Ok(session) = store.load_session(id) else { return 0 };
        let is_judge = |r: &&LoopRecord| r.group.as_ref().is_some_and(|g| g.role == GroupRole::Judge);
        session.loops.iter().filter(is_judge).filter(|r| r.ended.is_some()).count()
    };
    of(SESSION) + of(INNER)
}

/// Starts the program, cuts it off at these steps, then lets it end and looks at what became of it. Returns the number of
/// processes that were cut off.
async fn torment(kind: Kind, nested: bool, answer: Answer, cuts: &[usize]) -> usize {
    let folders: Vec<_> = (0..=cuts.len()).map(|_| tempfile::tempdir().unwrap()).collect();
    let (world, groups) = (Arc::new(World::default()), if nested { 2 } else { 1 });
    let mut judged_before = 0;
    for (at, folder) in folders.iter().enumerate() {
        let process = Process {
            kind,
            home: folder.path().to_owned(),
            steps: Steps::until(cuts.get(at).copied().unwrap_or(usize::MAX)),
            world: Arc::clone(&world),
            answer: answer.clone(),
            nested,
        };
        let known = verdicts(&kind.open(&process.home));
        let ended = process.run(folders.get(at + 1).unwrap_or(folder).path()).await;
        // A recorded verdict is not paid for again.
        let judged = world.judged.load(Ordering::SeqCst);
        assert!(judged - judged_before <= groups - known, "cut at {cuts:?}: {judged} after {judged_before}");
        judged_before = judged;
        if ended {
            check(&kind.open(&process.home), &world, nested, cuts);
            return at;
        }
    }
    panic!("the last process is not cut off")
}

fn check(store: &Store, world: &World, nested: bool, cuts: &[usize]) {
    let paid = world.paid.lock().unwrap();
    let purposes: Vec<&str> = if nested { vec!["helper", "left", "right"] } else { vec!["one", "two"] };
    for purpose in purposes {
        let keys: Vec<_> = paid.iter().filter(|((known, _), _)| known == purpose).collect();
        let denied = world.denied.lock().unwrap().iter().any(|known| known == purpose);
        let allowed = world.allowed.lock().unwrap().get(purpose).copied().unwrap_or_default();
        assert!(keys.len() <= 1, "cut at {cuts:?}: the key of {purpose} is always the same: {keys:?}");
        let times = keys.first().map_or(0, |(_, times)| **times);
        assert!(times <= 1 + allowed, "cut at {cuts:?}: {purpose} was paid {times} times, {allowed} allowed");
        assert!(times >= 1 || denied, "cut at {cuts:?}: {purpose} was never paid");
    }
    let prompts = if nested { [INNER, SESSION].as_slice() } else { &[SESSION] };
    for id in prompts {
        let session = store.load_session(id).unwrap();
        let found = branches(&session);
        assert_eq!((found.len(), judges(&session)), (2, 1), "cut at {cuts:?}: one group in {id}");
        let selected: Vec<bool> =
            found.iter().map(|r| r.parallel_group.as_ref().unwrap().is_selected).collect();
        assert_eq!(selected, [false, true], "cut at {cuts:?}");
        let history = session.history().unwrap();
        let said: Vec<String> = history.llm_messages().map(Message::text).collect();
        let last = match (*id, nested) {
            (INNER, _) => "right",
            (_, true) => "through a group",
            (_, false) => "two",
        };
        assert_eq!(said.len(), 6, "cut at {cuts:?}: {said:?}");
        assert_eq!(said[..3], ["hello".to_owned(), "Hello.".to_owned(), format!("pay {last}")]);
        assert_eq!(said[5], format!("Paid {last}."));
    }
}

/// Cuts the program off at each step, and every so often the next processes as well.
async fn cut_at_each_step(nested: bool) {
    for kind in kinds() {
        let mut cut = 0;
        loop {
            let answer = if cut % 2 == 0 { Answer::Allow } else { Answer::deny(UNKNOWN) };
            if torment(*kind, nested, answer.clone(), &[cut]).await == 0 {
                break;
            }
            if cut % 8 == 1 {
                torment(*kind, nested, answer, &[cut, cut * 7 % 23, cut * 5 % 11]).await;
            }
            // Databases differ in their writes and not in the steps of the program.
            cut += if nested && *kind != Kind::Json { 3 } else { 1 };
        }
        assert!(cut > if nested { 60 } else { 30 }, "{kind:?}: {cut} steps");
    }
}

/// REQ-213, REQ-216: each payment at most once without a question, one judge, one winner.
#[tokio::test]
async fn a_program_that_was_cut_off_at_any_step_continues_its_group() {
    cut_at_each_step(false).await;
}

/// REQ-213, REQ-216: a sub-agent in one branch, and a group in the other.
#[tokio::test]
async fn a_program_with_a_sub_agent_and_a_group_in_its_branches_continues_them() {
    cut_at_each_step(true).await;
}

/// What a process leaves that was cut off while both branches paid.
async fn left_while_paying(kind: Kind, from: &Path, to: &Path) -> Arc<World> {
    let world = Arc::new(World::default());
    let steps = Steps::until(usize::MAX);
    let process = Process {
        kind,
        home: from.to_owned(),
        steps,
        world: Arc::clone(&world),
        answer: Answer::deny(UNKNOWN),
        nested: false,
    };
    let (mut agent, _recorder) = process.agent(SESSION).await;
    agent.chat("hello").await.unwrap();
    let latch = Latch::new();
    let pay = {
        let latch = latch.clone();
        ScriptedTool::new("pay", move |_, _| {
            let latch = latch.clone();
            async move {
                latch.wait().await;
                Ok("receipt".into())
            }
        })
    };
    agent.set_tools(vec![Arc::new(pay.with_effects(Effects::Once))]);
    let specs = process.prompts().map(BranchSpec::asking);
    let exploring = agent.explore_and_adopt(specs, PickFirstEvaluation, EventSender::none());
    let copying = async {
        latch.reached().await;
        latch.reached().await;
        match kind.is_in_folder() {
            true => copy_files(from, to),
            false => kind.copy(from, to),
        }
    };
    tokio::select! {
        _ = exploring => panic!("the branches wait"),
        () = copying => {}
    }
    world
}

fn restored(kind: Kind, home: &Path) -> Process {
    let (steps, world) = (Steps::until(usize::MAX), Arc::new(World::default()));
    Process { kind, home: home.to_owned(), steps, world, answer: Answer::deny(UNKNOWN), nested: false }
}

async fn refused(agent: &BasicAgent, specs: Vec<BranchSpec>) -> ParallelError {
    match agent.explore_and_adopt(specs, PickFirstEvaluation, EventSender::none()).await {
        Err(AgentError::Branches(error)) => *error,
        other => panic!("{other:?}"),
    }
}

fn asking(prompts: &[&'static str]) -> Vec<BranchSpec> {
    prompts.iter().copied().map(BranchSpec::asking).collect()
}

#[tokio::test]
async fn other_branches_than_those_of_the_group_are_refused_until_it_is_discarded() {
    for kind in kinds() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        left_while_paying(*kind, from.path(), to.path()).await;
        let process = restored(*kind, to.path());
        let (agent, recorder) = process.agent(SESSION).await;
        let before = agent.history();

        let error = refused(&agent, asking(&["pay one"])).await;
        assert!(matches!(error, ParallelError::OtherBranches { planned: 2, given: 1 }), "{error}");
        let error = refused(&agent, asking(&["pay one", "pay three"])).await;
        let ParallelError::OtherPrompt { index: 1, recorded, given } = &error else { panic!("{error}") };
        assert_eq!((recorded.as_str(), given.as_str()), ("pay two", "pay three"));
        assert!(error.to_string().contains("discard_branches"), "{error}");
        // The branches themselves are still there, and both ask.
        let error = refused(&agent, asking(&["pay one", "pay two"])).await;
        let asks = |o: &ParallelLoopOutcome| matches!(o.end, BranchEnd::Suspended { .. });
        assert!(matches!(error, ParallelError::Waiting { .. }) && error.outcomes().iter().all(asks));
        assert_eq!(agent.history(), before);
        assert_eq!(branches(&process.kind.open(&process.home).load_session(SESSION).unwrap()).len(), 2);

        discard_branches(&agent).await.unwrap();
        let specs = asking(&["Good morning.", "Good evening.", "Good night."]);
        agent.explore_and_adopt(specs, PickFirstEvaluation, EventSender::none()).await.unwrap();
        recorder.close().await.unwrap();
        let session = process.kind.open(&process.home).load_session(SESSION).unwrap();
        let found = branches(&session);
        assert_eq!(found.len(), 2 + 3);
        let discarded = found[0].parallel_group.as_ref().unwrap();
        assert_eq!(discarded.reason.as_deref(), Some("the branches were discarded"));
        assert_eq!(session.history().unwrap(), agent.history());
        assert_eq!(process.world.paid.lock().unwrap().len(), 0);
    }
}

/// The conversation may go on without the group, which is then left behind.
#[tokio::test]
async fn a_prompt_leaves_a_group_that_was_cut_off_behind() {
    for kind in kinds() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        left_while_paying(*kind, from.path(), to.path()).await;
        let process = restored(*kind, to.path());
        let (agent, recorder) = process.agent(SESSION).await;
        agent.chat("hello again").await.unwrap();
        let specs = asking(&["Good morning."]);
        agent.explore_and_adopt(specs, PickFirstEvaluation, EventSender::none()).await.unwrap();
        recorder.close().await.unwrap();
        let session = process.kind.open(&process.home).load_session(SESSION).unwrap();
        assert_eq!(branches(&session).len(), 2 + 1);
        assert_eq!(session.history().unwrap(), agent.history());
    }
}

/// An answer that comes with the branches is recorded in their loops.
#[tokio::test]
async fn the_answers_to_branches_continue_them_and_their_group() {
    for kind in kinds() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        left_while_paying(*kind, from.path(), to.path()).await;
        let process = restored(*kind, to.path());
        let (agent, recorder) = process.agent(SESSION).await;
        let error = refused(&agent, asking(&["pay one", "pay two"])).await;
        let BranchEnd::Suspended { questions } = &error.outcomes()[0].end else { panic!("{error:?}") };
        let id = questions[0].id.clone();
        // One answer is not enough, and the one that was given is not needed again.
        let specs = vec![
            BranchSpec::asking("pay one").answering(id.clone(), Answer::Allow),
            BranchSpec::asking("pay two"),
        ];
        let error = refused(&agent, specs).await;
        let ends: Vec<bool> = error.outcomes().iter().map(ParallelLoopOutcome::is_completed).collect();
        assert_eq!(ends, [true, false], "{error:?}");
        let specs = vec![
            BranchSpec::asking("pay one"),
            BranchSpec::asking("pay two").answering(id, Answer::deny(UNKNOWN)),
        ];
        let result = agent.explore_and_adopt(specs, PickFirstEvaluation, EventSender::none()).await.unwrap();
        recorder.close().await.unwrap();
        assert!(result.outcomes().all(ParallelLoopOutcome::is_completed));
        assert_eq!(result.selected.original_context_len, 2, "the conversation before the branches");
        let session = process.kind.open(&process.home).load_session(SESSION).unwrap();
        assert_eq!(session.history().unwrap(), agent.history());
        let said: Vec<String> = agent.messages().iter().map(|m| m.text()).collect();
        assert_eq!(said[2..], ["pay one", "", "receipt for one", "Paid one."]);
        assert_eq!(process.world.paid.lock().unwrap().len(), 1);
        let second = session.history_after(branches(&session)[1].loop_id.as_str()).unwrap().unwrap();
        assert!(second.llm_messages().any(|m| m.text() == UNKNOWN));
    }
}

/// The future of an exploration is dropped, and the same agent explores again: it is the same group.
#[tokio::test]
async fn an_exploration_that_was_dropped_continues_in_the_same_process() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let process = restored(*kind, dir.path());
        let (agent, recorder) = process.agent(SESSION).await;
        agent.chat("hello").await.unwrap();
        let latch = Latch::new();
        let second = |model: ScriptedProvider| {
            BranchSpec::asking("pay two").configure(move |c| c.services.provider = Arc::new(model))
        };
        let waiting = ScriptedProvider::new([ScriptedReply::new().and_wait(&latch)]);
        let specs = vec![BranchSpec::asking("pay one"), second(waiting)];
        let exploring = agent.explore_and_adopt(specs, PickFirstEvaluation, EventSender::none());
        let paying = async {
            latch.reached().await;
            while branches(&recorder.session(SESSION).unwrap()).iter().all(|r| r.ended.is_none()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            _ = exploring => panic!("a branch waits"),
            () = paying => {}
        }
        let specs = vec![BranchSpec::asking("pay one"), second(process.model())];
        let result = agent.explore_and_adopt(specs, PickFirstEvaluation, EventSender::none()).await.unwrap();
        recorder.close().await.unwrap();
        assert!(result.outcomes().all(ParallelLoopOutcome::is_completed));
        let paid = process.world.paid.lock().unwrap();
        assert!(paid.len() == 2 && paid.values().all(|times| *times == 1), "{paid:?}");
        let session = process.kind.open(&process.home).load_session(SESSION).unwrap();
        assert_eq!(branches(&session).len(), 2);
        let said = |history: &agent_core::History| {
            history.messages().map(agent_core::AgentMessage::text).collect::<Vec<_>>()
        };
        assert_eq!(said(&session.history().unwrap()), said(&agent.history()), "{kind:?}");
    }
}

/// Groups of one place have different ids in every process: those that ended are not continued, and two at once are two.
#[tokio::test]
async fn each_group_at_a_place_has_ids_of_its_own() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        for process in 1..=3 {
            let (agent, recorder) = restored(*kind, dir.path()).agent(SESSION).await;
            let explore = || agent.explore_branches(asking(&["Good morning."])).unwrap();
            let (one, two) = (explore(), explore());
            assert_ne!(one.group_id, two.group_id);
            let (one, two) = tokio::join!(one.finish(), two.finish());
            assert!(one.unwrap()[0].is_completed() && two.unwrap()[0].is_completed());
            recorder.close().await.unwrap();
            let session = kind.open(dir.path()).load_session(SESSION).unwrap();
            assert_eq!(branches(&session).len(), 2 * process);
        }
    }
}

/// Branches that select nothing by themselves are continued, too.
#[tokio::test]
async fn branches_without_a_selection_are_continued() {
    for kind in kinds() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        left_while_paying(*kind, from.path(), to.path()).await;
        let process = restored(*kind, to.path());
        let (agent, recorder) = process.agent(SESSION).await;
        let exploration = agent.explore_branches(asking(&["pay one", "pay two"])).unwrap();
        let ids: Vec<LoopId> = exploration.branches.iter().map(|b| b.loop_id.clone()).collect();
        let Err(AgentError::Branches(error)) = exploration.finish().await else { panic!() };
        assert!(matches!(*error, ParallelError::Waiting { .. }), "{error}");
        let answered = |prompt| BranchSpec::asking(prompt).answering("c1", Answer::Allow);
        let exploration = agent.explore_branches(["pay one", "pay two"].map(answered)).unwrap();
        let outcomes = exploration.finish().await.unwrap();
        assert_eq!(outcomes.iter().map(|o| o.loop_id.clone()).collect::<Vec<_>>(), ids);
        agent.adopt_branch(&outcomes[1]).await.unwrap();
        recorder.close().await.unwrap();
        let session = process.kind.open(&process.home).load_session(SESSION).unwrap();
        assert_eq!(branches(&session).iter().map(|r| r.loop_id.clone()).collect::<Vec<_>>(), ids);
        assert_eq!(session.history().unwrap(), agent.history());
        assert_eq!(process.world.paid.lock().unwrap().len(), 2);
    }
}

/// Without a journal that can be read, it is not known how far the branches had come.
#[tokio::test]
async fn an_agent_without_a_journal_does_not_start_the_branches_again() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    left_while_paying(Kind::Json, from.path(), to.path()).await;
    let session = Kind::Json.open(to.path()).load_session(SESSION).unwrap();
    let process = restored(Kind::Json, to.path());
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(process.model());
    let agent = agent.restore_unrecorded(&session).unwrap();
    let error = refused(&agent, asking(&["pay one", "pay two"])).await;
    assert!(matches!(error, ParallelError::Journal { .. }), "{error}");
    assert!(error.to_string().contains("restore_session"), "{error}");
    discard_branches(&agent).await.unwrap();
    let specs = asking(&["Good morning."]);
    agent.explore_and_adopt(specs, PickFirstEvaluation, EventSender::none()).await.unwrap();
}
