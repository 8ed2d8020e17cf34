//! Connections to the server, and the pool of those that are not in use.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row, RowStream, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::config::{PostgresConfig, Tls};
use super::failure::Failure;
use crate::error::SessionError;

/// The parameters of a statement.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// How long the client waits for the server longer than the server may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection that was idle for longer is checked before it is used.
const FRESH: Duration = Duration::from_millis(200);

/// What a connection is used for. Each has connections of its own, so that long reads delay no record and no renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Records,
    Leases,
    Other,
}

/// The connections of a store.
pub(super) struct Pool {
    config: PostgresConfig,
    /// `None` without TLS.
    tls: Option<MakeRustlsConnect>,
    idle: Mutex<Vec<(Connection, Instant)>>,
    records: Semaphore,
    leases: Semaphore,
    other: Semaphore,
}

/// A connection in use. It is closed when it is dropped, which rolls an open transaction back; [`back`](Self::back) keeps it.
pub(super) struct Used<'a> {
    pub(super) connection: Connection,
    pool: &'a Pool,
    _permit: Option<SemaphorePermit<'a>>,
}

impl Used<'_> {
    /// Returns the connection to the pool. No transaction may be open.
    pub(super) fn back(self) {
        let mut idle = self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push((self.connection, Instant::now()));
    }
}

impl Pool {
    /// Creates a pool. Reads the certificates of the roots, which blocks.
    pub(super) fn new(config: PostgresConfig) -> Result<Self, SessionError> {
        let tls = match &config.tls {
            Tls::Off => None,
            Tls::Verified(roots) => Some(MakeRustlsConnect::new(tls(roots.as_deref())?)),
        };
        let other = config.connections.saturating_sub(2).max(1);
        Ok(Self {
            config,
            tls,
            idle: Mutex::default(),
            records: Semaphore::new(1),
            leases: Semaphore::new(1),
            other: Semaphore::new(other),
        })
    }

    pub(super) fn config(&self) -> &PostgresConfig {
        &self.config
    }

    /// Returns a connection that works, as far as that can be known.
    pub(super) async fn get(&self, of: Use) -> Result<Used<'_>, Failure> {
        let permits = match of {
            Use::Records => &self.records,
            Use::Leases => &self.leases,
            Use::Other => &self.other,
        };
        // The semaphores are never closed.
        let permit = permits.acquire().await.ok();
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = match idle {
                None => self.connect().await?,
                Some((connection, _)) if connection.client.is_closed() => continue,
                Some((connection, since)) if since.elapsed() < FRESH => connection,
                Some((connection, _)) => {
                    let check = timeout(PATIENCE, connection.client.check_connection());
                    if !matches!(check.await, Ok(Ok(()))) {
                        continue;
                    }
                    connection
                }
            };
            return Ok(Used { connection, pool: self, _permit: permit });
        }
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        let server = &self.config.server;
        let limit = server.get_connect_timeout().copied().unwrap_or(PATIENCE) + PATIENCE;
        let connecting = async {
            match &self.tls {
                None => {
                    let (client, connection) = server.connect(NoTls).await?;
                    Ok::<_, Failure>((client, spawn(connection)))
                }
                Some(tls) => {
                    let (client, connection) = server.connect(tls.clone()).await?;
                    Ok((client, spawn(connection)))
                }
            }
        };
        let (client, task) = timeout(limit, connecting).await.map_err(|_| Failure::Silent(limit))??;
        let limit = self.config.statement_timeout + PATIENCE;
        let mut connection = Connection { client, task, statements: BTreeMap::new(), limit };
        let milliseconds = self.config.statement_timeout.as_millis().min(i32::MAX as u128);
        let schema = &self.config.schema;
        let settings = format!(
            "SET search_path TO \"{schema}\";
             SET statement_timeout = {milliseconds};
             SET lock_timeout = {milliseconds};
             SET idle_in_transaction_session_timeout = {milliseconds};
             SET default_transaction_isolation = 'read committed';
             SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        );
        connection.batch(&settings).await?;
        Ok(connection)
    }
}

