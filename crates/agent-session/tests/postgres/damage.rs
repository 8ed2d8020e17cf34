//! Rows of which a bit is flipped, that are missing, or that are those of another session.

use agent_core::ToolExecutionStrategy;
use agent_session::{LoadedSession, PostgresStore, SessionError, SessionRecorder, SessionStore as _};

use super::address;
use super::harm::step;
use super::scene::postgres::Address;
use super::scene::{Act, Play, agent, block_on, perform};

/// A session of three turns in lines and one more in records.
async fn recorded(address: &Address) -> (PostgresStore, LoadedSession) {
    let store = PostgresStore::open_with(address.config()).await.unwrap();
    let plays = [Play::Calls(vec!["fail"]), Play::Text(100), Play::Text(3), Play::Text(9)];
    let mut agent = agent(&plays, ToolExecutionStrategy::Parallel);
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    perform(&agent, &[Act::Prompt(100), Act::Prompt(2)]).await;
    recorder.save().await.unwrap();
    address.sql("CREATE TABLE earlier AS SELECT sealed FROM sessions");
    perform(&agent, &[Act::Prompt(3)]).await;
    // As a killed process leaves it.
    std::mem::forget((recorder, agent));
    address.end_leases();
    let whole = store.load_session("s-1").await.unwrap();
    assert_eq!(whole.loops.iter().map(|r| r.turns.len()).sum::<usize>(), 4);
    (store, whole)
}

/// Loads the session after a harm, and returns whether it is noticed; it is the same otherwise.
async fn is_noticed(store: &PostgresStore, whole: &LoadedSession, what: &str) -> bool {
    match store.load_session("s-1").await {
        Ok(loaded) => {
            assert!(*loaded == **whole, "{what} changed it");
            false
        }
        Err(SessionError::Corrupt { .. }) => true,
        Err(other) => panic!("{what}: {other}"),
    }
}

/// REQ-216.
#[test]
fn every_flipped_bit_of_the_stored_bytes_is_noticed() {
    let Some(address) = address("bits") else { return };
    block_on(async {
        let (store, whole) = recorded(&address).await;
        let mut all = 0;
        for (table, column, place) in
            [("lines", "line", "n"), ("records", "line", "number"), ("sessions", "sealed", "session")]
        {
            let sizes =
                format!("SELECT {place} || ' ' || octet_length({column}) FROM {table} ORDER BY {place}");
            for row in address.sql(&sizes) {
                let row = row.unwrap();
                let (at, size) = row.split_once(' ').unwrap();
                let bits = size.parse::<usize>().unwrap() * 8;
                for bit in (0..bits).step_by(step(4_111)) {
                    let flip = format!(
                        "UPDATE {table} SET {column} = set_bit({column}, {bit}, 1 - get_bit({column}, {bit})) WHERE {place} = {at}"
                    );
                    address.sql(&flip);
                    let what = format!("bit {bit} of {bits} in {table} {at}");
                    assert!(is_noticed(&store, &whole, &what).await, "{what}");
                    let salvaged = store.salvage_session("s-1").await;
                    assert!(salvaged.is_ok_and(|found| !found.losses.is_empty()), "{what}");
                    address.sql(&flip);
                    all += 1;
                }
            }
        }
        println!("{all} flipped bits are errors");
        assert!(all > 20);
        assert_eq!(*store.load_session("s-1").await.unwrap(), *whole);
    });
}

#[test]
fn rows_that_are_missing_moved_or_of_another_session_are_noticed_and_the_rest_is_salvaged() {
    let Some(address) = address("rows") else { return };
    block_on(async {
        let (store, whole) = recorded(&address).await;
        address.sql("CREATE TABLE kept_lines AS TABLE lines; CREATE TABLE kept_records AS TABLE records");
        for harm in [
            "DELETE FROM lines WHERE n = 1",
            "DELETE FROM lines WHERE n = (SELECT max(n) FROM lines)",
            "DELETE FROM lines",
            "DELETE FROM records WHERE number = (SELECT min(number) FROM records)",
            "DELETE FROM records WHERE number = (SELECT min(number) + 1 FROM records)",
            "DELETE FROM records WHERE number = (SELECT max(number) FROM records)",
            "DELETE FROM records",
            "UPDATE lines SET line = (SELECT line FROM lines WHERE n = 1) WHERE n = 2",
            "UPDATE records SET line = (SELECT line FROM lines WHERE n = 1) WHERE number = (SELECT max(number) FROM records)",
            "UPDATE records SET line = '' WHERE number = (SELECT max(number) FROM records)",
        ] {
            address.sql(harm);
            assert!(is_noticed(&store, &whole, harm).await, "{harm}");
            let refused = store.write_session("s-1").await;
            assert!(matches!(refused, Err(SessionError::Corrupt { .. })), "{harm}: {refused:?}");
            let salvaged = store.salvage_session("s-1").await.unwrap();
            assert!(
                !salvaged.losses.is_empty() && salvaged.session.loops.len() <= whole.loops.len(),
                "{harm}"
            );
            address.sql(
                "DELETE FROM lines; DELETE FROM records;
                 INSERT INTO lines TABLE kept_lines; INSERT INTO records TABLE kept_records",
            );
        }
        assert_eq!(*store.load_session("s-1").await.unwrap(), *whole);
        // The summary of an earlier state: the rows are counted as they are there.
        address.sql("CREATE TABLE kept_sealed AS SELECT sealed FROM sessions");
        address.sql("UPDATE sessions SET sealed = (SELECT sealed FROM earlier)");
        let error = store.load_session("s-1").await.unwrap_err();
        assert!(error.to_string().contains("salvage"), "{error}");
        let salvaged = store.salvage_session("s-1").await.unwrap();
        assert_eq!(salvaged.losses.len(), 1, "{:?}", salvaged.losses);
        assert_eq!(salvaged.session.history().unwrap(), whole.history().unwrap());
        address.sql("UPDATE sessions SET sealed = (SELECT sealed FROM kept_sealed)");
        // The rows of one session under the name of another.
        address.sql("UPDATE sessions SET id = 's-2'");
        let moved = store.load_session("s-2").await;
        assert!(matches!(moved, Err(SessionError::Corrupt { .. })), "{moved:?}");
    });
}

/// A writer does not continue a session from which the server has lost acknowledged records.
#[test]
fn a_record_after_lost_ones_is_refused() {
    let Some(address) = address("lost") else { return };
    block_on(async {
        let store = PostgresStore::open_with(address.config()).await.unwrap();
        let mut agent = super::answering("s-1");
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        agent.chat("Hi").await.unwrap();
        address.sql("UPDATE sessions SET records = records - 1");
        let error = agent.chat("More").await.unwrap_err().to_string();
        assert!(error.contains("does not end with record"), "{error}");
        drop(recorder);
    });
}
