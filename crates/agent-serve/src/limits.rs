//! The bounds of a service: sizes, numbers and times.
//!
//! ```
//! use std::time::Duration;
//! use agent_serve::{Limits, VanishedClient};
//! let mut limits = Limits::default();
//! limits.vanished = VanishedClient::Stop { after: Duration::from_secs(30) };
//! ```

use std::time::Duration;

use agent_core::BudgetLimits;

/// The bounds of a [`Service`](crate::Service). Each field states its default.
///
/// ```
/// use agent_serve::Limits;
/// let mut limits = Limits::default();
/// limits.open_conversations = 64;
/// assert_eq!(limits.body_bytes, 4 << 20);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// Connections whose requests have a valid key and are answered at once; a further request is answered with 503. Others are
    /// closed when a new one needs their place. Default: 2,048.
    pub connections: usize,
    /// The time in which the head of a request must arrive, also of the next one of a connection. Default: 10 seconds.
    pub head_time: Duration,
    /// Requests of one key that are answered at once, with its streams; a further one is answered with 429. Default: 512.
    pub requests_per_key: usize,
    /// Streams of events that one key reads at once; a further one is answered with 429. Default: 256.
    pub streams_per_key: usize,
    /// Conversations of one key in memory at once. If all of them work, a further one is answered with 429. Default: 256.
    pub conversations_per_key: usize,
    /// Conversations of one key in the store. A further one is answered with 429 until one is deleted. Default: 10,000.
    pub stored_conversations_per_key: usize,
    /// The size of the bodies of one key that are being received or sent, in bytes; a larger sum is answered with 429. Default:
    /// 64 MiB.
    pub bytes_per_key: usize,
    /// The time in which the body of a request must arrive. Default: 60 seconds.
    pub body_time: Duration,
    /// The size of a JSON body in bytes; a larger one is answered with 413. Default: 4 MiB.
    pub body_bytes: usize,
    /// The size of an uploaded file in bytes; a larger one is answered with 413. Default: 16 MiB.
    pub upload_bytes: usize,
    /// The size of a file that can be read, in bytes; a larger one is answered with 413. Default: 16 MiB.
    pub file_bytes: u64,
    /// Conversations in memory at once. If all of them work, a further one is answered with 503. Default: 1,024.
    pub open_conversations: usize,
    /// The time after which an idle conversation is released from memory. Default: 10 minutes.
    pub idle_time: Duration,
    /// Readers of the events of one conversation; a further one is answered with 429. Default: 8.
    pub readers: usize,
    /// Events of one conversation that are buffered for its readers. Default: 1,024.
    pub buffered_events: usize,
    /// The size of these events in bytes; one larger event is buffered alone. Default: 1 MiB.
    pub buffered_bytes: usize,
    /// The time in which a client must read the next piece of a stream; then its connection is closed. Default: 60 seconds.
    pub write_time: Duration,
    /// The time after which a stream of events ends; its reader connects again. Default: 1 hour.
    pub stream_time: Duration,
    /// The interval of comments in a stream without events. Default: 15 seconds.
    pub keep_alive: Duration,
    /// The time in which a run must be journaled before its request is answered with 503. Default: 30 seconds.
    pub start_time: Duration,
    /// The time that runs get to end at a shutdown. The others stay in the store and can be resumed. Default: 10 seconds.
    pub drain_time: Duration,
    /// The budget of each conversation, below the budget of its key. Default: none.
    pub conversation_budget: BudgetLimits,
    /// What happens to a run whose last reader has gone. Default: it continues.
    pub vanished: VanishedClient,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 2_048,
            head_time: Duration::from_secs(10),
            requests_per_key: 512,
            streams_per_key: 256,
            conversations_per_key: 256,
            stored_conversations_per_key: 10_000,
            bytes_per_key: 64 << 20,
            body_time: Duration::from_secs(60),
            body_bytes: 4 << 20,
            upload_bytes: 16 << 20,
            file_bytes: 16 << 20,
            open_conversations: 1_024,
            idle_time: Duration::from_mins(10),
            readers: 8,
            buffered_events: 1_024,
            buffered_bytes: 1 << 20,
            write_time: Duration::from_secs(60),
            stream_time: Duration::from_hours(1),
            keep_alive: Duration::from_secs(15),
            start_time: Duration::from_secs(30),
            drain_time: Duration::from_secs(10),
            conversation_budget: BudgetLimits::none(),
            vanished: VanishedClient::Continue,
        }
    }
}

/// What happens to the run of a conversation after its last reader of events has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum VanishedClient {
    /// The run continues. A client can read its events later.
    #[default]
    Continue,
    /// The run is aborted, unless a reader comes back within this time.
    Stop {
        /// The time without a reader after which the run is aborted.
        after: Duration,
    },
}
