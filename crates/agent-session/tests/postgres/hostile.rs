//! Ids, texts, URLs and clocks that would like to do harm.

use agent_core::compat::SeedSetters as _;
use std::sync::Arc;
use std::time::Duration;

use agent_core::testing::{ManualEnvironment, ScriptedProvider, ScriptedReply};
use agent_core::{BasicAgent, ModelConfig, Timestamp};
use agent_session::{
    Order, PostgresConfig, PostgresStore, Session, SessionError, SessionQuery, SessionRecorder,
    SessionStore as _, SortBy,
};

use super::scene::block_on;
use super::{address, answering};

#[test]
fn ids_and_texts_are_values_and_never_a_part_of_a_statement() {
    let Some(address) = address("hostile") else { return };
    let texts = [
        "'; DROP TABLE sessions; --",
        "\\'; DROP SCHEMA public CASCADE; --",
        "$1 $$ $tag$ E'\\000' \u{0} %s %I ' & | ! :* <->",
        "\u{feff}\u{202e}\u{10ffff} größe 日本語 İ K",
    ];
    block_on(async {
        let store = PostgresStore::open_with(address.config()).await.unwrap();
        for (n, text) in texts.into_iter().enumerate() {
            let id = format!("s-{n}");
            let mut config = ModelConfig::default();
            config.id = text.into();
            let mut agent = BasicAgent::new(config)
                .with_agent_id(text)
                .with_session_id(id.as_str())
                .with_provider(ScriptedProvider::new([ScriptedReply::text(format!("needle{n} {text}"))]));
            let recorder = SessionRecorder::attach(&mut agent, store.clone());
            agent.chat(text).await.unwrap();
            recorder.close().await.unwrap();
            let found =
                store.find_sessions(&SessionQuery::new().with_agent(text).with_model(text)).await.unwrap();
            assert_eq!((found.total, found.sessions[0].summary.session_id.as_str()), (1, id.as_str()));
            assert!(found.unreadable.is_empty());
            let found = store.find_sessions(&SessionQuery::new().with_parent(text)).await.unwrap();
            assert_eq!(found.total, 0);
            let query = SessionQuery::new().with_text(format!("needle{n} {text}"));
            assert_eq!(store.find_sessions(&query).await.unwrap().total, 1, "{text:?}");
            assert_eq!(store.load_session(&id).await.unwrap().history().unwrap(), agent.history());
            for refused in [store.load_session(text).await.map(drop), store.delete_session(text).await] {
                assert!(matches!(refused, Err(SessionError::InvalidId { .. })), "{refused:?}");
            }
        }
        let odd = ["größe", "a@b=c+d", "日本", "select", "_", "-", "-x"];
        for id in odd {
            store.save_session(&Session::new(id.into(), "a".into(), Timestamp(1))).await.unwrap();
        }
        let query = SessionQuery::new().with_agent("a").sorted(SortBy::Id, Order::Ascending);
        let found = store.find_sessions(&query).await.unwrap();
        let ids: Vec<&str> = found.sessions.iter().map(|s| s.summary.session_id.as_str()).collect();
        let mut sorted = odd.to_vec();
        sorted.sort_unstable();
        assert_eq!(ids, sorted, "in the order of bytes, whatever the locale is");
    });
}

/// Words that are more than the server takes in one row are found all the same, together and apart.
#[test]
fn a_message_with_very_many_words_is_found_by_its_first_and_its_last() {
    let Some(address) = address("words") else { return };
    block_on(async {
        let store = PostgresStore::open_with(address.config()).await.unwrap();
        let words: Vec<String> = (0..150_000).map(|n| format!("w{n:08}x")).collect();
        let text = words.join(" ");
        let mut session = Session::new("s-1".into(), "a".into(), Timestamp(1));
        let mut record =
            agent_session::LoopRecord::new("s-1.m.1".into(), "s-1".into(), "a".into(), Timestamp(2));
        record.messages.push(agent_core::AgentMessage::user(text).into());
        session.loops.push(record);
        store.save_session(&session).await.unwrap();
        for (text, expect) in [("w00000000x w00149999x", 1), ("w00000000x absent", 0), ("w00075000", 1)] {
            let found = store.find_sessions(&SessionQuery::new().with_text(text)).await.unwrap();
            assert_eq!((found.total, found.sessions.len()), (expect, expect), "{text}");
            assert!(found.sessions.iter().all(|session| session.hits.len() == 1));
        }
    });
}

