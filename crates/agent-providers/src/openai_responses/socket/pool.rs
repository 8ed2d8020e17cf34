//! The open connections, what their servers have, and the addresses that are used over HTTP.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderMap;

use super::chain::Chain;
use super::message::Body;
use crate::transport::{Lane, Socket};

/// The maximum number of connections without a reply in progress. The one that was used least recently is closed.
pub(super) const MAX_IDLE_CONNECTIONS: usize = 16;

/// The maximum number of replies of a connection that can be continued. The oldest is forgotten.
pub(super) const MAX_CHAINS: usize = 4;

/// The maximum number of bytes of conversations that are stored for a connection, to compare them with later requests.
pub(super) const MAX_CHAIN_BYTES: usize = 32 << 20;

/// The maximum number of lanes on which a reply begins by itself. The oldest is dropped.
const MAX_HELD: usize = 16;

/// The maximum number of addresses that are remembered as used over HTTP.
const MAX_FALLBACKS: usize = 256;

/// Selects the connections that a request can use.
#[derive(Clone, PartialEq)]
pub(super) struct Key {
    url: String,
    headers: HeaderMap,
    session: Option<String>,
}

impl Key {
    pub(super) fn new(url: &reqwest::Url, headers: &HeaderMap, session: Option<&str>) -> Self {
        Self { url: url.as_str().to_owned(), headers: headers.clone(), session: session.map(str::to_owned) }
    }
}

/// A lane for a request, and the reply that the request continues.
pub(super) struct Taken {
    pub(super) lane: Lane,
    pub(super) socket: Arc<Socket>,
    pub(super) chain: Option<Chain>,
    /// The message that made the server begin this reply without a request.
    pub(super) steer: Option<String>,
}

/// A lane on which the server begins the next reply by itself, with a message of the user that it already has.
pub(super) struct Held {
    pub(super) lane: Lane,
    pub(super) socket: Arc<Socket>,
    /// The reply that was steered.
    pub(super) chain: Chain,
    /// The items that the server has, as a request contains them.
    pub(super) items: Vec<u8>,
    /// The message that the server received.
    pub(super) message: String,
}

#[derive(Default)]
pub(super) struct Pool(Mutex<State>);

#[derive(Default)]
struct State {
    /// The connection that was used least recently is the first.
    connections: Vec<Connection>,
    /// The oldest is the first.
    held: Vec<(Key, Held)>,
    /// The addresses that are used over HTTP, with the reason until it is reported.
    fallbacks: BTreeMap<String, Option<String>>,
}

struct Connection {
    key: Key,
    socket: Arc<Socket>,
    /// The newest is the last.
    chains: Vec<Chain>,
}

impl Pool {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of open connections.
    pub(super) fn len(&self) -> usize {
        self.state().connections.iter().filter(|connection| connection.socket.is_open()).count()
    }

    /// Opens a lane on a connection for this key: on the one whose server has the most of the request, else on any.
    pub(super) fn take(&self, key: &Key, body: &Body, several: bool) -> Option<Taken> {
        let mut state = self.state();
        state.connections.retain(|connection| connection.socket.is_open());
        let mut found: Vec<(usize, usize)> = Vec::new();
        for (at, connection) in state.connections.iter().enumerate().filter(|(_, c)| c.key == *key) {
            let known =
                connection.chains.iter().filter(|chain| chain.new_items(body).is_some()).map(Chain::len);
            found.push((known.max().unwrap_or_default(), at));
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        for (_, at) in found {
            let Some(lane) = state.connections.get(at).and_then(|c| c.socket.lane(several)) else { continue };
            let connection = state.connections.remove(at);
            let fitting = connection.chains.iter().filter(|chain| chain.new_items(body).is_some());
            let chain = fitting.max_by_key(|chain| chain.len()).cloned();
            let socket = Arc::clone(&connection.socket);
            state.connections.push(connection);
            return Some(Taken { lane, socket, chain, steer: None });
        }
        None
    }

    /// Adds a new connection and opens its first lane; `None` if it has ended already.
    pub(super) fn add(&self, key: &Key, socket: Socket, several: bool) -> Option<Taken> {
        let socket = Arc::new(socket);
        let lane = socket.lane(several)?;
        let mut state = self.state();
        let connection = Connection { key: key.clone(), socket: Arc::clone(&socket), chains: Vec::new() };
        state.connections.push(connection);
        let idle = |connection: &Connection| connection.socket.is_idle();
        while state.connections.iter().filter(|c| idle(c)).count() > MAX_IDLE_CONNECTIONS {
            let Some(at) = state.connections.iter().position(idle) else { break };
            state.connections.remove(at).socket.retire();
        }
        Some(Taken { lane, socket, chain: None, steer: None })
    }

    /// Stores a lane on which the next reply begins by itself.
    pub(super) fn hold(&self, key: &Key, held: Held) {
        let mut state = self.state();
        state.held.retain(|(_, held)| held.socket.is_open());
        if state.held.len() >= MAX_HELD {
            state.held.remove(0);
        }
        state.held.push((key.clone(), held));
    }

    /// Takes the lane on which the reply to this request begins by itself. A lane whose conversation continues in another way
    /// is dropped, which closes its connection: the server would write a reply that no request receives.
    pub(super) fn claim(&self, key: &Key, body: &Body) -> Option<Taken> {
        let mut state = self.state();
        let continues = |(of, held): &(Key, Held)| of == key && held.chain.new_items(body).is_some();
        let at = state.held.iter().position(continues)?;
        let (_, mut held) = state.held.remove(at);
        drop(state);
        if held.chain.new_items(body) != Some(&*held.items) {
            return None;
        }
        held.lane.set_held(false);
        let Held { lane, socket, chain, message, .. } = held;
        Some(Taken { lane, socket, chain: Some(chain), steer: Some(message) })
    }

    /// Records a reply that later requests can continue.
    pub(super) fn replied(&self, socket: &Arc<Socket>, chain: Chain) {
        let mut state = self.state();
        let Some(connection) = state.connections.iter_mut().find(|c| Arc::ptr_eq(&c.socket, socket)) else {
            return;
        };
        connection.chains.push(chain);
        let bytes = |chains: &[Chain]| chains.iter().map(Chain::len).sum::<usize>();
        while connection.chains.len() > MAX_CHAINS || bytes(&connection.chains) > MAX_CHAIN_BYTES {
            connection.chains.remove(0);
        }
    }

    /// Forgets the replies of a connection, because the server may not have them any more.
    pub(super) fn forget(&self, socket: &Arc<Socket>) {
        let mut state = self.state();
        for connection in state.connections.iter_mut().filter(|c| Arc::ptr_eq(&c.socket, socket)) {
            connection.chains.clear();
        }
    }

    /// Returns whether this address is used over HTTP.
    pub(super) fn falls_back(&self, url: &str) -> bool {
        self.state().fallbacks.contains_key(url)
    }

    /// Uses this address over HTTP from now on.
    pub(super) fn fall_back(&self, url: &str, reason: String) {
        let mut state = self.state();
        if state.fallbacks.len() < MAX_FALLBACKS {
            state.fallbacks.entry(url.to_owned()).or_insert(Some(reason));
        }
    }

    /// Returns the reason why this address is used over HTTP, once.
    pub(super) fn announced(&self, url: &str) -> Option<String> {
        self.state().fallbacks.get_mut(url)?.take()
    }
}
