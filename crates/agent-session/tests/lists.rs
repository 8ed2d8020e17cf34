//! Lists and searches of a directory of sessions, which do not load them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod scene;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent_core::ToolExecutionStrategy;
use agent_core::compat::SeedSetters as _;
use agent_core::testing::{ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{BasicAgent, GroupMember, GroupRole, LoopId, ModelConfig, RunEnd, Timestamp};
use agent_session::{
    BlockingSessionStore, FoundSessions, JsonStore, LoopRecord, LoopStatus, OpenRuns, Order,
    ParallelGroupRecord, Session, SessionError, SessionQuery, SessionRecorder, SessionSummary, SortBy,
    TextHit,
};
use proptest::prelude::*;
use scene::{Act, Kind, Looking, Play, act, agent, block_on, cases, kinds, perform, play};

fn find(store: &dyn BlockingSessionStore, query: &SessionQuery) -> FoundSessions {
    store.find_sessions(query).unwrap()
}

/// A list and two searches of the sessions of a directory must return what a load of each session returns.
fn agrees(store: &dyn BlockingSessionStore) {
    let listed = find(store, &SessionQuery::new().sorted(SortBy::Id, Order::Ascending));
    assert!(listed.unreadable.is_empty(), "{:?}", listed.unreadable);
    let mut ids = store.list_session_ids().unwrap();
    ids.sort();
    let summaries: Vec<SessionSummary> = listed.sessions.into_iter().map(|found| found.summary).collect();
    let loaded: Vec<Session> =
        ids.iter().map(|id| store.load_session(id.as_str()).unwrap().into_session()).collect();
    let expected: Vec<SessionSummary> = loaded.iter().map(SessionSummary::of).collect();
    assert_eq!(summaries, expected);
    for text in ["word quoted", "prompt", "nowhere"] {
        let query = SessionQuery::new().with_text(text).sorted(SortBy::Id, Order::Ascending);
        let hits: Vec<Vec<TextHit>> = find(store, &query).sessions.into_iter().map(|f| f.hits).collect();
        let expected: Vec<Vec<TextHit>> =
            loaded.iter().filter_map(|session| Some(query.matches(session).unwrap()?.hits)).collect();
        assert_eq!(hits, expected, "{text}");
    }
    let open = store.list_open_session_ids().unwrap();
    for session in &loaded {
        let can_be_open = session.head().is_some_and(LoopRecord::is_open);
        assert!(!can_be_open || open.contains(&session.session_id), "{open:?}");
    }
    let mut listed = store.list_unfinished().unwrap();
    assert!(listed.unreadable.is_empty(), "{:?}", listed.unreadable);
    listed.runs.sort_by(|a, b| a.session_id.cmp(&b.session_id));
    let deferring = store.list_deferring_session_ids().unwrap();
    let mut expected = Vec::new();
    for id in &ids {
        let session = store.load_session(id.as_str()).unwrap();
        assert!(session.deferred().unwrap().is_empty() || deferring.contains(id), "{deferring:?}");
        expected.extend(session.unfinished().unwrap());
    }
    assert_eq!(listed.runs, expected);
}

/// Earlier versions wrote a session as one JSON value. Lists of such files must return what a load returns, too.
fn agrees_in_form_1(store: &dyn BlockingSessionStore) {
    let dir = tempfile::tempdir().unwrap();
    for id in store.list_session_ids().unwrap() {
        let session = store.load_session(id.as_str()).unwrap().into_session();
        std::fs::write(dir.path().join(format!("{id}.json")), serde_json::to_vec(&session).unwrap()).unwrap();
    }
    agrees(&JsonStore::open(dir.path()).unwrap());
}

/// Copies a directory as a killed process would leave it.
fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Performs the acts. After each record and after each act, lists are compared with loads, both of the directory that is being
/// written and of a copy whose writer is gone.
async fn law(kind: Kind, plays: Vec<Play>, acts: Vec<Act>, strategy: ToolExecutionStrategy) {
    let dir = tempfile::tempdir().unwrap();
    let store = kind.open(dir.path());
    let mut agent = agent(&plays, strategy);
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    let looking = Looking::at(&mut agent, &store, {
        let store = store.clone();
        move |_, _| agrees(&*store)
    });
    for (n, act) in acts.iter().enumerate() {
        perform(&agent, std::slice::from_ref(act)).await;
        if kind == Kind::Json {
            let copied = tempfile::tempdir().unwrap();
            copy(&dir.path().join("sessions"), copied.path());
            agrees(&JsonStore::open(copied.path()).unwrap());
        }
        if n % 3 == 2 {
            recorder.save().await.unwrap();
            agrees(&*store);
        }
    }
    looking.assert_fine();
    recorder.close().await.unwrap();
    agrees(&*store);
    agrees_in_form_1(&*store);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(24)) })]
    #[test]
    fn a_list_returns_what_a_load_returns_at_every_moment(
        plays in prop::collection::vec(play(), 1..8),
        acts in prop::collection::vec(act(), 1..8),
        is_parallel in any::<bool>(),
    ) {
        let strategy =
            if is_parallel { ToolExecutionStrategy::Parallel } else { ToolExecutionStrategy::Sequential };
        for kind in kinds() {
            block_on(law(*kind, plays.clone(), acts.clone(), strategy));
        }
    }
}

