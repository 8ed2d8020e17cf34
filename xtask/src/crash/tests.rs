use super::{KILLS, Options, Store, options};

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[track_caller]
fn check(line: &str, expect: &Options) {
    assert_eq!(options(&words(line)).unwrap(), *expect);
}

#[test]
fn kills_seed_and_store_come_from_the_command_line() {
    check("", &Options { kills: KILLS, seed: None, store: Store::Json });
    check("--kills 30 --seed 7", &Options { kills: 30, seed: Some(7), store: Store::Json });
    check("--store sqlite --kills 1", &Options { kills: 1, seed: None, store: Store::Sqlite });
    check("--store postgres", &Options { kills: KILLS, seed: None, store: Store::Postgres });
    check("--store json", &Options { kills: KILLS, seed: None, store: Store::Json });
}

#[test]
fn what_is_no_number_and_no_store_is_refused() {
    for line in [
        "--kills",
        "--kills many",
        "--kills 0",
        "--kills 99999999999",
        "--seed -1",
        "often",
        "--store",
        "--store mysql",
    ] {
        assert!(options(&words(line)).is_err(), "{line}");
    }
}