/// The clock of the client is centuries away. Leases use the clock of the server.
#[test]
fn a_client_with_a_wrong_clock_takes_no_lease_and_keeps_its_own() {
    let Some(address) = address("clock") else { return };
    block_on(async {
        let store = PostgresStore::open_with(address.config()).await.unwrap();
        let at = |id: &str, time: u64| answering(id).with_environment(Arc::new(ManualEnvironment::at(time)));
        let mut past = at("s-1", 1);
        let recorder = SessionRecorder::attach(&mut past, store.clone());
        past.chat("Hi").await.unwrap();
        let mut future = at("s-1", 100 * 365 * 86_400_000 * 10).with_config_id("future");
        let other = SessionRecorder::attach(&mut future, store.clone());
        let refused = future.chat("Mine").await.unwrap_err().to_string();
        assert!(refused.contains("another process or recorder is writing this session"), "{refused}");
        past.chat("Still mine").await.unwrap();
        let valid =
            "SELECT count(*) FROM leases WHERE expires_at > now() AND expires_at < now() + interval '1 hour'";
        assert_eq!(address.sql(valid), [Some("1".to_owned())]);
        recorder.close().await.unwrap();
        future.chat("Mine now").await.unwrap();
        other.close().await.unwrap();
        assert_eq!(store.load_session("s-1").await.unwrap().loops.len(), 3);
    });
}

#[test]
fn a_url_that_would_not_protect_is_refused_and_no_password_is_shown() {
    let open = |url: &str| PostgresConfig::new(url).map_err(|error| format!("{error} {error:?}"));
    for url in [
        "postgres://u:hidden@db.example.com/x?sslmode=prefer",
        "postgres://u:hidden@db.example.com/x?sslmode=allow",
        "postgres://u:hidden@db.example.com/x?sslmode=verify-ca",
        "postgres://u:hidden@db.example.com/x?hidden=hidden",
        "postgres://u:hidden@db.example.com:hidden/x",
        "mysql://u:hidden@db.example.com/x",
        "hidden",
        "postgres://",
    ] {
        let error = open(url).unwrap_err();
        assert!(!error.contains("hidden"), "{error}");
    }
    for (url, tls) in [
        ("postgres://u:hidden@localhost/x", "Off"),
        ("postgres://u:hidden@[::1]:5433/x", "Off"),
        ("postgres://u:hidden@127.0.0.1/x?sslmode=verify-full", "Verified(None)"),
        ("postgres://u:hidden@db.example.com/x", "Verified(None)"),
        ("postgres://u:hidden@db.example.com/x?sslmode=disable", "Off"),
        (
            "postgresql://u:hidden@db.example.com/x?sslmode=require&sslrootcert=%2Fa%20b.pem",
            "Verified(Some(\"/a b.pem\"))",
        ),
    ] {
        let shown = format!("{:?}", open(url).unwrap());
        assert!(shown.contains(&format!("tls: {tls}")) && !shown.contains("hidden"), "{shown}");
    }
    for schema in ["", "A", "a-b", "a\"; DROP SCHEMA public; --", "1a", &"x".repeat(64)] {
        let config = open("postgres://localhost/x").unwrap().with_schema(schema);
        let refused = block_on(PostgresStore::open_with(config)).unwrap_err().to_string();
        assert!(refused.contains("small letters"), "{refused}");
    }
}

#[test]
fn tables_of_a_later_version_are_refused_with_a_sentence() {
    let Some(address) = address("version") else { return };
    block_on(async {
        drop(PostgresStore::open_with(address.config()).await.unwrap());
        address.sql("UPDATE looptree_store SET version = 2");
        let refused = PostgresStore::open_with(address.config()).await.unwrap_err();
        assert!(
            matches!(refused, SessionError::UnsupportedVersion { found: 2, known: 1, .. }),
            "{refused:?}"
        );
        assert!(refused.to_string().ends_with("update looptree to read it"), "{refused}");
    });
}

/// Eight programs that open an empty database at once make its tables once.
#[test]
fn many_stores_open_an_empty_database_at_the_same_time() {
    let Some(address) = address("together") else { return };
    block_on(async {
        let opening: Vec<_> =
            (0..8).map(|_| tokio::spawn(PostgresStore::open_with(address.config()))).collect();
        for opened in opening {
            assert!(opened.await.unwrap().unwrap().list_session_ids().await.unwrap().is_empty());
        }
    });
}

/// A role that may use the tables and cannot make any is enough when they exist.
#[test]
fn a_role_with_few_rights_records_and_one_without_any_is_told() {
    let Some(address) = address("roles") else { return };
    block_on(async {
        drop(PostgresStore::open_with(address.config()).await.unwrap());
        let (schema, role) = (&address.schema, format!("worker_{}", address.schema));
        let url = address.url.replace("postgres@", &format!("{role}@"));
        let config =
            || PostgresConfig::new(&url).unwrap().with_schema(schema).with_lease(Duration::from_secs(60));
        address.sql(&format!("CREATE ROLE {role} LOGIN"));
        let refused = PostgresStore::open_with(config()).await.unwrap_err().to_string();
        assert!(refused.contains("permission denied"), "{refused}");
        address.sql(&format!(
            "GRANT USAGE ON SCHEMA {schema} TO {role};
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};
             GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}"
        ));
        let store = PostgresStore::open_with(config()).await.unwrap();
        let (_, place) = address.url.split_once('@').unwrap();
        let described = store.describe();
        assert!(described.starts_with(&format!("postgres://{place}")), "{described}");
        assert!(!described.contains("worker_"), "the name of the user: {described}");
        let mut agent = answering("s-1");
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        agent.chat("Hi").await.unwrap();
        recorder.close().await.unwrap();
        store.delete_session("s-1").await.unwrap();
    });
}
