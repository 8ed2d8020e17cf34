use std::sync::Arc;

use agent_core::{Spending, SystemEnvironment};
use agent_session::JsonStore;

use super::*;

fn ledger(store: &JsonStore) -> Arc<Ledger> {
    Arc::new(Ledger::new(Arc::new(store.clone()), Arc::new(SystemEnvironment)))
}

fn tokens(sums: &BTreeMap<String, Spending>, key: &str) -> u64 {
    sums.get(key).map_or(0, |spent| spent.tokens)
}

#[tokio::test]
async fn processes_have_a_ledger_each_and_the_next_one_counts_all_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = JsonStore::open(folder.path()).unwrap();
    let (first, second) = (ledger(&store), ledger(&store));
    assert!(first.open(&store).await.unwrap().is_empty());
    first.add_key("alice", Spending::of_tokens(5)).await.unwrap();
    let sums = second.open(&store).await.unwrap();
    assert_eq!(tokens(&sums, "alice"), 5);
    second.settle("alice", &"c".into(), Spending::of_tokens(7), 0).await.unwrap();
    second.settle("bob", &"d".into(), Spending::of_tokens(1), 0).await.unwrap();
    drop((first, second));
    for _ in 0..2 {
        let sums = ledger(&store).open(&store).await.unwrap();
        assert_eq!((tokens(&sums, "alice"), tokens(&sums, "bob")), (12, 1));
    }
}

#[tokio::test]
async fn a_ledger_that_could_not_be_written_is_written_with_the_next_change() {
    let folder = tempfile::tempdir().unwrap();
    let (path, away) = (folder.path().join("ledger"), folder.path().join("away"));
    let store = JsonStore::open(&path).unwrap();
    let ledger = ledger(&store);
    ledger.open(&store).await.unwrap();
    ledger.settle("alice", &"c".into(), Spending::of_tokens(5), 0).await.unwrap();
    std::fs::rename(&path, &away).unwrap();
    ledger.settle("alice", &"c".into(), Spending::of_tokens(7), 0).await.unwrap_err();
    ledger.settle("alice", &"c".into(), Spending::of_tokens(1), 0).await.unwrap_err();
    std::fs::rename(&away, &path).unwrap();
    ledger.settle("alice", &"c".into(), Spending::of_tokens(2), 0).await.unwrap();
    drop(ledger);
    let sums = super::tests::ledger(&store).open(&store).await.unwrap();
    assert_eq!(tokens(&sums, "alice"), 15);
}

#[tokio::test]
async fn a_session_of_another_program_is_no_ledger_and_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let store = JsonStore::open(folder.path()).unwrap();
    let other =
        agent_session::Session::new("serve-ledger-0".into(), "other".into(), agent_core::Timestamp(1));
    store.save_session(&other).unwrap();
    let refused = ledger(&store).open(&store).await.unwrap_err();
    assert!(refused.to_string().contains("serve-ledger-0 is another session"), "{refused}");
}

#[tokio::test]
async fn the_mark_of_an_open_run_stays_until_its_session_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = JsonStore::open(folder.path().join("sessions")).unwrap();
    let first = ledger(&store);
    first.open(&store).await.unwrap();
    first.begin("alice", &"c-1".into(), Mark::default()).await.unwrap();
    drop(first);
    std::fs::write(store.path_of("c-1").unwrap(), "damage").unwrap();
    let marks = |ledger: &Ledger| ledger.lock().document.key("alice").open.len();
    let second = ledger(&store);
    second.open(&store).await.unwrap();
    assert_eq!(marks(&second), 1);
    drop(second);
    std::fs::remove_file(store.path_of("c-1").unwrap()).unwrap();
    let third = ledger(&store);
    third.open(&store).await.unwrap();
    assert_eq!(marks(&third), 0);
}
