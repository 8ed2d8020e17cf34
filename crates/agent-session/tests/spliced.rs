//! Files of sessions whose lines were cut, copied, exchanged or mixed with those of other sessions or of older copies.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod harm;
mod scene;

use std::path::Path;

use agent_core::ToolExecutionStrategy;
use agent_session::{
    BlockingSessionStore as _, JsonStore, LoadedSession, RestoreSession as _, SessionError, SessionRecorder,
};
use harm::is_noticed;
use proptest::prelude::*;
use scene::{Act, Play, agent, block_on, cases, perform};

const FILE: &str = "s-1.json";
const JOURNAL: &str = "s-1.journal.jsonl";

/// The files of a session at one moment; `None` for a file that does not exist.
#[derive(Debug, Clone, Default)]
struct Files {
    file: Option<Vec<u8>>,
    journal: Option<Vec<u8>>,
}

impl Files {
    fn read(dir: &Path) -> Self {
        let read = |name| std::fs::read(dir.join(name)).ok();
        Self { file: read(FILE), journal: read(JOURNAL) }
    }

    fn write(&self, dir: &Path) {
        for (name, bytes) in [(FILE, &self.file), (JOURNAL, &self.journal)] {
            match bytes {
                Some(bytes) => std::fs::write(dir.join(name), bytes).unwrap(),
                None => drop(std::fs::remove_file(dir.join(name))),
            }
        }
    }

    fn load(&self) -> Result<LoadedSession, SessionError> {
        let dir = tempfile::tempdir().unwrap();
        self.write(dir.path());
        JsonStore::open(dir.path()).unwrap().load_session("s-1")
    }
}

/// Records a session, with a save after each of these numbers of prompts, and returns its files after each prompt and after
/// each save.
fn moments(prompts: &[u64], saves: &[usize]) -> Vec<Files> {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let plays: Vec<Play> = prompts.iter().map(|n| Play::Text(usize::try_from(*n).unwrap())).collect();
    let mut moments = Vec::new();
    block_on(async {
        let mut agent = agent(&plays, ToolExecutionStrategy::Parallel);
        let recorder = SessionRecorder::attach(&mut agent, store);
        for n in 0..prompts.len() {
            perform(&agent, &[Act::Prompt(5)]).await;
            moments.push(Files::read(dir.path()));
            if saves.contains(&n) {
                recorder.save().await.unwrap();
                moments.push(Files::read(dir.path()));
            }
        }
        recorder.close().await.unwrap();
    });
    moments.push(Files::read(dir.path()));
    moments
}

/// The two files of a session of six loops that was saved in between, and the files of another session with the same ids.
fn two_sessions() -> [Files; 2] {
    [[3, 4, 5, 6, 7, 8], [13, 14, 15, 16, 17, 18]].map(|prompts| {
        let moments = moments(&prompts, &[2]);
        moments[moments.len() - 2].clone()
    })
}

