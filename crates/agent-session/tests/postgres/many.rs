//! Ten thousand sessions.

use std::time::Instant;

use agent_core::{AgentMessage, LoopId, Timestamp};
use agent_session::{LoopRecord, LoopStatus, PostgresStore, Session, SessionQuery, SessionStore as _};

use super::address;

const SESSIONS: usize = 10_000;

/// Sessions that are saved at the same time.
const AT_ONCE: usize = 8;

fn session(n: usize) -> Session {
    let id = format!("s-{n:05}");
    let mut session = Session::new(id.as_str().into(), "a".into(), Timestamp(n as u64));
    let loop_id = LoopId::from(format!("{id}.m.1"));
    let mut record = LoopRecord::new(loop_id, id.as_str().into(), "a".into(), Timestamp(n as u64));
    record.status = if n.is_multiple_of(100) { LoopStatus::Running } else { LoopStatus::Completed };
    let rare = if n.is_multiple_of(1_000) { "needle" } else { "hay" };
    for text in [format!("prompt {n} {rare}"), "a reply with some words of a line ".repeat(8)] {
        record.messages.push(AgentMessage::user(text).into());
    }
    session.loops.push(record);
    session
}

#[test]
fn ten_thousand_sessions_are_listed_and_searched() {
    let Some(address) = address("ten thousand") else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = PostgresStore::open_with(address.config().with_connections(AT_ONCE + 2)).await.unwrap();
        let begun = Instant::now();
        let saving: Vec<_> = (0..AT_ONCE)
            .map(|part| {
                let store = store.clone();
                tokio::spawn(async move {
                    for n in (part..SESSIONS).step_by(AT_ONCE) {
                        store.save_session(&session(n)).await.unwrap();
                    }
                })
            })
            .collect();
        for saved in saving {
            saved.await.unwrap();
        }
        println!("{SESSIONS} sessions saved in {:?}", begun.elapsed());
        let begun = Instant::now();
        assert_eq!(store.list_session_ids().await.unwrap().len(), SESSIONS);
        println!("ids: {:?}", begun.elapsed());
        let begun = Instant::now();
        let found = store.find_sessions(&SessionQuery::new()).await.unwrap();
        assert_eq!((found.total, found.sessions.len()), (SESSIONS, 50));
        assert_eq!(found.sessions[0].summary.session_id, *"s-09999");
        println!("the 50 latest: {:?}", begun.elapsed());
        let begun = Instant::now();
        assert_eq!(store.list_unfinished().await.unwrap().unreadable.len(), 0);
        assert_eq!(store.list_open_session_ids().await.unwrap().len(), SESSIONS / 100);
        println!("open runs: {:?}", begun.elapsed());
        for (text, total) in [("needle", SESSIONS / 1_000), ("reply words", SESSIONS), ("prompt 4711", 1)] {
            let begun = Instant::now();
            let found = store.find_sessions(&SessionQuery::new().with_text(text)).await.unwrap();
            assert_eq!(found.total, total, "{text}");
            assert!(found.sessions.iter().all(|session| !session.hits.is_empty()));
            println!("search {text:?}, {total} found: {:?}", begun.elapsed());
        }
    });
}
