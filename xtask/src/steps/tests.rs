use super::*;

#[test]
fn the_table_says_name_outcome_time_and_the_first_line_of_the_text() {
    let rows = [
        ("fmt", Outcome::Passed(String::new()), Duration::from_millis(1_250)),
        ("archive", Outcome::Passed("a\nb".to_owned()), Duration::from_secs(2)),
        ("deny", Outcome::Skipped("not installed".to_owned()), Duration::ZERO),
        ("doc", Outcome::Failed("first\nsecond".to_owned()), Duration::from_secs(61)),
    ];
    let table = table(&rows);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "fmt              passed       1.2 s");
    assert_eq!(lines[1], "archive          passed       2.0 s  a");
    assert_eq!(lines[2], "deny             skipped      0.0 s  not installed");
    assert_eq!(lines[3], "doc              FAILED      61.0 s  first");
    assert!(succeeded(&rows[..3]) && !succeeded(&rows));
}

#[test]
fn a_step_with_an_error_has_failed() {
    let (name, outcome, _) = play("fmt", || anyhow::bail!("there is no rustfmt"));
    assert_eq!((name, outcome), ("fmt", Outcome::Failed("there is no rustfmt".to_owned())));
}
