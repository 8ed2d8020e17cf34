use super::*;

/// The page has the figures that the command prints.
#[test]
fn the_page_has_the_computed_figures() {
    let page = include_str!("../../../docs/guides/scale-out.md");
    let table = table(MIX, &[10_000.0, 1_000_000.0]);
    assert!(page.contains(&table), "docs/guides/scale-out.md differs from `cargo xtask size`:\n{table}");
}

#[test]
fn more_sessions_need_more_of_everything() {
    let [few, many] = [1_000.0, 10_000_000.0].map(|sessions| need(Mix { sessions, ..MIX }));
    assert!(few.cores < many.cores && few.money_a_day < many.money_a_day);
    assert!((many.mean_steps / few.mean_steps - 10_000.0).abs() < 1e-6);
    assert!((many.state_gigabytes / few.state_gigabytes - 10_000.0).abs() < 1e-6);
}

/// With the planned cores a step hardly waits; with too few, the waits grow without a bound.
#[test]
fn too_few_cores_show_in_the_simulation() {
    let planned = simulate(400.0, 3);
    assert!((0.3..0.5).contains(&planned.busy), "{planned:?}");
    assert!(planned.slowest_percent_wait_us < 2_000, "{planned:?}");
    let overloaded = simulate(400.0, 1);
    assert!(overloaded.median_wait_us > 1_000_000, "{overloaded:?}");
}

#[test]
fn the_command_line_is_checked() {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    assert_eq!(mix(&words(&["--prompts", "2.5"])).unwrap(), Mix { prompts: 2.5, ..MIX });
    for wrong in [&["--prompts"][..], &["--prompts", "x"], &["--prompts", "0"], &["--other", "1"]] {
        assert!(mix(&words(wrong)).is_err(), "{wrong:?}");
    }
}

#[test]
fn counts_have_commas() {
    assert_eq!([0.0, 999.0, 1_000.0, 1_234_567.4].map(count), ["0", "999", "1,000", "1,234,567"]);
}
