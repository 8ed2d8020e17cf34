//! Groups of branches in a session: the same group as the built-in driver's, cut off at any step, aborted, and exported.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_core::event::NumberedEvent;
use agent_core::parallel::{BranchEnd, GroupEnd};
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentContext, AgentEvent, AgentTool, Answer, Branch, CancellationToken, Effects, ErrorKind, Evaluated,
    Evaluation, EvaluationError, EvaluationStrategy, History, LlmJudgeEvaluation, LoopId, Message,
    ModelConfig, ParallelError, PickFirstEvaluation, Usage, agent_loop_parallel, event_channel,
};
use agent_restate::{BranchesEnd, ClientError, DurableAgent, Refusal, TurnEnd};
use agent_session::{JsonStore, SessionRecorder};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::json;

use crate::server::Server;
use crate::sessions::ended;
use crate::worker::Worker;
use crate::world::World;

/// The scripts, unless `LOOPTREE_SCRIPTS` says otherwise.
const SCRIPTS: usize = 12;

const LONGEST: Duration = Duration::from_secs(600);

fn explored(end: TurnEnd) -> BranchesEnd {
    match end {
        TurnEnd::Explored(end) => *end,
        other => panic!("no group has ended: {other:?}"),
    }
}

/// What a driver made of a script.
#[derive(Debug, PartialEq)]
struct Made {
    events: BTreeMap<LoopId, Vec<NumberedEvent>>,
    /// The conversation of the selected branch.
    history: Option<History>,
    selected: Option<usize>,
    usage: Usage,
    draws: Vec<usize>,
}

/// The worlds of the judge and of the branches.
struct Script {
    judge: World,
    branches: Vec<World>,
}

impl Script {
    fn new(rows: &[Vec<u16>]) -> Self {
        let (judge, branches) = rows.split_first().unwrap();
        let world = |row: &Vec<u16>| World::new(row.clone());
        Self { judge: world(judge), branches: branches.iter().map(world).collect() }
    }

    fn branches(&self) -> Vec<Branch> {
        let branch = |world: &World| {
            let mut config = world.config();
            config.policy.tool_timeout = Some(LONGEST);
            Branch::new(config).with_tools(world.tools())
        };
        self.branches.iter().map(branch).collect()
    }

    fn judge(&self) -> LlmJudgeEvaluation {
        let (world, mut config) = (self.judge.clone(), self.judge.config());
        config.services.provider = Arc::new(ScriptedProvider::responding(move |_| {
            world.meddle();
            let text = ["1", "2", "Verdict: 2", "neither", "Response 1 is better."][world.draw(5)];
            let reply = ScriptedReply::text(text).using(Usage::new(20, 2, 0, 0));
            match world.draw(8) {
                5 => reply.failing(ErrorKind::Network, "gone"),
                6 => reply.and_call("c1", "ask", json!({})),
                7 => reply.and_panic("lost"),
                _ => reply,
            }
        }));
        LlmJudgeEvaluation::new(config)
    }

    fn draws(&self) -> Vec<usize> {
        self.branches.iter().chain([&self.judge]).map(|world| world.row.lock().unwrap().at()).collect()
    }
}

fn by_loop(events: impl IntoIterator<Item = NumberedEvent>) -> BTreeMap<LoopId, Vec<NumberedEvent>> {
    let mut loops: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for event in events {
        loops.entry(event.event.loop_id().clone()).or_default().push(event);
    }
    loops
}

async fn built_in(name: &str, script: Script) -> Made {
    let mut context = AgentContext::new("Be brief.");
    context.agent_id = Some(name.into());
    context.session_id = Some("session".into());
    let (tx, rx) = event_channel();
    let (branches, judge, cancel) = (script.branches(), script.judge(), CancellationToken::new());
    let result = agent_loop_parallel(vec!["go".into()], context, branches, judge, tx, cancel).await;
    let mut events = rx.collect_numbered().await;
    events.retain(|event| !event.is_live());
    let (selected, history) = match &result {
        Ok(result) => (Some(result.selected_index()), Some(result.selected.context.history.clone())),
        Err(_) => (None, None),
    };
    let usage = match &result {
        Ok(result) => result.total_usage(),
        Err(error) => error.outcomes().iter().fold(Usage::default(), |sum, o| sum.combine(&o.total_usage())),
    };
    assert!(!matches!(result, Err(ParallelError::Branch { .. } | ParallelError::Journal { .. })));
    Made { events: by_loop(events), history, selected, usage, draws: script.draws() }
}

