//! Databases of which a bit, a page or an end is damaged.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::print_stdout, reason = "figures for whoever runs it")]

mod harm;
mod scene;

use std::path::{Path, PathBuf};

use agent_core::ToolExecutionStrategy;
use agent_session::{BlockingSessionStore, LoadedSession, SessionError, SessionRecorder, SqliteStore};
use harm::{is_noticed, step};
use rusqlite::Connection;
use scene::{Act, Play, agent, block_on, perform};

/// The smallest page, so that few bytes have no meaning.
const PAGE: usize = 512;

/// The files of a database at one moment.
#[derive(Clone)]
struct Files {
    database: Vec<u8>,
    log: Vec<u8>,
    mark: Vec<u8>,
}

fn path(dir: &Path, ending: &str) -> PathBuf {
    dir.join(format!("sessions.db{ending}"))
}

impl Files {
    fn read(dir: &Path) -> Self {
        let read = |ending: &str| std::fs::read(path(dir, ending)).unwrap_or_default();
        Self { database: read(""), log: read("-wal"), mark: read(".mark") }
    }

    fn write(&self, dir: &Path) {
        let _ = std::fs::remove_file(path(dir, "-shm"));
        for (ending, bytes) in [("", &self.database), ("-wal", &self.log), (".mark", &self.mark)] {
            std::fs::write(path(dir, ending), bytes).unwrap();
        }
        if self.log.is_empty() {
            std::fs::remove_file(path(dir, "-wal")).unwrap();
        }
    }
}

/// A session of three turns in lines and one more in records: the files after the last record, those after a checkpoint,
/// and the session.
fn recorded() -> (Files, Files, LoadedSession) {
    let dir = tempfile::tempdir().unwrap();
    let setup = format!("PRAGMA page_size = {PAGE}; PRAGMA journal_mode = WAL;");
    Connection::open(path(dir.path(), "")).unwrap().execute_batch(&setup).unwrap();
    let store = SqliteStore::open(path(dir.path(), "")).unwrap();
    let plays = [Play::Calls(vec!["fail"]), Play::Text(100), Play::Text(3), Play::Text(9)];
    block_on(async {
        let mut agent = agent(&plays, ToolExecutionStrategy::Parallel);
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        perform(&agent, &[Act::Prompt(100), Act::Prompt(2)]).await;
        recorder.save().await.unwrap();
        perform(&agent, &[Act::Prompt(3)]).await;
        // As a killed process leaves it.
        std::mem::forget((recorder, agent));
    });
    let killed = Files::read(dir.path());
    let whole = store.load_session("s-1").unwrap();
    assert_eq!(whole.loops.iter().map(|r| r.turns.len()).sum::<usize>(), 4);
    let connection = Connection::open(path(dir.path(), "")).unwrap();
    connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let done = Files::read(dir.path());
    assert!(done.log.is_empty() && killed.log.len() > 10 * PAGE && done.database.len().is_multiple_of(PAGE));
    (killed, done, whole)
}

/// Damages the files, and returns whether that is noticed.
#[track_caller]
fn notices(dir: &Path, files: &Files, whole: &LoadedSession, what: &dyn Fn() -> String) -> bool {
    files.write(dir);
    let opened = SqliteStore::open(path(dir, ""));
    // SQLite reports a page behind the end of a cut file as a failed read.
    let is_failed_read = |error: &SessionError| matches!(error, SessionError::Database { .. });
    match opened.and_then(|store| store.load_session("s-1").map(|_| store)) {
        Err(error) if is_failed_read(&error) => true,
        Err(error) => is_noticed(Err(error), whole, what),
        Ok(store) => is_noticed(Ok(&store), whole, what),
    }
}

/// Flips bits of one of the files.
fn flip(
    name: &str,
    files: &Files,
    whole: &LoadedSession,
    usual: usize,
    bytes: fn(&mut Files) -> &mut Vec<u8>,
) {
    let dir = tempfile::tempdir().unwrap();
    let length = bytes(&mut files.clone()).len();
    let (mut noticed, mut all) = (0, 0);
    for bit in (0..length * 8).step_by(step(usual)) {
        let mut flipped = files.clone();
        bytes(&mut flipped)[bit / 8] ^= 1 << (bit % 8);
        let what = || format!("{name}, bit {bit} of {}", length * 8);
        noticed += usize::from(notices(dir.path(), &flipped, whole, &what));
        all += 1;
    }
    println!("{name}: {noticed} of {all} flipped bits are errors, the others change nothing");
    assert!(noticed * 4 > all, "{noticed} of {all} in {name}");
}

/// REQ-216. Attack 12.
#[test]
fn every_flipped_bit_of_a_database_is_noticed_or_changes_nothing() {
    let (_, done, whole) = recorded();
    flip("database", &done, &whole, 211, |files| &mut files.database);
}

