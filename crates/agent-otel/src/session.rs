//! Exports recorded sessions as traces: the spans of each loop, with the times of the record.
//!
//! The spans have the names, attributes and parents of live spans, and ids that derive from the ids of loops and steps, so that a
//! second export has the same spans. A record does not contain the time of a repeated model call, the time to the
//! first piece of a reply, nor waits for a rate limit; these attributes are absent.
//!
//! ```no_run
//! use agent_otel::{Telemetry, session};
//! use agent_session::JsonStore;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let store = JsonStore::open("sessions")?;
//! let recorded = store.load_session("s-1")?;
//! let exported = session::export(&Telemetry::to("http://localhost:4318"), &[&recorded]).await?;
//! println!("{} spans in {} traces", exported.spans, exported.traces);
//! # Ok(())
//! # }
//! ```

mod ids;
mod places;
mod spans;

use std::collections::BTreeSet;

use agent_session::Session;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};

use crate::error::OtelError;
use crate::exporter::Conforming;
use crate::telemetry::Telemetry;

/// The number of spans in one request.
const BATCH: usize = 512;

/// The number of spans and traces that were exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exported {
    /// The number of spans.
    pub spans: usize,
    /// The number of traces: one for each prompt, and for each group of branches.
    pub traces: usize,
}

/// Sends the spans of these sessions to the receiver of `telemetry`. Give the sessions of sub-agents together with the session
/// that called them, so that their loops are below their calls. Content is sent only if `telemetry` includes it.
///
/// # Errors
/// Returns an error if the receiver cannot be reached or refuses the spans. Requests that it has accepted remain.
pub async fn export(telemetry: &Telemetry, sessions: &[&Session]) -> Result<Exported, OtelError> {
    let spans = spans::of_sessions(sessions, telemetry.content());
    let traces: BTreeSet<_> = spans.iter().map(|span| span.span_context.trace_id().to_bytes()).collect();
    let exported = Exported { spans: spans.len(), traces: traces.len() };
    let sender = telemetry.sender()?;
    let mut exporter = Conforming::new(telemetry.span_exporter(&sender)?, telemetry.content());
    exporter.set_resource(&telemetry.resource());
    let runtime = sender.handle().map_err(OtelError::Client)?;
    let handle = runtime.clone();
    // The exporter blocks its thread while it waits for a repetition.
    let sending = runtime.spawn_blocking(move || {
        let batches = spans.chunks(BATCH).map(<[SpanData]>::to_vec);
        let sent = batches.map(|batch| handle.block_on(exporter.export(batch)));
        sent.collect::<Result<Vec<()>, _>>()
    });
    sending.await.map_err(|error| OtelError::Client(Box::new(error)))??;
    drop(sender);
    Ok(exported)
}
