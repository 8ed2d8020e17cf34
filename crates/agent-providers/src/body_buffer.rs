//! Buffers for the bodies of requests.
//!
//! A request holds the whole conversation. A buffer of that size, new for each, is memory that the system hands out page by
//! page and the processor does not have at hand, while everything that is kept of the turn breaks up the place of the last
//! one. So a large buffer comes back when its bytes are sent and serves the next request. A body is the same bytes
//! wherever it is written.

#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// Smaller bodies are not worth a lock: the allocator has pieces of their size at hand.
const LEAST: usize = 64 << 10;

/// A larger buffer is let go: a process that sent one such body need not hold it for ever.
const LARGEST: usize = 4 << 20;

/// How many buffers wait at most, so that they are 16 MiB together at most.
const MOST: usize = 4;

/// A new buffer has room for a conversation that has grown by one part in so many.
const SPARE: usize = 4;

static SHARED: Buffers = Buffers::new();

/// An empty buffer with at least this room.
pub(crate) fn buffer(room: usize) -> Vec<u8> {
    SHARED.take(room)
}

/// The body as it is sent. Its buffer comes back when the last handle on it goes.
pub(crate) fn sent(body: Vec<u8>) -> Bytes {
    SHARED.sent(body)
}

/// Buffers that wait for a body.
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

    /// Keeps the largest ones: they serve any body.
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

/// A body on its way.
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
