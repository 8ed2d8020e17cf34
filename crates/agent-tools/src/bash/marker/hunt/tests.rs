#![allow(
    clippy::disallowed_methods,
    reason = "the processes of the test and its time are those of this machine"
)]

use super::*;

#[test]
fn a_mark_is_a_whole_name_in_a_variable_of_this_name() {
    for (environ, expected) in [
        (b"LOOPTREE_CALL=call-1\0".as_slice(), true),
        (b"A=1\0LOOPTREE_CALL=outer,call-1\0B=2\0", true),
        (b"LOOPTREE_CALL=other\0LOOPTREE_CALL=call-1,inner\0", true),
        (b"LOOPTREE_CALL=call-12\0", false),
        (b"LOOPTREE_CALL=my-call-1\0", false),
        (b"LOOPTREE_CALL_B=call-1\0", false),
        (b"A=call-1\0", false),
        (b"A=LOOPTREE_CALL=call-1\0", false),
        (b"", false),
    ] {
        assert_eq!(is_marked(environ, b"call-1"), expected, "{}", String::from_utf8_lossy(environ));
    }
}

#[test]
fn where_no_process_is_marked_the_hunt_ends_at_once() {
    let start = Instant::now();
    Hunt::new("a-mark-that-no-process-has").run();
    assert!(start.elapsed() < MAX_TIME, "{:?}", start.elapsed());
}

#[test]
fn a_marked_process_is_killed_and_another_one_is_not() {
    let child = |mark: &str| std::process::Command::new("sleep").arg("60").env(MARKER, mark).spawn().unwrap();
    let mark = format!("hunted-{}", std::process::id());
    let (mut marked, mut other) = (child(&mark), child("other"));
    let start = Instant::now();
    Hunt::new(&mark).run();
    assert!(start.elapsed() < MAX_TIME, "{:?}", start.elapsed());
    // The dead child stays until it is waited for, and has no environment any more.
    let status = marked.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    assert!(other.try_wait().unwrap().is_none());
    other.kill().unwrap();
    other.wait().unwrap();
}
