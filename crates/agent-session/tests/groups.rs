//! Groups of parallel loops in a session.
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
use std::path::Path;
use std::sync::{Arc, Mutex};

use agent_core::journal::{GroupEntry, Journal, JournalEntry, JournalError};
use agent_core::testing::{Latch, ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentEvent, BasicAgent, BranchSpec, CancellationToken, ErrorKind, EventSender, ExecutionLimits,
    GroupMember, GroupRole, LlmJudgeEvaluation, LoopId, ModelConfig, ParallelLoopResult, PickFirstEvaluation,
    Timestamp, Usage, agent_loop_parallel, event_channel,
};
use agent_session::{
    JsonStore, LoadedSession, LoopRecord, LoopStatus, Point, RestoreSession, Session, SessionQuery,
    SessionRecorder, SessionSummary, TimeTravel, pi, to_markdown,
};
use async_trait::async_trait;
use proptest::prelude::*;
use scene::kinds;
use serde_json::json;

/// A model that answers with its instructions and what it was asked.
fn echo() -> ScriptedProvider {
    ScriptedProvider::responding(|request| {
        let last = request.history.last().map(agent_core::AgentMessage::text).unwrap_or_default();
        ScriptedReply::text(format!("{}: {last}", request.system_prompt)).using(Usage::new(10, 2, 0, 0))
    })
}

fn agent() -> BasicAgent {
    BasicAgent::new(ModelConfig::default())
        .with_provider(echo())
        .with_system_prompt("plain")
        .with_session_id("s-1")
}

fn judge(verdict: &str) -> LlmJudgeEvaluation {
    let reply = ScriptedReply::text(verdict).using(Usage::new(7, 1, 0, 0));
    let config = agent().with_provider(ScriptedProvider::new([reply])).config();
    LlmJudgeEvaluation::new(config)
}

fn specs() -> [BranchSpec; 3] {
    ["first", "second", "third"].map(|s| BranchSpec::asking("why?").with_system_prompt(s))
}

async fn explored(agent: &BasicAgent, verdict: &str, tx: EventSender) -> ParallelLoopResult {
    agent.explore_and_adopt(specs(), judge(verdict), tx).await.unwrap()
}

fn branches(session: &Session) -> Vec<&LoopRecord> {
    let is_branch =
        |r: &&LoopRecord| matches!(r.group.as_ref().map(|g| g.role), Some(GroupRole::Branch { .. }));
    session.loops.iter().filter(is_branch).collect()
}

#[track_caller]
fn assert_tree_is_consistent(session: &Session) {
    for record in &session.loops {
        let parents: Vec<_> =
            session.loops.iter().filter(|r| r.children_loop_ids.contains(&record.loop_id)).collect();
        let named = record.parent_loop_id.as_ref().filter(|p| session.get_loop(p.as_str()).is_some());
        assert_eq!(parents.iter().map(|p| &p.loop_id).collect::<Vec<_>>(), Vec::from_iter(named));
        session.history_after(record.loop_id.as_str()).unwrap().unwrap();
    }
    for branch in branches(session) {
        let group = branch.parallel_group.as_ref().expect("a branch knows its group");
        assert_eq!(session.parallel_siblings(branch.loop_id.as_str()).len(), group.all_loop_ids.len());
        assert_eq!(group.is_selected, group.selected_loop_id.as_ref() == Some(&branch.loop_id));
    }
}

