//! The places of connections: a full server closes the connection that deserves its place least, so that no client keeps
//! another one out.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_core::CancellationToken;

/// The number of connections beyond [`ConnectionLimits::connections`](super::ConnectionLimits::connections) that are open at
/// once. Requests with a key are refused on them, so that the health of a busy server can always be read.
pub const RESERVE: usize = 64;

/// The part of all places, as a divisor, that clients without a key have before idle connections are closed for them.
const STRANGERS: usize = 4;

/// What a connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No request with a valid key has come.
    Stranger,
    /// The last request with a valid key was answered.
    Idle,
    /// A request with a valid key is being answered.
    Busy,
}

#[derive(Debug)]
struct Place {
    peer: IpAddr,
    state: State,
    closed: CancellationToken,
}

/// The places of a server.
#[derive(Debug)]
pub(crate) struct Places {
    most: usize,
    state: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    /// By the order in which the connections were accepted.
    places: BTreeMap<u64, Place>,
    busy: usize,
}

/// The connections in a state.
struct Group {
    total: usize,
    /// The one to close first.
    oldest: Option<u64>,
}

/// All connections of a server answer requests with a valid key, so that it can take no further one now. The client can try
/// again when one of them has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("all {most} connections of the server are busy; try again later")]
#[non_exhaustive]
pub struct AllBusy {
    /// The number of connections that the server answers at once.
    pub most: usize,
}

impl Places {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most: most.max(1), state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a new connection. Returns it, and whether another connection was closed for it.
    pub(crate) fn take(self: &Arc<Self>, peer: IpAddr) -> (Seat, bool) {
        let mut taken = self.lock();
        let mut evicted = false;
        // The requests of at most `most` connections are busy, so another one can be closed.
        if taken.places.len() >= self.most.saturating_add(RESERVE)
            && let Some(victim) = taken.victim()
        {
            taken.remove(victim);
            evicted = true;
        }
        let (number, closed) = (taken.next, CancellationToken::new());
        taken.next += 1;
        let place = Place { peer: network(peer), state: State::Stranger, closed: closed.clone() };
        taken.places.insert(number, place);
        drop(taken);
        let guard = Arc::new(Guard { places: Arc::clone(self), number });
        (Seat { guard, closed }, evicted)
    }
}

impl Taken {
    /// Returns the connection to close. Idle ones are closed if those without a key are few.
    fn victim(&self) -> Option<u64> {
        let (strangers, idle) = (self.most_of(State::Stranger), self.most_of(State::Idle));
        match strangers.total < self.places.len() / STRANGERS {
            true => idle.oldest.or(strangers.oldest),
            false => strangers.oldest,
        }
    }

    /// Returns the number of connections in this state, and the oldest one of the network that has most of them.
    fn most_of(&self, state: State) -> Group {
        let mut networks: BTreeMap<IpAddr, (usize, u64)> = BTreeMap::new();
        let mut total = 0;
        for (number, place) in self.places.iter().filter(|(_, place)| place.state == state) {
            total += 1;
            networks.entry(place.peer).or_insert((0, *number)).0 += 1;
        }
        let most = networks.into_values().max_by_key(|(count, _)| *count);
        Group { total, oldest: most.map(|(_, oldest)| oldest) }
    }

    fn remove(&mut self, number: u64) {
        if let Some(place) = self.places.remove(&number) {
            self.busy -= usize::from(place.state == State::Busy);
            place.closed.cancel();
        }
    }

    fn set(&mut self, number: u64, state: State) {
        let Some(place) = self.places.get_mut(&number) else { return };
        let was = std::mem::replace(&mut place.state, state);
        self.busy -= usize::from(was == State::Busy);
        self.busy += usize::from(state == State::Busy);
    }
}

/// Returns the network of an address: one client has all addresses of 64 bits of IPv6.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

/// Frees the place of a connection.
#[derive(Debug)]
struct Guard {
    places: Arc<Places>,
    number: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.places.lock().remove(self.number);
    }
}

/// The place of a connection in its server, which each of its requests has as an extension. Routes use it to report that a
/// request has a valid key.
#[derive(Debug, Clone)]
pub struct Seat {
    guard: Arc<Guard>,
    closed: CancellationToken,
}

impl Seat {
    /// Completes when the connection was closed for another one.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Notes that the current request has a valid key, so that its connection is not closed for another one until the response
    /// was sent. Call it after the key was checked.
    ///
    /// # Errors
    /// [`AllBusy`] when [`ConnectionLimits::connections`](super::ConnectionLimits::connections) other requests are being answered.
    pub fn admit(&self) -> Result<(), AllBusy> {
        let places = &self.guard.places;
        let mut taken = places.lock();
        let is_busy = taken.places.get(&self.guard.number).is_some_and(|place| place.state == State::Busy);
        if is_busy {
            return Ok(());
        }
        if taken.busy >= places.most {
            return Err(AllBusy { most: places.most });
        }
        taken.set(self.guard.number, State::Busy);
        Ok(())
    }

    /// Returns a guard that ends the current request when it is dropped.
    pub(crate) fn request(&self) -> Answered {
        Answered(self.clone())
    }
}

/// Ends a request of a connection when it is dropped.
#[derive(Debug)]
pub(crate) struct Answered(Seat);

impl Drop for Answered {
    fn drop(&mut self) {
        let guard = &self.0.guard;
        let mut taken = guard.places.lock();
        if taken.places.get(&guard.number).is_some_and(|place| place.state == State::Busy) {
            taken.set(guard.number, State::Idle);
        }
    }
}

#[cfg(test)]
mod tests;
