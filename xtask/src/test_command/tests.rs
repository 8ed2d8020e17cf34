use super::Totals;

#[track_caller]
fn check(lines: &[&str], expected: Totals) {
    let mut totals = Totals::default();
    for line in lines {
        totals.add(line);
    }
    assert_eq!(totals, expected);
}

#[test]
fn the_closing_lines_of_all_programs_are_added_up() {
    check(
        &[
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.25s",
            "test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        ],
        Totals { programs: 2, passed: 7, failed: 2, ignored: 1 },
    );
}

#[test]
fn what_a_test_prints_is_not_taken_for_a_result() {
    check(&["12 passed; 3 failed", "error: test result was odd", ""], Totals::default());
}

#[test]
fn the_sum_is_one_line() {
    let totals = Totals { programs: 2, passed: 7, failed: 2, ignored: 1 };
    assert_eq!(totals.sentence(), "7 passed, 2 failed, 1 ignored, in 2 test programs");
}
