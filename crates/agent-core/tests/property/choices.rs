//! A row of numbers from which a test draws what happens. When it is used up, the simplest thing happens, so that every
//! script ends and a failing one can be shortened.

use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Debug, Clone)]
pub(crate) struct Choices {
    row: Vec<u16>,
    at: usize,
}

impl Choices {
    pub(crate) fn new(row: Vec<u16>) -> Self {
        Self { row, at: 0 }
    }

    /// A number below `count`; 0 when the row is used up.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        let drawn = self.row.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        usize::from(drawn) % count.max(1)
    }

    /// Whether something that happens once in `rarity` times happens now.
    pub(crate) fn once_in(&mut self, rarity: usize) -> bool {
        self.below(rarity) == rarity - 1
    }

    pub(crate) fn is_used_up(&self) -> bool {
        self.at >= self.row.len()
    }

    pub(crate) fn one_of<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }
}

/// Rows of at most `longest` numbers.
pub(crate) fn choices(longest: usize) -> impl Strategy<Value = Choices> {
    vec(any::<u16>(), 8..longest).prop_map(Choices::new)
}