/// REQ-213.
#[tokio::test]
async fn a_judged_group_is_in_the_tree_with_its_selection_its_judge_and_its_tokens() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let store = kind.open(dir.path());
        let mut agent = agent();
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        agent.chat("hello").await.unwrap();
        let trunk = agent.last_loop_id().unwrap();
        let result = explored(&agent, "2", EventSender::none()).await;
        agent.chat("more").await.unwrap();

        let journal = store.load_session("s-1").unwrap();
        recorder.close().await.unwrap();
        let saved = store.load_session("s-1").unwrap();
        for session in [&*journal, &*saved] {
            assert_tree_is_consistent(session);
            let group = branches(session);
            assert_eq!(group.len(), 3);
            assert!(group.iter().all(|r| r.status == LoopStatus::Completed));
            assert!(group.iter().all(|r| r.parent_loop_id.as_ref() == Some(&trunk)));
            let selected: Vec<bool> =
                group.iter().map(|r| r.parallel_group.as_ref().unwrap().is_selected).collect();
            assert_eq!(selected, [false, true, false]);
            let record = group[0].parallel_group.clone().unwrap();
            assert_eq!(record.selected_loop_id.as_ref(), Some(&result.selected.loop_id));
            assert_eq!(record.selected_config_index, Some(1));
            assert_eq!(record.evaluation_usage, Usage::new(7, 1, 0, 0));
            // The judge's loop is in the tree, with its own tokens.
            let judge = session.get_loop(record.judge_loop_id.as_ref().unwrap().as_str()).unwrap();
            assert_eq!(
                (judge.group.as_ref().unwrap().role, judge.status),
                (GroupRole::Judge, LoopStatus::Completed)
            );
            assert_eq!(judge.usage, Usage::new(7, 1, 0, 0));
            assert_eq!(judge.base.as_ref().map(|b| b.added.len()), Some(0), "it begins with nothing");
            assert_eq!(session.total_usage(), Usage::new(10 * 5 + 7, 2 * 5 + 1, 0, 0));
            // The conversation is the winner's, and what was said after it.
            assert_eq!(session.history().unwrap(), agent.history());
            assert_eq!(session.head().unwrap().loop_id, agent.last_loop_id().unwrap());
            for outcome in result.outcomes() {
                let history = session.history_after(outcome.loop_id.as_str()).unwrap().unwrap();
                assert_eq!(history, outcome.context.history);
            }
            // The past that the branches share is written once: each begins after the trunk's loop with nothing added.
            for branch in &group {
                let base = branch.base.as_ref().unwrap();
                assert_eq!((base.after_loop.as_ref(), base.keep, base.added.len()), (Some(&trunk), 2, 0));
            }
            let base = session.head().unwrap().base.as_ref().unwrap();
            assert_eq!(
                base.after_loop.as_ref(),
                Some(&result.selected.loop_id),
                "it goes on from the winner"
            );
            assert!(base.added.is_empty());
        }
        assert_eq!(*journal, *saved);
    }
}

/// REQ-213: after the end of a group, and before anything else is said, the conversation is the winner's.
#[tokio::test]
async fn an_agent_restored_after_a_group_goes_on_from_the_selected_branch() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let store = kind.open(dir.path());
        let mut first = agent();
        let recorder = SessionRecorder::attach(&mut first, store.clone());
        first.chat("hello").await.unwrap();
        explored(&first, "3", EventSender::none()).await;
        recorder.close().await.unwrap();

        let session = store.load_session("s-1").unwrap();
        let mut again = agent().restore_unrecorded(&session).unwrap();
        assert_eq!(again.messages(), first.messages());
        assert_eq!(again.last_loop_id(), first.last_loop_id());
        let recorder = SessionRecorder::attach(&mut again, store.clone());
        again.chat("more").await.unwrap();
        recorder.close().await.unwrap();
        let session = store.load_session("s-1").unwrap();
        assert_eq!(session.history().unwrap(), again.history());
        let base = session.head().unwrap().base.clone().unwrap();
        assert!(base.added.is_empty(), "nothing is written twice: {base:?}");
    }
}

/// REQ-213: an exploration has no selection until one is taken over.
#[tokio::test]
async fn taking_over_a_branch_is_written_down() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let store = kind.open(dir.path());
        let mut agent = agent();
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        agent.chat("hello").await.unwrap();
        let before = agent.history();
        let outcomes = agent.explore_branches(specs()).unwrap().finish().await.unwrap();
        let session = store.load_session("s-1").unwrap();
        assert_tree_is_consistent(&session);
        assert!(branches(&session).iter().all(|r| !r.parallel_group.as_ref().unwrap().is_selected));
        assert_eq!(session.history().unwrap(), before, "the conversation has not gone on");

        agent.adopt_branch(&outcomes[2]).await.unwrap();
        recorder.close().await.unwrap();
        let session = store.load_session("s-1").unwrap();
        assert_tree_is_consistent(&session);
        assert_eq!(session.history().unwrap(), agent.history());
        assert_eq!(session.head().unwrap().loop_id, outcomes[2].loop_id);
    }
}

