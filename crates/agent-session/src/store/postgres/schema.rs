//! The tables and their versions.

use std::path::PathBuf;

use super::connection::{Connection, Pool, Use};
use super::failure::Failure;
use crate::error::SessionError;

/// The migrations, one for each version; the first creates version 1 in an empty schema. A released migration is never
/// changed.
const MIGRATIONS: &[&str] = &[include_str!("schema/1.sql")];

/// The earliest version of the server that can be used, as `server_version_num` has it.
const EARLIEST: i32 = 130_000;

/// The lock of programs that create or migrate tables: `ltse` in ASCII.
const LOCK: i64 = 0x6c74_7365;

/// Checks the server and creates or migrates the tables.
pub(super) async fn open(pool: &Pool) -> Result<(), Failure> {
    let mut used = pool.get(Use::Other).await?;
    let connection = &mut used.connection;
    check_server(connection).await?;
    if version(pool, connection).await? != Some(MIGRATIONS.len()) {
        connection.batch(&format!("BEGIN; SELECT pg_advisory_xact_lock({LOCK})")).await?;
        // Another process can have migrated it meanwhile.
        let done = version(pool, connection).await?;
        if done.is_none() {
            create_schema(pool, connection).await?;
        }
        for migration in MIGRATIONS.get(done.unwrap_or(0)..).unwrap_or_default() {
            connection.batch(migration).await?;
        }
        connection.batch("COMMIT").await?;
    }
    used.back();
    Ok(())
}

async fn check_server(connection: &mut Connection) -> Result<(), Failure> {
    let sql = "SELECT current_setting('server_version_num')::int4, current_setting('server_encoding')";
    let rows = connection.query(sql, &[]).await?;
    let Some(row) = rows.first() else { return Ok(()) };
    let (version, encoding): (i32, String) = (row.try_get(0)?, row.try_get(1)?);
    if version < EARLIEST {
        return Err(Failure::Unfit(format!(
            "the server has version {}, and Postgres 13 or later is needed",
            version / 10_000
        )));
    }
    if encoding != "UTF8" {
        return Err(Failure::Unfit(format!(
            "the database has the encoding {encoding}; create one with ENCODING 'UTF8'"
        )));
    }
    Ok(())
}

/// Returns the version of the tables; `None` if there are none.
///
/// # Errors
/// [`SessionError::UnsupportedVersion`] when they are of a later version.
async fn version(pool: &Pool, connection: &mut Connection) -> Result<Option<usize>, Failure> {
    let schema = &pool.config().schema;
    // The tables of the catalogue, because functions such as `to_regclass` answer from a cache, in which what another process
    // has made meanwhile can be missing.
    let sql = "SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = $1 AND c.relname = 'looptree_store'";
    if connection.query(sql, &[schema]).await?.is_empty() {
        return Ok(None);
    }
    let rows =
        connection.query_once(&format!("SELECT version FROM \"{schema}\".looptree_store"), &[]).await?;
    let found: i32 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    let found = u32::try_from(found).unwrap_or_default();
    let known = u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX);
    if found > known || found == 0 {
        let path = PathBuf::from(pool.config().place());
        return Err(SessionError::UnsupportedVersion { path, found, known }.into());
    }
    Ok(Some(usize::try_from(found).unwrap_or_default()))
}

async fn create_schema(pool: &Pool, connection: &mut Connection) -> Result<(), Failure> {
    let schema = &pool.config().schema;
    // A role without the right to create schemas can use one that exists.
    if connection.query("SELECT FROM pg_namespace WHERE nspname = $1", &[schema]).await?.is_empty() {
        connection.batch(&format!("CREATE SCHEMA \"{schema}\"")).await?;
    }
    Ok(())
}
