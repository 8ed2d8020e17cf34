//! What one client may take.

use std::time::Duration;

/// Bounds on size, number and time.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections that may be open at once; a further one waits to be taken.
    pub connections: usize,
    /// How long the head of a request may take to arrive.
    pub head_time: Duration,
    /// Streams that may be open at once; a further one is refused with 503.
    pub streams: usize,
    /// Bytes of a request.
    pub body_bytes: usize,
    /// How long a request may take to arrive.
    pub body_time: Duration,
    /// How long one reply may take, from first to last.
    pub stream_time: Duration,
    /// How long a client may leave a piece unread.
    pub write_time: Duration,
    /// How often a sign of life is sent while the model says nothing.
    pub keep_alive: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1_024,
            head_time: Duration::from_secs(10),
            streams: 256,
            body_bytes: 32 << 20,
            body_time: Duration::from_secs(60),
            stream_time: Duration::from_hours(1),
            write_time: Duration::from_secs(60),
            keep_alive: Duration::from_secs(15),
        }
    }
}