/// Drives a connection until its client is dropped.
fn spawn<S, T>(connection: tokio_postgres::Connection<S, T>) -> AbortHandle
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let drive = async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to Postgres has ended");
        }
    };
    tokio::spawn(drive).abort_handle()
}

/// A connection with its prepared statements.
pub(super) struct Connection {
    client: Client,
    task: AbortHandle,
    statements: BTreeMap<&'static str, Statement>,
    /// How long one statement may take.
    limit: Duration,
}

impl Connection {
    /// Runs statements without parameters and results.
    pub(super) async fn batch(&mut self, sql: &str) -> Result<(), Failure> {
        let done = timeout(self.limit, self.client.batch_execute(sql)).await;
        Ok(self.answered(done)??)
    }

    /// Prepares a statement, once for each connection.
    pub(super) async fn statement(&mut self, sql: &'static str) -> Result<Statement, Failure> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let prepared = timeout(self.limit, self.client.prepare(sql)).await;
        let statement = self.answered(prepared)??;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    /// Runs a statement and returns its rows.
    pub(super) async fn query(&mut self, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>, Failure> {
        let statement = self.statement(sql).await?;
        let rows = timeout(self.limit, self.client.query(&statement, params)).await;
        Ok(self.answered(rows)??)
    }

    /// Runs a statement of a query, which is not kept, and returns its rows.
    pub(super) async fn query_once(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Failure> {
        let rows = timeout(self.limit, self.client.query(sql, params)).await;
        Ok(self.answered(rows)??)
    }

    /// Runs a statement and returns the number of changed rows.
    pub(super) async fn execute(&mut self, sql: &'static str, params: Params<'_>) -> Result<u64, Failure> {
        let statement = self.statement(sql).await?;
        let changed = timeout(self.limit, self.client.execute(&statement, params)).await;
        Ok(self.answered(changed)??)
    }

    /// Runs a prepared statement once for each list of parameters, without waiting in between, and returns the first row of
    /// each.
    pub(super) async fn query_each<'p>(
        &mut self,
        statement: &Statement,
        all: impl IntoIterator<Item = Vec<&'p (dyn ToSql + Sync)>>,
    ) -> Result<Vec<Row>, Failure> {
        let client = &self.client;
        let each = all.into_iter().map(|params| async move { client.query_one(statement, &params).await });
        let rows = timeout(self.limit, futures_util::future::try_join_all(each)).await;
        Ok(self.answered(rows)??)
    }

    /// Runs a statement whose rows are read one by one with [`next`](Self::next).
    pub(super) async fn stream(
        &mut self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<RowStream, Failure> {
        let statement = self.statement(sql).await?;
        let params: Vec<_> = params.to_vec();
        let stream = timeout(self.limit, self.client.query_raw(&statement, params)).await;
        Ok(self.answered(stream)??)
    }

    /// Returns the next row of a stream.
    pub(super) async fn next(
        &mut self,
        stream: &mut std::pin::Pin<&mut RowStream>,
    ) -> Result<Option<Row>, Failure> {
        let next = timeout(self.limit, futures_util::StreamExt::next(stream)).await;
        Ok(self.answered(next)?.transpose()?)
    }

    /// Ends a connection whose server does not answer, so that nothing waits for it.
    fn answered<T>(&self, done: Result<T, tokio::time::error::Elapsed>) -> Result<T, Failure> {
        done.map_err(|_| {
            self.task.abort();
            Failure::Silent(self.limit)
        })
    }
}

/// Returns the settings of TLS connections.
fn tls(roots: Option<&std::path::Path>) -> Result<ClientConfig, SessionError> {
    let failed = |error: rustls::Error| SessionError::store("TLS", "set up", error);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?;
    let Some(path) = roots else {
        return Ok(builder.with_platform_verifier().map_err(failed)?.with_no_client_auth());
    };
    let unread = |error: rustls::pki_types::pem::Error| {
        SessionError::store(format!("the certificates in {}", path.display()), "read", error)
    };
    let mut store = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(unread)? {
        store.add(certificate.map_err(unread)?).map_err(failed)?;
    }
    Ok(builder.with_root_certificates(store).with_no_client_auth())
}
