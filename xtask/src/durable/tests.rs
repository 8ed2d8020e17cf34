use super::{APPROVALS, KILLS, Options, SCRIPTS, SERVER_KILLS, options};

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn numbers_come_from_the_command_line() {
    let default = || Options {
        kills: KILLS,
        server_kills: SERVER_KILLS,
        approvals: APPROVALS,
        scripts: SCRIPTS,
        seed: 1,
    };
    assert_eq!(options(&words("")).unwrap(), default());
    let line = "--kills 50 --server-kills 0 --approvals 3 --scripts 4 --seed 9";
    let expected = Options { kills: 50, server_kills: 0, approvals: 3, scripts: 4, seed: 9 };
    assert_eq!(options(&words(line)).unwrap(), expected);
}

#[test]
fn what_is_no_number_is_refused() {
    for line in ["--kills", "--kills many", "--seed -1", "often", "--approvals 99999999999"] {
        assert!(options(&words(line)).is_err(), "{line}");
    }
}
