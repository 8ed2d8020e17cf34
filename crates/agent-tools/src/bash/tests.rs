use super::capture::{Capture, Live, TRUNCATED};
use super::output::seconds;
use super::*;

#[track_caller]
fn check_denied(command: &str, pattern: Option<&str>) {
    let patterns = DenyPattern::defaults();
    let found = command_rules::first_match(&patterns, command).map(ToString::to_string);
    assert_eq!(found.as_deref(), pattern, "{command}");
}

/// REQ-094, REQ-139. These are only compared, never run.
#[test]
fn dangerous_commands_are_found_in_every_spelling() {
    for command in [
        "rm -rf /",
        "rm  -rf   /",
        "rm -fr /",
        "rm -r -f /",
        "rm -f -R /",
        "rm --recursive --force /",
        "rm -rf --no-preserve-root /",
        "rm -rfv //",
        "rm -rf /.",
        "rm -rf /tmp/..",
        "rm -rf '/'",
        "\"rm\" -rf /",
        "r\\m -rf /",
        "rm -rf \\\n /",
        "rm / -rf",
        "rm -rf /tmp/x /",
        "/bin/rm -rf /",
        "sudo rm -rf /",
        "sudo -u root rm -rf /",
        "sudo -n rm -rf /",
        "env A=1 rm -rf /",
        "A=1 rm -rf /",
        "cd /tmp && rm -rf /",
        "cd /tmp; rm -rf /",
        "true || rm -rf /",
        "echo x | xargs rm -rf /",
        "echo $(rm -rf /)",
        "echo \"$(rm -rf /)\"",
        "echo `rm -rf /`",
        "(rm -rf /)",
        "{ rm -rf /; }",
        "if true; then rm -rf /; fi",
        "sleep 1 & rm -rf /",
        "echo a\nrm -rf /",
        "bash -c 'rm -rf /'",
        "sh -ec \"rm -rf /\"",
        "eval 'rm -rf /'",
        "nohup timeout 5 rm -rf / 2>&1",
    ] {
        check_denied(command, Some("rm -rf /"));
    }
    check_denied("rm -rf /*", Some("rm -rf /*"));
    check_denied("rm -r -f  //*", Some("rm -rf /*"));
    check_denied("rm -r /", Some("rm -r /"));
    check_denied("mkfs /dev/sda1", Some("mkfs"));
    check_denied("sudo mkfs.ext4 -F /dev/sda1", Some("mkfs"));
    check_denied("dd if=x of=/dev/sda bs=1M", Some("dd of=/dev/"));
    check_denied("dd of=/dev/shm/../sda if=x", Some("dd of=/dev/"));
    check_denied(":(){ :|:& };:", Some(":(){:|:&};:"));
    check_denied(":() { : | : & } ; :", Some(":(){:|:&};:"));
}

/// REQ-139.
#[test]
fn harmless_commands_are_not_taken_for_dangerous_ones() {
    for command in [
        "rm -rf /tmp/x",
        "rm -rf /tmp/x/*",
        "rm -rf ./",
        "rm -rf target",
        "rm -f /",
        "echo rm -rf /tmp/nothing",
        "echo rm -rf /",
        "echo 'rm -rf /'",
        "grep -r 'rm -rf /' .",
        "git commit -m \"never rm -rf / again\"",
        "ls # rm -rf /",
        "man mkfs",
        "grep mkfs README.md",
        "./mkfsomething",
        "dd if=/dev/zero of=image.bin count=1",
        "dd if=image.bin of=/dev/null",
        "echo ':(){ :|:& };:'",
        "find / -name x 2>&1",
        "",
        "   ",
        "'",
        "\\",
        "$(",
    ] {
        check_denied(command, None);
    }
}

#[test]
fn options_of_a_pattern_must_all_be_there_and_operands_in_order() {
    let push = DenyPattern::command("git push --force origin");
    assert!(push.matches("git -c a=b push --force origin main"));
    assert!(push.matches("git push origin --force"));
    assert!(push.matches("git push --force=yes origin"));
    assert!(!push.matches("git push origin"));
    assert!(!push.matches("git origin --force push"));
    assert!(!DenyPattern::command("").matches("ls"));
    assert!(!DenyPattern::text(" ").matches("ls"));
    assert!(DenyPattern::operand("chmod", "777").matches("chmod -R 777 ."));
}

#[test]
fn a_command_nested_very_deep_is_looked_at_without_trouble() {
    let mut command = "true".to_owned();
    for _ in 0..10_000 {
        command = format!("$({command}");
    }
    check_denied(&command, None);
    check_denied(&"eval ".repeat(20_000), None);
    check_denied(&format!("sudo {}", "-a x ".repeat(20_000)), None);
    check_denied(&"sudo -a eval ".repeat(8_000), None);
    check_denied(&"bash -c 'bash -c \"".repeat(5_000), None);
}

#[track_caller]
fn check_capture(max: usize, parts: &[&[u8]], expect: &str) {
    let mut capture = Capture::new(max, None);
    for part in parts {
        capture.push(part);
    }
    assert_eq!(capture.text(), expect);
}

/// REQ-096.
#[test]
fn output_is_cut_at_the_bound_between_characters() {
    check_capture(4, &[b"abcd"], "abcd");
    check_capture(4, &[b"abc", b"de"], &format!("abcd{TRUNCATED}"));
    check_capture(4, &["€€".as_bytes()], &format!("€{TRUNCATED}"));
    check_capture(5, &["€".as_bytes(), "€".as_bytes()], &format!("€{TRUNCATED}"));
    check_capture(3, &[b"\xE2", b"\x82", b"\xAC"], "€");
    // A command may end in the middle of a character; that is not our cut.
    check_capture(4, &[b"a\xE2"], "a\u{FFFD}");
    // What replaces a bad byte takes more room than the byte.
    check_capture(4, &[b"\xFF\xFF\xFF"], &format!("\u{FFFD}{TRUNCATED}"));
    check_capture(0, &[b"x"], TRUNCATED);
}

#[test]
fn a_watcher_sees_the_last_of_the_output_and_only_when_there_is_more() {
    let mut live = Live::default();
    assert_eq!(live.take_new(), None);
    live.push(b"one ");
    live.push(b"two");
    assert_eq!(live.take_new().as_deref(), Some("one two"));
    live.push(b"");
    assert_eq!(live.take_new(), None);
    live.push("é".repeat(20_000).as_bytes());
    live.push(b"!");
    let shown = live.take_new().unwrap();
    assert!(shown.len() <= 16 * 1024 && shown.ends_with("é!") && shown.starts_with('é'));
}

#[test]
fn seconds_are_shown_as_they_are() {
    assert_eq!(seconds(Duration::from_secs(120)), "120");
    assert_eq!(seconds(Duration::from_millis(500)), "0.5");
    assert_eq!(seconds(Duration::ZERO), "0");
}
