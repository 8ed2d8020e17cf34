//! The random numbers of a simulation.

/// A generator of random numbers (SplitMix64). The same seed gives the same numbers on every machine.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds would begin with similar numbers.
        let mut random = Self(seed ^ 0x5851_f42d_4c95_7f2d);
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`; 0 if the bound is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or_default()
    }

    /// Returns true in `percent` of 100 cases.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns one of the values; `None` if there is none.
    pub(crate) fn pick<'a, T>(&mut self, values: &'a [T]) -> Option<&'a T> {
        let index = usize::try_from(self.below(values.len() as u64)).unwrap_or_default();
        values.get(index)
    }
}