/// A directory with a session that is being written, whose run has ended.
struct Open {
    dir: tempfile::TempDir,
    store: JsonStore,
    agent: BasicAgent,
    recorder: SessionRecorder,
}

impl Open {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = JsonStore::open(dir.path()).unwrap();
        let mut agent = BasicAgent::new(ModelConfig::default())
            .with_session_id("s-1")
            .with_environment(Arc::new(ManualEnvironment::skipping(1_000)))
            .with_provider(ScriptedProvider::responding(|_| ScriptedReply::text("It is here.")));
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        agent.chat("Where is it?").await.unwrap();
        Self { dir, store, agent, recorder }
    }

    fn journal(&self) -> PathBuf {
        self.dir.path().join("s-1.journal.jsonl")
    }

    fn list(&self) -> FoundSessions {
        find(&self.store, &SessionQuery::new())
    }

    fn summary(&self) -> SessionSummary {
        let mut found = self.list();
        assert!(found.unreadable.is_empty(), "{:?}", found.unreadable);
        found.sessions.pop().unwrap().summary
    }
}

/// Flips a bit in the last record. Whoever reads the records notices it.
fn damage_last_record(journal: &Path) {
    let mut bytes = std::fs::read(journal).unwrap();
    let at = bytes.len() - 10;
    bytes[at] ^= 1;
    std::fs::write(journal, bytes).unwrap();
}

#[tokio::test]
async fn a_list_does_not_read_the_records_of_a_journal() {
    let open = Open::new().await;
    for is_saved in [false, true] {
        if is_saved {
            open.recorder.save().await.unwrap();
            open.agent.chat("And now?").await.unwrap();
        }
        let before = open.summary();
        assert_eq!(before, SessionSummary::of(&open.store.load_session("s-1").unwrap()));
        let intact = std::fs::read(open.journal()).unwrap();
        damage_last_record(&open.journal());
        assert!(matches!(open.store.load_session("s-1"), Err(SessionError::Corrupt { .. })));
        assert_eq!(open.summary(), before);
        let found = find(&open.store, &SessionQuery::new().with_text("where here"));
        assert!(found.sessions.is_empty() && found.unreadable.is_empty());
        assert_eq!(find(&open.store, &SessionQuery::new().with_text("where")).total, 1);
        // A session whose run has ended is not loaded.
        let unfinished = OpenRuns::unfinished(&open.store).await.unwrap();
        assert!(unfinished.runs.is_empty() && unfinished.unreadable.is_empty());
        std::fs::write(open.journal(), intact).unwrap();
    }
}

