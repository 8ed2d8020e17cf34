//! Laws about the clock.

use agent_core::event::NumberedEvent;
use agent_core::{AgentEvent, Ended, LimitReason, Timestamp};

use super::Evidence;
use crate::log::What;

/// The events of a loop have times that do not go back, however the time of day jumps.
pub(super) fn ordered(evidence: &Evidence<'_>) -> Result<(), String> {
    for (id, events) in evidence.loops() {
        let mut last = Timestamp(0);
        for time in events.iter().filter_map(|(_, event)| time_of(&event.event)) {
            if time < last {
                return Err(format!("{id} goes back from {} to {}", last.to_rfc3339(), time.to_rfc3339()));
            }
            last = time;
        }
    }
    Ok(())
}

fn time_of(event: &AgentEvent) -> Option<Timestamp> {
    match event {
        AgentEvent::AgentStart(start) => Some(start.timestamp),
        AgentEvent::TurnStart { timestamp, .. } | AgentEvent::TurnEnd { timestamp, .. } => Some(*timestamp),
        AgentEvent::AgentEnd(end) => Some(end.timestamp),
        _ => None,
    }
}

/// The time until the first record of a run, which the log does not have, is below this.
const SLACK_MS: u64 = 1_000;

/// A run that reached its maximum duration has worked for that long, and no turn begins after it.
pub(super) fn worked(evidence: &Evidence<'_>) -> Result<(), String> {
    let limits = evidence.processes.first().and_then(|process| process.limits);
    let Some(max) = limits.and_then(|limits| limits.max_duration) else { return Ok(()) };
    let max = u64::try_from(max.as_millis()).unwrap_or(u64::MAX);
    for (id, events) in evidence.loops() {
        if events.first().is_some_and(|(_, event)| event.depth > 0) {
            continue;
        }
        let begun = events.first().map_or(0, |(at, _)| *at);
        // What a killed process did after its last record is not known to the next one.
        let killed = evidence.kills.iter().any(|kill| kill.at > begun) || evidence.has_store_failure();
        let mut work = Work::default();
        let mut last = begun;
        for (at, event) in &events {
            let between = evidence.log.entries.get(last..*at).unwrap_or_default();
            last = *at;
            if let Some(answered) = between.iter().find(|entry| matches!(entry.what, What::Answered { .. })) {
                work.answered(answered.elapsed_ms);
            }
            let elapsed = evidence.log.entries.get(*at).map_or(0, |entry| entry.elapsed_ms);
            work.until(elapsed, event);
            match &event.event {
                AgentEvent::AgentEnd(end) if is_duration(&end.ended) && work.ms + SLACK_MS < max => {
                    return Err(format!("{id} ended after {} of {max} ms", work.ms));
                }
                AgentEvent::TurnStart { .. } if work.ms > max + SLACK_MS && !killed => {
                    return Err(format!("{id} began a turn after {} of {max} ms", work.ms));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn is_duration(ended: &Ended) -> bool {
    matches!(ended, Ended::Limit { reason } if reason == LimitReason::Duration.as_str())
}

/// The time in which a run works: from its start, without the time in which it waits for an answer.
#[derive(Default)]
struct Work {
    ms: u64,
    last: Option<u64>,
}

impl Work {
    /// A run that waits works again from its answer on, also if its child was answered.
    fn answered(&mut self, elapsed: u64) {
        self.last.get_or_insert(elapsed);
    }

    fn until(&mut self, elapsed: u64, event: &NumberedEvent) {
        self.ms += self.last.map_or(0, |last| elapsed.saturating_sub(last));
        let waits = matches!(event.event, AgentEvent::RunSuspended { .. });
        self.last = (!waits).then_some(elapsed);
    }
}
