//! Reuses large buffers for request bodies.
//!
//! A request contains the whole conversation. Allocating a buffer of that size for every request causes page faults and cache
//! misses, so a large buffer is returned after its bytes are sent and serves a later request.

#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// The minimum size of a reused buffer. For smaller ones the allocator is faster than a lock.
const LEAST: usize = 64 << 10;

/// The maximum size of a reused buffer, so that a process does not retain the memory of one large body.
const LARGEST: usize = 4 << 20;

/// The maximum number of stored buffers. Together they use at most 16 MiB.
const MOST: usize = 4;

/// A new buffer is larger than requested by one part in `SPARE`, because the conversation grows.
const SPARE: usize = 4;

static SHARED: Buffers = Buffers::new();

/// Returns an empty buffer with a capacity of at least `room` bytes.
pub(crate) fn buffer(room: usize) -> Vec<u8> {
    SHARED.take(room)
}

/// Converts a body to bytes for sending. Dropping the last handle returns its buffer.
pub(crate) fn sent(body: Vec<u8>) -> Bytes {
    SHARED.sent(body)
}

/// The stored buffers.
struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, room: usize) -> Vec<u8> {
        if room < LEAST {
            return Vec::with_capacity(room);
        }
        let mut waiting = self.waiting();
        let fitting = waiting.iter().enumerate().filter(|(_, b)| b.capacity() >= room);
        match fitting.min_by_key(|(_, b)| b.capacity()).map(|(at, _)| at) {
            Some(at) => waiting.swap_remove(at),
            None => {
                drop(waiting);
                Vec::with_capacity(room.saturating_add(room / SPARE))
            }
        }
    }

    fn sent(&'static self, body: Vec<u8>) -> Bytes {
        if (LEAST..=LARGEST).contains(&body.capacity()) {
            Bytes::from_owner(Sent { body, back_to: self })
        } else {
            Bytes::from(body)
        }
    }

    /// Stores a buffer. If too many are stored, the smallest is dropped.
    fn give(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut waiting = self.waiting();
        if waiting.len() < MOST {
            waiting.push(buffer);
        } else if let Some(least) = waiting.iter_mut().min_by_key(|b| b.capacity())
            && least.capacity() < buffer.capacity()
        {
            *least = buffer;
        }
    }
}

/// A body that is being sent.
struct Sent {
    body: Vec<u8>,
    back_to: &'static Buffers,
}

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.back_to.give(std::mem::take(&mut self.body));
    }
}