async fn durable(name: &str, script: Script, server: &Server) -> Made {
    let script = Arc::new(script);
    let (branches, judge) = (Arc::clone(&script), script.judge());
    let agent = DurableAgent::new(name)
        .model(ModelConfig::default())
        .provider(ScriptedProvider::texts(["not asked"]))
        .system_prompt("Be brief.")
        .longest_step(LONGEST)
        .branches(move |_| branches.branches(), judge);
    let worker = Worker::start(agent);
    server.register(worker.address).await;
    let session = server.client().session(name, "session");
    let end = explored(session.explore("go").send().await.unwrap().wait().await.unwrap());
    let events = session.events_from(0).await.unwrap().collect().await.unwrap();
    let selected = match &end.end {
        GroupEnd::Selected { evaluated } => Some(evaluated.decision.index()),
        _ => None,
    };
    let history = session.history().await.unwrap();
    let history = selected.map(|_| history);
    worker.stop().await;
    let events = by_loop(events.into_iter().map(|event| event.event));
    Made { events, history, selected, usage: end.usage.total(), draws: script.draws() }
}

/// The same events of each loop and of the group with the same numbers, the same selection, conversation and usage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_makes_the_group_of_the_built_in_driver() {
    let Some(server) = Server::start().await else { return };
    let scripts = std::env::var("LOOPTREE_SCRIPTS").map_or(SCRIPTS, |count| count.parse().unwrap());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[11; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = prop::collection::vec(prop::collection::vec(any::<u16>(), 8..100), 2..=4);
    std::panic::set_hook(Box::new(|_| {}));
    let (mut selected, mut later, mut judged, mut suspended) = (0, 0, 0, 0);
    let mut differences = Vec::new();
    for script in 0..scripts {
        let rows = strategy.new_tree(&mut runner).unwrap().current();
        let name = format!("group{script}");
        let expected = built_in(&name, Script::new(&rows)).await;
        let made = durable(&name, Script::new(&rows), &server).await;
        selected += usize::from(expected.selected.is_some());
        later += usize::from(expected.selected.is_some_and(|index| index > 0));
        judged += usize::from(expected.events.keys().any(|id| id.as_str().ends_with("-judge")));
        let any = |test: fn(&AgentEvent) -> bool| expected.events.values().flatten().any(|e| test(&e.event));
        suspended += usize::from(any(|e| matches!(e, AgentEvent::RunSuspended { .. })));
        if made != expected {
            let differs = |(id, events): (&LoopId, &Vec<NumberedEvent>)| {
                let own = made.events.get(id).map_or(&[][..], Vec::as_slice);
                let at = own.iter().zip(events).position(|(a, b)| a != b);
                let at = at.or_else(|| (own.len() != events.len()).then(|| own.len().min(events.len())))?;
                Some(format!("{id} {at}: {:?}\n  built-in: {:?}", own.get(at), events.get(at)))
            };
            let first = expected.events.iter().find_map(differs);
            differences.push(format!(
                "script {script}: {first:?}\n  loops {:?} and {:?}, selected {:?} and {:?}, usage {:?} and {:?}, draws {:?} and {:?}",
                made.events.keys().collect::<Vec<_>>(),
                expected.events.keys().collect::<Vec<_>>(),
                made.selected,
                expected.selected,
                made.usage,
                expected.usage,
                made.draws,
                expected.draws,
            ));
        }
    }
    let _ = std::panic::take_hook();
    assert!(differences.is_empty(), "{} of {scripts}:\n{}", differences.len(), differences.join("\n"));
    println!(
        "{scripts} groups: {selected} selected, {later} not the first, {judged} judged, {suspended} suspended"
    );
    if scripts >= SCRIPTS {
        assert!(selected > 0 && later > 0 && judged > 0, "the scripts reach what they are made for");
    }
}

struct Second;

#[async_trait::async_trait]
impl EvaluationStrategy for Second {
    async fn evaluate(&self, _: Evaluation<'_>) -> Result<Evaluated, EvaluationError> {
        Ok(Evaluated::select(1))
    }
}

