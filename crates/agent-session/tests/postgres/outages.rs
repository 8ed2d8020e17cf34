//! A server that is killed, that is away, and that does not answer.

use std::time::Duration;

use agent_session::{
    PostgresStore, RestoreSession as _, SessionError, SessionQuery, SessionRecorder, SessionStore as _,
};

use super::scene::block_on;
use super::scene::postgres::Address;
use super::scene::postgres::proxy::{Mishap, Proxy, Reply, port_of};
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

/// The reply to the COMMIT of a save is lost: whether the session was saved is unknown. The writer reads it again before it
/// writes the next record.
#[test]
fn a_lost_reply_to_a_commit_damages_no_session_and_the_run_goes_on() {
    let Some(mut address) = address("lost-commit") else { return };
    block_on(async {
        let proxy = Proxy::start(port_of(&address.url)).await;
        address.url = proxy.url(&address.url);
        let store = PostgresStore::open_with(address.config()).await.unwrap();
        let mut agent = answering("s-1");
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        for round in 1..=5 {
            agent.chat("Hi").await.unwrap();
            proxy.plan(Mishap::Swallow, Reply::OfCommit);
            recorder.save().await.unwrap_err();
            assert!(!proxy.is_planned(), "the save has a COMMIT");
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