/// REQ-213, REQ-218.
#[tokio::test]
async fn a_recorder_in_memory_makes_the_same_tree_of_the_same_events() {
    let agent = agent();
    let recorder = SessionRecorder::new();
    for event in agent.prompt("hello").unwrap().collect().await {
        recorder.on_event(&event);
    }
    let (tx, events) = event_channel();
    let result = explored(&agent, "2", tx).await;
    let events = events.collect().await;
    let mut statuses = Vec::new();
    for event in &events {
        recorder.on_event(event);
        let session = recorder.session("s-1").unwrap();
        let json = serde_json::to_string(&session).unwrap();
        assert_eq!(serde_json::from_str::<Session>(&json).unwrap(), session);
        statuses.push(branches(&session).iter().map(|r| r.status).collect::<Vec<_>>());
    }
    assert_eq!(statuses[0], [LoopStatus::Pending; 3], "announced before the first begins");
    let of = |id: &agent_core::LoopId| events.iter().position(|e| e.loop_id() == id).unwrap();
    let second = of(&branches(&recorder.session("s-1").unwrap())[1].loop_id);
    assert_eq!((statuses[second - 1][1], statuses[second][1]), (LoopStatus::Pending, LoopStatus::Running));
    assert_eq!(statuses.last().unwrap(), &[LoopStatus::Completed; 3]);
    for event in agent.prompt("more").unwrap().collect().await {
        recorder.on_event(&event);
    }
    let session = recorder.session("s-1").unwrap();
    assert_tree_is_consistent(&session);
    assert_eq!(session.history().unwrap(), agent.history());
    for outcome in result.outcomes() {
        let history = session.history_after(outcome.loop_id.as_str()).unwrap().unwrap();
        assert_eq!(history, outcome.context.history);
    }
}

/// Loads the session after each record.
struct Looking {
    inner: Arc<dyn Journal>,
    store: scene::Store,
    seen: Mutex<Vec<LoadedSession>>,
}

impl std::fmt::Debug for Looking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Looking")
    }
}

impl Looking {
    fn at(agent: &mut BasicAgent, store: &scene::Store) -> Arc<Self> {
        let inner = agent.config().services.journal.unwrap();
        let looking = Arc::new(Self { inner, store: store.clone(), seen: Mutex::default() });
        agent.set_journal(Some(Arc::clone(&looking) as Arc<dyn Journal>));
        looking
    }

    fn look(&self) {
        self.seen.lock().unwrap().push(self.store.load_session("s-1").unwrap());
    }
}

#[async_trait]
impl Journal for Looking {
    async fn append(&self, entry: JournalEntry<'_>) -> Result<(), JournalError> {
        self.inner.append(entry).await?;
        self.look();
        Ok(())
    }

    async fn append_group(&self, entry: GroupEntry<'_>) -> Result<(), JournalError> {
        self.inner.append_group(entry).await?;
        self.look();
        Ok(())
    }
}

/// REQ-213: D30.
#[tokio::test]
async fn a_session_loads_at_every_record_of_a_group_and_shows_how_far_each_branch_is() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let store = kind.open(dir.path());
        let mut agent = agent();
        let _recorder = SessionRecorder::attach(&mut agent, store.clone());
        let looking = Looking::at(&mut agent, &store);
        agent.chat("hello").await.unwrap();
        let trunk = agent.history();
        let before = looking.seen.lock().unwrap().len();
        // The first branch waits until the others have ended.
        let latch = Latch::new();
        let model =
            Arc::new(ScriptedProvider::new([ScriptedReply::new().and_text("first").and_wait(&latch)]));
        let mut specs = specs();
        specs[0] = BranchSpec::asking("why?").configure(move |c| c.services.provider = model);
        let exploring = agent.explore_and_adopt(specs, judge("1"), EventSender::none());
        let opening = async {
            let is_over = |r: &&LoopRecord| r.status == LoopStatus::Completed;
            let ended = |s: &LoadedSession| branches(s).into_iter().filter(is_over).count();
            while looking.seen.lock().unwrap().last().is_none_or(|s| ended(s) < 2) {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            latch.open();
        };
        tokio::join!(exploring, opening).0.unwrap();
        let seen = looking.seen.lock().unwrap();
        let group = &seen[before..];
        assert_eq!(
            branches(&group[0]).iter().map(|r| r.status).collect::<Vec<_>>(),
            [LoopStatus::Pending; 3]
        );
        let mut mixed = 0;
        for (at, session) in group.iter().enumerate() {
            assert_tree_is_consistent(session);
            let json = serde_json::to_string(&**session).unwrap();
            assert_eq!(serde_json::from_str::<Session>(&json).unwrap(), **session);
            let statuses: Vec<_> = branches(session).iter().map(|r| r.status).collect();
            assert!(!statuses.contains(&LoopStatus::Interrupted), "no branch ends another: {statuses:?}");
            mixed += usize::from(statuses.windows(2).any(|w| w[0] != w[1]));
            // As long as none is selected, the conversation is what it was.
            let expect = if at + 1 == group.len() { agent.history() } else { trunk.clone() };
            assert_eq!(session.history().unwrap(), expect, "record {at}");
        }
        assert!(mixed > 0, "one branch goes on when others have ended");
    }
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

