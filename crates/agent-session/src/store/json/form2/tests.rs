use agent_core::Timestamp;

use super::super::JsonStore;
use crate::model::{LoopRecord, ParallelGroupRecord, Session};
use agent_core::{GroupMember, GroupRole, LoopId};

/// A list of a group's loops is in the file once, so that the size is proportional to the number of branches.
#[test]
fn the_list_of_a_group_is_written_once() {
    let size = |branches: usize| {
        let dir = tempfile::tempdir().unwrap();
        let store = JsonStore::open(dir.path()).unwrap();
        let mut session = Session::new("s-1".into(), "a".into(), Timestamp(1));
        let ids: Vec<LoopId> = (0..branches).map(|n| LoopId::from(format!("s-1.m.{n}"))).collect();
        for (index, id) in ids.iter().enumerate() {
            let mut record = LoopRecord::new(id.clone(), "s-1".into(), "a".into(), Timestamp(2));
            record.group = Some(GroupMember::new("g".into(), GroupRole::Branch { index }));
            record.parallel_group = Some(ParallelGroupRecord::of(ids.clone()));
            session.loops.push(record);
        }
        store.save_session(&session).unwrap();
        assert!(store.read("s-1").unwrap().into_session() == session);
        std::fs::metadata(dir.path().join("s-1.json")).unwrap().len()
    };
    let (half, all) = (size(200), size(400));
    assert!(all * 100 <= half * 210, "{half} bytes, then {all}");
}

#[test]
fn lines_that_are_exchanged_missing_or_doubled_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let mut session = Session::new("s-1".into(), "a".into(), Timestamp(1));
    for n in 0..3 {
        let id = LoopId::from(format!("s-1.m.{n}"));
        session.loops.push(LoopRecord::new(id, "s-1".into(), "a".into(), Timestamp(2)));
    }
    store.save_session(&session).unwrap();
    let path = dir.path().join("s-1.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let with = |order: &[usize]| order.iter().map(|at| lines[*at]).collect::<String>();
    assert_eq!(lines.len(), 7);
    for order in [
        &[0, 1, 3, 2, 4, 5, 6][..],
        &[0, 1, 2, 4, 5, 6],
        &[0, 1, 2, 2, 3, 4, 5, 6],
        &[0, 1, 2, 3, 4, 6],
        &[0, 1, 2, 3, 5, 4, 6],
        &[0, 1, 2, 3, 4, 5, 5, 6],
        &[0, 1, 2, 3, 4, 5, 6, 6],
    ] {
        std::fs::write(&path, with(order)).unwrap();
        assert!(store.load_session("s-1").is_err(), "{order:?}");
    }
}

/// The line is intact and has the right number, so only the digest of all lines shows that it is from another file.
#[test]
fn a_line_of_an_earlier_file_is_an_error_in_a_later_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let path = dir.path().join("s-1.json");
    let saved = |started: u64| -> Vec<String> {
        let mut session = Session::new("s-1".into(), "a".into(), Timestamp(1));
        for n in 0..3 {
            let id = LoopId::from(format!("s-1.m.{n}"));
            session.loops.push(LoopRecord::new(id, "s-1".into(), "a".into(), Timestamp(started)));
        }
        let _ = std::fs::remove_file(&path);
        store.save_session(&session).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        text.split_inclusive('\n').map(str::to_owned).collect()
    };
    let (earlier, later) = (saved(2), saved(3));
    for at in 2..5 {
        let mut lines = later.clone();
        assert_ne!(lines[at], earlier[at]);
        lines[at].clone_from(&earlier[at]);
        std::fs::write(&path, lines.concat()).unwrap();
        let error = store.load_session("s-1").unwrap_err().to_string();
        assert!(error.contains("lines before it are not those that were written with it"), "{at}: {error}");
    }
    std::fs::write(&path, later.concat()).unwrap();
    assert_eq!(store.load_session("s-1").unwrap().loops[0].started_at, Timestamp(3));
}