/// REQ-216. Attack 12. The end of a damaged log is dropped by SQLite without an error.
#[cfg(target_os = "linux")]
#[test]
fn every_flipped_bit_of_a_log_is_noticed_or_changes_nothing() {
    let (killed, _, whole) = recorded();
    flip("log", &killed, &whole, 1_009, |files| &mut files.log);
}

#[test]
fn every_flipped_bit_of_the_mark_is_noticed_or_changes_nothing() {
    let (_, done, whole) = recorded();
    let dir = tempfile::tempdir().unwrap();
    for bit in (0..done.mark.len() * 8).step_by(step(7)) {
        let mut flipped = done.clone();
        flipped.mark[bit / 8] ^= 1 << (bit % 8);
        notices(dir.path(), &flipped, &whole, &|| format!("mark, bit {bit}"));
    }
}

/// REQ-216.
#[cfg(target_os = "linux")]
#[test]
fn every_truncation_of_a_database_and_of_its_log_is_noticed() {
    let (killed, done, whole) = recorded();
    let dir = tempfile::tempdir().unwrap();
    let mut noticed = 0;
    let lengths = (0..done.database.len()).step_by(step(7) * 31);
    for length in lengths.clone() {
        let mut cut = done.clone();
        cut.database.truncate(length);
        noticed += usize::from(notices(dir.path(), &cut, &whole, &|| format!("length {length}")));
    }
    // The bytes behind the last row of the last page have no meaning.
    assert!(noticed + PAGE / (step(7) * 31) + 1 >= lengths.len(), "{noticed} of {}", lengths.len());
    for length in (0..killed.log.len()).step_by(step(7) * 61) {
        let mut cut = killed.clone();
        cut.log.truncate(length);
        let what = || format!("log of {length} bytes of {}", killed.log.len());
        assert!(notices(dir.path(), &cut, &whole, &what), "{}", what());
    }
}

#[test]
fn pages_of_zeros_are_noticed_and_what_is_on_the_others_is_salvaged() {
    let (_, done, whole) = recorded();
    let dir = tempfile::tempdir().unwrap();
    let (mut noticed, mut salvaged) = (0, 0);
    for page in 0..done.database.len() / PAGE {
        let mut zeroed = done.clone();
        zeroed.database[page * PAGE..(page + 1) * PAGE].fill(0);
        let is_noticed = notices(dir.path(), &zeroed, &whole, &|| format!("page {page}"));
        noticed += usize::from(is_noticed);
        if is_noticed
            && let Ok(store) = SqliteStore::open(path(dir.path(), ""))
            && let Ok(found) = store.salvage_session("s-1")
        {
            salvaged += 1;
            assert!(!found.losses.is_empty(), "page {page}");
            assert!(found.losses.iter().all(|loss| loss.place.contains("session s-1")), "{:?}", found.losses);
        }
    }
    println!("{noticed} pages are noticed, {salvaged} of these sessions are salvaged");
    assert!(noticed > 20 && salvaged > 10, "{noticed}, {salvaged}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_database_without_its_log_says_what_to_do_and_opens_when_the_loss_is_accepted() {
    let (killed, _, whole) = recorded();
    let dir = tempfile::tempdir().unwrap();
    for name in ["no log", "nothing", "database"] {
        let mut files = killed.clone();
        files.log.clear();
        if name == "nothing" {
            files.database.clear();
        }
        files.write(dir.path());
        if name == "database" {
            // A database that was deleted is a new one.
            std::fs::remove_file(path(dir.path(), "")).unwrap();
            assert!(SqliteStore::open(path(dir.path(), "")).unwrap().list_session_ids().unwrap().is_empty());
            continue;
        }
        let before = std::fs::read(path(dir.path(), "")).unwrap();
        let error = SqliteStore::open(path(dir.path(), "")).unwrap_err();
        assert!(matches!(error, SessionError::Corrupt { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("-wal") && text.contains("open_with_losses"), "{name}: {text}");
        assert_eq!(
            std::fs::read(path(dir.path(), "")).unwrap().len(),
            before.len(),
            "{name}: it is not changed"
        );

        let (store, losses) = SqliteStore::open_with_losses(path(dir.path(), "")).unwrap();
        assert_eq!(losses.len(), 1, "{name}");
        assert!(losses[0].reason.contains("were acknowledged and are missing"), "{losses:?}");
        store.save_session(&whole).unwrap();
        drop(store);
        let store = SqliteStore::open(path(dir.path(), "")).unwrap();
        assert_eq!(*store.load_session("s-1").unwrap(), *whole);
        assert!(SqliteStore::open_with_losses(path(dir.path(), "")).unwrap().1.is_empty());
    }
}

/// A copy of a database without the file beside it.
#[test]
fn a_database_without_a_mark_opens() {
    let (_, done, whole) = recorded();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(path(dir.path(), ""), &done.database).unwrap();
    let store = SqliteStore::open(path(dir.path(), "")).unwrap();
    assert_eq!(store.load_session("s-1").unwrap(), whole);
    assert!(path(dir.path(), ".mark").exists());
}
