//! Databases that are damaged, foreign, hostile or of a later version.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod scene;

use std::path::Path;

use agent_core::ToolExecutionStrategy;
use agent_session::{BlockingSessionStore, SessionError, SessionRecorder, SqliteStore};
use rusqlite::Connection;
use scene::{Act, Play, agent, block_on, perform};

fn database(dir: &Path) -> std::path::PathBuf {
    dir.join("sessions.db")
}

/// A database with two loops that are saved, and one that is in records.
fn recorded(dir: &Path) -> SqliteStore {
    recorded_with(dir, 5, &[3])
}

/// A database as [`recorded`] makes it, with a reply of this length, and with these prompts after the save.
fn recorded_with(dir: &Path, length: usize, later: &[usize]) -> SqliteStore {
    let store = SqliteStore::open(database(dir)).unwrap();
    let plays = [Play::Calls(vec!["say"]), Play::Text(150), Play::Text(length), Play::Text(9)];
    block_on(async {
        let mut agent = agent(&plays, ToolExecutionStrategy::Parallel);
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        perform(&agent, &[Act::Prompt(150), Act::Prompt(3)]).await;
        recorder.save().await.unwrap();
        let later: Vec<Act> = later.iter().map(|length| Act::Prompt(*length)).collect();
        perform(&agent, &later).await;
        // As a crash leaves it.
        std::mem::forget((recorder, agent));
    });
    store
}

