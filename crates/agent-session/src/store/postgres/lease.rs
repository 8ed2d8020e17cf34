//! Leases: the right to write a session, which ends at a time of the server's clock.
//!
//! A lease has a number that is greater than those of all earlier leases. Each write checks in its transaction that the lease
//! has this number and has not ended, and holds the row of the lease until the transaction ends. So no other writer gets the
//! lease meanwhile, and a writer that was paused beyond its lease writes nothing. The clock of the client is never used.
//!
//! With the lease of a session, the store takes those of the sessions of its sub-agents that can have an open run, because the
//! run that is resumed opens them: all of them, or none.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use agent_core::SessionId;
use tokio_postgres::types::ToSql;

use super::Shared;
use super::connection::{Connection, Use};
use super::failure::Failure;
use crate::error::SessionError;
use crate::store::database::CAN_BE_OPEN;

/// The sessions of sub-agents below session `$1` that can have an open run, without those of `$2`, which this process writes.
const TREE: &str = "
    WITH RECURSIVE tree AS (
        SELECT id FROM sessions WHERE parent = convert_to($1, 'UTF8') AND {CAN_BE_OPEN} AND id <> ALL($2)
        UNION
        SELECT s.id FROM tree t JOIN sessions s ON s.parent = convert_to(t.id, 'UTF8')
        WHERE {CAN_BE_OPEN} AND s.id <> ALL($2)
    )";

/// Takes the leases of a session and of its tree, if all of them are free or have ended. `$3` has the numbers of leases that
/// this process has and may take again.
const TAKE: &str = "
    , owner AS (
        SELECT concat(current_setting('application_name'), ', process ', $4::text, ' at ',
            coalesce(host(inet_client_addr()), 'the server''s machine')) AS name
    ), taken AS (
        SELECT FROM leases JOIN tree USING (id) WHERE expires_at > clock_timestamp() AND fence <> ALL($3)
    ), root AS (
        INSERT INTO leases AS l (id, fence, owner, expires_at)
        SELECT $1, nextval('fences'), name, clock_timestamp() + make_interval(secs => $5)
        FROM owner WHERE NOT EXISTS (SELECT FROM taken)
        ON CONFLICT (id) DO UPDATE SET fence = excluded.fence, owner = excluded.owner, expires_at = excluded.expires_at
            WHERE l.expires_at <= clock_timestamp() OR l.fence = ANY($3)
        RETURNING id, fence
    ), children AS (
        INSERT INTO leases AS l (id, fence, owner, expires_at)
        SELECT tree.id, nextval('fences'), name, clock_timestamp() + make_interval(secs => $5)
        FROM tree, owner WHERE EXISTS (SELECT FROM root)
        ON CONFLICT (id) DO UPDATE SET fence = excluded.fence, owner = excluded.owner, expires_at = excluded.expires_at
            WHERE l.expires_at <= clock_timestamp() OR l.fence = ANY($3)
        RETURNING id, fence
    )
    SELECT id, fence, (SELECT count(*) FROM tree) FROM root UNION ALL SELECT id, fence, 0 FROM children";

/// The lease of a session or of its tree that ends last, of those that this process may not take.
const HOLDER_OF_TREE: &str = "
    SELECT l.id, l.owner, extract(epoch FROM l.expires_at - clock_timestamp())::float8
    FROM leases l JOIN (SELECT id FROM tree UNION SELECT $1) AS t USING (id) WHERE l.fence <> ALL($3)
    ORDER BY l.expires_at DESC LIMIT 1";

static TAKE_TREE: LazyLock<String> = LazyLock::new(|| of_tree(TAKE));

static TREE_HOLDER: LazyLock<String> = LazyLock::new(|| of_tree(HOLDER_OF_TREE));

fn of_tree(statement: &str) -> String {
    format!("{}{statement}", TREE.replace("{CAN_BE_OPEN}", CAN_BE_OPEN))
}

const HOLDER: &str = "SELECT owner, fence FROM leases WHERE id = $1";

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
    /// Those that this process has and may take again: those whose release failed, and those of sub-agents whose sessions
    /// were not opened yet.
    free: Mutex<BTreeMap<SessionId, i64>>,
}

