//! The laws of Looptree hold in simulated runs of an agent with settings of every kind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod scene;

/// Runs more seeds with `LOOPTREE_SIM_SEEDS`.
fn seeds() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a test reads how long it runs")]
    let given = std::env::var("LOOPTREE_SIM_SEEDS").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(300)
}

#[test]
fn the_laws_hold_in_every_simulated_run() {
    let report = scene::sim().seeds(0..seeds()).run().unwrap();
    // Without these, the laws would hold for runs in which nothing happens.
    assert!(report.kills > 0 && report.answers > 0 && report.model_calls > 0, "{report:?}");
    for end in ["completed", "aborted", "error"] {
        assert!(report.ends.contains_key(end), "no run ended with {end}: {report:?}");
    }
    println!("{report:?}");
}
