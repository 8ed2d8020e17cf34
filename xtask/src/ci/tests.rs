use super::*;

#[test]
fn steps_are_chosen_by_name_and_a_misspelt_name_is_an_error() {
    let choose = |list: &[&str]| chosen(&list.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
    assert_eq!(choose(&[]).unwrap().len(), STEPS.len());
    assert_eq!(choose(&["--only", "doc,fmt"]).unwrap(), ["fmt", "doc"]);
    let rest = choose(&["--without", "test,doc"]).unwrap();
    assert!(rest.len() == STEPS.len() - 2 && !rest.contains(&"test"), "{rest:?}");
    let error = choose(&["--without", "tets"]).unwrap_err().to_string();
    assert!(error.contains("no step `tets`") && error.contains("clippy"), "{error}");
    assert!(choose(&["--with"]).is_err());
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
