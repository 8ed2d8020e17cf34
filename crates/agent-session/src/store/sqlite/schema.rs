//! The tables and their migrations.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::super::database::number as signed;
use super::super::files::{open_now, owner_only};
use super::Failure;
use crate::error::SessionError;

/// The migrations, one for each version; the first creates version 1 in an empty database. A released migration is never
/// changed.
const MIGRATIONS: &[&str] = &[include_str!("schema/1.sql"), include_str!("schema/2.sql")];

/// The application id that distinguishes these databases from others: `ltse` in ASCII.
const APPLICATION: i64 = 0x6c74_7365;

/// The first bytes of every SQLite database.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// The size of the smallest page in bytes.
const SHORTEST: usize = 512;

/// How long a writer waits for another process to finish its transaction.
const BUSY: Duration = Duration::from_secs(10);

/// What to do about a database that lost transactions.
pub(super) const ADVICE: &str = "restore the database together with the file beside it that ends in -wal, or accept the loss \
                                 with SqliteStore::open_with_losses";

/// What a database must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Any content; a file without tables is a new database.
    Any,
    /// The tables of a database with transactions.
    Tables,
}

/// Opens the database for writing, and creates or migrates its tables.
pub(super) fn open(path: &Path, content: Content) -> Result<Connection, SessionError> {
    make_file(path, content)?;
    let mut connection = connect(path)?;
    migrate(path, &mut connection, content)?;
    check(&connection).map_err(|f| f.named(path, "opened"))?;
    Ok(connection)
}

/// The name and the definition of a table, an index or a trigger.
type Definition = (String, String, Option<String>);

/// Checks that the definitions of the tables are those that the migrations made. Without this, a name that was damaged can
/// hide rows.
fn check(connection: &Connection) -> Result<(), Failure> {
    static EXPECTED: OnceLock<BTreeSet<Definition>> = OnceLock::new();
    let expected = match EXPECTED.get() {
        Some(expected) => expected,
        None => {
            let empty = Connection::open_in_memory()?;
            MIGRATIONS.iter().try_for_each(|migration| empty.execute_batch(migration))?;
            let made = definitions(&empty)?;
            EXPECTED.get_or_init(|| made)
        }
    };
    let found = definitions(connection)?;
    match expected.difference(&found).next() {
        Some((name, ..)) => Err(Failure::damaged_database(format!("the definition of {name} is damaged"))),
        None => Ok(()),
    }
}

/// Returns the definitions, except those of the tables of FTS5, which depend on its version.
fn definitions(connection: &Connection) -> Result<BTreeSet<Definition>, Failure> {
    let mut statement = connection.prepare(
        "SELECT name, type || ' of ' || tbl_name, sql FROM sqlite_schema
         WHERE name NOT LIKE 'texts!_%' ESCAPE '!' AND name NOT LIKE 'said!_words!_%' ESCAPE '!'",
    )?;
    let all = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(all.collect::<Result<_, _>>()?)
}

/// Creates the file for its owner only. SQLite gives its other files the same permissions.
fn make_file(path: &Path, content: Content) -> Result<(), SessionError> {
    let mut options = std::fs::File::options();
    options.create(true).append(true);
    owner_only(&mut options);
    options.open(path).map_err(SessionError::io(path, "opened"))?;
    // SQLite treats a file that is shorter than a page as empty and would overwrite it.
    let mut begin = Vec::new();
    let file = open_now(path).map_err(SessionError::io(path, "opened"))?;
    file.take(SHORTEST as u64).read_to_end(&mut begin).map_err(SessionError::io(path, "read"))?;
    if begin.is_empty() && content == Content::Tables {
        return Err(tables_are_missing().named(path, "opened"));
    }
    if !begin.is_empty() && (begin.len() < SHORTEST || !begin.starts_with(MAGIC)) {
        return Err(SessionError::corrupt(path, "its first page", "this is no whole SQLite database"));
    }
    Ok(())
}

fn tables_are_missing() -> Failure {
    Failure::damaged_database(format!("its tables are missing; {ADVICE}"))
}

/// Opens a connection to a database.
pub(super) fn connect(path: &Path) -> Result<Connection, SessionError> {
    // Each connection is used by one thread at a time, and names are paths, never URIs.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let set_up = || -> Result<Connection, Failure> {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = NORMAL;
             PRAGMA foreign_keys = ON;
             PRAGMA trusted_schema = OFF;
             PRAGMA cell_size_check = ON;",
        )?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    };
    set_up().map_err(|f| f.named(path, "opened"))
}

fn migrate(path: &Path, connection: &mut Connection, content: Content) -> Result<(), SessionError> {
    let number = |name: &str, c: &Connection| c.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let mut step = || -> Result<(), Failure> {
        if usize::try_from(number("user_version", connection)?) == Ok(MIGRATIONS.len())
            && number("application_id", connection)? == APPLICATION
        {
            return Ok(());
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process can have migrated it meanwhile.
        let version = number("user_version", &transaction)?;
        let tables: i64 =
            transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        let is_ours = number("application_id", &transaction)? == APPLICATION;
        if !is_ours && (version != 0 || tables > 0) {
            let text = "it is the database of something else";
            return Err(SessionError::corrupt(path, "application_id", text).into());
        }
        if version == 0 && (is_ours || content == Content::Tables) {
            return Err(tables_are_missing());
        }
        let done = usize::try_from(version).unwrap_or(usize::MAX);
        let Some(open) = MIGRATIONS.get(done..) else {
            let known = u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX);
            let found = u32::try_from(version).unwrap_or(u32::MAX);
            return Err(SessionError::UnsupportedVersion { path: path.to_owned(), found, known }.into());
        };
        for migration in open {
            transaction.execute_batch(migration)?;
        }
        transaction.pragma_update(None, "user_version", signed(MIGRATIONS.len() as u64))?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.commit()?;
        Ok(())
    };
    step().map_err(|f| f.named(path, "brought to this version"))
}
