use super::{MAX_GROWTH, Verdict};
use crate::measure::Sample;

fn samples(rounds: usize, change: impl Fn(usize, &mut Sample)) -> Vec<Sample> {
    let one = Sample { resident: 50 << 20, descriptors: 12, processes: 0, files: 900, threads: 5 };
    (0..rounds)
        .map(|round| {
            let mut sample = one;
            change(round, &mut sample);
            sample
        })
        .collect()
}

#[track_caller]
fn check(samples: &[Sample], fault: Option<&str>) {
    let verdict = Verdict::of(samples);
    match fault {
        None => assert!(verdict.is_good(), "{verdict}"),
        Some(part) => assert!(!verdict.is_good() && verdict.to_string().contains(part), "{verdict}"),
    }
}

#[test]
fn a_run_that_only_wavers_is_good() {
    check(&samples(100, |_, _| ()), None);
    check(&samples(100, |n, s| s.resident += (n % 7) as u64 * 100_000), None);
    // Warming up is no growth.
    check(&samples(100, |n, s| s.resident -= 30_000_000 / (n as u64 + 1)), None);
    check(&samples(100, |n, s| s.descriptors -= usize::from(n < 3)), None);
}

#[test]
fn what_grows_is_named() {
    check(&samples(100, |n, s| s.resident += n as u64 * MAX_GROWTH / 40), Some("memory grew by"));
    check(&samples(100, |n, s| s.descriptors += n / 50), Some("descriptors go from 12 to 13"));
    check(&samples(100, |n, s| s.files += n / 99), Some("files go from 900 to 901"));
    check(&samples(100, |n, s| s.processes = usize::from(n == 40)), Some("1 processes were left behind"));
}

#[test]
fn too_few_rounds_show_nothing() {
    check(&samples(9, |_, _| ()), Some("too few"));
    check(&[], Some("too few"));
}
