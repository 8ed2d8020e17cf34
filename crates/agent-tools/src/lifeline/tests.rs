use super::*;

/// The tests share the guard of this process.
static ALONE: Mutex<()> = Mutex::new(());

fn guard() -> u32 {
    children().guard.as_ref().unwrap().child.id()
}

#[test]
fn the_guard_looks_for_the_marker_of_commands() {
    assert!(GUARD.contains(&format!("\"^{}=", environment::MARKER)));
}

#[test]
fn a_guard_that_was_killed_or_stopped_is_replaced() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let first = Lifeline::new("one", None).unwrap();
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::STOP] {
        let before = guard();
        let pid = rustix::process::Pid::from_raw(before.cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        // A pipe that is not read takes some lines.
        let mut lines = 0;
        while guard() == before {
            first.tie_group(None);
            lines += 1;
            assert!(lines < 100_000);
        }
    }
    drop(first);
    assert!(children().guard.as_mut().unwrap().runs());
}

#[test]
fn a_mark_that_is_a_pattern_is_not_one_for_the_guard() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (mark, expected) in [("a-1_B", "a-1_B"), (".*", "-"), ("a b", "-"), ("a\nb", "-"), ("", "-")] {
        let lifeline = Lifeline::new(mark, Some(Path::new("/a b"))).unwrap();
        lifeline.tie_group(Some(7_000_000));
        let line = children().tied[&lifeline.number].line(lifeline.number);
        let expected = format!("+ {} 7000000 {expected} /a b\n", lifeline.number);
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }
}
