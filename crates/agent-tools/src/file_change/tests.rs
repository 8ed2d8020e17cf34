use super::*;

#[test]
fn a_change_has_a_unified_diff_and_the_numbers_of_its_lines() {
    let change = FileChange::between("a", Some(b"one\ntwo\nthree\n"), Some(b"one\n2\n2.5\nthree\n"));
    assert_eq!(change.diff, "@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2.5\n three\n");
    assert_eq!((change.added, change.removed, change.truncated), (2, 1, false));
    assert_eq!(change.kind, ChangeOf::Updated);
    assert_eq!(FileChange::between("a", None, Some(b"x")).kind, ChangeOf::Added);
    assert_eq!(FileChange::between("a", Some(b"x"), None).kind, ChangeOf::Deleted);
    let value = serde_json::json!({ "changes": [change.clone()] });
    assert_eq!(changes_of(&value), [change]);
    assert!(changes_of(&Value::Null).is_empty());
}

#[test]
fn a_diff_is_bounded() {
    let long: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
    let change = FileChange::between("a", None, Some(long.as_bytes()));
    assert!(change.truncated && change.diff.len() <= MAX_DIFF_BYTES && change.diff.ends_with('\n'));
    assert_eq!((change.added, change.removed), (20_000, 0));
    let huge = vec![b'\n'; MAX_COMPARED_BYTES + 1];
    let change = FileChange::between("a", Some(&huge), Some(b"x"));
    assert!(change.truncated && change.diff.is_empty());
    assert_eq!((change.added, change.removed), (1, MAX_COMPARED_BYTES + 1));
    // One line of more than the limit.
    let wide = "x".repeat(MAX_DIFF_BYTES * 2);
    let change = FileChange::between("a", Some(b"y"), Some(wide.as_bytes()));
    assert!(change.truncated && change.diff.len() <= MAX_DIFF_BYTES);
}

#[test]
fn two_files_without_a_common_line_are_compared_in_bounded_time() {
    let lines = |name: &str| (0..40_000).map(|n| format!("{name}{n}\n")).collect::<String>();
    let change = FileChange::between("a", Some(lines("a").as_bytes()), Some(lines("b").as_bytes()));
    assert_eq!((change.added, change.removed), (40_000, 40_000));
}

/// Found by the differential test of `apply_patch`.
#[test]
fn the_lines_of_a_hunk_are_counted_after_a_change_was_shifted() {
    let old = "fn\nlet x\nloop\n}\nstruct\nx\nend\nloop\nif a\n";
    let new = "let y\nloop\n}\nstruct\nx\nend\nif a\nif a\nlet z\n";
    let diff = FileChange::between("a", Some(old.as_bytes()), Some(new.as_bytes())).diff;
    let (header, lines) = diff.split_once('\n').unwrap();
    assert_eq!(header, "@@ -1,9 +1,9 @@");
    assert_eq!(lines.lines().filter(|line| !line.starts_with('+')).count(), 9);
    assert_eq!(FileChange::between("a", None, Some(b"x\n")).diff, "@@ -0,0 +1 @@\n+x\n");
}
