//! Approvals that wait while no process of the agent is alive.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use agent_core::Answer;
use agent_restate::TurnEnd;

use crate::load::{NAME, Work, WorkerProcess, executions, expected, texts};
use crate::server::{Server, free_port};
use crate::sessions::ended;

/// The sessions, unless `LOOPTREE_APPROVALS` says otherwise.
const SESSIONS: usize = 12;

/// All workers are killed, then the server; the answers are given; a worker starts, and every session finishes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approvals_wait_without_a_worker() {
    let Some(mut server) = Server::start().await else { return };
    let count = std::env::var("LOOPTREE_APPROVALS").map_or(SESSIONS, |count| count.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let work = Work { rounds: 2, pause: Duration::from_millis(1), hand_over_after: 200, asks: true };
    let expected = expected(work, folder.path()).await;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let mut worker = WorkerProcess::start(work, address, folder.path().join("log"));
    server.register(worker.address).await;
    let client = server.client();
    let mut waiting = Vec::new();
    for n in 0..count {
        let session = client.session(NAME, format!("s{n}"));
        let turn = session.prompt("go").send().await.unwrap();
        waiting.push((session, turn));
    }
    let mut questions = Vec::new();
    for (_, turn) in &waiting {
        let TurnEnd::Waiting(asked) = turn.wait().await.unwrap() else { panic!("the session does not wait") };
        questions.push(asked[0].id.clone());
    }
    worker.kill();
    server.restart().await;
    for ((session, _), question) in waiting.iter().zip(questions) {
        session.answer(question, Answer::Allow).await.unwrap();
    }
    assert_eq!(executions(&worker.lines(), "ask").len(), 0, "nothing runs before its answer");
    let started = Instant::now();
    worker.start_again();
    for (session, turn) in &waiting {
        ended(turn.wait().await.unwrap());
        assert_eq!(texts(&session.history().await.unwrap()), expected);
    }
    println!("{count} of {count} approvals finished {:?} after the worker came back", started.elapsed());
    let counts = executions(&worker.lines(), "ask");
    assert_eq!((counts.len(), counts.values().max()), (count, Some(&1)));
}
