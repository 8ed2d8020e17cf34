use super::{KILLS, Options, options};

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[track_caller]
fn check(line: &str, expect: &Options) {
    assert_eq!(options(&words(line)).unwrap(), *expect);
}

#[test]
fn kills_and_seed_come_from_the_command_line() {
    check("", &Options { kills: KILLS, seed: None });
    check("--kills 30 --seed 7", &Options { kills: 30, seed: Some(7) });
}

#[test]
fn what_is_no_number_is_refused() {
    for line in ["--kills", "--kills many", "--kills 0", "--kills 99999999999", "--seed -1", "often"] {
        assert!(options(&words(line)).is_err(), "{line}");
    }
}