fn writer() -> ScriptedProvider {
    ScriptedProvider::responding(|request| {
        let messages: Vec<_> = request.history.llm_messages().collect();
        match messages.last().unwrap() {
            Message::User(_) => ScriptedReply::call("c1", "write", json!({})),
            _ => ScriptedReply::text(format!("after {} messages", messages.len())),
        }
    })
}

fn named(name: &str, tools: Vec<Arc<dyn AgentTool>>) -> DurableAgent {
    DurableAgent::new(name).model(ModelConfig::default()).provider(writer()).tools(tools)
}

/// A worker is stopped while a branch works; another one continues. What both branches had recorded is not executed
/// again, and the interrupted call is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_was_cut_off_repeats_no_recorded_call() {
    let Some(server) = Server::start().await else { return };
    let (written, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let agent = |hangs: bool| {
        let (written, begun) = (Arc::clone(&written), Arc::clone(&begun));
        let write = ScriptedTool::new("write", move |_, _| {
            written.fetch_add(1, Ordering::SeqCst);
            async { Ok("written".into()) }
        });
        let read = ScriptedTool::new("read", move |_, _| {
            begun.fetch_add(1, Ordering::SeqCst);
            async move {
                if hangs {
                    std::future::pending::<()>().await;
                }
                Ok("read".into())
            }
        });
        let tools: Vec<Arc<dyn AgentTool>> =
            vec![Arc::new(write.with_effects(Effects::Once)), Arc::new(read.with_effects(Effects::ReadOnly))];
        let reader = || {
            ScriptedProvider::responding(|request| match request.history.llm_messages().count() {
                1 => ScriptedReply::call("c1", "write", json!({})),
                3 => ScriptedReply::call("c2", "read", json!({})),
                _ => ScriptedReply::text("read"),
            })
        };
        named("cut", tools).branches(
            move |config| {
                let mut second = config.clone();
                second.services.provider = Arc::new(reader());
                vec![Branch::new(config.clone()), Branch::new(second)]
            },
            Second,
        )
    };
    // The runtime ends with its connections, as a process does.
    let process = tokio::runtime::Runtime::new().unwrap();
    let first = {
        let _entered = process.enter();
        Worker::start(agent(true))
    };
    let address = first.address;
    server.register(address).await;
    let session = server.client().session("cut", "s");
    let turn = session.explore("go").send().await.unwrap();
    while begun.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    process.shutdown_background();
    // The runtime ends in the background, and with it the listener.
    while std::net::TcpListener::bind(address).is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let _second = Worker::start_at(agent(false), address);
    let end = explored(turn.wait().await.unwrap());
    assert_eq!(end.selected().unwrap().reply.as_ref().unwrap().text(), "read");
    assert_eq!((written.load(Ordering::SeqCst), begun.load(Ordering::SeqCst)), (2, 2));
    assert_eq!(session.history().await.unwrap().len(), 6);
    let end = ended(session.prompt("and now?").send().await.unwrap().wait().await.unwrap());
    assert_eq!(end.reply.unwrap().text(), "after 9 messages");
}

/// A session whose worker was stopped while both branches wrote, which must happen once.
async fn cut_off_while_writing(server: &Server, name: &'static str, written: &Arc<AtomicUsize>) -> Worker {
    let agent = |hangs: bool| {
        let written = Arc::clone(written);
        let write = ScriptedTool::new("write", move |_, _| {
            written.fetch_add(1, Ordering::SeqCst);
            async move {
                if hangs {
                    std::future::pending::<()>().await;
                }
                Ok("written".into())
            }
        });
        let tools: Vec<Arc<dyn AgentTool>> = vec![Arc::new(write.with_effects(Effects::Once))];
        named(name, tools)
            .branches(|config| vec![Branch::new(config.clone()), Branch::new(config.clone())], Second)
    };
    let process = tokio::runtime::Runtime::new().unwrap();
    let first = {
        let _entered = process.enter();
        Worker::start(agent(true))
    };
    let address = first.address;
    server.register(address).await;
    server.client().session(name, "s").explore("go").idempotency_key("group").send().await.unwrap();
    while written.load(Ordering::SeqCst) < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    process.shutdown_background();
    while std::net::TcpListener::bind(address).is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Worker::start_at(agent(false), address)
}

fn asked(end: TurnEnd) -> Vec<agent_core::Question> {
    match end {
        TurnEnd::Waiting(questions) => questions,
        other => panic!("no branch waits: {other:?}"),
    }
}

