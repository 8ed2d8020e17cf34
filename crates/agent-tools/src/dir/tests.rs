use std::fs;
use std::os::unix::fs::symlink;

use super::*;

fn tree() -> (tempfile::TempDir, Dir) {
    let temporary = tempfile::tempdir().unwrap();
    fs::create_dir_all(temporary.path().join("a/b/c")).unwrap();
    fs::write(temporary.path().join("a/file"), "x").unwrap();
    symlink("a", temporary.path().join("link")).unwrap();
    symlink("../..", temporary.path().join("a/b/up")).unwrap();
    symlink(temporary.path(), temporary.path().join("a/absolute")).unwrap();
    symlink("/proc/self/cwd", temporary.path().join("a/magic")).unwrap();
    let dir = Dir::open(temporary.path()).unwrap();
    (temporary, dir)
}

/// What a container without `openat2` does is the same.
#[test]
fn both_ways_to_open_a_folder_find_the_same_and_follow_no_link() {
    let (_temporary, dir) = tree();
    for (path, expect) in [
        ("a", Ok(())),
        ("a/b/c", Ok(())),
        ("link", Err(true)),
        ("link/b", Err(true)),
        ("a/b/up", Err(true)),
        ("a/b/up/a", Err(true)),
        ("a/absolute/a", Err(true)),
        ("a/magic", Err(true)),
        ("a/file", Err(false)),
        ("a/none", Err(false)),
        ("a/none/b", Err(false)),
    ] {
        let path = Path::new(path);
        let in_one_call = dir.open_dir(path);
        let by_parts = dir.open_dir_by_parts(&names(path).unwrap());
        for opened in [in_one_call, by_parts] {
            let found = opened.map(|_| ()).map_err(|error| is_link_error(&error));
            assert_eq!(found, expect, "{path:?}");
        }
    }
}

#[test]
fn a_path_that_is_not_of_names_is_refused_by_every_operation() {
    let (_temporary, dir) = tree();
    for path in ["..", "a/../..", "/etc", "/", "a/.."] {
        let path = Path::new(path);
        assert!(dir.open_dir(path).is_err(), "{path:?}");
        assert!(dir.open_file(&path.join("file")).is_err(), "{path:?}");
        assert!(dir.create_dirs(path).is_err(), "{path:?}");
        assert!(dir.replace(&path.join("new"), b"x").is_err(), "{path:?}");
        assert!(dir.facts(&path.join("file")).is_err(), "{path:?}");
        assert!(dir.items(path).is_err(), "{path:?}");
    }
}

#[test]
fn no_operation_follows_a_link_at_the_end_of_its_path() {
    let (temporary, dir) = tree();
    fs::write(temporary.path().join("secret"), "secret").unwrap();
    symlink("secret", temporary.path().join("to_secret")).unwrap();
    let link = Path::new("to_secret");
    assert!(is_link_error(&dir.open_file(link).unwrap_err()));
    assert!(is_link_error(&dir.replace(link, b"x").unwrap_err()));
    assert!(is_link_error(&dir.items(Path::new("link")).unwrap_err()));
    assert!(is_link_error(&dir.create_dirs(Path::new("link/new")).unwrap_err()));
    assert_eq!(dir.facts(link).unwrap().kind, Kind::Link);
    assert_eq!(dir.create_file(link, NewFile::Usual).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    dir.remove_file(link).unwrap();
    assert_eq!(fs::read_to_string(temporary.path().join("secret")).unwrap(), "secret");
    assert!(!temporary.path().join("a/new").exists());
}

#[test]
fn a_failed_replacement_leaves_nothing_behind() {
    let (temporary, dir) = tree();
    assert!(dir.replace(Path::new("a/b"), b"x").is_err());
    let names: Vec<_> = dir.items(Path::new("a")).unwrap().into_iter().map(|item| item.name).collect();
    assert_eq!(names, ["absolute", "b", "file", "magic"]);
    assert_eq!(fs::read_to_string(temporary.path().join("a/file")).unwrap(), "x");
}

/// Names that git does not check out, because a file system may take them for `.git`.
#[test]
fn every_spelling_of_the_repository_is_known() {
    use crate::workspace::is_repository;
    for name in [
        ".git",
        ".GIT",
        ".Git",
        ".gi\u{200c}t",
        "\u{feff}.git",
        ".git.",
        ".git ",
        ".git. .",
        "git~1",
        "GIT~1",
        ".git::$INDEX_ALLOCATION",
    ] {
        assert!(is_repository(OsStr::new(name)), "{name:?}");
    }
    for name in ["git", ".gitignore", ".gitmodules", ".gitattributes", ".github", "a.git", "x", "é", "git~2"]
    {
        assert!(!is_repository(OsStr::new(name)), "{name:?}");
    }
}
