//! The settings of a Postgres store.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

use tokio_postgres::config::{Config, Host, SslMode};

use crate::error::SessionError;
use crate::store::database::MAX_SESSION_BYTES;

/// The settings of a [`PostgresStore`](super::PostgresStore), from the URL of its database. Neither `Debug` nor an error
/// contains the password.
///
/// ```
/// use std::time::Duration;
/// use agent_session::PostgresConfig;
///
/// let config = PostgresConfig::new("postgres://looptree:secret@127.0.0.1:5432/agents")?
///     .with_schema("support")
///     .with_lease(Duration::from_secs(60));
/// assert!(!format!("{config:?}").contains("secret"));
/// assert!(PostgresConfig::new("postgres://127.0.0.1/agents?sslmode=prefer").is_err());
/// # Ok::<(), agent_session::SessionError>(())
/// ```
#[derive(Clone)]
pub struct PostgresConfig {
    pub(super) server: Config,
    pub(super) tls: Tls,
    /// The address of the database, without user and password.
    address: String,
    pub(super) schema: String,
    pub(super) lease: Duration,
    pub(super) statement_timeout: Duration,
    pub(super) connections: usize,
    pub(super) max_session_bytes: u64,
}

/// How a connection is protected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tls {
    Off,
    /// The certificate of the server is verified against these roots, or those of the operating system.
    Verified(Option<PathBuf>),
}

/// The time between the write of a record and the end of the lease; also the default.
const LEASE: Duration = Duration::from_secs(30);

/// The shortest lease.
const SHORTEST_LEASE: Duration = Duration::from_millis(500);

const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

const CONNECTIONS: usize = 6;

/// One connection writes records, one renews leases, and at least one is for everything else.
const FEWEST_CONNECTIONS: usize = 3;

/// The longest name that Postgres keeps whole.
const LONGEST_NAME: usize = 63;