/// A call that must run once and was cut off is asked about, in each branch, and nothing is selected before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_of_a_branch_that_was_cut_off_is_asked_about() {
    let Some(server) = Server::start().await else { return };
    let written = Arc::new(AtomicUsize::new(0));
    let _worker = cut_off_while_writing(&server, "unknown", &written).await;
    let session = server.client().session("unknown", "s");
    let turn = session.explore("go").idempotency_key("group").send().await.unwrap();
    let questions = asked(turn.wait().await.unwrap());
    let ids: Vec<&str> = questions.iter().map(|q| q.id.as_str()).collect();
    assert_eq!(ids, ["branch-0/c1", "branch-1/c1"]);
    assert!(questions.iter().all(|q| q.outcome_unknown));
    assert_eq!(session.questions().await.unwrap(), questions);
    let refused = session.prompt("meanwhile").send().await.unwrap().wait().await;
    assert!(matches!(refused, Err(ClientError::Refused(Refusal::WaitsForAnswers))), "{refused:?}");
    let refused = session.answer("branch-2/c1".into(), Answer::Allow).await.unwrap().wait().await;
    assert!(matches!(refused, Err(ClientError::Refused(Refusal::NotAsked { .. }))), "{refused:?}");

    let left =
        asked(session.answer("branch-0/c1".into(), Answer::Allow).await.unwrap().wait().await.unwrap());
    assert_eq!(left.iter().map(|q| q.id.as_str()).collect::<Vec<_>>(), ["branch-1/c1"]);
    let answer = session.answer("branch-1/c1".into(), Answer::deny("It may have been written.")).await;
    let end = explored(answer.unwrap().wait().await.unwrap());
    assert_eq!(end.selected().unwrap().reply.as_ref().unwrap().text(), "after 3 messages");
    assert_eq!(written.load(Ordering::SeqCst), 2 + 1, "as often as it was allowed");
    let said: Vec<_> = session.history().await.unwrap().llm_messages().map(Message::text).collect();
    assert_eq!(said[2], "It may have been written.");
    assert!(session.questions().await.unwrap().is_empty());
    let events = session.events_from(0).await.unwrap().collect().await.unwrap();
    let count = |test: fn(&AgentEvent) -> bool| events.iter().filter(|e| test(&e.event.event)).count();
    assert_eq!(count(|e| matches!(e, AgentEvent::ParallelLoopStart(_))), 1);
    assert_eq!(count(|e| matches!(e, AgentEvent::ParallelLoopEnd(_))), 1);
    let end = ended(session.prompt("and now?").send().await.unwrap().wait().await.unwrap());
    assert_eq!(end.reply.unwrap().text(), "after 7 messages");
}

/// An abort ends a group that waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_ends_a_group_that_waits_for_answers() {
    let Some(server) = Server::start().await else { return };
    let written = Arc::new(AtomicUsize::new(0));
    let _worker = cut_off_while_writing(&server, "given-up", &written).await;
    let session = server.client().session("given-up", "s");
    let turn = session.explore("go").idempotency_key("group").send().await.unwrap();
    asked(turn.wait().await.unwrap());
    session.abort().await.unwrap();
    while !session.questions().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(session.history().await.unwrap().len(), 0);
    let events = session.events_from(0).await.unwrap().collect().await.unwrap();
    assert!(matches!(events.last().unwrap().event.event, AgentEvent::ParallelLoopEnd(_)));
    let end = ended(session.prompt("and now?").send().await.unwrap().wait().await.unwrap());
    assert_eq!(end.reply.unwrap().text(), "after 3 messages");
    assert_eq!(written.load(Ordering::SeqCst), 2 + 1, "that of the prompt");
}

