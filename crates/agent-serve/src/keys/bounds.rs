//! What one key can use at once, so that it cannot keep another one out.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::Limits;

/// Sessions that are read from the store for one key at once.
const READS: usize = 2;

/// The unit in which bodies are counted, in bytes.
const UNIT: usize = 1 << 10;

/// The bounds of a key.
#[derive(Debug)]
pub(crate) struct Bounds {
    pub(crate) requests: Bound,
    pub(crate) streams: Bound,
    pub(crate) conversations: Bound,
    /// The bodies that are being received or sent, in units.
    bodies: Bound,
    pub(crate) reads: Arc<Semaphore>,
}

/// A number of places.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) most: usize,
    places: Arc<Semaphore>,
}

impl Bound {
    fn new(most: usize) -> Self {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        Self { most, places: Arc::new(Semaphore::new(most)) }
    }

    /// Takes a place; `None` if there is none.
    pub(crate) fn take(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }
}

impl Bounds {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            requests: Bound::new(limits.requests_per_key),
            streams: Bound::new(limits.streams_per_key),
            conversations: Bound::new(limits.conversations_per_key),
            bodies: Bound::new(limits.bytes_per_key.div_ceil(UNIT).min(u32::MAX as usize)),
            reads: Arc::new(Semaphore::new(READS)),
        }
    }

    /// Takes room for a body of this size, beyond what `held` already has; `None` if there is not enough. A body that is larger
    /// than the bound needs all of it.
    pub(crate) fn room(
        &self,
        bytes: usize,
        held: Option<OwnedSemaphorePermit>,
    ) -> Option<OwnedSemaphorePermit> {
        let all = bytes.div_ceil(UNIT).min(self.bodies.most);
        let more = all.saturating_sub(held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits));
        let more = u32::try_from(more).ok()?;
        let mut taken = Arc::clone(&self.bodies.places).try_acquire_many_owned(more).ok()?;
        if let Some(held) = held {
            taken.merge(held);
        }
        Some(taken)
    }

    /// Returns the size of the bodies that fit, in bytes.
    pub(crate) fn body_bytes(&self) -> usize {
        self.bodies.most.saturating_mul(UNIT)
    }
}
