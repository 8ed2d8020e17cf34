//! The sessions of a recorder, by id and by loop.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_core::{LoopId, SessionId};

use super::slot::{Slot, Tracked};
use crate::model::recording::{Recording, session_of_id};
use crate::model::{LoopRecord, Session};

/// The number of loops that are added or removed before others get the lock.
const AT_ONCE: usize = 256;

/// The sessions of a recorder.
#[derive(Default)]
pub(super) struct Sessions(Mutex<Index>);

/// Locked for look-ups only.
#[derive(Default)]
struct Index {
    slots: BTreeMap<SessionId, Arc<Slot>>,
    /// The session of each known loop.
    routes: BTreeMap<LoopId, SessionId>,
}

impl Sessions {
    fn index(&self) -> MutexGuard<'_, Index> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all slots in the order of their ids.
    pub(super) fn slots(&self) -> Vec<Arc<Slot>> {
        self.index().slots.values().cloned().collect()
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<Slot>> {
        self.index().slots.get(id).cloned()
    }

    /// Returns the slot of a session, which is added if there is none.
    pub(super) fn slot(&self, id: &SessionId) -> Arc<Slot> {
        let mut index = self.index();
        if let Some(slot) = index.slots.get(id) {
            return Arc::clone(slot);
        }
        let slot = Arc::new(Slot::new(id.clone()));
        index.slots.insert(id.clone(), Arc::clone(&slot));
        slot
    }

    /// Calls `read` with a session, which `new` creates in memory if the recorder does not have it.
    pub(super) fn with_new<T>(
        &self,
        id: &SessionId,
        new: impl Fn() -> Session,
        read: impl Fn(&mut Tracked) -> T,
    ) -> T {
        loop {
            let slot = self.slot(id);
            let tracked = || Tracked::new(Recording::new(new()), None, true);
            if let Some(found) = slot.with_or_new(tracked, &read) {
                return found;
            }
            self.remove(&slot);
        }
    }

    /// Removes a slot that is gone.
    pub(super) fn remove(&self, slot: &Arc<Slot>) {
        let mut index = self.index();
        if index.slots.get(&slot.id).is_some_and(|known| Arc::ptr_eq(known, slot)) {
            index.slots.remove(&slot.id);
        }
    }

    /// Returns the session of a loop: the known one, or the one that the loop's id names.
    pub(super) fn session_of(&self, loop_id: &LoopId) -> SessionId {
        let index = self.index();
        if let Some(id) = index.routes.get(loop_id) {
            return id.clone();
        }
        // A session id can contain dots, so the longest matching id is used.
        let id = loop_id.as_str();
        let known = id.rmatch_indices('.').filter_map(|(at, _)| index.slots.get_key_value(id.get(..at)?));
        known.map(|(id, _)| id.clone()).next().unwrap_or_else(|| session_of_id(loop_id))
    }

    /// Stores the session of a loop.
    pub(super) fn route(&self, loop_id: &LoopId, id: &SessionId) {
        let mut index = self.index();
        if index.routes.get(loop_id) != Some(id) {
            index.routes.insert(loop_id.clone(), id.clone());
        }
    }

    /// Stores the session of the loops of a session.
    pub(super) fn route_all(&self, session: &Session) {
        for records in session.loops.chunks(AT_ONCE) {
            let mut index = self.index();
            for record in records {
                index.route_record(record, &session.session_id);
            }
        }
    }

    /// Removes what [`route_all`](Self::route_all) stored.
    pub(super) fn unroute_all(&self, session: &Session) {
        for records in session.loops.chunks(AT_ONCE) {
            let mut index = self.index();
            for record in records {
                if index.routes.get(&record.loop_id) == Some(&session.session_id) {
                    index.routes.remove(&record.loop_id);
                }
            }
        }
    }
}

impl Index {
    /// Stores the session of a loop. Copied loops of a fork remain assigned to their own session if it is known.
    fn route_record(&mut self, record: &LoopRecord, id: &SessionId) {
        if record.session_id == *id || !self.routes.contains_key(&record.loop_id) {
            self.routes.insert(record.loop_id.clone(), id.clone());
        }
    }
}