impl PostgresConfig {
    /// Reads the URL of a database: `postgres://USER:PASSWORD@HOST:PORT/DATABASE?OPTION=VALUE&...`, with the options of
    /// libpq, such as `connect_timeout`, `application_name` and `target_session_attrs`.
    ///
    /// `sslmode=verify-full` or `require` demands TLS and verifies the certificate against the roots of the operating system,
    /// or those in the PEM file `sslrootcert`. `sslmode=disable` uses no TLS. Without `sslmode`, a server on this machine is
    /// used without TLS and every other one with it. Modes that do not verify are refused.
    ///
    /// # Errors
    /// When the URL cannot be read, has no host, or has an `sslmode` that does not verify the server.
    pub fn new(url: &str) -> Result<Self, SessionError> {
        let refused = |reason: String| SessionError::store("the URL of the Postgres store", "used", reason);
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(refused("it does not begin with postgres://".to_owned()));
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut roots, mut rest) = (None, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", value)) => roots = Some(PathBuf::from(decoded(value))),
                _ => rest.push(pair),
            }
        }
        let without = format!("{base}?{}", rest.join("&"));
        let mut server = Config::from_str(without.trim_end_matches('?')).map_err(|error| {
            // The error of the library can repeat a part of the URL.
            let _ = error;
            refused("it is not the URL of a database, or has an option that is not known".to_owned())
        })?;
        if server.get_hosts().is_empty() && server.get_hostaddrs().is_empty() {
            return Err(refused("it names no host".to_owned()));
        }
        let tls = match mode {
            None if is_local(&server) && roots.is_none() => Tls::Off,
            Some("disable") => Tls::Off,
            None | Some("require" | "verify-full") => Tls::Verified(roots),
            Some(_) => {
                let reason =
                    "its sslmode does not verify the server; use verify-full with TLS, or disable without";
                return Err(refused(reason.to_owned()));
            }
        };
        server.ssl_mode(if tls == Tls::Off { SslMode::Disable } else { SslMode::Require });
        if server.get_connect_timeout().is_none() {
            server.connect_timeout(CONNECT_TIMEOUT);
        }
        if server.get_tcp_user_timeout().is_none() {
            server.tcp_user_timeout(STATEMENT_TIMEOUT);
        }
        if server.get_application_name().is_none() {
            server.application_name("looptree");
        }
        Ok(Self {
            address: address(&server),
            server,
            tls,
            schema: "looptree".to_owned(),
            lease: LEASE,
            statement_timeout: STATEMENT_TIMEOUT,
            connections: CONNECTIONS,
            max_session_bytes: MAX_SESSION_BYTES,
        })
    }

    /// Sets the schema that has the tables; the default is `looptree`. Stores with different schemas share a database and
    /// nothing else. A name has 1 to 63 small letters, digits and underscores, and does not begin with a digit.
    #[must_use]
    pub fn with_schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Sets how long a session stays locked after its writer was killed or lost the server; the default is 30 seconds, the
    /// minimum half a second. A writer renews its lease three times in this time.
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease.max(SHORTEST_LEASE);
        self
    }

    /// Sets the time that the server may take for one statement; the default is 30 seconds. A statement that takes longer
    /// fails, and so does the run whose record it writes.
    #[must_use]
    pub fn with_statement_timeout(mut self, timeout: Duration) -> Self {
        self.statement_timeout = timeout.max(Duration::from_millis(1));
        self
    }

    /// Sets the maximum number of connections of the store, at least 3; the default is 6.
    #[must_use]
    pub fn with_connections(mut self, connections: usize) -> Self {
        self.connections = connections.max(FEWEST_CONNECTIONS);
        self
    }

    /// Sets the maximum size in bytes of a session that is read; the default is
    /// [`MAX_SESSION_BYTES`]. A writer refuses records with which the session would be
    /// larger, and new loops when less than an eighth is left ([`SessionError::Full`]).
    #[must_use]
    pub fn with_max_session_bytes(mut self, bytes: u64) -> Self {
        self.max_session_bytes = bytes;
        self
    }

    /// Returns the address of the store for messages, without user and password.
    pub(super) fn place(&self) -> String {
        format!("{}, schema {}", self.address, self.schema)
    }

    /// Checks the name of the schema, which becomes a part of statements.
    pub(super) fn check_schema(&self) -> Result<(), SessionError> {
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let begins = self.schema.chars().next().is_some_and(|c| !c.is_ascii_digit());
        if begins && self.schema.len() <= LONGEST_NAME && self.schema.chars().all(is_name) {
            return Ok(());
        }
        let reason = "it has other characters than small letters, digits and underscores, or is too long";
        Err(SessionError::store(format!("the schema {:?}", self.schema), "used", reason))
    }
}

impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig")
            .field("address", &self.address)
            .field("schema", &self.schema)
            .field("tls", &self.tls)
            .field("lease", &self.lease)
            .field("statement_timeout", &self.statement_timeout)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

/// Returns whether every server of the URL is on this machine.
fn is_local(server: &Config) -> bool {
    let is_local = |host: &Host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    server.get_hosts().iter().all(is_local) && server.get_hostaddrs().iter().all(IpAddr::is_loopback)
}

fn address(server: &Config) -> String {
    let host = match server.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => server.get_hostaddrs().first().map(ToString::to_string).unwrap_or_default(),
    };
    let port = server.get_ports().first().copied().unwrap_or(5432);
    let database = server.get_dbname().or(server.get_user()).unwrap_or_default();
    format!("postgres://{host}:{port}/{database}")
}

/// Replaces the escapes of a part of a URL.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| after.split_at_checked(2)).flatten();
        let byte = escaped.and_then(|(digits, after)| {
            let digits = std::str::from_utf8(digits).ok()?;
            Some((u8::from_str_radix(digits, 16).ok()?, after))
        });
        let (byte, after) = byte.unwrap_or((*first, after));
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
