use super::{CLIENT, Expected, Scenario, Verdict, expected_failures, scenarios};

fn scenario(name: &str, passed: u32, failed: u32) -> Scenario {
    Scenario { name: name.to_owned(), passed, failed }
}

/// A run in which everything passed.
fn good() -> Verdict {
    let required = CLIENT.required.iter().map(|name| scenario(name, 1, 0));
    let others = (CLIENT.required.len()..CLIENT.scenarios).map(|n| scenario(&format!("auth/{n}"), 3, 0));
    Verdict {
        part: &CLIENT,
        scenarios: required.chain(others).collect(),
        expected: Vec::new(),
        suite_agrees: true,
    }
}

fn expected(name: &str) -> Expected {
    Expected { name: name.to_owned(), reason: "why".to_owned() }
}

#[track_caller]
fn check_faults(verdict: &Verdict, faults: &[&str]) {
    assert_eq!(verdict.faults(), faults);
}

#[test]
fn the_summary_is_read_and_nothing_before_it() {
    let printed = "✓ said by a client: 9 passed, 0 failed\n=== SUITE SUMMARY ===\n\n✓ initialize: 1 passed, 0 failed\n\
                   ✗ auth/jwt: 8 passed, 2 failed, 1 warnings\n\nTotal: 340 passed, 7 failed, 0 warnings\n  ~ auth/jwt\n";
    assert_eq!(scenarios(printed), [scenario("initialize", 1, 0), scenario("auth/jwt", 8, 2)]);
    // Of the scenarios for servers.
    assert_eq!(scenarios("=== SUMMARY ===\n✓ ping: 1 passed, 0 failed\n"), [scenario("ping", 1, 0)]);
    assert_eq!(scenarios("no summary"), []);
}

#[test]
fn what_is_expected_to_fail_needs_a_reason() {
    let file = "# Of the file.\nclient:\n  # One\n  # reason.\n  - auth/one\n  # Another.\n  - auth/two\n";
    let [one, two] = [("auth/one", "One reason."), ("auth/two", "Another.")]
        .map(|(name, reason)| Expected { name: name.to_owned(), reason: reason.to_owned() });
    assert_eq!(expected_failures(file).unwrap(), [one, two]);
    let error = expected_failures("client:\n  # One.\n  - auth/one\n  - auth/two\n").unwrap_err();
    assert!(error.to_string().contains("`auth/two` has no reason"), "{error}");
}

#[test]
fn a_run_is_good_when_all_passed_or_was_expected_not_to() {
    check_faults(&good(), &[]);
    let mut run = good();
    run.scenarios[10].failed = 1;
    run.expected = vec![expected("auth/10")];
    check_faults(&run, &[]);
}

#[test]
fn a_failure_that_nobody_expected_is_a_fault() {
    let mut run = good();
    run.scenarios[10].failed = 1;
    check_faults(&run, &["auth/10 failed and is not in the baseline"]);
}

#[test]
fn a_scenario_without_a_single_check_has_not_passed() {
    let mut run = good();
    run.scenarios[10].passed = 0;
    check_faults(&run, &["auth/10 failed and is not in the baseline"]);
}

#[test]
fn the_four_of_the_issue_cannot_be_put_into_the_baseline() {
    let mut run = good();
    run.scenarios[0].failed = 1;
    run.expected = vec![expected("initialize")];
    check_faults(&run, &["initialize must pass"]);
}

#[test]
fn a_baseline_that_is_behind_is_a_fault() {
    let mut run = good();
    run.expected = vec![expected("auth/10"), expected("auth/gone")];
    check_faults(
        &run,
        &["auth/10 passed: take it out of the baseline", "auth/gone is in the baseline, but no scenario"],
    );
}

#[test]
fn a_suite_that_ran_too_little_or_fell_over_is_a_fault() {
    let mut run = good();
    run.scenarios.pop();
    check_faults(&run, &["25 scenarios ran in place of 26"]);
    let mut run = good();
    run.suite_agrees = false;
    check_faults(&run, &["the suite itself ended with an error"]);
}