/// One change of a file.
#[derive(Debug, Clone)]
enum Change {
    RemoveLine(usize),
    RepeatLine(usize, usize),
    SwapLines(usize, usize),
    ForeignLine(usize, usize),
    ReplaceLine(usize, usize),
    RemoveBytes(usize, usize),
    RepeatBytes(usize, usize, usize),
    ForeignBytes(usize, usize, usize),
    InsertByte(usize, u8),
    Append(usize),
    AppendForeign(usize),
    Truncate(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let n = || any::<usize>();
    prop_oneof![
        n().prop_map(Change::RemoveLine),
        (n(), n()).prop_map(|(a, b)| Change::RepeatLine(a, b)),
        (n(), n()).prop_map(|(a, b)| Change::SwapLines(a, b)),
        (n(), n()).prop_map(|(a, b)| Change::ForeignLine(a, b)),
        (n(), n()).prop_map(|(a, b)| Change::ReplaceLine(a, b)),
        (n(), 1..4_000_usize).prop_map(|(a, b)| Change::RemoveBytes(a, b)),
        (n(), n(), 1..4_000_usize).prop_map(|(a, b, c)| Change::RepeatBytes(a, b, c)),
        (n(), n(), 1..4_000_usize).prop_map(|(a, b, c)| Change::ForeignBytes(a, b, c)),
        (n(), any::<u8>()).prop_map(|(a, b)| Change::InsertByte(a, b)),
        n().prop_map(Change::Append),
        n().prop_map(Change::AppendForeign),
        n().prop_map(Change::Truncate),
    ]
}

impl Change {
    /// Applies the change to the bytes of a file; `other` is the same file of another session.
    fn apply(&self, bytes: &[u8], other: &[u8]) -> Vec<u8> {
        let mut lines: Vec<Vec<u8>> = bytes.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
        let foreign: Vec<&[u8]> = other.split_inclusive(|b| *b == b'\n').collect();
        let count = lines.len();
        let at = |n: &usize| n % bytes.len();
        let mut changed = bytes.to_vec();
        match self {
            Self::RemoveLine(n) => drop(lines.remove(n % count)),
            Self::RepeatLine(n, to) => lines.insert(to % (count + 1), lines[n % count].clone()),
            Self::SwapLines(a, b) => lines.swap(a % count, b % count),
            Self::ForeignLine(n, to) => lines.insert(to % (count + 1), foreign[n % foreign.len()].to_vec()),
            Self::ReplaceLine(n, to) => lines[to % count] = foreign[n % foreign.len()].to_vec(),
            Self::RemoveBytes(from, length) => {
                drop(changed.drain(at(from)..(at(from) + length).min(bytes.len())));
                return changed;
            }
            Self::RepeatBytes(from, to, length) => {
                let part = bytes[at(from)..(at(from) + length).min(bytes.len())].to_vec();
                drop(changed.splice(at(to)..at(to), part));
                return changed;
            }
            Self::ForeignBytes(from, to, length) => {
                let from = from % other.len();
                let part = other[from..(from + length).min(other.len())].to_vec();
                let end = (at(to) + part.len()).min(bytes.len());
                drop(changed.splice(at(to)..end, part));
                return changed;
            }
            Self::InsertByte(to, byte) => {
                changed.insert(at(to), *byte);
                return changed;
            }
            Self::Append(from) => {
                changed.extend_from_slice(&bytes[from % bytes.len()..]);
                return changed;
            }
            Self::AppendForeign(from) => {
                changed.extend_from_slice(&other[from % other.len()..]);
                return changed;
            }
            Self::Truncate(length) => {
                changed.truncate(at(length));
                return changed;
            }
        }
        lines.concat()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(400)) })]
    /// REQ-216. Attack 12.
    #[test]
    fn changed_files_are_an_error_or_the_same_session(
        changes in prop::collection::vec(change(), 1..4),
        is_journal in any::<bool>(),
    ) {
        static SESSIONS: std::sync::LazyLock<[Files; 2]> = std::sync::LazyLock::new(two_sessions);
        let [whole, other] = &*SESSIONS;
        let loaded = whole.load().unwrap();
        let mut files = whole.clone();
        let (slot, foreign) = match is_journal {
            true => (&mut files.journal, other.journal.as_ref().unwrap()),
            false => (&mut files.file, other.file.as_ref().unwrap()),
        };
        let bytes = slot.clone().unwrap();
        let mut changed = bytes.clone();
        for change in &changes {
            if !changed.is_empty() {
                changed = change.apply(&changed, foreign);
            }
        }
        // All of the other session's file instead of this one's is a consistent file of another session of this name.
        prop_assume!(changed != *foreign);
        *slot = Some(changed);
        let dir = tempfile::tempdir().unwrap();
        files.write(dir.path());
        let store = JsonStore::open(dir.path()).unwrap();
        let what = || format!("{changes:?} of the {}", if is_journal { "journal" } else { "file" });
        let noticed = is_noticed(Ok(&store), &loaded, &what);
        // Whatever was done, a damaged session can be salvaged, or that is an error, too.
        if let Ok(salvaged) = store.salvage_session("s-1") {
            prop_assert!(!noticed || !salvaged.losses.is_empty(), "{}", what());
        }
    }
}

