//! Measures the size of a whole run in JSON, and the time to write and read it.
//!
//! `cargo run --release -p looptree-core --example run_form`

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that measures, not a library"
)]

#[path = "../tests/support/long_run.rs"]
mod long_run;

use std::time::Instant;

use agent_core::run::Run;

use long_run::run_of;

/// Returns the shortest of several durations of `work`, in microseconds.
fn microseconds<T>(mut work: impl FnMut() -> T) -> u128 {
    let time = |work: &mut dyn FnMut() -> T| {
        let begin = Instant::now();
        std::hint::black_box(work());
        begin.elapsed().as_micros()
    };
    (0..20).map(|_| time(&mut work)).min().unwrap_or_default()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for turns in [10, 100, 1_000] {
        let run = run_of(turns)?;
        let json = serde_json::to_string(&run)?;
        assert_eq!(serde_json::from_str::<Run>(&json)?, run);
        let write = microseconds(|| serde_json::to_string(&run));
        let read = microseconds(|| serde_json::from_str::<Run>(&json));
        println!("{turns} turns: {} bytes, written in {write} us, read in {read} us", json.len());
    }
    Ok(())
}
