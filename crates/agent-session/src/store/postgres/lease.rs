//! Leases: the right to write a session, which ends at a time of the server's clock.
//!
//! A lease has a number that is greater than those of all earlier leases. Each write checks in its transaction that the lease
//! has this number and has not ended, and holds the row of the lease until the transaction ends. So no other writer gets the
//! lease meanwhile, and a writer that was paused beyond its lease writes nothing. The clock of the client is never used.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use agent_core::SessionId;

use super::Shared;
use super::connection::{Connection, Use};
use super::failure::Failure;
use crate::error::SessionError;

/// Takes a free lease, or one that has ended. `$4` is the number of a lease that this process could not give back.
const TAKE: &str = "
    INSERT INTO leases AS l (id, fence, owner, expires_at)
    VALUES ($1, nextval('fences'),
        concat(current_setting('application_name'), ', process ', $2::text, ' at ',
            coalesce(host(inet_client_addr()), 'the server''s machine')),
        clock_timestamp() + make_interval(secs => $3))
    ON CONFLICT (id) DO UPDATE
        SET fence = excluded.fence, owner = excluded.owner,
            expires_at = clock_timestamp() + make_interval(secs => $3)
        WHERE l.expires_at <= clock_timestamp() OR l.fence = $4
    RETURNING fence";

const HOLDER: &str = "
    SELECT owner, fence, extract(epoch FROM expires_at - clock_timestamp())::float8 FROM leases WHERE id = $1";

/// Checks a lease, renews it, and holds its row until the end of the transaction.
const HOLD: &str = "
    UPDATE leases SET expires_at = clock_timestamp() + make_interval(secs => $3)
    WHERE id = $1 AND fence = $2 AND expires_at > clock_timestamp()";

/// Renews a lease whose row this transaction holds, at the end of a long transaction.
const EXTEND: &str = "
    UPDATE leases SET expires_at = clock_timestamp() + make_interval(secs => $3) WHERE id = $1 AND fence = $2";

/// Renews all leases of the process. A row that is locked belongs to a transaction that renews it itself.
const RENEW: &str = "
    WITH held AS (
        SELECT l.id FROM leases l JOIN unnest($1::text[], $2::int8[]) AS h (id, fence) ON l.id = h.id AND l.fence = h.fence
        WHERE l.expires_at > clock_timestamp() FOR UPDATE OF l SKIP LOCKED
    )
    UPDATE leases SET expires_at = clock_timestamp() + make_interval(secs => $3) FROM held WHERE leases.id = held.id";

const RELEASE: &str = "DELETE FROM leases WHERE id = $1 AND fence = $2";

/// Renewals in the time of one lease.
const RENEWALS: u32 = 3;

/// The leases of a store in this process.
#[derive(Debug, Default)]
pub(super) struct Leases {
    /// Those that are renewed.
    held: Mutex<BTreeMap<SessionId, i64>>,
    /// Those whose release failed. They are free for this process, and for others when they have ended.
    left: Mutex<BTreeMap<SessionId, i64>>,
}

impl Leases {
    fn held(&self) -> MutexGuard<'_, BTreeMap<SessionId, i64>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn left(&self) -> MutexGuard<'_, BTreeMap<SessionId, i64>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lease of this process. It is renewed until it is released; a drop releases it in the background.
pub(super) struct Lease {
    shared: Arc<Shared>,
    id: SessionId,
    fence: i64,
    is_released: bool,
}

impl Lease {
    /// Takes the lease of a session.
    ///
    /// # Errors
    /// [`SessionError::Locked`] when another writer has it.
    pub(super) async fn take(shared: &Arc<Shared>, id: &SessionId) -> Result<Self, Failure> {
        let seconds = shared.config().lease.as_secs_f64();
        let left = shared.leases.left().get(id).copied();
        let process = std::process::id().to_string();
        let mut used = shared.pool.get(Use::Other).await?;
        let taken = used.connection.query(TAKE, &[&id.as_str(), &process, &seconds, &left]).await?;
        let Some(row) = taken.first() else {
            let holder = used.connection.query(HOLDER, &[&id.as_str()]).await?;
            used.back();
            let mut lock = format!("session {id} in {}", shared.place);
            if let Some(row) = holder.first() {
                let (owner, seconds): (String, f64) = (row.try_get(0)?, row.try_get(2)?);
                lock.push_str(&format!(", leased to {owner} for {:.1} s more,", seconds.max(0.0)));
            }
            return Err(SessionError::Locked { lock }.into());
        };
        let fence: i64 = row.try_get(0)?;
        used.back();
        shared.leases.left().remove(id);
        shared.leases.held().insert(id.clone(), fence);
        Ok(Self { shared: Arc::clone(shared), id: id.clone(), fence, is_released: false })
    }