impl Leases {
    fn held(&self) -> MutexGuard<'_, BTreeMap<SessionId, i64>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn free(&self) -> MutexGuard<'_, BTreeMap<SessionId, i64>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lease of this process, with those of the sessions of its sub-agents that can have an open run. They are renewed until they
/// are released; a drop releases them in the background.
pub(super) struct Lease {
    shared: Arc<Shared>,
    id: SessionId,
    fence: i64,
    /// The leases of the tree, unless their sessions were opened since.
    children: Vec<(SessionId, i64)>,
    is_released: bool,
}

impl Lease {
    /// Takes the lease of a session, with those of its tree: all of them, or none.
    ///
    /// # Errors
    /// [`SessionError::Locked`] when another writer has one of them.
    pub(super) async fn take(shared: &Arc<Shared>, id: &SessionId) -> Result<Self, Failure> {
        let seconds = shared.config().lease.as_secs_f64();
        let (known, fences): (Vec<String>, Vec<i64>) =
            shared.leases.free().iter().map(|(id, fence)| (id.to_string(), *fence)).unzip();
        let written: Vec<String> = shared.leases.held().keys().map(ToString::to_string).collect();
        let written: Vec<String> = written.into_iter().filter(|id| !known.contains(id)).collect();
        let process = std::process::id().to_string();
        let mut used = shared.pool.get(Use::Other).await?;
        let parameters: [&(dyn ToSql + Sync); 5] = [&id.as_str(), &written, &fences, &process, &seconds];
        let rows = used.connection.query(&TAKE_TREE, &parameters).await?;
        let mut wanted = 0;
        let mut taken = Vec::with_capacity(rows.len());
        for row in &rows {
            let (id, fence, count): (String, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            wanted += count;
            taken.push((SessionId::from(id), fence));
        }
        let own = taken.iter().position(|(taken, _)| taken == id).map(|at| taken.swap_remove(at).1);
        let is_whole = i64::try_from(taken.len()) == Ok(wanted);
        let Some(fence) = own.filter(|_| is_whole) else {
            let holder = used.connection.query(&TREE_HOLDER, &parameters[..3]).await?;
            used.back();
            // Another process has taken one of them at the same moment.
            taken.extend(own.map(|fence| (id.clone(), fence)));
            give_back(shared, taken).await;
            let mut lock = format!("session {id} in {}", shared.place);
            if let Some(row) = holder.first() {
                let (of, owner, seconds): (String, String, f64) =
                    (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
                if of != id.as_str() {
                    lock.push_str(&format!(", or session {of} of its sub-agent"));
                }
                lock.push_str(&format!(", leased to {owner} for {:.1} s more,", seconds.max(0.1)));
            }
            return Err(SessionError::Locked { lock }.into());
        };
        used.back();
        let (mut free, mut held) = (shared.leases.free(), shared.leases.held());
        free.remove(id);
        held.insert(id.clone(), fence);
        for (id, fence) in &taken {
            free.insert(id.clone(), *fence);
            held.insert(id.clone(), *fence);
        }
        drop((free, held));
        Ok(Self { shared: Arc::clone(shared), id: id.clone(), fence, children: taken, is_released: false })
    }

    pub(super) fn fence(&self) -> i64 {
        self.fence
    }

    pub(super) fn id(&self) -> &SessionId {
        &self.id
    }

    /// Gives the lease back, so that the next writer does not wait for its end.
    pub(super) async fn release(mut self) {
        let leases = self.end();
        give_back(&self.shared, leases).await;
    }

    /// Ends the renewal of the lease and of those of its tree that are not in use, and returns them.
    fn end(&mut self) -> Vec<(SessionId, i64)> {
        self.is_released = true;
        let mut free = self.shared.leases.free();
        let mut ended = std::mem::take(&mut self.children);
        ended.retain(|(id, fence)| free.get(id) == Some(fence) && free.remove(id).is_some());
        drop(free);
        ended.push((self.id.clone(), self.fence));
        let mut held = self.shared.leases.held();
        for (id, fence) in &ended {
            if held.get(id) == Some(fence) {
                held.remove(id);
            }
        }
        drop(held);
        ended
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.is_released {
            let (leases, shared) = (self.end(), Arc::clone(&self.shared));
            self.shared.driver.start_work(async move { give_back(&shared, leases).await });
        }
    }
}

/// Gives leases back that are not renewed any more.
async fn give_back(shared: &Shared, leases: Vec<(SessionId, i64)>) {
    for (id, fence) in leases {
        let release = async {
            let mut used = shared.pool.get(Use::Other).await?;
            used.connection.execute(RELEASE, &[&id.as_str(), &fence]).await?;
            used.back();
            Ok::<(), Failure>(())
        };
        if let Err(failure) = release.await {
            let error = failure.named(&shared.place, "written");
            tracing::warn!(session = %id, %error, "a lease could not be given back; it ends by itself");
            shared.leases.free().insert(id, fence);
        }
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
