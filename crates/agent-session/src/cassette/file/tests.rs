use std::fs;

use super::*;

#[track_caller]
fn check(text: &[u8], expect: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.json");
    fs::write(&path, text).unwrap();
    let error = Cassette::load(&path).unwrap_err().to_string();
    assert!(error.contains("run.json") && error.contains(expect), "{error}");
}

#[test]
fn a_file_that_is_no_recording_is_an_error_that_names_it_and_the_place() {
    check(b"", "line 1, column 0");
    check(b"{\"version\": 1,\n \"calls\": 5}", "line 2, column");
    check(b"{\"version\": 9}", "has version 9, and this version reads up to 1");
    check(b"\xff\xfe", "byte 0");
    let dangling = br#"{"version": 1, "calls": [{"effect": {"model": {"request": {"setup": 0, "messages": []}, "events": []}}}]}"#;
    check(dangling, "setup 0, which is not in it");
    let missing = Cassette::load("no/such/file.json").unwrap_err().to_string();
    assert!(missing.contains("file.json could not be opened"), "{missing}");
}

#[test]
fn a_saved_cassette_loads_and_is_for_its_owner() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.json");
    fs::write(&path, "something older").unwrap();
    let recorder = crate::cassette::CassetteRecorder::new();
    recorder.note("task", "mend it");
    recorder.cassette().save(&path).unwrap();
    assert_eq!(Cassette::load(&path).unwrap(), recorder.cassette());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