#[tokio::test]
async fn a_session_whose_journal_and_summary_differ_is_loaded() {
    let open = Open::new().await;
    let before = open.summary();
    let intact = std::fs::read(open.journal()).unwrap();
    // A writer that was killed while it wrote a record.
    std::fs::write(open.journal(), [&intact[..], b"{\"crc\":\"01"].concat()).unwrap();
    assert_eq!(open.summary(), before);
    let mut damaged = intact.clone();
    damaged[intact.len() - 10] ^= 1;
    std::fs::write(open.journal(), [&damaged[..], b"{\"crc\":\"01"].concat()).unwrap();
    assert_eq!(open.list().unreadable.len(), 1, "the whole journal was read");
    // Records that were acknowledged are missing.
    let lines: Vec<&[u8]> = intact.split_inclusive(|byte| *byte == b'\n').collect();
    std::fs::write(open.journal(), lines[..lines.len() - 1].concat()).unwrap();
    assert_eq!(open.list().unreadable.len(), 1);
    std::fs::write(open.journal(), &intact).unwrap();
    assert_eq!(open.summary(), before);
}

/// The open run of a session is in its summary, in both stores, also after a save.
#[tokio::test]
async fn open_runs_are_listed_without_reading_the_records() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let mut agent = BasicAgent::new(ModelConfig::default())
        .with_session_id("s-1")
        .with_provider(ScriptedProvider::new([ScriptedReply::call("c1", "deploy", serde_json::json!({}))]))
        .with_tool(ScriptedTool::saying("deploy", "deployed").asking("Deploy?"));
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    let end = agent.prompt("Deploy it.").unwrap().end().await;
    assert!(matches!(end, RunEnd::Suspended(_)), "{end:?}");
    let expected = store.load_session("s-1").unwrap().unfinished().unwrap().unwrap();
    assert_eq!((expected.prompt.as_str(), expected.questions.len()), ("Deploy it.", 1));
    for name in ["s-1.journal.jsonl", "s-1.json"] {
        let path = dir.path().join(name);
        damage_last_record(&path);
        assert!(matches!(store.load_session("s-1"), Err(SessionError::Corrupt { .. })), "{name}");
        let found = OpenRuns::unfinished(&store).await.unwrap();
        assert!(found.unreadable.is_empty(), "{name}: {:?}", found.unreadable);
        assert_eq!(found.runs, std::slice::from_ref(&expected), "{name}");
        assert!(OpenRuns::deferred(&store).await.unwrap().unreadable.is_empty(), "{name}: it was not loaded");
        damage_last_record(&path);
        recorder.save().await.unwrap();
    }
}

/// The session that was written last comes first.
#[tokio::test]
async fn open_runs_are_listed_in_the_order_in_which_their_sessions_were_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    for id in ["s-1", "s-2", "s-3"] {
        let mut agent = BasicAgent::new(ModelConfig::default())
            .with_session_id(id)
            .with_provider(ScriptedProvider::new([ScriptedReply::call(
                "c1",
                "deploy",
                serde_json::json!({}),
            )]))
            .with_tool(ScriptedTool::saying("deploy", "deployed").asking("Deploy?"));
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        let end = agent.prompt("Deploy it.").unwrap().end().await;
        assert!(matches!(end, RunEnd::Suspended(_)), "{end:?}");
        recorder.close().await.unwrap();
    }
    let listed = || async {
        let found = OpenRuns::unfinished(&store).await.unwrap();
        found.runs.into_iter().map(|run| run.session_id.to_string()).collect::<Vec<_>>()
    };
    for order in [["s-2", "s-1", "s-3"], ["s-3", "s-1", "s-2"], ["s-1", "s-2", "s-3"]] {
        for (age, id) in order.into_iter().enumerate() {
            let written = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000 - age as u64);
            let file = std::fs::File::options().write(true).open(store.path_of(id).unwrap()).unwrap();
            file.set_modified(written).unwrap();
        }
        assert_eq!(listed().await, order);
    }
}