/// REQ-213: what a crash leaves of a group.
#[tokio::test]
async fn branches_that_were_cut_off_are_interrupted_and_each_can_be_gone_on_with() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let store = kind.open(dir.path());
        let mut agent = agent();
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        agent.chat("hello").await.unwrap();
        let trunk = agent.history();
        let latch = Latch::new();
        let waiting = |text: &str| {
            let model = ScriptedProvider::new([ScriptedReply::new().and_text(text).and_wait(&latch)]);
            BranchSpec::asking("go").configure(move |c| c.services.provider = Arc::new(model))
        };
        let exploration = agent.explore_branches([waiting("a"), waiting("b")]).unwrap();
        latch.reached().await;
        latch.reached().await;
        // What is on the disk now is what a killed process leaves.
        let copy = tempfile::tempdir().unwrap();
        match kind.is_in_folder() {
            true => copy_files(dir.path(), copy.path()),
            false => kind.copy(dir.path(), copy.path()),
        }
        exploration.abort();
        drop(exploration.finish().await.unwrap());
        drop(recorder);

        let copied = kind.open(copy.path());
        let session = copied.load_session("s-1").unwrap();
        let statuses: Vec<_> = branches(&session).iter().map(|r| r.status).collect();
        assert_eq!(statuses, [LoopStatus::Interrupted; 2]);
        assert_eq!(session.history().unwrap(), trunk);
        assert!(session.open_run().unwrap().is_none(), "the conversation itself was closed");
        for branch in branches(&session) {
            let run = session.open_run_of(&branch.loop_id).unwrap().expect("it can be driven on");
            assert_eq!(run.loop_id(), &branch.loop_id);
        }
        // And the agent goes on; the session keeps the branches.
        let mut again = self::agent().restore_unrecorded(&session).unwrap();
        let recorder = SessionRecorder::attach(&mut again, copied.clone());
        again.chat("more").await.unwrap();
        recorder.close().await.unwrap();
        let session = copied.load_session("s-1").unwrap();
        assert_tree_is_consistent(&session);
        assert_eq!(session.history().unwrap(), again.history());
        assert_eq!(branches(&session).len(), 2);
    }
}

/// REQ-213: a group may be the first thing in its session, and aborted branches are Aborted.
#[tokio::test]
async fn a_group_that_opens_its_session_and_is_aborted_is_recorded_so() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let store = kind.open(dir.path());
        let mut agent = agent();
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        let mut context = agent_core::AgentContext::new("p");
        context.session_id = Some("s-2".into());
        let cancel = CancellationToken::new();
        cancel.cancel();
        let configs = [agent.config(), agent.config()];
        let prompts = vec!["go".into()];
        let run =
            agent_loop_parallel(prompts, context, configs, PickFirstEvaluation, EventSender::none(), cancel);
        run.await.unwrap_err();
        recorder.close().await.unwrap();
        let session = store.load_session("s-2").unwrap();
        assert_tree_is_consistent(&session);
        assert_eq!(branches(&session).iter().map(|r| r.status).collect::<Vec<_>>(), [LoopStatus::Aborted; 2]);
        let group = session.loops[0].parallel_group.as_ref().unwrap();
        assert_eq!((&group.selected_loop_id, group.reason.is_some()), (&None, true));
        assert_eq!(session.root_loops().count(), 2);
    }
}

