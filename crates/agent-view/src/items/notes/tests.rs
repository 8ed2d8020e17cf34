use super::*;

#[test]
fn numbers_are_grouped_by_three_digits() {
    for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
        assert_eq!(grouped(number), text);
    }
}

#[test]
fn every_cause_of_a_cache_break_has_a_title_and_an_explanation() {
    let causes = [
        CacheBreakCause::SystemPrompt,
        CacheBreakCause::Tools {
            added: vec!["new".into()],
            removed: Vec::new(),
            changed: vec!["old".into()],
            reordered: true,
        },
        CacheBreakCause::Setting { name: "thinking".into() },
        CacheBreakCause::History,
        CacheBreakCause::ContextHook,
        CacheBreakCause::Compaction,
        CacheBreakCause::ModelSwitched { from: "a".into(), to: "b".into() },
        CacheBreakCause::Expired { lifetime_seconds: 300, idle_seconds: 4_000 },
        CacheBreakCause::Unknown,
    ];
    let texts: Vec<_> = causes.iter().map(cause).collect();
    assert!(texts.iter().all(|(title, text)| !title.is_empty() && text.ends_with('.')));
    assert_eq!(texts[1].0, "the tools changed (added: new; changed: old; in another order)");
    assert_eq!(texts[7].0, "the cache expired after 300 s");
}

#[test]
fn the_extra_cost_of_a_cache_break_is_the_difference_to_the_price_of_a_cache_read() {
    let prices = CostConfig::per_million(3_000_000, 15_000_000, 300_000, 3_750_000);
    assert_eq!(extra_cost(100_000, &prices), Some(270_000));
    assert_eq!(dollars(270_000), "$0.2700");
    assert_eq!(extra_cost(100_000, &CostConfig::default()), None);
}
