//! Saves and closes the sessions that no agent needs any more, in the background.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use agent_core::SessionId;
use tokio::sync::Notify;

use super::Inner;
use super::slot::Tracked;
use crate::store::SessionStore;

/// The maximum number of sessions that are saved in the background at the same time, by all recorders of the process.
const MAX_WORKERS: usize = 4;

/// No session is opened while this many wait to be saved and closed, so that their descriptors do not run out.
const MAX_WAITING: usize = 32;

/// The sessions of all recorders that are being released. One list, because another recorder can open the same session.
static RELEASES: Mutex<Releases> =
    Mutex::new(Releases { waiting: VecDeque::new(), workers: 0, open: BTreeMap::new() });

/// Notified when a session was released.
static RELEASED: Notify = Notify::const_new();

struct Releases {
    waiting: VecDeque<Release>,
    workers: usize,
    /// The sessions that are not closed yet, with the number of their releases.
    open: BTreeMap<StoredSession, usize>,
}

/// The description of a store, and the id of one of its sessions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StoredSession(String, SessionId);

impl StoredSession {
    pub(super) fn new<S: SessionStore + ?Sized>(store: &S, id: &SessionId) -> Self {
        Self(store.describe(), id.clone())
    }
}

fn releases() -> MutexGuard<'static, Releases> {
    RELEASES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until a session can be opened: it is not being released, and few others are.
pub(super) async fn ready(session: &StoredSession) {
    wait_until(|releases| !releases.open.contains_key(session) && releases.open.len() < MAX_WAITING).await;
}

/// Waits until a session that is being released is closed.
pub(super) async fn closed(session: &StoredSession) {
    wait_until(|releases| !releases.open.contains_key(session)).await;
}

/// Waits until all sessions of a store that are being released are closed.
pub(super) async fn all_closed<S: SessionStore + ?Sized>(store: &S) {
    let store = store.describe();
    wait_until(|releases| !releases.open.keys().any(|session| session.0 == store)).await;
}

async fn wait_until(is_reached: impl Fn(&Releases) -> bool) {
    loop {
        // Created before the check, so that no notification is missed.
        let notified = RELEASED.notified();
        if is_reached(&releases()) {
            return;
        }
        notified.await;
    }
}

/// A session that was removed from its recorder. It is saved and closed when this is dropped.
pub(super) struct Release {
    session: StoredSession,
    tracked: Option<Box<Tracked>>,
    /// The recorder, which still knows the session of its loops.
    recorder: Weak<Inner>,
}

impl Release {
    pub(super) fn new(session: StoredSession, tracked: Box<Tracked>, recorder: Weak<Inner>) -> Self {
        *releases().open.entry(session.clone()).or_default() += 1;
        Self { session, tracked: Some(tracked), recorder }
    }

    /// Saves and closes the session on the blocking pool, or in place if there is no runtime.
    pub(super) fn begin(self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let mut releases = releases();
        releases.waiting.push_back(self);
        if releases.workers == MAX_WORKERS {
            return;
        }
        releases.workers += 1;
        drop(releases);
        let worker = Worker;
        drop(runtime.spawn_blocking(move || drop(worker)));
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        // Also after a panic of the store.
        let _closed = Closed(&self.session);
        let Some(tracked) = self.tracked.take() else { return };
        if let Some(recorder) = self.recorder.upgrade() {
            recorder.sessions.unroute_all(&tracked.recording.session);
        }
        save(&self.session.1, *tracked);
    }
}

/// Counts a session as closed when it is dropped.
struct Closed<'a>(&'a StoredSession);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        let mut releases = releases();
        if let Some(number) = releases.open.get_mut(self.0) {
            *number = number.saturating_sub(1);
            if *number == 0 {
                releases.open.remove(self.0);
            }
        }
        drop(releases);
        RELEASED.notify_waiters();
    }
}

/// Saves a session and drops its writer.
fn save(id: &SessionId, mut tracked: Tracked) {
    let Some(mut journal) = tracked.journal.take().filter(|_| tracked.unsaved) else { return };
    let session = tracked.into_snapshot().read();
    if let Err(error) = session.and_then(|session| journal.save_on_drop(&session)) {
        tracing::warn!(session = %id, %error, "a released session could not be saved; its journal has it");
    }
}

/// Releases the waiting sessions when it is dropped: on the blocking pool, or in place when the runtime shuts down before
/// the pool has begun.
struct Worker;

impl Drop for Worker {
    fn drop(&mut self) {
        loop {
            let mut releases = releases();
            let Some(next) = releases.waiting.pop_front() else {
                releases.workers -= 1;
                return;
            };
            drop(releases);
            if catch_unwind(AssertUnwindSafe(|| drop(next))).is_err() {
                tracing::warn!(
                    "a store panicked while a released session was saved; its journal has the session"
                );
            }
        }
    }
}
