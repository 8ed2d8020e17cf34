use super::{MINUTES, minutes};

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_time_is_asked_for_in_minutes() {
    for (line, expected) in [("", MINUTES), ("--minutes 5", 5.0), ("--minutes 0.5", 0.5)] {
        assert!((minutes(&words(line)).unwrap() - expected).abs() < f64::EPSILON, "{line}");
    }
}

#[test]
fn what_is_no_time_is_refused() {
    for line in
        ["--minutes", "--minutes x", "--minutes 0", "--minutes -1", "--minutes nan", "5", "--seconds 5"]
    {
        assert!(minutes(&words(line)).is_err(), "{line}");
    }
}
