//! The laws of Looptree hold in simulated runs of an agent with settings of every kind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod scene;

use std::ops::Range;

/// Runs more or other seeds with `LOOPTREE_SIM_SEEDS=20000` or `=400..500`.
fn seeds(usual: u64) -> Range<u64> {
    #[expect(clippy::disallowed_methods, reason = "a test reads how long it runs")]
    let given = std::env::var("LOOPTREE_SIM_SEEDS").ok();
    let given = given.as_deref().map(|text| text.split_once("..").unwrap_or(("0", text)));
    let read = |text: &str| text.parse().expect("a number or a range of seeds");
    given.map_or(0..usual, |(from, to)| read(from)..read(to))
}

#[test]
fn the_laws_hold_in_every_simulated_run() {
    let report = scene::sim().seeds(seeds(300)).run().unwrap();
    // Without these, the laws would hold for runs in which nothing happens.
    assert!(report.kills > 0 && report.answers > 0 && report.model_calls > 0, "{report:?}");
    for end in ["completed", "aborted", "error"] {
        assert!(report.ends.contains_key(end), "no run ended with {end}: {report:?}");
    }
    println!("{report:?}");
}

#[test]
fn the_laws_hold_with_a_session_store_that_fails() {
    let report = scene::stored().seeds(seeds(150)).run().unwrap();
    assert!(report.kills > 0 && report.executions["send"] > 0, "{report:?}");
    println!("{report:?}");
}

#[test]
fn the_laws_hold_with_branches_and_a_judge() {
    let report = scene::branches().seeds(seeds(150)).run().unwrap();
    assert!(report.kills > 0 && report.executions["charge"] > 0, "{report:?}");
    println!("{report:?}");
}

#[test]
fn the_laws_hold_with_branches_that_continue_after_a_kill() {
    let report = scene::resumed_branches().seeds(seeds(150)).run().unwrap();
    assert!(report.kills > 0 && report.executions["charge"] > 0, "{report:?}");
}