    pub(super) fn fence(&self) -> i64 {
        self.fence
    }

    pub(super) fn id(&self) -> &SessionId {
        &self.id
    }

    /// Gives the lease back, so that the next writer does not wait for its end.
    pub(super) async fn release(mut self) {
        self.is_released = true;
        give_back(&self.shared, &self.id, self.fence).await;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.is_released {
            let (shared, id, fence) = (Arc::clone(&self.shared), self.id.clone(), self.fence);
            self.shared.driver.start_work(async move { give_back(&shared, &id, fence).await });
        }
    }
}

async fn give_back(shared: &Shared, id: &SessionId, fence: i64) {
    {
        let mut held = shared.leases.held();
        if held.get(id) == Some(&fence) {
            held.remove(id);
        }
    }
    let release = async {
        let mut used = shared.pool.get(Use::Other).await?;
        used.connection.execute(RELEASE, &[&id.as_str(), &fence]).await?;
        used.back();
        Ok::<(), Failure>(())
    };
    if let Err(failure) = release.await {
        shared.leases.left().insert(id.clone(), fence);
        let error = failure.named(&shared.place, "written");
        tracing::warn!(session = %id, %error, "a lease could not be given back; it ends by itself");
    }
}

/// Checks in a transaction that a lease is valid, renews it and holds it until the transaction ends. Returns whether it is.
pub(super) async fn hold(
    connection: &mut Connection,
    id: &SessionId,
    fence: i64,
    lease: Duration,
) -> Result<bool, Failure> {
    Ok(connection.execute(HOLD, &[&id.as_str(), &fence, &lease.as_secs_f64()]).await? > 0)
}

/// Renews a lease that this transaction holds.
pub(super) async fn extend(
    connection: &mut Connection,
    id: &SessionId,
    fence: i64,
    lease: Duration,
) -> Result<(), Failure> {
    connection.execute(EXTEND, &[&id.as_str(), &fence, &lease.as_secs_f64()]).await.map(drop)
}

/// Returns why a lease is not valid any more.
pub(super) async fn reason(
    connection: &mut Connection,
    id: &SessionId,
    fence: i64,
) -> Result<String, Failure> {
    let holder = connection.query(HOLDER, &[&id.as_str()]).await?;
    let Some(row) = holder.first() else {
        return Ok("it ended, and was taken and given back by another writer".to_owned());
    };
    let (owner, found): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
    Ok(match found == fence {
        true => "it ended before it was renewed".to_owned(),
        false => format!("it ended, and {owner} has taken it"),
    })
}

/// Renews the leases of a store until the store is dropped.
pub(super) async fn keep(shared: Weak<Shared>, lease: Duration) {
    let pause = lease / RENEWALS;
    let mut next = pause;
    loop {
        tokio::time::sleep(next).await;
        let Some(shared) = shared.upgrade() else { return };
        next = match renew(&shared).await {
            Ok(()) => pause,
            Err(failure) => {
                let error = failure.named(&shared.place, "written");
                tracing::warn!(%error, "the leases of sessions could not be renewed");
                pause / RENEWALS
            }
        };
    }
}

async fn renew(shared: &Shared) -> Result<(), Failure> {
    let (ids, fences): (Vec<String>, Vec<i64>) =
        shared.leases.held().iter().map(|(id, fence)| (id.to_string(), *fence)).unzip();
    if ids.is_empty() {
        return Ok(());
    }
    let mut used = shared.pool.get(Use::Leases).await?;
    used.connection.execute(RENEW, &[&ids, &fences, &shared.config().lease.as_secs_f64()]).await?;
    used.back();
    Ok(())
}
