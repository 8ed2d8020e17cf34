//! The example `durable` as a program: a session outlives its worker, and an answer is given while none is alive.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "the program is an example of this package")]

use std::path::Path;
use std::process::Command;

#[test]
fn a_session_waits_without_a_worker_and_another_worker_finishes_it() {
    let deps = std::env::current_exe().unwrap();
    let folder = deps.parent().and_then(Path::parent).unwrap();
    let output = Command::new(folder.join("examples/durable")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = shown.lines().collect();
    if let [only] = lines[..]
        && only.starts_with("skipped: ")
    {
        println!("{only}");
        return;
    }
    assert_eq!(
        lines[..5],
        [
            "the session asks: Deploy to production?",
            "the worker is killed",
            "the answer is given, and no worker is alive",
            "another worker starts",
            "the run: Completed, Version 7 is in production.",
        ],
        "{shown}"
    );
    assert!(lines[5].ends_with("events, numbered and each once"), "{shown}");
}
