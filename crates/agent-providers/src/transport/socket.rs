//! WebSocket connections. The HTTP client of the transport opens them, so that its limits, proxies and certificates apply.
//!
//! A task for each connection passes text messages to *lanes*: a lane receives the events of one reply. Several lanes can be
//! open if the server marks each event with the `stream_id` of its request.

mod carry;
mod lane;
mod open;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_util::sync::CancellationToken;

use super::TransportConfig;
pub(crate) use lane::Lane;
pub(crate) use open::Opened;

/// The time after which a connection without a reply in progress is closed.
pub(crate) const SOCKET_IDLE: Duration = Duration::from_secs(300);

/// The maximum number of lanes of a connection.
const MAX_LANES: usize = 8;

/// The number of messages that wait in a lane. If it is full, the connection is not read further.
const LANE_CAPACITY: usize = 64;

/// A message for a lane.
#[derive(Debug, Clone)]
enum Piece {
    /// A text message.
    Text(Utf8Bytes),
    /// The server shows that it is alive.
    Alive,
    /// The connection has ended.
    End(Broken),
}

/// Why a connection has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Broken {
    /// The connection failed, or this side closed it.
    Lost(String),
    /// The server closed it with this code.
    Closed(u16, String),
    /// A message exceeds the size limit.
    TooLong,
}

/// A connection. It is closed when the last handle and the last lane are dropped.
pub(crate) struct Socket {
    shared: Arc<Shared>,
    outgoing: mpsc::Sender<Message>,
    config: TransportConfig,
}

struct Shared {
    lanes: Mutex<Lanes>,
    stop: CancellationToken,
}

#[derive(Default)]
struct Lanes {
    open: BTreeMap<String, mpsc::Sender<Piece>>,
    /// The open lanes that are not read at present.
    held: BTreeSet<String>,
    /// Whether no further lane is opened.
    retired: bool,
    /// Whether a lane was opened or closed since the idle time was last checked.
    used: bool,
}

impl Lanes {
    /// Returns whether a lane is read.
    fn is_read(&self) -> bool {
        self.open.len() > self.held.len()
    }
}

impl Socket {
    /// Opens a lane; `None` if the connection has ended or has no free lane. Without `several` there is one lane.
    pub(crate) fn lane(&self, several: bool) -> Option<Lane> {
        let mut lanes = self.shared.lanes();
        if lanes.retired {
            return None;
        }
        let most = if several { MAX_LANES } else { 1 };
        let name = (0..most).map(lane_name).find(|name| !lanes.open.contains_key(name))?;
        let (sender, pieces) = mpsc::channel(LANE_CAPACITY);
        lanes.open.insert(name.clone(), sender);
        lanes.used = true;
        drop(lanes);
        Some(Lane::new(name, pieces, self))
    }

    /// Returns whether the connection can take another request now or later.
    pub(crate) fn is_open(&self) -> bool {
        !self.shared.lanes().retired
    }

    /// Returns whether no reply is in progress that is read.
    pub(crate) fn is_idle(&self) -> bool {
        !self.shared.lanes().is_read()
    }

    /// Opens no further lane. The connection is closed when the open ones have ended.
    pub(crate) fn retire(&self) {
        self.shared.retire();
    }
}

/// Returns the name of a lane. The first one has none, so that servers without lanes can serve it.
fn lane_name(index: usize) -> String {
    if index == 0 { String::new() } else { format!("lane-{index}") }
}

impl Shared {
    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn retire(&self) {
        let mut lanes = self.lanes();
        lanes.retired = true;
        if lanes.open.is_empty() {
            self.stop.cancel();
        }
    }

    /// Closes a lane. If its reply has not ended, its remaining events would reach the next reply, so the connection takes
    /// no further request.
    fn leave(&self, name: &str, ended: bool) {
        let mut lanes = self.lanes();
        lanes.open.remove(name);
        lanes.held.remove(name);
        lanes.used = true;
        lanes.retired |= !ended;
        if lanes.retired && lanes.open.is_empty() {
            self.stop.cancel();
        }
    }
}
