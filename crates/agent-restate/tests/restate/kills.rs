//! Workers and servers that are killed at random moments.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agent_core::Answer;
use agent_core::event::Question;
use agent_restate::{Client, TurnEnd};

use crate::load::{NAME, Work, WorkerProcess, executions, expected, loops, texts};
use crate::server::{Server, free_port};

/// The kills of workers and of servers, unless `LOOPTREE_KILLS` and `LOOPTREE_SERVER_KILLS` say otherwise.
const KILLS: usize = 6;
const SERVER_KILLS: usize = 1;

/// The sessions that run at any moment.
const AT_ONCE: usize = 8;

/// How long all sessions may take to finish after the last kill.
const FINISH: Duration = Duration::from_secs(90);

/// What became of a session.
struct Finished {
    history: Vec<String>,
    /// How often the session has received an answer about a call, by the call.
    asked: BTreeMap<String, usize>,
}

/// Prompts a session and answers its questions until its run has ended. Repeats requests that a killed server cuts off.
async fn run(client: Client, key: String) -> Finished {
    let session = client.session(NAME, key.clone());
    let mut asked = BTreeMap::new();
    // Calls whose answer was sent, and whose confirmation a killed server cut off.
    let mut unconfirmed: BTreeSet<String> = BTreeSet::new();
    let mut turn = loop {
        match session.prompt("go").idempotency_key(format!("prompt-{key}")).send().await {
            Ok(turn) => break turn,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    loop {
        match turn.wait().await {
            Ok(TurnEnd::Ended(end)) => {
                let loop_id = end.loop_id.as_str();
                unconfirmed.into_iter().for_each(|call| *asked.entry(call).or_insert(0) += 1);
                let asked = asked.into_iter().map(|(call, n)| (format!("{loop_id} {call}"), n)).collect();
                let history = loop {
                    match session.history().await {
                        Ok(history) => break texts(&history),
                        Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                    }
                };
                return Finished { history, asked };
            }
            Ok(TurnEnd::Waiting(questions)) => {
                let call_of = |question: &Question| question.call.as_ref().unwrap().id.to_string();
                let open: BTreeSet<String> = questions.iter().map(call_of).collect();
                // The session has an answer that it does not ask for any more.
                for call in unconfirmed.extract_if(.., |call| !open.contains(call)) {
                    *asked.entry(call).or_insert(0) += 1;
                }
                for question in questions {
                    let call = call_of(&question);
                    match session.answer(question.id, Answer::Allow).await {
                        Ok(answered) => {
                            unconfirmed.remove(&call);
                            *asked.entry(call).or_insert(0) += 1;
                            turn = answered;
                        }
                        Err(agent_restate::ClientError::Refused(_)) => {
                            if unconfirmed.remove(&call) {
                                *asked.entry(call).or_insert(0) += 1;
                            }
                        }
                        Err(_) => {
                            unconfirmed.insert(call);
                        }
                    }
                }
            }
            Ok(other) => panic!("{key}: {other:?}"),
            // An answer that was repeated because the server was killed is refused.
            Err(agent_restate::ClientError::Refused(_)) => {
                turn = session
                    .prompt("go")
                    .idempotency_key(format!("prompt-{key}"))
                    .send()
                    .await
                    .unwrap_or(turn);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Where the kills fell: the model calls and tool calls that were open.
fn open_work(lines: &[String]) -> (usize, usize, usize) {
    let count = |prefix: &str| lines.iter().filter(|line| line.starts_with(prefix)).count();
    let open = |kind: &str| count(&format!("{kind}+")).saturating_sub(count(&format!("{kind}-")));
    (open("model"), open("tool"), lines.len())
}

/// No session is lost, none has another history, and no call that must run once runs again without a question.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_survive_killed_workers_and_servers() {
    let Some(mut server) = Server::start().await else { return };
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let kills: usize = number("LOOPTREE_KILLS", KILLS);
    let server_kills: usize = number("LOOPTREE_SERVER_KILLS", SERVER_KILLS);
    let seed = number("LOOPTREE_SEED", 1) as u64;
    let folder = tempfile::tempdir().unwrap();
    let work = Work { rounds: 9, pause: Duration::from_millis(15), hand_over_after: 7, asks: false };
    let expected = expected(work, folder.path()).await;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let mut worker = WorkerProcess::start(work, address, folder.path().join("log"));
    server.register(worker.address).await;

    let client = server.client();
    let (stop, finished) = (Arc::new(Mutex::new(false)), Arc::new(Mutex::new(Vec::new())));
    let next = Arc::new(Mutex::new(0_usize));
    let feeders: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let (client, stop, finished) = (client.clone(), Arc::clone(&stop), Arc::clone(&finished));
            let next = Arc::clone(&next);
            tokio::spawn(async move {
                while !*stop.lock().unwrap() {
                    let key = {
                        let mut next = next.lock().unwrap();
                        *next += 1;
                        format!("s{next}")
                    };
                    let session = run(client.clone(), key).await;
                    finished.lock().unwrap().push(session);
                }
            })
        })
        .collect();

    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut draw = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let (mut in_model, mut in_tool, mut between, mut recoveries) = (0, 0, 0, Vec::new());
    let (mut models_lost, mut tools_lost) = (0, 0);
    let total = kills + server_kills;
    let mut servers_left = server_kills;
    for kill in 0..total {
        tokio::time::sleep(Duration::from_millis(40 + draw(120))).await;
        let of_server =
            (total - kill) as u64 <= servers_left as u64 || draw((total - kill) as u64) < servers_left as u64;
        let killed = if of_server {
            servers_left -= 1;
            server.restart().await;
            Instant::now()
        } else {
            worker.kill();
            let (models, tools, _) = open_work(&worker.lines());
            let (models, tools) = (models - models_lost, tools - tools_lost);
            (models_lost, tools_lost) = (models_lost + models, tools_lost + tools);
            in_model += models;
            in_tool += tools;
            between += AT_ONCE.saturating_sub(models + tools);
            worker.start_again();
            Instant::now()
        };
        let before = worker.written();
        // As many sessions run at any moment, so all of them continue.
        while loops(&worker.lines_from(before)).len() < AT_ONCE {
            assert!(killed.elapsed() < FINISH, "not every session continues after kill {kill}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        recoveries.push((killed.elapsed(), if of_server { "a server" } else { "a worker" }));
    }
    *stop.lock().unwrap() = true;
    for feeder in feeders {
        tokio::time::timeout(FINISH, feeder).await.expect("no session is lost").unwrap();
    }

    let finished = finished.lock().unwrap();
    let other = finished.iter().filter(|session| session.history != expected).count();
    let mut asked = BTreeMap::new();
    finished.iter().for_each(|session| asked.extend(session.asked.clone()));
    let calls = executions(&worker.lines(), "once");
    let repeated: Vec<_> =
        calls.iter().filter(|(call, count)| **count > 1 + asked.get(*call).copied().unwrap_or(0)).collect();
    recoveries.sort();
    let started = *next.lock().unwrap();
    println!(
        "{kills} kills of workers and {server_kills} of servers; sessions: {started} started, {} finished, {} lost, {other} with another history",
        finished.len(),
        started - finished.len(),
    );
    println!(
        "the kills of workers fell into {in_model} model calls and {in_tool} tool calls; {between} sessions were in none"
    );
    println!(
        "calls that must run once: {}, repeated without a question: {}, questions: {}",
        calls.len(),
        repeated.len(),
        asked.values().sum::<usize>(),
    );
    println!(
        "recovery of all {AT_ONCE} sessions: median {:.0?}, longest {:.0?} after the kill of {}",
        recoveries[recoveries.len() / 2].0,
        recoveries[recoveries.len() - 1].0,
        recoveries[recoveries.len() - 1].1,
    );
    assert_eq!((started - finished.len(), other), (0, 0));
    assert!(repeated.is_empty(), "{repeated:?}");
    assert!(kills < KILLS || in_model + in_tool > 0, "the kills fell into nothing");
}
