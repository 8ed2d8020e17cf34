//! The bounds of a server of models.

use std::time::Duration;

/// Bounds on size, number and time.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Limits {
    /// Connections with a valid token that are answered at once; a further request is refused with 503. Others are closed when a
    /// new one needs their place. Default: 1,024.
    pub connections: usize,
    /// The time in which the head of a request must arrive. Default: 10 seconds.
    pub head_time: Duration,
    /// Streams that are open at once; a further one is refused with 503. Default: 256.
    pub streams: usize,
    /// The size of a request in bytes. Default: 32 MiB.
    pub body_bytes: usize,
    /// The time in which a request must arrive. Default: 60 seconds.
    pub body_time: Duration,
    /// The time of a whole reply. Default: 1 hour.
    pub stream_time: Duration,
    /// The time in which a client must read a piece. Default: 60 seconds.
    pub write_time: Duration,
    /// The interval of comments while the model sends nothing. Default: 15 seconds.
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
