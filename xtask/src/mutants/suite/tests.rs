use super::*;

#[test]
fn the_first_test_that_failed_is_named() {
    let name = |output: &str| failed_test(output.as_bytes());
    let output = "running 3 tests\ntest a ... ok\ntest b::c ... FAILED\ntest d ... FAILED\n";
    assert_eq!(name(output).as_deref(), Some("b::c"));
    assert_eq!(name("running 2 tests\nthread has overflowed its stack\n"), None);
    assert_eq!(name("test a ... FAI"), None, "a line that is not complete");
}

#[cfg(unix)]
fn program(within: &std::path::Path, text: &str) -> Program {
    use std::os::unix::fs::PermissionsExt as _;
    let executable = within.join("program");
    std::fs::write(&executable, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&executable, std::fs::Permissions::from_mode(0o755)).unwrap();
    programs::program(&serde_json::json!({
        "reason": "compiler-artifact",
        "package_id": "path+file:///w/a#a@0.1.0",
        "manifest_path": within.join("Cargo.toml"),
        "target": {"src_path": within.join("src/lib.rs")},
        "profile": {"test": true},
        "executable": executable,
    }))
    .unwrap()
}

#[cfg(unix)]
#[test]
fn a_mutant_is_caught_by_a_failure_and_by_the_time_limit() {
    let dir = tempfile::tempdir().unwrap();
    let text = "case $LOOPTREE_MUTANT$1 in 1) echo 'test t ... FAILED'; sleep 60; exit 101;; 2) sleep 60 & wait;; 3m::) exit 1;; esac";
    let program = program(dir.path(), text);
    let limit = Duration::from_secs(30);
    let run = |mutant: &str, limit| run(&program, None, (VARIABLE, OsStr::new(mutant)), limit).unwrap();
    assert_eq!(run("none", limit), Ended::Passed);
    assert_eq!(run("1", limit), Ended::Failed("t".to_owned()));
    assert_eq!(run("2", Duration::from_millis(50)), Ended::TooLate);
    let suite = Suite::measured(vec![program], "m::".to_owned(), BTreeSet::new()).unwrap();
    assert_eq!(suite.catches(1).unwrap().as_deref(), Some("a src/lib.rs: t"));
    let first = suite.catches(3).unwrap();
    assert_eq!(first.as_deref(), Some("a src/lib.rs: exit status: 1, "), "the tests of the module");
    assert_eq!(suite.catches(0).unwrap(), None);
}

#[cfg(unix)]
#[test]
fn a_program_that_does_not_reach_a_mutant_is_not_run_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let text = "[ -z \"$LOOPTREE_MUTANT\" ] && echo 1 >> \"$LOOPTREE_MUTANTS_REACHED\" || exit 1";
    let program = program(dir.path(), text);
    let suite = Suite::measured(vec![program], "m::".to_owned(), BTreeSet::from([1, 2])).unwrap();
    assert!(suite.catches(1).unwrap().is_some());
    assert_eq!(suite.catches(2).unwrap(), None);
    assert!(suite.catches(3).unwrap().is_some(), "nothing is known about a mutant that is compiled alone");
}

#[cfg(unix)]
#[test]
fn a_program_that_fails_without_a_mutant_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let error =
        Suite::measured(vec![program(dir.path(), "echo broken; exit 1")], String::new(), BTreeSet::new())
            .err()
            .unwrap();
    assert!(error.to_string().contains("a src/lib.rs fails without a mutant"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_program_that_ends_all_processes_ends_none_outside() {
    if isolated(&Command::new("true")).get_program() != "unshare" {
        say!("skipped: there are no PID namespaces");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut outside = Command::new("sleep").arg("60").spawn().unwrap();
    // It sees its shell and itself, and no other process.
    let text = "ls -d /proc/[0-9]* | wc -l > count; for one in /proc/[0-9]*; do kill -9 ${one#/proc/}; done; sleep 60";
    let ended = run(&program(dir.path(), text), None, (VARIABLE, OsStr::new("1")), LIMIT).unwrap();
    assert!(matches!(&ended, Ended::Failed(text) if text.starts_with("exit status: 137")), "{ended:?}");
    assert!(outside.try_wait().unwrap().is_none(), "it runs");
    outside.kill().unwrap();
    outside.wait().unwrap();
    let count = std::fs::read_to_string(dir.path().join("count")).unwrap();
    assert!(count.trim().parse::<u32>().unwrap() <= 5, "{count}");
}
