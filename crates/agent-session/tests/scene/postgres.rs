//! The store on Postgres in tests: one server for each test program, and a schema for each folder.

#![allow(clippy::print_stdout, reason = "whoever runs the tests is told what was skipped")]

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use agent_core::SessionId;
use agent_session::{
    BlockingSessionStore, BlockingSessionWriter, FoundSessions, LoadedSession, PostgresConfig, PostgresStore,
    Salvaged, Session, SessionError, SessionQuery, SessionRecord, SessionStore, SessionWriter,
    UnfinishedSessions, WriteJob,
};

use super::store::Store;

#[path = "../postgres_server/mod.rs"]
pub(crate) mod server;

#[path = "../postgres_server/proxy.rs"]
pub(crate) mod proxy;

use server::{Data, Server};

/// The file in a folder that names the server and the schema of its store.
pub(crate) const ADDRESS: &str = "postgres-address";

/// A lease that ends in no test by itself.
const LEASE: Duration = Duration::from_secs(120);

/// Waits for a future without a runtime.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// The URL of the server of this test program, or the reason why there is none.
pub(crate) fn url() -> &'static Result<String, String> {
    static URL: OnceLock<Result<String, String>> = OnceLock::new();
    URL.get_or_init(|| {
        // A program includes this file several times, and has one server.
        let directory = std::env::temp_dir().join(format!("looptree-postgres-{}", std::process::id()));
        if std::fs::create_dir(&directory).is_ok() {
            let started = Server::start(&directory, Data::Removed, &["fsync=off", "autovacuum_naptime=5s"]);
            let said = started.map(|server| {
                let url = server.url();
                // It ends with this process.
                std::mem::forget(server);
                url
            });
            let text = match &said {
                Ok(url) => url.clone(),
                Err(reason) => format!("!{reason}"),
            };
            let beside = directory.join("url.new");
            std::fs::write(&beside, text).unwrap();
            std::fs::rename(&beside, directory.join("url")).unwrap();
            return said;
        }
        loop {
            match std::fs::read_to_string(directory.join("url")) {
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
                Ok(text) => {
                    return match text.strip_prefix('!') {
                        Some(reason) => Err(reason.to_owned()),
                        None => Ok(text),
                    };
                }
            }
        }
    })
}

/// Whether there is a server. Says so once if there is none.
pub(crate) fn is_there() -> bool {
    static SAID: OnceLock<()> = OnceLock::new();
    match url() {
        Ok(_) => true,
        Err(reason) => {
            SAID.get_or_init(|| println!("skipped: the tests of the store on Postgres; {reason}"));
            false
        }
    }
}

/// The server and the schema of a folder.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) url: String,
    pub(crate) schema: String,
}

impl Address {
    /// The address of a folder, which is noted there for other processes.
    pub(crate) fn of(folder: &Path) -> Self {
        let note: PathBuf = folder.join(ADDRESS);
        if let Ok(text) = std::fs::read_to_string(&note) {
            let (url, schema) = text.split_once('\n').unwrap();
            return Self { url: url.to_owned(), schema: schema.to_owned() };
        }
        let name = std::fs::canonicalize(folder).unwrap().display().to_string();
        let address = Self::new(url().as_ref().unwrap(), &name);
        std::fs::write(note, format!("{}\n{}", address.url, address.schema)).unwrap();
        address
    }

    pub(crate) fn new(url: &str, name: &str) -> Self {
        // FNV-1a, so that each name has a schema of its own.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self { url: url.to_owned(), schema: format!("t_{hash:016x}") }
    }

    pub(crate) fn config(&self) -> PostgresConfig {
        PostgresConfig::new(&self.url)
            .unwrap()
            .with_schema(&self.schema)
            .with_lease(LEASE)
            .with_connections(4)
    }

    pub(crate) fn open(&self) -> PostgresStore {
        wait(PostgresStore::open_with(self.config())).unwrap()
    }

    /// Runs statements in the schema and returns the first column of the last one as texts.
    pub(crate) fn sql(&self, text: &str) -> Vec<Option<String>> {
        let (url, text) = (self.url.clone(), format!("SET search_path TO {}; {text}", self.schema));
        let ask = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (client, connection) =
                    tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
                tokio::spawn(connection);
                let messages =
                    client.simple_query(&text).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
                let rows = messages.iter().filter_map(|message| match message {
                    tokio_postgres::SimpleQueryMessage::Row(row) => Some(row.get(0).map(str::to_owned)),
                    _ => None,
                });
                rows.collect()
            })
        };
        std::thread::spawn(ask).join().unwrap()
    }

    /// Ends all leases, as time does after their processes were killed.
    pub(crate) fn end_leases(&self) {
        self.sql("UPDATE leases SET expires_at = clock_timestamp()");
    }
}

/// The store of a folder.
pub(crate) fn open(folder: &Path) -> Store {
    let store = Address::of(folder).open();
    Store::with(Arc::new(Blocking(store.clone())), Arc::new(store))
}

/// Copies the tables of a store, except its leases.
pub(crate) fn copy(from: &Path, to: &Path) {
    let (from, to) = (Address::of(from), Address::of(to));
    drop(to.open());
    for table in ["sessions", "lines", "records", "said"] {
        let of = if table == "sessions" { "OVERRIDING SYSTEM VALUE" } else { "" };
        to.sql(&format!("INSERT INTO {table} {of} SELECT * FROM {}.{table}", from.schema));
    }
}

/// A store that is called without a runtime.
#[derive(Debug)]
pub(crate) struct Blocking(pub(crate) PostgresStore);

impl BlockingSessionStore for Blocking {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn save_session(&self, session: &Session) -> Result<(), SessionError> {
        wait(self.0.save_session(session))
    }

    fn load_session(&self, id: &str) -> Result<LoadedSession, SessionError> {
        wait(self.0.load_session(id))
    }

    fn delete_session(&self, id: &str) -> Result<(), SessionError> {
        wait(self.0.delete_session(id))
    }

    fn list_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        wait(self.0.list_session_ids())
    }

    fn list_open_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        wait(self.0.list_open_session_ids())
    }

    fn list_unfinished(&self) -> Result<UnfinishedSessions, SessionError> {
        wait(self.0.list_unfinished())
    }

    fn list_deferring_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        wait(self.0.list_deferring_session_ids())
    }

    fn find_sessions(&self, query: &SessionQuery) -> Result<FoundSessions, SessionError> {
        wait(self.0.find_sessions(query))
    }

    fn write_session(
        &self,
        id: &str,
    ) -> Result<(Box<dyn BlockingSessionWriter>, Option<Session>), SessionError> {
        let (writer, found) = wait(self.0.write_session(id))?;
        Ok((Box::new(Writer(writer)), found))
    }

    fn salvage_session(&self, id: &str) -> Result<Salvaged, SessionError> {
        wait(self.0.salvage_session(id))
    }
}

#[derive(Debug)]
struct Writer(Box<dyn SessionWriter>);

impl BlockingSessionWriter for Writer {
    fn append(&mut self, record: &SessionRecord<'_>) -> Result<Option<WriteJob>, SessionError> {
        let pending = self.0.append(record)?;
        let number = record.number;
        Ok(pending.map(|pending| -> WriteJob { Box::new(move || wait(pending).map(|()| number)) }))
    }

    fn save(&mut self, session: &Session) -> Result<(), SessionError> {
        wait(self.0.save(session.clone()))
    }
}
