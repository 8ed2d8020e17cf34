#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt as _;

use agent_core::Timestamp;

use super::super::super::summary::LiveSummary;
use super::super::super::write_lock::is_held;
use super::*;
use crate::model::Session;

/// A journal without records, the session that it belongs to, and their directory.
struct Scene {
    dir: tempfile::TempDir,
    session: Session,
    summary: LiveSummary,
    journal: Arc<JournalFile>,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let lock = WriteLock::take(dir.path().join("lock")).unwrap();
        let session = Session::new("s-1".into(), "agent".into(), Timestamp::default());
        let journal = Arc::new(JournalFile::new(dir.path().join("journal"), dir.path().join("saved"), lock));
        Self { dir, summary: LiveSummary::of(&session), session, journal }
    }

    fn path(&self) -> &Path {
        self.journal.path()
    }

    /// Appends a record whose line is its number, and returns whether it is pending.
    fn append(&mut self, number: u64, durability: Durability) -> bool {
        let line = number.to_string();
        let record = SessionRecord {
            number,
            line: line.as_bytes(),
            durability,
            session: &self.session,
            position: None,
            own_before: 0,
            other_before: 0,
            run: None,
        };
        let summary = self.summary.update(&record);
        self.journal.append(&record, summary, None, &mut Vec::new()).unwrap()
    }
}

#[test]
fn a_journal_is_a_second_name_of_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let (path, lock_path) = (dir.path().join("journal"), dir.path().join("lock"));
    let mut lock = WriteLock::take(lock_path.clone()).unwrap();
    // A journal that a save could not remove.
    std::fs::write(&path, "old").unwrap();
    for content in ["first", "second"] {
        create_file(&path, &mut lock, content.as_bytes()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
        assert_eq!(inode(&path), inode(&lock_path));
        assert!(is_held(&lock_path) && WriteLock::take(lock_path.clone()).is_err());
    }
    drop(lock);
    assert!(!is_held(&lock_path) && !lock_path.exists());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "second");
}

#[test]
fn without_hard_links_a_journal_is_a_file_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (path, lock_path) = (dir.path().join("journal"), dir.path().join("lock"));
    let mut lock = WriteLock::take(lock_path.clone()).unwrap();
    let refused = |_: &Path, _: &Path| Err(Error::from(ErrorKind::Unsupported));
    create_linked(&path, &mut lock, b"content", refused).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "content");
    assert_eq!(std::fs::read(&lock_path).unwrap(), b"");
    assert!(is_held(&lock_path));
}

/// Writes four records and creates the file after `created_after` of them; returns its bytes.
fn written(created_after: u64, durability: Durability) -> Vec<u8> {
    let mut scene = Scene::new();
    for number in 1..=4 {
        let is_pending = scene.append(number, durability);
        let is_created = number > created_after;
        assert_eq!(scene.path().exists(), is_created);
        assert_eq!(is_pending, !is_created || durability == Durability::Flushed);
        if number == created_after {
            scene.journal.create().unwrap();
        }
    }
    assert_eq!(scene.journal.end(), std::fs::metadata(scene.path()).unwrap().len());
    std::fs::read(scene.path()).unwrap()
}

#[test]
fn records_before_the_file_is_created_are_in_it_as_those_after_it() {
    let first = written(1, Durability::Buffered);
    assert_eq!(first.split(|byte| *byte == b'\n').count(), 3 + 4 + 1);
    for created_after in 2..=4 {
        assert!(written(created_after, Durability::Buffered) == first, "created after {created_after}");
        assert!(written(created_after, Durability::Flushed) == first, "created after {created_after}");
    }
}

#[test]
fn records_that_are_appended_while_the_file_is_created_are_written_to_it() {
    const RECORDS: u64 = 2_000;
    let mut scene = Scene::new();
    scene.append(1, Durability::Buffered);
    let journal = Arc::clone(&scene.journal);
    let creator = std::thread::spawn(move || journal.complete().unwrap());
    for number in 2..=RECORDS {
        scene.append(number, Durability::Buffered);
    }
    creator.join().unwrap();
    let text = std::fs::read_to_string(scene.path()).unwrap();
    let records: Vec<u64> = text.lines().skip(3).map(|line| line.parse().unwrap()).collect();
    assert_eq!(records, (1..=RECORDS).collect::<Vec<_>>());
    assert!(text.lines().nth(1).unwrap().contains(&format!("\"acknowledged\":{RECORDS},")));
}

#[test]
fn a_released_session_creates_no_journal() {
    let mut scene = Scene::new();
    assert!(scene.journal.create().unwrap().is_none());
    scene.append(1, Durability::Buffered);
    scene.journal.release();
    assert!(scene.journal.complete().is_err());
    assert!(!scene.path().exists());
    assert!(WriteLock::take(scene.dir.path().join("lock")).is_ok());
}