/// A file and a journal of different moments of a session: the newest state, or an error.
#[test]
fn files_of_different_moments_are_an_error_or_the_newest_session() {
    let moments = moments(&[3, 4, 5, 6, 7, 8], &[1, 3]);
    let (mut errors, mut same) = (0, 0);
    for (n, of_file) in moments.iter().enumerate() {
        for (m, of_journal) in moments.iter().enumerate() {
            let mixed = Files { file: of_file.file.clone(), journal: of_journal.journal.clone() };
            let is_copy = |of: &Files| of.file == mixed.file && of.journal == mixed.journal;
            if moments.iter().any(is_copy) || (mixed.journal.is_none() && mixed.file.is_none()) {
                // Nothing tells that both files are those of an earlier moment.
                continue;
            }
            // What the two files contain together.
            let alone = Files { file: mixed.file.clone(), journal: None };
            let newest = [&alone, of_journal].map(|files| files.load().map_or(0, |s| s.loops.len()));
            match mixed.load() {
                Ok(loaded) => {
                    assert!(loaded.loops.len() >= newest.into_iter().max().unwrap(), "file {n}, journal {m}");
                    loaded.history().unwrap();
                    same += 1;
                }
                Err(SessionError::Corrupt { .. }) => errors += 1,
                Err(other) => panic!("file {n}, journal {m}: {other}"),
            }
        }
    }
    assert!(errors > 10 && same > 5, "{errors} errors, {same} loaded");
}

/// A file that was saved without a record, so that its number of records is that of the file before it.
#[test]
fn an_older_file_with_the_same_number_of_records_is_not_taken_for_the_newer_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    moments(&[3], &[]).last().unwrap().write(dir.path());
    let mut session = store.load_session("s-1").unwrap().into_session();
    let older = std::fs::read(dir.path().join(FILE)).unwrap();
    session.loops[0].metadata = serde_json::json!({ "note": "added by the program" });
    session.loops.push(agent_session::LoopRecord::new(
        "s-1.imported.1".into(),
        "s-1".into(),
        session.agent_id.clone(),
        session.last_active_at,
    ));
    store.save_session(&session).unwrap();
    block_on(async {
        let next = agent(&[Play::Text(4)], ToolExecutionStrategy::Parallel);
        let (next, recorder) = next.restore_session(store.clone(), "s-1").await.unwrap();
        perform(&next, &[Act::Prompt(5)]).await;
        std::mem::forget((next, recorder));
    });
    let whole = store.load_session("s-1").unwrap();
    assert_eq!(whole.loops.len(), 3);
    let newer = std::fs::read(dir.path().join(FILE)).unwrap();
    for replaced in [Some(older), None] {
        match replaced {
            Some(older) => std::fs::write(dir.path().join(FILE), older).unwrap(),
            None => std::fs::remove_file(dir.path().join(FILE)).unwrap(),
        }
        let error = store.load_session("s-1").unwrap_err();
        assert!(matches!(error, SessionError::Corrupt { .. }), "{error}");
    }
    std::fs::write(dir.path().join(FILE), newer).unwrap();
    assert_eq!(store.load_session("s-1").unwrap(), whole);
}

/// Continues the session of these files on a machine of its own, with a save after each of these numbers of prompts, and returns
/// its files after each prompt and after each save.
fn continued(files: &Files, prompts: &[u64], saves: &[usize]) -> Vec<Files> {
    let dir = tempfile::tempdir().unwrap();
    files.write(dir.path());
    let store = JsonStore::open(dir.path()).unwrap();
    let plays: Vec<Play> = prompts.iter().map(|n| Play::Text(usize::try_from(*n).unwrap())).collect();
    let mut moments = Vec::new();
    block_on(async {
        let agent = agent(&plays, ToolExecutionStrategy::Parallel);
        let (agent, recorder) = agent.restore_session(store, "s-1").await.unwrap();
        for n in 0..prompts.len() {
            perform(&agent, &[Act::Prompt(5)]).await;
            moments.push(Files::read(dir.path()));
            if saves.contains(&n) {
                recorder.save().await.unwrap();
                moments.push(Files::read(dir.path()));
            }
        }
        // As a killed process leaves them.
        std::mem::forget((agent, recorder));
    });
    moments
}

