use super::*;

#[test]
fn steps_can_be_left_out_by_name_and_a_misspelt_name_is_an_error() {
    let words = |list: &[&str]| list.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    assert_eq!(left_out(&words(&["--without", "test,doc"])).unwrap(), ["test", "doc"]);
    assert_eq!(left_out(&[]).unwrap(), Vec::<String>::new());
    let error = left_out(&words(&["--without", "tets"])).unwrap_err().to_string();
    assert!(error.contains("no step `tets`") && error.contains("clippy"), "{error}");
    assert!(left_out(&words(&["--with"])).is_err());
}

#[test]
fn the_table_says_name_outcome_time_and_the_first_line_of_why() {
    let results = [
        ("fmt", Outcome::Passed, Duration::from_millis(1_250)),
        ("deny", Outcome::Skipped("not installed".to_owned()), Duration::ZERO),
        ("doc", Outcome::Failed("first\nsecond".to_owned()), Duration::from_secs(61)),
    ];
    let table = table(&results);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "fmt            passed       1.2 s");
    assert_eq!(lines[1], "deny           skipped      0.0 s  not installed");
    assert_eq!(lines[2], "doc            FAILED      61.0 s  first");
}
