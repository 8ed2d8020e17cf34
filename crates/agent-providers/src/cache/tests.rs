//! Which lifetime a request gets.

use super::*;
use CacheTtl::{FiveMinutes, OneHour, ThirtyMinutes, TwelveHours};

#[track_caller]
fn check(config: CacheConfig, offered: &[CacheTtl], prefix: CacheTtl, messages: CacheTtl) {
    assert_eq!(Lifetimes::of(&config, offered), Lifetimes { prefix, messages }, "{config:?}");
}

#[test]
fn a_lifetime_that_a_vendor_lacks_becomes_its_longest_that_is_not_longer() {
    let config = CacheConfig::default;
    let openai = &[ThirtyMinutes, TwelveHours];
    check(config(), OF_CLAUDE, FiveMinutes, FiveMinutes);
    check(config().with_ttl(OneHour), OF_CLAUDE, OneHour, OneHour);
    check(config().with_ttl(ThirtyMinutes), OF_CLAUDE, FiveMinutes, FiveMinutes);
    check(config().with_ttl(TwelveHours), OF_CLAUDE, OneHour, OneHour);
    check(config(), openai, ThirtyMinutes, ThirtyMinutes);
    check(config().with_ttl(FiveMinutes), openai, ThirtyMinutes, ThirtyMinutes);
    check(config().with_ttl(OneHour), openai, ThirtyMinutes, ThirtyMinutes);
    check(config().with_ttl(TwelveHours), openai, TwelveHours, TwelveHours);
    check(config().with_ttl(OneHour), &[FiveMinutes], FiveMinutes, FiveMinutes);
}

#[test]
fn a_longer_lifetime_never_follows_a_shorter_one() {
    let config = CacheConfig::default;
    check(config().with_ttl(OneHour).with_messages_ttl(FiveMinutes), OF_CLAUDE, OneHour, FiveMinutes);
    check(config().with_messages_ttl(OneHour), OF_CLAUDE, FiveMinutes, FiveMinutes);
    check(config().with_ttl(FiveMinutes).with_messages_ttl(OneHour), OF_CLAUDE, FiveMinutes, FiveMinutes);
}

#[test]
fn the_part_that_is_gone_first_counts() {
    use agent_core::CacheStrategy;
    let config = CacheConfig::default().with_ttl(OneHour).with_messages_ttl(FiveMinutes);
    let shortest =
        |config: CacheConfig| Lifetimes::of(&config, OF_CLAUDE).shortest(&config).map(|d| d.as_secs());
    assert_eq!(shortest(config), Some(300));
    let strategy = CacheStrategy::Manual { cache_system: true, cache_tools: false, cache_messages: false };
    assert_eq!(shortest(CacheConfig { strategy, ..config }), Some(3_600));
    assert_eq!(shortest(CacheConfig::disabled()), None);
}

#[cfg(any(feature = "openai-chat", feature = "openai-responses"))]
#[test]
fn only_models_from_gpt_5_6_take_options() {
    use agent_core::{History, ModelConfig, ModelRequest};
    let takes = |id: &str| {
        let request = ModelRequest::new(ModelConfig::openai(id, id, "k"), History::new());
        OpenAiCache::of(&request, &[ThirtyMinutes]).is_some()
    };
    for id in ["gpt-5.6-sol", "gpt-5.6", "gpt-5.10", "gpt-6", "gpt-6.2-sol-2026-09-22", "gpt-10"] {
        assert!(takes(id), "{id}");
    }
    for id in ["gpt-5", "gpt-5.5-pro", "gpt-4.1", "gpt-4o-mini", "gpt-oss:20b", "o3", "my-deployment", "gpt-"]
    {
        assert!(!takes(id), "{id}");
    }
}
