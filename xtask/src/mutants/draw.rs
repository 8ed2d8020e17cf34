//! Draws mutants by a seed.

/// Returns at most `count` of these items, in their order. The same number of items and seed give the same result.
pub(super) fn draw<T: Clone>(items: &[T], seed: u64, count: usize) -> Vec<T> {
    let mut state = seed;
    let mut ranked: Vec<(u64, usize)> = (0..items.len()).map(|index| (next(&mut state), index)).collect();
    ranked.sort_unstable();
    let mut drawn: Vec<usize> = ranked.into_iter().take(count).map(|(_, index)| index).collect();
    drawn.sort_unstable();
    drawn.into_iter().filter_map(|index| items.get(index).cloned()).collect()
}

/// Returns the next random number, by splitmix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