/// REQ-213: where the group cannot be written down, no branch is begun.
#[tokio::test]
async fn a_group_that_cannot_be_announced_asks_no_model() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path().join("sessions")).unwrap();
    std::fs::create_dir(dir.path().join("sessions/s-1.journal.jsonl")).unwrap();
    let model = echo();
    let mut agent = agent().with_provider(model.clone());
    let _recorder = SessionRecorder::attach(&mut agent, store);
    let (tx, events) = event_channel();
    let error = agent.explore_and_adopt(specs(), PickFirstEvaluation, tx).await.unwrap_err();
    assert!(error.to_string().contains("could not be recorded"), "{error}");
    assert!(model.requests().is_empty() && events.collect().await.is_empty());
}

/// What a branch does.
#[derive(Debug, Clone)]
enum Fate {
    Answers,
    Fails,
    Refused,
    Limited,
    Asks,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop::sample::select(vec![
        Fate::Answers,
        Fate::Answers,
        Fate::Fails,
        Fate::Refused,
        Fate::Limited,
        Fate::Asks,
    ])
}

fn spec(fate: &Fate) -> BranchSpec {
    let call = || ScriptedReply::call("c", "send", json!({})).and_text("half");
    let reply = match fate {
        Fate::Answers | Fate::Refused => ScriptedReply::text("answer"),
        Fate::Fails => ScriptedReply::error(ErrorKind::Auth, "bad key"),
        Fate::Limited | Fate::Asks => call(),
    };
    let tool = ScriptedTool::saying("send", "ok");
    let tool = if matches!(fate, Fate::Asks) { tool.asking("May I?") } else { tool };
    let fate = fate.clone();
    BranchSpec::asking("go").with_tools(vec![Arc::new(tool) as _]).configure(move |c| {
        c.services.provider = Arc::new(ScriptedProvider::new([reply]));
        if matches!(fate, Fate::Refused) {
            *c.hooks = agent_core::Hooks::new().before_loop(|_| async { false });
        }
        if matches!(fate, Fate::Limited) {
            c.policy.limits = Some(ExecutionLimits::unlimited().with_max_turns(1));
        }
    })
}

/// What a list says of the only session.
fn listed(store: &scene::Store) -> SessionSummary {
    let mut found = store.find_sessions(&SessionQuery::new()).unwrap();
    assert_eq!((found.sessions.len(), found.unreadable.len()), (1, 0));
    found.sessions.remove(0).summary
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scene::cases(40)))]

    /// REQ-213, REQ-218.
    #[test]
    fn whatever_becomes_of_branches_the_tree_is_consistent_and_loads_as_it_was(
        groups in prop::collection::vec(prop::collection::vec(fate(), 1..4), 1..4),
        kind in prop::sample::select(kinds()),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let store = kind.open(dir.path());
            let mut agent = agent();
            let recorder = SessionRecorder::attach(&mut agent, store.clone());
            let memory = SessionRecorder::new();
            for fates in &groups {
                let (tx, mut events) = event_channel();
                let specs: Vec<_> = fates.iter().map(spec).collect();
                let strategy = judge("1");
                let selected = agent.explore_and_adopt(specs, strategy, tx).await;
                while let Some(event) = events.try_recv() {
                    memory.on_event(&event);
                }
                prop_assert_eq!(selected.is_ok(), fates.iter().any(|f| matches!(f, Fate::Answers | Fate::Limited)));
                let (tx, mut events) = event_channel();
                agent.prompt_with_sender("next", tx).unwrap();
                agent.finish().await;
                while let Some(event) = events.try_recv() {
                    memory.on_event(&event);
                }
                let loaded = store.load_session("s-1").unwrap();
                assert_tree_is_consistent(&loaded);
                prop_assert_eq!(loaded.history().unwrap(), agent.history());
                prop_assert_eq!(listed(&store), SessionSummary::of(&loaded));
                assert_tree_is_consistent(&memory.session("s-1").unwrap());
                prop_assert_eq!(memory.session("s-1").unwrap().history().unwrap(), agent.history());
            }
            let journal = store.load_session("s-1").unwrap();
            recorder.close().await.unwrap();
            prop_assert_eq!(&*store.load_session("s-1").unwrap(), &*journal);
            prop_assert_eq!(listed(&store), SessionSummary::of(&journal));
            let statuses = |s: &Session| s.loops.iter().map(|r| (r.loop_id.clone(), r.status)).collect::<Vec<_>>();
            prop_assert_eq!(statuses(&memory.session("s-1").unwrap()), statuses(&journal));
            Ok(())
        })?;
    }
}

