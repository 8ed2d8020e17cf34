//! Waits between calls.

use std::time::Duration;

use proptest::prelude::*;

use super::{RetryConfig, jitter};
use crate::identity::{LoopId, StepKey};
use crate::provider::{ErrorContext, ErrorKind, ProviderError};

/// REQ-013.
#[test]
fn the_defaults_are_three_retries_from_one_second_doubling_to_thirty() {
    let retry = RetryConfig::default();
    assert_eq!(retry.max_retries, 3);
    assert_eq!(retry.initial_delay_ms, 1_000);
    assert_eq!(retry.backoff_multiplier.to_string(), "2");
    assert_eq!(retry.max_delay_ms, 30_000);
    assert_eq!(retry.max_retry_delay_ms, 60_000);
    assert_eq!(RetryConfig::none().max_retries, 0);
    assert_eq!(
        serde_json::from_str::<RetryConfig>(r#"{"max_retries":7}"#).unwrap(),
        retry.with_max_retries(7)
    );
}

#[track_caller]
fn check(attempt: u32, unit: f64, expect_ms: u64) {
    assert_eq!(RetryConfig::default().delay_for_attempt(attempt, unit), Duration::from_millis(expect_ms));
}

/// REQ-071, REQ-166.
#[test]
fn waits_double_up_to_the_cap_and_jitter_comes_after_it() {
    for (attempt, ms) in
        [(1, 1_000), (2, 2_000), (3, 4_000), (4, 8_000), (5, 16_000), (6, 30_000), (60, 30_000)]
    {
        check(attempt, 0.5, ms);
    }
    check(0, 0.5, 1_000);
    check(1, 0.0, 800);
    check(1, 1.0, 1_200);
    check(9, 0.0, 24_000);
    check(9, 1.0, 36_000);
    check(u32::MAX, 0.5, 30_000);
}

/// REQ-166.
#[test]
fn ten_thousand_jitters_stay_between_four_and_six_fifths_and_fill_the_range() {
    let retry = RetryConfig::default();
    let run = LoopId::from("s.anthropic.claude.1");
    let (mut least, mut most, mut sum) = (u128::MAX, 0, 0);
    for n in 0..10_000 {
        let unit = jitter(&run, &StepKey::from(format!("model-{n}.1")));
        assert!((0.0..1.0).contains(&unit), "{unit}");
        let ms = retry.delay_for_attempt(1, unit).as_millis();
        assert!((800..=1_200).contains(&ms), "{ms}");
        least = least.min(ms);
        most = most.max(ms);
        sum += ms;
    }
    assert!(least < 805 && most > 1_195, "{least}..{most}");
    assert!((980..1_020).contains(&(sum / 10_000)), "mean {}", sum / 10_000);
}

#[test]
fn the_jitter_of_a_step_is_the_same_in_every_process() {
    let (run, step) = (LoopId::from("s.a.1"), StepKey::from("model-3.1"));
    assert_eq!(jitter(&run, &step).to_bits(), jitter(&run.clone(), &step.clone()).to_bits());
    assert_ne!(jitter(&run, &step).to_bits(), jitter(&run, &StepKey::from("model-3.2")).to_bits());
    assert_ne!(jitter(&run, &step).to_bits(), jitter(&LoopId::from("s.a.2"), &step).to_bits());
}

/// REQ-073.
#[test]
fn a_wait_that_the_provider_asks_for_is_kept_unless_it_is_too_long() {
    let retry = RetryConfig::default();
    let limited = |wait: Option<Duration>| {
        ProviderError::new(ErrorKind::RateLimited, ErrorContext::new("slow down"))
            .map_context(|c| c.retry_after = wait)
            .retry_after()
    };
    assert_eq!(limited(None), None);
    assert_eq!(limited(Some(Duration::from_millis(1_500))), Some(Duration::from_millis(1_500)));
    assert_eq!(retry.wait_for(2, limited(None), 0.5), Some(Duration::from_secs(2)));
    // Never below the own delay, which a server that asks for none would use up within milliseconds.
    for short in [0, 1_500] {
        assert_eq!(retry.wait_for(2, Some(Duration::from_millis(short)), 0.5), Some(Duration::from_secs(2)));
    }
    assert_eq!(
        retry.wait_for(2, Some(Duration::from_millis(2_500)), 0.5),
        Some(Duration::from_millis(2_500))
    );
    assert_eq!(retry.wait_for(2, Some(Duration::from_secs(60)), 0.9), Some(Duration::from_secs(60)));
    assert_eq!(retry.wait_for(2, Some(Duration::from_secs(61)), 0.9), None);
}

proptest! {
    #[test]
    fn no_numbers_make_a_wait_overflow_or_exceed_its_cap(
        initial in any::<u64>(), factor in any::<f64>(), max in 0..u64::from(u32::MAX), attempt in any::<u32>(), unit in any::<f64>(),
    ) {
        let retry = RetryConfig { initial_delay_ms: initial, backoff_multiplier: factor, max_delay_ms: max, ..RetryConfig::default() };
        let ms = retry.delay_for_attempt(attempt, unit).as_millis();
        prop_assert!(ms <= u128::from(max) * 12 / 10 + 1, "{ms} of {max}");
    }
}
