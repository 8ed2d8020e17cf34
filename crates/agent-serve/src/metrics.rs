//! The figures of a service in the text format of Prometheus. None of them names a key or a conversation.

use std::fmt;
use std::sync::atomic::AtomicU64;

use agent_core::event::NumberedEvent;
use agent_core::{AgentEvent, RunEnd};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::serving::Closed;

/// Labels of a figure.
type Labels = Vec<(&'static str, String)>;

/// The figures of a service.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Labels, Counter>,
    request_seconds: Family<Labels, Histogram>,
    runs: Family<Labels, Counter>,
    tokens: Family<Labels, Counter>,
    tool_calls: Family<Labels, Counter>,
    pub(crate) open_conversations: Gauge,
    pub(crate) open_runs: Gauge,
    pub(crate) readers: Gauge,
    pub(crate) cut_readers: Counter,
    pub(crate) closed: Closed,
    pub(crate) vanished: Counter,
    pub(crate) rate_limited: Counter,
    pub(crate) bounded: Counter,
    pub(crate) refused_keys: Counter,
    pub(crate) cost_micros: Counter<u64, AtomicU64>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

fn seconds() -> Histogram {
    // From 1 ms to 33 s.
    Histogram::new(exponential_buckets(0.001, 2.0, 16))
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("looptree"),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(seconds as fn() -> Histogram),
            runs: Family::default(),
            tokens: Family::default(),
            tool_calls: Family::default(),
            open_conversations: Gauge::default(),
            open_runs: Gauge::default(),
            readers: Gauge::default(),
            cut_readers: Counter::default(),
            closed: Closed::default(),
            vanished: Counter::default(),
            rate_limited: Counter::default(),
            bounded: Counter::default(),
            refused_keys: Counter::default(),
            cost_micros: Counter::default(),
        };
        let all = &mut metrics.registry;
        all.register("http_requests", "Requests by method, route and status", metrics.requests.clone());
        all.register(
            "http_request_seconds",
            "Time until the head of a response, by route",
            metrics.request_seconds.clone(),
        );
        all.register("runs", "Runs that ended or wait, by their end", metrics.runs.clone());
        all.register("tokens", "Tokens of the runs' turns, by kind", metrics.tokens.clone());
        all.register("tool_calls", "Tool calls that ended, by outcome", metrics.tool_calls.clone());
        all.register("conversations_open", "Conversations in memory", metrics.open_conversations.clone());
        all.register("runs_open", "Runs that work", metrics.open_runs.clone());
        all.register("event_readers", "Clients that read events", metrics.readers.clone());
        all.register(
            "event_readers_cut",
            "Readers whose connection was closed because they did not read",
            metrics.cut_readers.clone(),
        );
        all.register(
            "connections_cut",
            "Connections that were closed because the client did not read",
            metrics.closed.unread.clone(),
        );
        all.register(
            "connections_evicted",
            "Connections that were closed because a new one needed their place",
            metrics.closed.evicted.clone(),
        );
        all.register("runs_vanished", "Runs aborted because their client had gone", metrics.vanished.clone());
        all.register("bounded", "Requests over the other bounds of their key", metrics.bounded.clone());
        all.register("rate_limited", "Requests over the rate of their key", metrics.rate_limited.clone());
        all.register("refused_keys", "Requests without a valid key", metrics.refused_keys.clone());
        all.register(
            "cost_micros",
            "Cost of the runs in millionths of the prices' currency",
            metrics.cost_micros.clone(),
        );
        metrics
    }

    /// Counts a request.
    pub(crate) fn request(&self, method: &str, route: &str, status: u16, seconds: f64) {
        let labels =
            vec![("method", method.to_owned()), ("route", route.to_owned()), ("status", status.to_string())];
        self.requests.get_or_create(&labels).inc();
        self.request_seconds.get_or_create(&vec![("route", route.to_owned())]).observe(seconds);
    }

    /// Counts what an event reports.
    pub(crate) fn event(&self, event: &NumberedEvent) {
        match &event.event {
            AgentEvent::TurnEnd { usage, .. } => {
                let parts = [
                    ("input", usage.input),
                    ("output", usage.output),
                    ("cache_read", usage.cache_read),
                    ("cache_write", usage.cache_write),
                ];
                for (kind, tokens) in parts.into_iter().filter(|(_, tokens)| *tokens > 0) {
                    self.tokens.get_or_create(&vec![("kind", kind.to_owned())]).inc_by(tokens);
                }
            }
            AgentEvent::ToolExecutionEnd(end) => {
                let outcome = if end.is_error { "error" } else { "ok" };
                self.tool_calls.get_or_create(&vec![("outcome", outcome.to_owned())]).inc();
            }
            // The spending of a run includes that of its sub-agents.
            AgentEvent::AgentEnd(end) if event.depth == 0 => {
                if let Some(spent) = &end.spent {
                    self.cost_micros.inc_by(spent.money.micros());
                }
            }
            _ => {}
        }
    }

    /// Counts the end of a run.
    pub(crate) fn ended(&self, end: &RunEnd) {
        let name = match end {
            RunEnd::Completed(_) => "completed",
            RunEnd::Suspended(_) => "waiting",
            RunEnd::Stopped(_) => "stopped",
            RunEnd::Aborted => "aborted",
            RunEnd::Failed(_) => "failed",
            _ => "other",
        };
        self.runs.get_or_create(&vec![("end", name.to_owned())]).inc();
    }

    /// Writes all figures.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
