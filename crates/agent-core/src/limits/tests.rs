//! Limits of a run.

use std::time::Duration;

use super::{ExecutionLimits, ExecutionTracker, LimitReason};
use crate::identity::Timestamp;

/// REQ-012.
#[test]
fn the_defaults_are_fifty_turns_a_million_tokens_and_ten_minutes() {
    let limits = ExecutionLimits::default();
    assert_eq!(limits.max_turns, Some(50));
    assert_eq!(limits.max_total_tokens, Some(1_000_000));
    assert_eq!(limits.max_duration, Some(Duration::from_secs(600)));
    let tracker = ExecutionTracker::new(limits, Timestamp(7));
    assert_eq!((tracker.turns, tracker.tokens_used, tracker.started_at), (0, 0, Timestamp(7)));
    assert_eq!(tracker.limits, limits);
}

#[track_caller]
fn check(turns: u32, tokens: u64, elapsed_ms: u64, expect: Option<&str>) {
    let limits = ExecutionLimits::default()
        .with_max_turns(3)
        .with_max_total_tokens(100)
        .with_max_duration(Duration::from_millis(50));
    let mut tracker = ExecutionTracker::new(limits, Timestamp(1_000));
    for turn in 0..turns {
        tracker.record_turn(if turn == 0 { tokens } else { 0 });
    }
    assert_eq!(tracker.turns, turns);
    assert_eq!(tracker.tokens_used, if turns == 0 { 0 } else { tokens });
    let reason = tracker.check_limits(Timestamp(1_000 + elapsed_ms));
    assert_eq!(reason.map(|r| r.to_string()).as_deref(), expect);
}

/// REQ-061.
#[test]
fn a_limit_is_reached_at_its_number_and_turns_are_named_before_tokens_before_time() {
    check(0, 0, 0, None);
    check(2, 99, 49, None);
    check(3, 0, 0, Some("max turns exceeded"));
    check(4, 0, 0, Some("max turns exceeded"));
    check(1, 100, 0, Some("max total tokens exceeded"));
    check(1, 0, 50, Some("max duration exceeded"));
    check(3, 100, 50, Some("max turns exceeded"));
    check(2, 100, 50, Some("max total tokens exceeded"));
}

#[test]
fn a_limit_that_is_off_is_never_reached_and_counts_do_not_overflow() {
    let mut tracker = ExecutionTracker::new(ExecutionLimits::unlimited(), Timestamp(0));
    tracker.record_turn(u64::MAX);
    tracker.record_turn(u64::MAX);
    assert_eq!(tracker.tokens_used, u64::MAX);
    assert_eq!(tracker.check_limits(Timestamp(u64::MAX)), None);
}

#[test]
fn a_clock_set_back_does_not_end_a_run() {
    let tracker = ExecutionTracker::new(ExecutionLimits::default(), Timestamp(1_000_000));
    assert_eq!(tracker.check_limits(Timestamp(0)), None);
}

#[test]
fn the_state_survives_json_and_absent_limits_are_the_defaults() {
    let limits =
        ExecutionLimits::default().with_max_turns(None).with_max_duration(Duration::from_millis(1_500));
    let mut tracker = ExecutionTracker::new(limits, Timestamp(5));
    tracker.record_turn(10);
    let json = serde_json::to_value(&tracker).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "limits": {"max_turns": null, "max_total_tokens": 1_000_000, "max_duration_ms": 1_500},
            "turns": 1, "tokens_used": 10, "started_at": 5,
        })
    );
    assert_eq!(serde_json::from_value::<ExecutionTracker>(json).unwrap(), tracker);
    assert_eq!(serde_json::from_str::<ExecutionLimits>("{}").unwrap(), ExecutionLimits::default());
    assert_eq!(serde_json::to_value(LimitReason::TotalTokens).unwrap(), "total_tokens");
}
