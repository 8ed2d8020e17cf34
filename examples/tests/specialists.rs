//! The example `specialists` as a program: what it shows of its agents.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "the program is an example of this package")]

use std::path::Path;
use std::process::Command;

/// Cargo builds examples before it runs tests. The program lies beside the folder of this test.
fn output() -> String {
    let deps = std::env::current_exe().unwrap();
    let folder = deps.parent().and_then(Path::parent).unwrap();
    let output = Command::new(folder.join("examples/specialists")).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The lines of one agent.
fn of<'a>(lines: &[&'a str], agent: &str) -> Vec<&'a str> {
    let mark = format!("[{agent}] ");
    lines.iter().filter_map(|line| line.trim_start().strip_prefix(&mark)).collect()
}

#[test]
fn both_specialists_work_an_approval_is_asked_and_the_conversation_is_handed_over() {
    let shown = output();
    let (first, rest) = shown.split_once("user: I want to talk to billing.\n").expect(&shown);
    let lines: Vec<&str> = first.lines().collect();
    assert_eq!(of(&lines, "desk"), ["starts", "calls billing", "calls shipping", "ends"], "{shown}");
    assert_eq!(
        of(&lines, "billing"),
        [
            "starts: Refund invoice 17, which was charged twice.",
            "waits for approval of refund (question a/k)",
            "continues",
            "calls refund",
            "ends",
        ],
        "{shown}"
    );
    assert_eq!(of(&lines, "shipping"), ["starts: Find parcel 4.", "calls track", "ends"], "{shown}");
    // The specialists are below the desk.
    assert!(lines.contains(&"    [shipping] calls track") && lines.contains(&"  [desk] ends"), "{shown}");
    assert_eq!(lines.last(), Some(&"desk: Invoice 17 was refunded. Parcel 4 is in Lyon."), "{shown}");

    let (handed, last) = rest.split_once("user: Thank you.\n").expect(&shown);
    let lines: Vec<&str> = handed.lines().collect();
    assert_eq!(of(&lines, "desk"), ["starts", "calls hand_over", "ends"], "{shown}");
    // Billing is no sub-agent now: it continues the conversation, of which it knows the beginning.
    assert!(lines.contains(&"  [billing] starts"), "{shown}");
    assert_eq!(lines.last(), Some(&"billing: Billing here. I see that invoice 17 was refunded."), "{shown}");
    assert_eq!(last.lines().last(), Some("billing: You are welcome."), "{shown}");
    assert!(!last.contains("[desk]"), "the next prompt goes to billing:\n{shown}");
}
