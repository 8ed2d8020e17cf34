use super::{CALLS, Harm, KILLS, Options, Store, options};

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[track_caller]
fn check(harm: Harm, line: &str, expect: &Options) {
    assert_eq!(options(harm, &words(line)).unwrap(), *expect);
}

#[test]
fn runs_seed_and_store_come_from_the_command_line() {
    let usual = Options { runs: KILLS, seed: None, store: Store::Json };
    let kills = Harm::Kills;
    check(kills, "", &usual);
    check(kills, "--kills 30 --seed 7", &Options { runs: 30, seed: Some(7), ..usual });
    check(kills, "--store sqlite --kills 1", &Options { runs: 1, store: Store::Sqlite, ..usual });
    check(kills, "--store postgres", &Options { store: Store::Postgres, ..usual });
    check(kills, "--store json", &usual);
    let faults = Options { runs: CALLS, ..usual };
    check(Harm::Faults, "", &faults);
    check(Harm::Faults, "--calls 60", &Options { runs: 60, ..faults });
    check(Harm::Faults, "--postgres", &Options { store: Store::Postgres, ..faults });
}

#[test]
fn what_is_no_number_and_no_store_is_refused() {
    for line in [
        "--kills",
        "--kills many",
        "--kills 0",
        "--kills 99999999999",
        "--calls 7",
        "--postgres",
        "--seed -1",
        "often",
        "--store",
        "--store mysql",
    ] {
        assert!(options(Harm::Kills, &words(line)).is_err(), "{line}");
    }
    assert!(options(Harm::Faults, &words("--kills 7")).is_err());
}
