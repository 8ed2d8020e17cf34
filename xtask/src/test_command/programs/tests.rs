use serde_json::json;

use super::*;

#[cfg(unix)]
fn shell(within: &Path, text: &str) -> Program {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir_in(within).unwrap().keep();
    let executable = folder.join("program");
    std::fs::write(&executable, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&executable, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (name, version) = ("a".to_owned(), "0.1.0".to_owned());
    Program { executable, source: "tests/a.rs".to_owned(), package: folder, name, version }
}

#[test]
fn programs_are_those_of_tests() {
    let message = json!({
        "reason": "compiler-artifact",
        "package_id": "path+file:///w/crates/a#a-tools@0.2.0",
        "manifest_path": "/w/crates/a/Cargo.toml",
        "target": {"src_path": "/w/crates/a/tests/b.rs"},
        "profile": {"test": true},
        "executable": "/w/target/debug/deps/b-1",
    });
    let found = program(&message).unwrap();
    assert_eq!(found.name(), "a-tools tests/b.rs");
    assert_eq!(
        (found.executable.to_str(), found.version.as_str()),
        (Some("/w/target/debug/deps/b-1"), "0.2.0")
    );
    let mut short = message.clone();
    short["package_id"] = json!("path+file:///w/crates/a#0.2.0");
    assert_eq!(program(&short).unwrap().name(), "a tests/b.rs");
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

#[cfg(unix)]
#[test]
fn results_are_added_up_and_a_program_that_fails_or_is_killed_is_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let passed = "echo 'test result: FAILED. 0 passed; 9 failed; 0 ignored, says a test'; \
        echo 'test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out'";
    let mut totals = Totals::default();
    assert!(run(&[shell(dir.path(), passed), shell(dir.path(), passed)], &mut totals).unwrap());
    assert_eq!(totals, Totals { programs: 2, passed: 4, failed: 0, ignored: 2 });
    for bad in ["echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored' >&2; exit 101", "kill -9 $$"] {
        assert!(
            !run(
                &[shell(dir.path(), passed), shell(dir.path(), bad), shell(dir.path(), passed)],
                &mut Totals::default()
            )
            .unwrap(),
            "{bad}"
        );
    }
    assert!(run(&[], &mut Totals::default()).unwrap());
}

#[cfg(unix)]
#[test]
fn a_program_sees_its_package_as_under_cargo() {
    let dir = tempfile::tempdir().unwrap();
    let passes =
        "test $CARGO_PKG_NAME = a && test $CARGO_PKG_VERSION = 0.1.0 && test $CARGO_MANIFEST_DIR = $PWD";
    assert!(run(&[shell(dir.path(), passes)], &mut Totals::default()).unwrap());
}

#[cfg(unix)]
#[test]
fn a_program_that_cannot_be_started_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut missing = shell(dir.path(), "true");
    missing.executable = missing.package.join("nothing");
    let error = run(&[missing], &mut Totals::default()).unwrap_err();
    assert!(format!("{error:#}").contains("nothing"), "{error:#}");
}
