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
