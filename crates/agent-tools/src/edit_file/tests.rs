mod matching;
mod untouched;

use super::apply::apply;
use super::{EditFileError, Replacement};

fn edited(file: &str, edits: &[(&str, &str)]) -> Result<String, EditFileError> {
    let edits: Vec<_> = edits.iter().map(|(old, new)| Replacement::new(*old, *new)).collect();
    apply("f", file.as_bytes(), &edits).map(|bytes| String::from_utf8(bytes).unwrap())
}

#[track_caller]
fn check(file: &str, old: &str, new: &str, expect: &str) {
    assert_eq!(edited(file, &[(old, new)]).unwrap(), expect);
}

#[track_caller]
fn check_error(file: &str, edits: &[(&str, &str)], expect: &str) {
    let error = edited(file, edits).unwrap_err().to_string();
    assert_eq!(error, expect);
}

/// Many edits of one call share the bound, so that a call compares no more than one search may.
#[test]
fn the_bytes_that_a_call_compares_are_bounded_together() {
    let file = "a".repeat(1 << 16) + "\nb\n";
    // Matches at the end of the line only, and is compared at every letter.
    let old = "a".repeat(1 << 12) + " ";
    assert_eq!(edited(&file, &[(&old, "x")]).unwrap(), "a".repeat((1 << 16) - (1 << 12)) + "x\nb\n");
    let error = edited(&file, &[(&old, "x"), (&old, "y")]).unwrap_err();
    assert!(matches!(error, EditFileError::Ambiguous { edit: Some(2), .. }), "{error}");
}