/// REQ-213: a selection that was not taken over is not what the conversation goes on from.
#[tokio::test]
async fn a_selected_branch_that_came_too_late_is_not_the_head() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let store = kind.open(dir.path());
        let mut agent = agent();
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        let latch = Latch::new();
        let model = Arc::new(ScriptedProvider::new([ScriptedReply::new().and_text("so").and_wait(&latch)]));
        let waiting = BranchSpec::asking("go").configure(move |c| c.services.provider = model);
        let exploring = agent.explore_and_adopt([waiting], PickFirstEvaluation, EventSender::none());
        let meanwhile = async {
            latch.reached().await;
            agent.chat("meanwhile").await.unwrap();
            latch.open();
        };
        let (result, ()) = tokio::join!(exploring, meanwhile);
        assert!(matches!(result, Err(agent_core::AgentError::ConversationWentOn)));
        recorder.close().await.unwrap();
        let session = store.load_session("s-1").unwrap();
        assert_tree_is_consistent(&session);
        assert_eq!(session.history().unwrap(), agent.history());
        let group = branches(&session)[0].parallel_group.clone().unwrap();
        let reason = group.reason.unwrap();
        assert!(
            !group.is_selected
                && reason.contains("was selected and not adopted: the conversation had changed"),
            "{reason}"
        );
    }
}

/// REQ-213, B-183: a fork holds one way, so the branch that it was taken from is what it goes on from.
#[tokio::test]
async fn a_fork_of_a_branch_that_was_not_selected_goes_on_from_that_branch() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let store = kind.open(dir.path());
        let mut agent = agent();
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        agent.chat("hello").await.unwrap();
        explored(&agent, "2", EventSender::none()).await;
        let session = recorder.session("s-1").unwrap();
        let third = branches(&session)[2];
        let wanted = session.history_after(third.loop_id.as_str()).unwrap().unwrap();
        assert_ne!(wanted, agent.history());
        let point = Point::new(third.loop_id.clone(), third.messages.len());
        let there = agent.fork(&store, &session, &point).await.unwrap();
        assert_eq!(agent.history(), wanted);
        let fork = store.load_session(there.session_id.as_str()).unwrap();
        assert_eq!(fork.head().unwrap().loop_id, third.loop_id);
        assert_eq!(fork.history().unwrap(), wanted);
        assert_eq!(fork.end_point(), Some(point));
        // Elsewhere, too; and both sessions keep their copies of the same loops apart.
        let mut again = self::agent().restore_unrecorded(&fork).unwrap();
        assert_eq!(again.history(), wanted);
        recorder.close().await.unwrap();
        let recorder = SessionRecorder::attach(&mut again, store.clone());
        again.chat("more").await.unwrap();
        recorder.close().await.unwrap();
        let fork = store.load_session(there.session_id.as_str()).unwrap();
        assert_eq!(fork.history().unwrap(), again.history());
        let origin = store.load_session("s-1").unwrap();
        assert_eq!(origin.loops, session.loops);
        store.delete_session("s-1").unwrap();
        assert_eq!(*store.load_session(there.session_id.as_str()).unwrap(), *fork);
    }
}

/// REQ-213: the judge's loop is the last one, and nobody goes on from it.
#[tokio::test]
async fn a_page_and_a_file_of_pi_say_which_branch_the_conversation_goes_on_from() {
    let mut agent = agent();
    let dir = tempfile::tempdir().unwrap();
    let recorder = SessionRecorder::attach(&mut agent, scene::Kind::Json.open(dir.path()));
    agent.chat("hello").await.unwrap();
    let result = explored(&agent, "2", EventSender::none()).await;
    let session = recorder.session("s-1").unwrap();
    assert_ne!(session.loops.last().unwrap().loop_id, result.selected.loop_id);

    let page = to_markdown(&session);
    assert!(page.contains(&format!("- continues from: loop {}\n", result.selected.loop_id)), "{page}");
    let marks: Vec<_> =
        page.lines().filter(|l| l.starts_with("Branch ") || l.starts_with("Judge of")).collect();
    assert_eq!(marks.len(), 4, "{marks:?}");
    assert!(marks[1].starts_with("Branch 2 of group ") && marks[1].ends_with(", selected"), "{marks:?}");

    let file = pi::export(&session).unwrap();
    let imported = pi::import(file.as_bytes(), Path::new("s-1.jsonl")).unwrap();
    assert_eq!(imported.losses, []);
    let texts =
        |h: &agent_core::History| h.messages().map(agent_core::AgentMessage::text).collect::<Vec<_>>();
    assert_eq!(texts(&imported.session.history().unwrap()), texts(&agent.history()));
    assert_eq!(pi::export(&imported.session).unwrap(), file);
}

