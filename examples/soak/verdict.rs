//! Whether something grew.

use std::fmt;

use crate::measure::Sample;

/// The part of the rounds that is for warming up: caches fill, the allocator finds its size.
const WARM_UP: usize = 5;

/// By how much the middle of the last third may be above the middle of the first, for the whole run. An allocator that
/// returns pages late moves by less; it is shown for 1,000 rounds beside it.
const MAX_GROWTH: u64 = 2 * 1024 * 1024;

/// Rounds that are needed to say anything.
const FEWEST: usize = 10;

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Verdict {
    rounds: usize,
    /// The middle of the first third after the warm-up, and that of the last, in bytes.
    memory: Option<(u64, u64)>,
    faults: Vec<String>,
}

impl Verdict {
    pub(crate) fn of(samples: &[Sample]) -> Self {
        let mut verdict = Self { rounds: samples.len(), memory: None, faults: Vec::new() };
        let warm = samples.get(samples.len() / WARM_UP..).unwrap_or_default();
        let Some(first) = warm.first().filter(|_| warm.len() >= FEWEST) else {
            verdict.faults.push(format!("{} rounds are too few; give it more time", samples.len()));
            return verdict;
        };
        // These are the same at the end of every round, not only small.
        for (what, of) in
            [("descriptors", (|s: &Sample| s.descriptors) as fn(&Sample) -> usize), ("files", |s| s.files)]
        {
            let (least, most) = bounds(warm, of);
            if least != most {
                verdict
                    .faults
                    .push(format!("{what} go from {least} to {most}, beginning with {}", of(first)));
            }
        }
        let (_, left) = bounds(samples, |s| s.processes);
        if left > 0 {
            verdict.faults.push(format!("{left} processes were left behind by a round"));
        }
        let third = warm.len() / 3;
        let early = middle(warm.get(..third).unwrap_or_default());
        let late = middle(warm.get(warm.len() - third..).unwrap_or_default());
        verdict.memory = Some((early, late));
        if late > early + MAX_GROWTH {
            verdict.faults.push(format!("memory grew by {} KiB", (late - early) / 1024));
        }
        verdict
    }

    pub(crate) fn is_good(&self) -> bool {
        self.faults.is_empty()
    }
}

fn bounds(samples: &[Sample], of: impl Fn(&Sample) -> usize) -> (usize, usize) {
    let all = || samples.iter().map(&of);
    (all().min().unwrap_or(0), all().max().unwrap_or(0))
}

/// The median of the memory.
fn middle(samples: &[Sample]) -> u64 {
    let mut all: Vec<u64> = samples.iter().map(|s| s.resident).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(0)
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rounds", self.rounds)?;
        if let Some((early, late)) = self.memory {
            let grown = late.cast_signed() - early.cast_signed();
            let each = grown * 1_000 / i64::try_from(self.rounds.max(1)).unwrap_or(i64::MAX);
            write!(
                f,
                "; memory {} KiB early, {} KiB late: {:+} KiB, {:+} KiB in 1,000 rounds (bound {} KiB)",
                early / 1024,
                late / 1024,
                grown / 1024,
                each / 1024,
                MAX_GROWTH / 1024,
            )?;
        }
        writeln!(f)?;
        for fault in &self.faults {
            writeln!(f, "FAILED: {fault}")?;
        }
        if self.is_good() {
            writeln!(
                f,
                "nothing grew: the same descriptors and files after every round, no process left behind"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
