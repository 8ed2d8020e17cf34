//! A server that is killed, that is away, and that does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent_session::{
    PostgresStore, RestoreSession as _, SessionError, SessionQuery, SessionRecorder, SessionStore as _,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::scene::block_on;
use super::scene::postgres::Address;
use super::scene::postgres::server::{Data, Server};
use super::{address, answering};

/// A server of its own for a test, if one can be had.
fn server(name: &str, settings: &[&str]) -> Option<(Server, Address)> {
    address(name)?;
    let directory = std::env::temp_dir().join(format!("looptree-{name}-{}", std::process::id()));
    let server = Server::start(&directory, Data::Removed, settings).unwrap();
    let address = Address::new(&server.url(), name);
    Some((server, address))
}

/// REQ-216: what was acknowledged survives a crash of the server. The run whose record could not be written ends and says so,
/// and the next one works without a new store.
#[test]
fn a_killed_server_loses_nothing_that_was_acknowledged_and_the_store_connects_again() {
    let Some((mut server, address)) = server("outage", &["fsync=off"]) else { return };
    block_on(async {
        let store = PostgresStore::open_with(address.config()).await.unwrap();
        let mut agent = answering("s-1");
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        for round in 1..=3 {
            agent.chat(format!("prompt {round}")).await.unwrap();
            let history = agent.history();
            server.kill().unwrap();
            let error = agent.chat("Nobody writes this.").await.unwrap_err().to_string();
            assert!(error.contains("could not be written") || error.contains("could not be read"), "{error}");
            assert!(!error.contains("postgres@"), "{error}");
            let unread = store.load_session("s-1").await.unwrap_err();
            assert!(matches!(unread, SessionError::Database { .. }), "{unread}");
            server.start_again().unwrap();
            let loaded = store.load_session("s-1").await.unwrap();
            assert_eq!(loaded.loops.len(), round);
            assert_eq!(loaded.history().unwrap(), history, "all that was acknowledged is there");
            // The agent continues from what is stored. Its lease could not be given back, and is its own.
            let (next, _) = answering("s-1").restore_session(store.clone(), "s-1").await.unwrap();
            agent = next;
            recorder.record(&mut agent);
        }
        recorder.close().await.unwrap();
        assert_eq!(store.list_session_ids().await.unwrap(), ["s-1"]);
    });
}

/// Connections that the server closes between two records are replaced.
#[test]
fn connections_that_the_server_has_closed_are_replaced() {
    let Some(address) = address("closed") else { return };
    block_on(async {
        let store = PostgresStore::open_with(address.config()).await.unwrap();
        let mut agent = answering("s-1");
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        for _ in 0..5 {
            agent.chat("Hi").await.unwrap();
            let ended = address.sql(&format!(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                 WHERE application_name = 'looptree' AND query LIKE '%{}%' OR pid IN (
                     SELECT l.pid FROM pg_locks l WHERE l.relation = '{}.sessions'::regclass)",
                address.schema, address.schema
            ));
            assert_eq!(ended.len(), 1);
            tokio::time::sleep(Duration::from_millis(300)).await;
            store.find_sessions(&SessionQuery::new()).await.unwrap();
        }
        recorder.close().await.unwrap();
        assert_eq!(store.load_session("s-1").await.unwrap().loops.len(), 5);
    });
}

/// Passes bytes between clients and the server, and loses the reply to the next COMMIT when it is told to.
struct Proxy {
    port: u16,
    loses_next: Arc<AtomicBool>,
}

impl Proxy {
    async fn start(server: u16) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let loses_next = Arc::new(AtomicBool::new(false));
        let loses = Arc::clone(&loses_next);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = tokio::net::TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                tokio::spawn(Self::pass(client, server, Arc::clone(&loses)));
            }
        });
        Self { port, loses_next }
    }

    async fn pass(
        mut client: tokio::net::TcpStream,
        mut server: tokio::net::TcpStream,
        loses: Arc<AtomicBool>,
    ) {
        let (mut sent, mut received) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        loop {
            tokio::select! {
                Ok(count) = client.read(&mut sent) => {
                    let bytes = &sent[..count];
                    if count == 0 || server.write_all(bytes).await.is_err() {
                        return;
                    }
                    let commits = bytes.windows(6).any(|word| word == b"COMMIT");
                    if commits && loses.swap(false, Ordering::SeqCst) {
                        // The server has committed when it answers, and the client never learns it.
                        let _ = server.read(&mut received).await;
                        return;
                    }
                }
                Ok(count) = server.read(&mut received) => {
                    if count == 0 || client.write_all(&received[..count]).await.is_err() {
                        return;
                    }
                }
                else => return,
            }
        }
    }
}