/// REQ-213: an event of a group that names a session nobody knows is not lost work for the others.
#[test]
fn the_end_of_a_group_that_was_never_announced_changes_nothing() {
    let recorder = SessionRecorder::new();
    let end: AgentEvent = serde_json::from_value(json!({
        "type": "parallel_loop_end", "group_id": "s-9.parallel.x-group", "session_id": "s-9", "timestamp": 3
    }))
    .unwrap();
    recorder.on_event(&end);
    assert!(recorder.sessions().is_empty());
}

/// REQ-213: an agent may go on while branches of it run.
#[tokio::test]
async fn a_prompt_beside_running_branches_interrupts_none_of_them() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let store = kind.open(dir.path());
        let mut agent = agent();
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        agent.chat("hello").await.unwrap();
        let latch = Latch::new();
        let model = Arc::new(ScriptedProvider::new([ScriptedReply::new().and_text("so").and_wait(&latch)]));
        let waiting = BranchSpec::asking("go").configure(move |c| c.services.provider = model);
        let exploration = agent.explore_branches([waiting]).unwrap();
        latch.reached().await;
        agent.chat("meanwhile").await.unwrap();
        let session = store.load_session("s-1").unwrap();
        assert_eq!(branches(&session)[0].status, LoopStatus::Running);
        assert_eq!(session.history().unwrap(), agent.history());
        latch.open();
        let outcomes = exploration.finish().await.unwrap();
        recorder.close().await.unwrap();
        let session = store.load_session("s-1").unwrap();
        assert_tree_is_consistent(&session);
        assert_eq!(branches(&session)[0].status, LoopStatus::Completed);
        assert_eq!(session.history().unwrap(), agent.history(), "the branch is not the trunk");
        let history = session.history_after(outcomes[0].loop_id.as_str()).unwrap().unwrap();
        assert_eq!(history, outcomes[0].context.history);

        // Taken over after that, it is the trunk; and when the agent has gone on, its next loop is.
        let _recorder = SessionRecorder::attach(&mut agent, store.clone());
        agent.adopt_branch(&outcomes[0]).await.unwrap();
        let session = store.load_session("s-1").unwrap();
        assert_eq!(session.history().unwrap(), agent.history());
        assert_eq!(session.head().unwrap().loop_id, outcomes[0].loop_id);
        agent.chat("more").await.unwrap();
        let session = store.load_session("s-1").unwrap();
        assert_eq!(session.history().unwrap(), agent.history());
        assert_eq!(Some(session.head().unwrap().loop_id.clone()), agent.last_loop_id());
    }
}

/// Its process was killed while the branches ran. The next writer of the session knows that nobody runs them any more.
#[tokio::test]
async fn the_running_branches_of_a_killed_process_are_interrupted_for_the_next_writer() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let store = kind.open(dir.path());
        let mut session = Session::new("s-1".into(), "agent".into(), Timestamp(1));
        for index in 0..3 {
            let id = LoopId::from(format!("s-1.g.{index}"));
            let mut record = LoopRecord::new(id, "s-1".into(), "agent".into(), Timestamp(2));
            record.group = Some(GroupMember::new("g".into(), GroupRole::Branch { index }));
            record.status = [LoopStatus::Running, LoopStatus::Completed, LoopStatus::Running][index];
            session.loops.push(record);
        }
        store.save_session(&session).unwrap();
        let mut agent = agent();
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        agent.chat("And now?").await.unwrap();
        let statuses = |session: &Session| session.loops[..3].iter().map(|r| r.status).collect::<Vec<_>>();
        let expected = [LoopStatus::Interrupted, LoopStatus::Completed, LoopStatus::Interrupted];
        assert_eq!(statuses(&store.load_session("s-1").unwrap()), expected, "{kind:?}, while it is written");
        recorder.close().await.unwrap();
        assert_eq!(statuses(&store.load_session("s-1").unwrap()), expected, "{kind:?}");
    }
}