/// Changes the database, and expects the same error from a load and a save, and nothing to be lost by them.
#[track_caller]
fn check(change: &str, expect: &str, kept: Option<(usize, usize)>) {
    let dir = tempfile::tempdir().unwrap();
    drop(recorded(dir.path()));
    let copy = tempfile::tempdir().unwrap();
    {
        let connection = Connection::open(database(dir.path())).unwrap();
        connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        // The lock of the recorder that was forgotten is held by this process: the copy has none.
        std::fs::copy(database(dir.path()), database(copy.path())).unwrap();
    }
    let connection = Connection::open(database(copy.path())).unwrap();
    connection.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    connection.execute_batch(change).unwrap();
    let count = |table: &str| -> i64 {
        connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    let rows = (count("lines"), count("ids"), count("records"));
    let store = SqliteStore::open(database(copy.path())).unwrap().with_max_session_bytes(1 << 20);
    let error = store.load_session("s-1").unwrap_err();
    let text = error.to_string();
    assert!(text.contains(expect) && text.contains("sessions.db"), "{text}");
    // Nobody writes over what nobody can read.
    let session = agent_session::Session::new("s-1".into(), "a".into(), agent_core::Timestamp(1));
    assert!(store.save_session(&session).is_err());
    assert!(store.write_session("s-1").is_err());
    assert_eq!(rows, (count("lines"), count("ids"), count("records")));
    match (store.salvage_session("s-1"), kept) {
        (Ok(salvaged), Some((loops, losses))) => {
            assert_eq!(
                (salvaged.session.loops.len(), salvaged.losses.len()),
                (loops, losses),
                "{:?}",
                salvaged.losses
            );
            assert!(salvaged.losses.iter().all(|l| l.place.contains("sessions.db") && !l.reason.is_empty()));
            // The database is named once.
            for loss in &salvaged.losses {
                assert_eq!(loss.to_string().matches("sessions.db").count(), 1, "{loss}");
            }
            assert!(salvaged.session.loops.iter().all(|r| !r.is_open()));
        }
        (Err(_), None) => {}
        (other, _) => panic!("{other:?}"),
    }
}

/// B-178, REQ-216.
#[test]
fn a_damaged_row_is_a_typed_error_that_names_it_and_the_rest_is_offered() {
    check("UPDATE lines SET line = x'7b' WHERE n = 1", "session s-1, line 1: ", Some((3, 1)));
    check("UPDATE lines SET line = x'07' WHERE n = 3", "session s-1, line 3: ", Some((3, 1)));
    check(
        "UPDATE lines SET line = (SELECT line FROM lines WHERE n = 2) WHERE n = 3",
        "line 3: ",
        Some((3, 1)),
    );
    check("DELETE FROM lines WHERE n = 2", "it is record 3, and record 2 is missing", Some((3, 1)));
    check("DELETE FROM lines WHERE n = (SELECT max(n) FROM lines)", "it ends after", Some((3, 1)));
    check("DELETE FROM lines", "it ends before its first record", Some((1, 9)));
    check(
        "UPDATE records SET line = '{' WHERE number = (SELECT max(number) FROM records)",
        "record ",
        Some((3, 1)),
    );
    check("DELETE FROM records WHERE number = (SELECT min(number) FROM records)", "is missing", Some((3, 2)));
    check(
        "DELETE FROM records WHERE number = (SELECT max(number) FROM records)",
        "was acknowledged",
        Some((3, 1)),
    );
    check("DELETE FROM records", "was acknowledged", Some((2, 2)));
    check("UPDATE sessions SET sealed = x'00'", "session s-1, its summary: ", Some((3, 1)));
    check("UPDATE sessions SET sealed = NULL", "session s-1, head", None);
    check(
        "UPDATE sessions SET sealed = cast(replace(sealed, '\"lines\":', '\"lines\":1') AS BLOB)",
        "its summary: its checksum",
        Some((3, 1)),
    );
    check("UPDATE sessions SET id = 's-2'", "the row holds session \"s-2\"", None);
    check("DELETE FROM sessions", "row 1 is missing", Some((3, 1)));
    check("UPDATE lines SET line = zeroblob(2000000) WHERE n = 1", "larger than 1048576 bytes", None);
}

/// A summary of another state of the session, or of another session with the same id, is an error, and all rows are salvaged: they
/// are counted as they are there, not as the summary tells.
#[test]
fn a_summary_and_rows_that_disagree_are_an_error_and_no_row_is_lost() {
    let sealed_of = |dir: &Path| -> Vec<u8> {
        let connection = Connection::open(database(dir)).unwrap();
        connection.query_row("SELECT sealed FROM sessions", [], |row| row.get(0)).unwrap()
    };
    // A session with the same numbers of lines and records, and one that ends earlier.
    let (other, earlier) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    drop(recorded_with(other.path(), 6, &[3]));
    drop(recorded_with(earlier.path(), 5, &[]));
    for (sealed, losses) in [(sealed_of(other.path()), 1), (sealed_of(earlier.path()), 1)] {
        let dir = tempfile::tempdir().unwrap();
        let whole = recorded(dir.path());
        let before = whole.load_session("s-1").unwrap();
        drop(whole);
        let copy = tempfile::tempdir().unwrap();
        let connection = Connection::open(database(dir.path())).unwrap();
        connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        std::fs::copy(database(dir.path()), database(copy.path())).unwrap();
        let connection = Connection::open(database(copy.path())).unwrap();
        connection.execute("UPDATE sessions SET sealed = ?1", [sealed]).unwrap();
        let store = SqliteStore::open(database(copy.path())).unwrap();
        let error = store.load_session("s-1").unwrap_err();
        assert!(error.to_string().contains("salvage"), "{error}");
        assert!(store.write_session("s-1").is_err());
        let salvaged = store.salvage_session("s-1").unwrap();
        assert_eq!(salvaged.losses.len(), losses, "{:?}", salvaged.losses);
        let events =
            |loops: &[agent_session::LoopRecord]| loops.iter().map(|r| r.events.len()).collect::<Vec<_>>();
        assert_eq!(events(&salvaged.session.loops), events(&before.loops));
        assert_eq!(salvaged.session.history().unwrap(), before.history().unwrap());
    }
}

/// A damaged index hides no session from a list. A session without its row is in the list, and its load is an error.
#[test]
fn a_damaged_index_or_a_missing_row_hides_no_session() {
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    let store = SqliteStore::open(&path).unwrap();
    let ids: Vec<String> = (0..30).map(|n| format!("s-{n:02}")).collect();
    for id in &ids {
        let session = agent_session::Session::new(id.as_str().into(), "a".into(), agent_core::Timestamp(1));
        store.save_session(&session).unwrap();
    }
    drop(store);
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let mut statement = connection
        .prepare("SELECT name, rootpage FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'sessions'")
        .unwrap();
    let roots: Vec<(String, usize)> = statement
        .query_map([], |row| Ok((row.get(0)?, usize::try_from(row.get::<_, i64>(1)?).unwrap())))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let size: i64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap();
    drop(statement);
    drop(connection);
    assert!(roots.len() > 5, "{roots:?}");
    let whole = std::fs::read(&path).unwrap();
    let listed = |store: &SqliteStore| -> Vec<String> {
        let mut ids: Vec<String> =
            store.list_session_ids().unwrap().iter().map(ToString::to_string).collect();
        ids.sort();
        ids
    };
    for (name, root) in &roots {
        let mut damaged = whole.clone();
        // The number of the entries of the page.
        let header = (root - 1) * usize::try_from(size).unwrap();
        damaged[header + 3..header + 5].fill(0);
        std::fs::write(&path, &damaged).unwrap();
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(listed(&store), ids, "{name}");
        let query = agent_session::SessionQuery::new().with_agent("a");
        let found = store.find_sessions(&query).unwrap();
        assert_eq!((found.total, found.unreadable.len()), (ids.len(), 0), "{name}");
        for id in &ids {
            store.load_session(id).unwrap();
        }
    }
    std::fs::write(&path, &whole).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM sessions WHERE id = 's-07'").unwrap();
    assert_eq!(listed(&store), ids);
    assert!(matches!(store.load_session("s-07"), Err(SessionError::Corrupt { .. })));
    let found = store.find_sessions(&agent_session::SessionQuery::new()).unwrap();
    assert_eq!(found.total, ids.len() - 1);
    assert_eq!(found.unreadable.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["s-07"]);
    let found = store.list_unfinished().unwrap();
    assert_eq!(found.unreadable.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["s-07"]);
}

/// One way to a session is enough; without both, there is no such session.
#[test]
fn a_session_is_found_by_its_index_and_by_the_list_of_ids() {
    let changed = |change: &str| {
        let dir = tempfile::tempdir().unwrap();
        let store = recorded(dir.path());
        let whole = store.load_session("s-1").unwrap();
        Connection::open(database(dir.path())).unwrap().execute_batch(change).unwrap();
        let loaded = store.load_session("s-1");
        (loaded.map(|loaded| assert_eq!(loaded, whole)), dir)
    };
    changed("DELETE FROM ids").0.unwrap();
    changed("UPDATE ids SET session = 77").0.unwrap();
    let error = changed("UPDATE ids SET session = 77, id = 's-2'; UPDATE sessions SET id = 's-3'").0;
    assert!(matches!(error, Err(SessionError::NotFound { .. })), "{error:?}");
}

/// A flipped title is no other title.
#[test]
fn a_damaged_summary_is_reported_beside_the_list() {
    let dir = tempfile::tempdir().unwrap();
    let store = recorded(dir.path());
    store
        .save_session(&agent_session::Session::new("s-2".into(), "a".into(), agent_core::Timestamp(1)))
        .unwrap();
    let connection = Connection::open(database(dir.path())).unwrap();
    let change =
        "UPDATE sessions SET sealed = cast(replace(sealed, 'prompt 0', 'prompt 1') AS BLOB) WHERE id = 's-1'";
    connection.execute_batch(change).unwrap();
    let found = store.find_sessions(&agent_session::SessionQuery::new()).unwrap();
    assert_eq!(found.sessions.iter().map(|s| s.summary.session_id.as_str()).collect::<Vec<_>>(), ["s-2"]);
    let [(id, SessionError::Corrupt { place, .. })] = &found.unreadable[..] else { panic!("{found:?}") };
    assert_eq!((id.as_str(), place.as_str()), ("s-1", "session s-1, its summary"));
}

#[track_caller]
fn refuse(bytes: &[u8], expect: fn(&SessionError) -> bool) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(database(dir.path()), bytes).unwrap();
    let error = SqliteStore::open(database(dir.path())).unwrap_err();
    assert!(expect(&error) && error.to_string().contains("sessions.db"), "{error:?}");
    assert_eq!(std::fs::read(database(dir.path())).unwrap(), bytes, "it stays as it was");
}