/// The reply to the COMMIT of a save is lost: whether the session was saved is unknown. The writer reads it again before it
/// writes the next record.
#[test]
fn a_lost_reply_to_a_commit_damages_no_session_and_the_run_goes_on() {
    let Some(mut address) = address("lost-commit") else { return };
    block_on(async {
        let port: u16 = address.url.rsplit(':').next().unwrap().split('/').next().unwrap().parse().unwrap();
        let proxy = Proxy::start(port).await;
        address.url = address.url.replace(&format!(":{port}"), &format!(":{}", proxy.port));
        let store = PostgresStore::open_with(address.config()).await.unwrap();
        let mut agent = answering("s-1");
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        for round in 1..=5 {
            agent.chat("Hi").await.unwrap();
            proxy.loses_next.store(true, Ordering::SeqCst);
            recorder.save().await.unwrap_err();
            assert!(!proxy.loses_next.load(Ordering::SeqCst), "the save has a COMMIT");
            agent.chat("Hi again").await.unwrap();
            let loaded = store.load_session("s-1").await.unwrap();
            assert_eq!(loaded.loops.len(), 2 * round);
            assert_eq!(loaded.history().unwrap(), agent.history());
        }
        recorder.close().await.unwrap();
        assert_eq!(store.load_session("s-1").await.unwrap().loops.len(), 10);
    });
}

/// A statement that waits too long fails, with the store usable afterwards, and other sessions are not concerned.
#[test]
fn a_statement_that_takes_too_long_ends_the_run_that_it_concerns() {
    let Some(address) = address("slow") else { return };
    block_on(async {
        let config = address.config().with_statement_timeout(Duration::from_millis(300));
        let store = PostgresStore::open_with(config).await.unwrap();
        let recorder = SessionRecorder::with_store(store.clone());
        let (mut slow, mut other) = (answering("slow"), answering("other"));
        recorder.record(&mut slow);
        recorder.record(&mut other);
        slow.chat("Hi").await.unwrap();
        other.chat("Hi").await.unwrap();
        let (locked, unlock) = (tokio::sync::oneshot::channel::<()>(), tokio::sync::oneshot::channel::<()>());
        let (tell, wait) = (locked.0, unlock.1);
        let (url, schema) = (address.url.clone(), address.schema.clone());
        let holding = tokio::spawn(async move {
            let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            let hold = format!("BEGIN; SELECT FROM {schema}.sessions WHERE id = 'slow' FOR UPDATE");
            client.batch_execute(&hold).await.unwrap();
            tell.send(()).unwrap();
            wait.await.unwrap();
        });
        locked.1.await.unwrap();
        let error = slow.chat("More").await.unwrap_err().to_string();
        assert!(error.contains("timeout"), "{error}");
        other.chat("More").await.unwrap();
        unlock.0.send(()).unwrap();
        holding.await.unwrap();
        slow.chat("Again").await.unwrap();
        recorder.close().await.unwrap();
        assert_eq!(store.load_session("slow").await.unwrap().loops.len(), 2);
        assert_eq!(store.load_session("other").await.unwrap().loops.len(), 2);
    });
}

#[test]
fn a_server_that_is_not_there_is_an_error_with_its_address_and_without_the_password() {
    block_on(async {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let url = format!("postgres://someone:secret%21@127.0.0.1:{port}/agents");
        let error = PostgresStore::open(&url).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains(&format!("postgres://127.0.0.1:{port}/agents")), "{text}");
        assert!(!text.contains("secret") && !text.contains("someone"), "{text}");
    });
}
