use proptest::prelude::*;

use super::{LONG, common};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_common_items_and_the_new_ones_make_the_whole_list(
        old in prop::collection::vec(0..3_u8, 0..40),
        new in prop::collection::vec(0..3_u8, 0..40),
        kept in 0..40_usize,
    ) {
        // Mostly the same list with a few changes in the middle.
        let new = [old.get(..kept.min(old.len())).unwrap(), &new[..], old.get(kept.min(old.len())..).unwrap()].concat();
        match common(new.iter(), old.iter(), |a, b| a == b) {
            None => prop_assert!(old.len() < LONG || old.first() != new.first() && old.last() != new.last()),
            Some(found) => {
                let whole = [&old[..found.first], &new[found.first..found.end], &old[old.len() - found.last..]].concat();
                prop_assert_eq!(whole, new);
            }
        }
    }
}