/// REQ-216.
#[test]
fn what_is_no_database_of_sessions_is_refused_and_stays_as_it_was() {
    let is_corrupt = |e: &SessionError| matches!(e, SessionError::Corrupt { .. });
    refuse(&b"this is no database, whatever its name is. ".repeat(100), is_corrupt);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("other.db");
    let with = |sql: &str| {
        let _ = std::fs::remove_file(&path);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        std::fs::read(&path).unwrap()
    };
    let foreign = |e: &SessionError| e.to_string().contains("the database of something else");
    refuse(&with("PRAGMA journal_mode = WAL; CREATE TABLE cookies (a)"), foreign);
    refuse(&with("PRAGMA journal_mode = WAL; PRAGMA user_version = 7"), foreign);
    // One of ours, from later.
    let ours = "PRAGMA journal_mode = WAL; PRAGMA application_id = 0x6c747365; PRAGMA user_version = 99";
    refuse(&with(ours), |e| matches!(e, SessionError::UnsupportedVersion { found: 99, .. }));
}

/// A database that breaks off, as a disk that was full leaves a copy of it.
#[test]
fn a_database_that_is_cut_is_an_error_or_gives_whole_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let whole = recorded(dir.path()).load_session("s-1").unwrap();
    Connection::open(database(dir.path())).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let bytes = std::fs::read(database(dir.path())).unwrap();
    let mut errors = 0;
    for cut in (1..bytes.len()).step_by(3_001) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(database(dir.path()), &bytes[..cut]).unwrap();
        match SqliteStore::open(database(dir.path())).and_then(|s| s.load_session("s-1")) {
            Ok(loaded) => assert_eq!(loaded.loops, whole.loops, "cut at {cut}"),
            Err(SessionError::Corrupt { .. } | SessionError::Database { .. }) => errors += 1,
            Err(other) => panic!("cut at {cut}: {other:?}"),
        }
    }
    assert!(errors > 0);
}

/// Two processes that open a new database at once both get its tables.
#[test]
fn many_may_open_a_new_database_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = database(dir.path());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| SqliteStore::open(&path).unwrap().list_session_ids().unwrap());
        }
    });
}

/// Conversations are for their owner.
#[cfg(unix)]
#[test]
fn nobody_else_may_read_the_database() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let _store = recorded(dir.path());
    for name in ["sessions.db", "sessions.db-wal", "sessions.db-shm"] {
        let mode = std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}
