/// A short form of the run: every limit and every summary is checked as in the long one.
#[test]
fn a_short_run_keeps_its_facts_within_each_window() {
    assert!(super::context(300).unwrap());
}
