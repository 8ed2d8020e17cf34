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
