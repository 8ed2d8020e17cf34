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
                prop_assert!(found.first < found.end, "an item stays");
                let whole = [&old[..found.first], &new[found.first..found.end], &old[old.len() - found.last..]].concat();
                prop_assert_eq!(whole, new);
            }
        }
    }
}

/// An empty list can be absent from the JSON, so one item is written even if nothing is new.
#[test]
fn one_item_of_a_list_without_news_is_written() {
    let list = [1; LONG];
    let found = common(list.iter(), list.iter(), |a, b| a == b).unwrap();
    assert_eq!((found.first, found.end, found.last), (LONG - 1, LONG, 0));
}