/// An abort ends all branches, selects none, and leaves the conversation and the waiting messages as they were.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_ends_all_branches() {
    let Some(server) = Server::start().await else { return };
    let begun = Arc::new(AtomicUsize::new(0));
    let hangs = ScriptedTool::new("write", {
        let begun = Arc::clone(&begun);
        move |_, _| {
            begun.fetch_add(1, Ordering::SeqCst);
            std::future::pending()
        }
    });
    let agent = named("aborted", vec![Arc::new(hangs)]).branches(
        |config| vec![Branch::new(config.clone()), Branch::new(config.clone())],
        PickFirstEvaluation,
    );
    let worker = Worker::start(agent);
    server.register(worker.address).await;
    let session = server.client().session("aborted", "s");
    let turn = session.explore("go").send().await.unwrap();
    while begun.load(Ordering::SeqCst) < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    session.follow_up("later").await.unwrap();
    session.abort().await.unwrap();
    let end = explored(turn.wait().await.unwrap());
    assert_eq!((end.end.clone(), end.selected()), (GroupEnd::Aborted {}, None));
    assert_eq!(end.branches.len(), 2);
    assert_eq!(session.history().await.unwrap().len(), 0);
    let events = session.events_from(0).await.unwrap().collect().await.unwrap();
    assert!(matches!(events.last().unwrap().event.event, AgentEvent::ParallelLoopEnd(_)));
    let waiting = server.query("SELECT value_utf8 FROM state WHERE service_name = 'aborted.mailbox'").await;
    assert!(waiting.iter().any(|row| row["value_utf8"].as_str().unwrap().contains("later")), "{waiting:?}");
}

/// A selected branch that waits for an answer stays suspended; the answer continues it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_selected_branch_that_waits_is_continued_by_its_answer() {
    let Some(server) = Server::start().await else { return };
    let write = ScriptedTool::saying("write", "written").asking("Write?");
    let agent = named("asking", vec![Arc::new(write)])
        .branches(|config| vec![Branch::new(config.clone()), Branch::new(config.clone())], Second);
    let worker = Worker::start(agent);
    server.register(worker.address).await;
    let session = server.client().session("asking", "s");
    let end = explored(session.explore("go").send().await.unwrap().wait().await.unwrap());
    assert!(matches!(end.selected().unwrap().end, BranchEnd::Suspended { .. }), "{end:?}");
    let question = session.questions().await.unwrap().remove(0);
    let end = ended(session.answer(question.id, Answer::Allow).await.unwrap().wait().await.unwrap());
    assert_eq!(end.reply.unwrap().text(), "after 3 messages");
    assert_eq!(session.history().await.unwrap().len(), 4);
}

/// Without branches on its workers, a session refuses to explore and does not change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_without_branches_refuses_to_explore() {
    let Some(server) = Server::start().await else { return };
    let worker = Worker::start(named("single", Vec::new()));
    server.register(worker.address).await;
    let session = server.client().session("single", "s");
    let refused = session.explore("go").send().await.unwrap().wait().await;
    assert!(matches!(refused, Err(ClientError::Refused(Refusal::NoBranches))), "{refused:?}");
    assert!(session.events_from(0).await.unwrap().collect().await.unwrap().is_empty());
    let empty = named("empty", Vec::new()).branches(|_| Vec::new(), PickFirstEvaluation);
    let refused = agent_restate::serve_until(empty, worker.address, async {}).await.unwrap_err();
    assert!(refused.to_string().contains("empty list"), "{refused}");
}

/// The events of a durable session make the session of a recorder: its loops, its group and its conversation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_exported_to_a_store() {
    let Some(server) = Server::start().await else { return };
    let write = ScriptedTool::saying("write", "written").with_effects(Effects::Once);
    let agent = named("exported", vec![Arc::new(write)])
        .branches(|config| vec![Branch::new(config.clone()), Branch::new(config.clone())], Second);
    let worker = Worker::start(agent);
    server.register(worker.address).await;
    let session = server.client().session("exported", "user-42");
    ended(session.prompt("first").send().await.unwrap().wait().await.unwrap());
    explored(session.explore("second").send().await.unwrap().wait().await.unwrap());
    ended(session.prompt("third").send().await.unwrap().wait().await.unwrap());

    let folder = tempfile::tempdir().unwrap();
    let store = JsonStore::open(folder.path()).unwrap();
    let recorder = SessionRecorder::with_store(store.clone());
    let mut events = session.events_from(0).await.unwrap();
    while let Some(event) = events.next().await.unwrap() {
        recorder.on_event(&event.event.event);
    }
    recorder.close().await.unwrap();

    let exported = store.load_session("user-42").unwrap();
    assert_eq!(exported.history().unwrap(), session.history().await.unwrap());
    assert_eq!(exported.loops.len(), 4);
    assert_eq!(exported.loops.iter().filter(|record| record.group.is_some()).count(), 2);
    assert!(exported.loops.iter().all(|record| !record.is_open()));
}