/// The branches of a group are the head only if they were selected, or if they are the copy that a fork has.
#[test]
fn groups_and_forks_of_form_1_are_listed_with_the_status_of_their_head() {
    for (origin, expected) in [("s-1", LoopStatus::Completed), ("another", LoopStatus::Failed)] {
        let dir = tempfile::tempdir().unwrap();
        let store = JsonStore::open(dir.path()).unwrap();
        let mut session = Session::new("s-1".into(), "a".into(), Timestamp(1));
        let ids = ["g.0", "g.1"].map(LoopId::from);
        for (index, status) in [LoopStatus::Completed, LoopStatus::Failed].into_iter().enumerate() {
            let mut record = LoopRecord::new(ids[index].clone(), origin.into(), "a".into(), Timestamp(2));
            record.status = status;
            record.group = Some(GroupMember::new("g".into(), GroupRole::Branch { index }));
            let mut group = ParallelGroupRecord::of(ids.clone());
            group.is_selected = index == 0;
            record.parallel_group = Some(group);
            session.loops.push(record);
        }
        store.save_session(&session).unwrap();
        agrees(&store);
        let file = serde_json::to_vec(&session).unwrap();
        std::fs::write(store.path_of("s-1").unwrap(), file).unwrap();
        agrees(&store);
        let found = find(&store, &SessionQuery::new());
        assert_eq!(found.sessions[0].summary.status, Some(expected), "{origin}");
    }
}

/// A file of form 1 has no summary of its open run, so the session is loaded, but only if its status can be that of one.
#[test]
fn a_finished_session_of_form_1_is_not_loaded_for_the_list_of_open_runs() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let mut session = Session::new("s-1".into(), "a".into(), Timestamp(1));
    session.loops.push(LoopRecord::new("s-1.m.0".into(), "s-1".into(), "a".into(), Timestamp(2)));
    for (status, unreadable) in
        [(LoopStatus::Completed, 0), (LoopStatus::Failed, 0), (LoopStatus::Suspended, 1)]
    {
        session.loops[0].status = status;
        let mut file = serde_json::to_value(&session).unwrap();
        // No load succeeds.
        file["loops"][0]["events"] = "none".into();
        std::fs::write(dir.path().join("s-1.json"), file.to_string()).unwrap();
        assert!(store.load_session("s-1").is_err());
        let found = store.list_unfinished().unwrap();
        assert!(found.runs.is_empty());
        assert_eq!(found.unreadable.len(), unreadable, "{status:?}");
    }
}

/// A question that is too long for the line of the journal is read from the records.
#[tokio::test]
async fn an_open_run_that_does_not_fit_into_the_summary_is_not_lost() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let mut agent = BasicAgent::new(ModelConfig::default())
        .with_session_id("s-1")
        .with_provider(ScriptedProvider::new([ScriptedReply::call("c1", "deploy", serde_json::json!({}))]))
        .with_tool(ScriptedTool::saying("deploy", "deployed").asking("Deploy? ".repeat(1_000)));
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    let end = agent.prompt("Deploy it.").unwrap().end().await;
    assert!(matches!(end, RunEnd::Suspended(_)), "{end:?}");
    agrees(&store);
    assert_eq!(store.list_unfinished().unwrap().runs[0].questions[0].text.len(), 8_000);
    recorder.close().await.unwrap();
    agrees(&store);
}

/// A summary that does not fit into its line is not written, and the session is loaded.
#[tokio::test]
async fn a_summary_that_is_too_long_for_its_line_is_not_lost() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let mut agent = BasicAgent::new(ModelConfig::default())
        .with_agent_id("long ".repeat(1_000))
        .with_session_id("s-1")
        .with_provider(ScriptedProvider::responding(|_| ScriptedReply::text("It is here.")));
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    agent.chat("Where is it?").await.unwrap();
    agrees(&store);
    agent.chat("And now?").await.unwrap();
    agrees(&store);
    recorder.close().await.unwrap();
    agrees(&store);
}