/// Two machines continue copies of one session, and a third session has the same id: every file with every journal, and each of
/// them alone, is one of these sessions, or an error that names both files and the way out.
#[test]
fn files_and_journals_of_two_histories_are_never_taken_for_one_session() {
    let begun = moments(&[3, 4], &[0]);
    let begun = &begun[begun.len() - 2];
    let mut all = vec![begun.clone()];
    all.extend(continued(begun, &[5, 6, 7], &[1]));
    all.extend(continued(begun, &[15, 16, 17, 18], &[0, 2]));
    all.extend(moments(&[23, 24, 25, 26], &[1]));
    let sessions: Vec<LoadedSession> = all.iter().map(|files| files.load().unwrap()).collect();
    let (mut errors, mut same) = (0, 0);
    let none = Files::default();
    for (n, of_file) in all.iter().chain([&none]).enumerate() {
        for (m, of_journal) in all.iter().chain([&none]).enumerate() {
            let mixed = Files { file: of_file.file.clone(), journal: of_journal.journal.clone() };
            if mixed.file.is_none() && mixed.journal.is_none() {
                continue;
            }
            let label = format!("file {n}, journal {m}");
            match mixed.load() {
                Ok(loaded) => {
                    assert!(sessions.contains(&loaded), "{label}");
                    // It is the session of both files, as far as there are two.
                    let is_of = |files: &Files| files.load().is_ok_and(|session| session == loaded);
                    let at_least_one = (mixed.file.is_some() && is_of(of_file)) || is_of(of_journal);
                    assert!(at_least_one, "{label}");
                    same += 1;
                }
                Err(error @ SessionError::Corrupt { .. }) => {
                    let text = error.to_string();
                    assert!(
                        text.contains(FILE) && text.contains(JOURNAL) && text.contains("salvage"),
                        "{label}: {text}"
                    );
                    errors += 1;
                    let dir = tempfile::tempdir().unwrap();
                    mixed.write(dir.path());
                    let salvaged = JsonStore::open(dir.path()).unwrap().salvage_session("s-1").unwrap();
                    assert!(!salvaged.losses.is_empty(), "{label}");
                }
                Err(other) => panic!("{label}: {other}"),
            }
        }
    }
    assert!(errors > 100 && same > 20, "{errors} errors, {same} loaded");
}

/// The journal of a session that was saved before is removed: that is noticed, also by a writer and a list. Without a crash it is
/// written by a save again.
#[test]
fn a_journal_that_was_removed_is_missed() {
    let moments = moments(&[3, 4, 5], &[0]);
    let with_both: Vec<&Files> = moments.iter().filter(|f| f.file.is_some() && f.journal.is_some()).collect();
    assert_eq!(with_both.len(), 2);
    for files in with_both {
        let dir = tempfile::tempdir().unwrap();
        Files { file: files.file.clone(), journal: None }.write(dir.path());
        let store = JsonStore::open(dir.path()).unwrap();
        let text = store.load_session("s-1").unwrap_err().to_string();
        assert!(text.contains(FILE) && text.contains(JOURNAL) && text.contains("salvage"), "{text}");
        assert!(matches!(store.write_session("s-1"), Err(SessionError::Corrupt { .. })));
        let found = store.find_sessions(&agent_session::SessionQuery::new()).unwrap();
        assert_eq!((found.sessions.len(), found.unreadable.len()), (0, 1));
        let salvaged = store.salvage_session("s-1").unwrap();
        assert_eq!((salvaged.session.loops.len(), salvaged.losses.len()), (1, 1), "{:?}", salvaged.losses);
        // The journal is put back.
        files.write(dir.path());
        assert_eq!(store.load_session("s-1").unwrap(), files.load().unwrap());
    }
}

/// A save that cannot remove the journal has replaced the file: the records after it belong to the new file.
#[test]
fn records_after_a_save_that_could_not_remove_the_journal_belong_to_the_new_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let journal = dir.path().join(JOURNAL);
    block_on(async {
        let plays = [Play::Text(3), Play::Text(4), Play::Text(5)];
        let mut agent = agent(&plays, ToolExecutionStrategy::Parallel);
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        perform(&agent, &[Act::Prompt(5)]).await;
        std::fs::rename(&journal, dir.path().join("aside")).unwrap();
        std::fs::create_dir(&journal).unwrap();
        let error = recorder.save().await.unwrap_err().to_string();
        assert!(error.contains(JOURNAL), "{error}");
        std::fs::remove_dir(&journal).unwrap();
        for n in 2..4 {
            perform(&agent, &[Act::Prompt(5)]).await;
            let loaded = store.load_session("s-1").unwrap();
            assert_eq!((loaded.loops.len(), loaded.history().unwrap()), (n, agent.history()));
        }
        recorder.close().await.unwrap();
        assert_eq!(store.load_session("s-1").unwrap().history().unwrap(), agent.history());
    });
}
