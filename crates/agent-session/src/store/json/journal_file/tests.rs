use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt as _;

use super::super::super::write_lock::is_held;
use super::*;

#[test]
fn a_journal_is_a_second_name_of_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let (path, lock_path) = (dir.path().join("journal"), dir.path().join("lock"));
    let mut lock = WriteLock::take(lock_path.clone()).unwrap();
    // A journal that a save could not remove.
    std::fs::write(&path, "old").unwrap();
    for content in ["first", "second"] {
        create_file(&path, &mut lock, content.as_bytes()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
        assert_eq!(inode(&path), inode(&lock_path));
        assert!(is_held(&lock_path) && WriteLock::take(lock_path.clone()).is_err());
    }
    drop(lock);
    assert!(!is_held(&lock_path) && !lock_path.exists());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "second");
}

#[test]
fn without_hard_links_a_journal_is_a_file_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (path, lock_path) = (dir.path().join("journal"), dir.path().join("lock"));
    let mut lock = WriteLock::take(lock_path.clone()).unwrap();
    let refused = |_: &Path, _: &Path| Err(Error::from(ErrorKind::Unsupported));
    create_linked(&path, &mut lock, b"content", refused).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "content");
    assert_eq!(std::fs::read(&lock_path).unwrap(), b"");
    assert!(is_held(&lock_path));
}
