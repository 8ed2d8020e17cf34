use serde_json::json;

use super::*;

fn shell(text: &str) -> Program {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap().keep();
    let executable = folder.join("program");
    std::fs::write(&executable, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&executable, std::fs::Permissions::from_mode(0o755)).unwrap();
    Program { executable, source: "tests/a.rs".to_owned(), package: folder }
}

#[test]
fn programs_are_those_of_tests() {
    let message = json!({
        "reason": "compiler-artifact",
        "manifest_path": "/w/crates/a/Cargo.toml",
        "target": {"src_path": "/w/crates/a/tests/b.rs"},
        "profile": {"test": true},
        "executable": "/w/target/debug/deps/b-1",
    });
    let found = program(&message).unwrap();
    assert_eq!(
        (found.name().as_str(), found.executable.to_str()),
        ("a tests/b.rs", Some("/w/target/debug/deps/b-1"))
    );
    for (member, value) in [
        ("reason", json!("build-script-executed")),
        ("profile", json!({"test": false})),
        ("executable", json!(null)),
    ] {
        let mut other = message.clone();
        other[member] = value;
        assert_eq!(program(&other), None, "{member}");
    }
}

#[test]
fn results_are_added_up_and_a_program_that_fails_or_is_killed_is_a_failure() {
    let passed = "echo 'test result: FAILED. 0 passed; 9 failed; 0 ignored, says a test'; \
        echo 'test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out'";
    let mut totals = Totals::default();
    assert!(run(&[shell(passed), shell(passed)], &mut totals).unwrap());
    assert_eq!(totals, Totals { programs: 2, passed: 4, failed: 0, ignored: 2 });
    for bad in ["echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored' >&2; exit 101", "kill -9 $$"] {
        assert!(!run(&[shell(passed), shell(bad), shell(passed)], &mut Totals::default()).unwrap(), "{bad}");
    }
    assert!(run(&[], &mut Totals::default()).unwrap());
}

#[test]
fn a_program_that_cannot_be_started_is_an_error() {
    let mut missing = shell("true");
    missing.executable = missing.package.join("nothing");
    let error = run(&[missing], &mut Totals::default()).unwrap_err();
    assert!(format!("{error:#}").contains("nothing"), "{error:#}");
}
