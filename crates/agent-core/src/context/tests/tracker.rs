//! What was reported and what came after.

use super::sample::{exchange, history, said, user};
use crate::context::{ContextConfig, ContextTracker};
use crate::history::{Entry, History};
use crate::message::Usage;

/// A history of ten tokens, and a reply of five that is recorded with this usage.
fn recorded(usage: Usage) -> (ContextTracker, History) {
    let mut history = history([user(&"x".repeat(24))]);
    let reply = Entry::from(said(1, "x"));
    assert_eq!((history.tokens(), reply.tokens()), (10, 5));
    let mut tracker = ContextTracker::default();
    tracker.record_usage(&usage, &history, &reply);
    history.push_entry(reply).unwrap();
    (tracker, history)
}

/// REQ-136.
#[test]
fn what_was_reported_counts_and_what_came_after_is_estimated() {
    let (tracker, mut history) = recorded(Usage::new(100, 20, 7, 3));
    assert_eq!(tracker.current_tokens(&history), 130);
    history.push(user("12345678")).unwrap();
    assert_eq!(tracker.current_tokens(&history), 136);
}

/// REQ-136.
#[test]
fn nothing_reported_means_that_all_is_estimated() {
    let (tracker, history) = recorded(Usage::default());
    assert_eq!(tracker.current_tokens(&history), 15);
    assert_eq!(tracker, ContextTracker::default());
    // A report about more than there is says nothing either.
    let (tracker, _) = recorded(Usage::new(100, 0, 0, 0));
    assert_eq!(tracker.current_tokens(&History::new()), 0);
}

/// REQ-136.
#[test]
fn the_results_of_the_recorded_reply_are_what_came_after() {
    let [reply, result] = exchange(1, &"y".repeat(40)).map(Entry::from);
    let mut history = history([user("go")]);
    let mut tracker = ContextTracker::default();
    tracker.record_usage(&Usage::new(50, 50, 0, 0), &history, &reply);
    let expect = 100 + result.tokens();
    history.push_exchange(reply, vec![result]).unwrap();
    assert_eq!(tracker.current_tokens(&history), expect);
}

/// B-184.
#[test]
fn after_a_reset_a_stale_report_sets_off_nothing() {
    let config = ContextConfig::default();
    let (mut tracker, history) = recorded(Usage::new(200_000, 0, 0, 0));
    assert!(tracker.is_over_budget(&history, &config));
    tracker.reset();
    assert!(!tracker.is_over_budget(&history, &config));
    assert_eq!(tracker.compaction_budget(&history, &config), config.budget());
}

#[test]
fn a_report_is_compared_with_the_whole_and_an_estimate_with_the_budget() {
    let config = ContextConfig::default().with_max_context_tokens(110).with_system_prompt_tokens(100);
    let (tracker, history) = recorded(Usage::new(110, 0, 0, 0));
    assert!(!tracker.is_over_budget(&history, &config));
    let (tracker, history) = recorded(Usage::new(111, 0, 0, 0));
    assert!(tracker.is_over_budget(&history, &config));
    assert!(ContextTracker::default().is_over_budget(&history, &config), "15 of 10");
}

#[test]
fn where_the_provider_counts_more_the_budget_of_a_compaction_is_smaller() {
    let config = ContextConfig::default().with_max_context_tokens(1_000).with_system_prompt_tokens(0);
    for (reported, budget) in [(15, 1_000), (10, 1_000), (30, 500), (60, 250), (1_000_000, 125)] {
        let (tracker, history) = recorded(Usage::new(reported, 0, 0, 0));
        assert_eq!(tracker.compaction_budget(&history, &config), budget, "{reported}");
    }
}

#[test]
fn the_state_survives_json() {
    let (tracker, history) = recorded(Usage::new(100, 20, 0, 0));
    let json = serde_json::to_string(&tracker).unwrap();
    let back: ContextTracker = serde_json::from_str(&json).unwrap();
    assert_eq!(back.current_tokens(&history), 120);
    assert_eq!(serde_json::from_str::<ContextTracker>("{}").unwrap(), ContextTracker::default());
}
