use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode};

use super::*;

/// Creates a folder with one of everything that a repository can contain.
fn scene() -> (tempfile::TempDir, BoundedFolder) {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    fs::create_dir_all(at("root/folder")).unwrap();
    fs::write(at("secret"), "secret").unwrap();
    fs::write(at("root/file"), "content").unwrap();
    fs::write(at("root/folder/file"), "deeper").unwrap();
    fs::File::create(at("root/sparse")).unwrap().set_len(1 << 40).unwrap();
    rustix::fs::mknodat(CWD, at("root/pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let links = [
        ("link", Path::new("file")),
        ("outside", Path::new("../secret")),
        ("absolute", Path::new("/etc/hostname")),
        ("device", Path::new("/dev/zero")),
        ("elsewhere", Path::new("..")),
        ("inside", Path::new("folder")),
    ];
    for (name, target) in links {
        symlink(target, at("root").join(name)).unwrap();
    }
    let folder = BoundedFolder::open(at("root")).unwrap();
    (home, folder)
}

#[test]
fn a_file_is_read_up_to_the_limit_and_the_rest_is_reported() {
    let (_home, folder) = scene();
    for (limit, content, truncated) in [(100, "content", false), (7, "content", false), (3, "con", true)] {
        let read = folder.read("file", limit).unwrap();
        assert_eq!((read.bytes.as_slice(), read.truncated), (content.as_bytes(), truncated), "{limit}");
    }
    assert_eq!(folder.read("./folder/file", 10).unwrap().into_text(), "deeper");
    assert_eq!(folder.folder("folder").unwrap().read("file", 10).unwrap().into_text(), "deeper");
    let sparse = folder.read("sparse", 1 << 16).unwrap();
    assert_eq!(
        (sparse.bytes.len(), sparse.bytes.capacity(), sparse.truncated),
        (1 << 16, (1 << 16) + 1, true)
    );
    assert!(folder.read("missing", 1).unwrap_err().is_not_found());
}

#[test]
fn links_pipes_devices_and_paths_elsewhere_are_refused_at_once() {
    let (_home, folder) = scene();
    let refused = |path: &str| format!("{:?}", folder.read(path, 10).unwrap_err());
    for path in ["link", "outside", "absolute", "device", "elsewhere/secret", "inside/file", "elsewhere"] {
        assert!(refused(path).starts_with("Link"), "{path}: {}", refused(path));
    }
    for path in ["../secret", "/etc/hostname", "folder/../../secret"] {
        assert!(refused(path).starts_with("Outside"), "{path}: {}", refused(path));
    }
    assert!(refused("pipe").starts_with("NotRegular"));
    for path in ["folder", "", "."] {
        assert!(refused(path).starts_with("IsADirectory"), "{path:?}: {}", refused(path));
    }
    for path in ["elsewhere", "inside", "inside/.."] {
        assert!(folder.folder(path).is_err(), "{path}");
    }
    let device = BoundedFolder::open("/dev").unwrap().read("zero", 10).unwrap_err();
    assert!(matches!(device, PathError::NotRegular { .. }), "{device}");
}

#[test]
fn a_folder_that_is_exchanged_later_is_not_entered() {
    let (home, folder) = scene();
    fs::rename(home.path().join("root"), home.path().join("moved")).unwrap();
    fs::create_dir(home.path().join("root")).unwrap();
    fs::write(home.path().join("root/file"), "of another").unwrap();
    assert_eq!(folder.read("file", 10).unwrap().into_text(), "content");
}

#[test]
fn a_file_that_the_user_named_may_be_a_link_to_a_regular_file() {
    let (home, _folder) = scene();
    let named = |name: &str| BoundedFolder::read_named(home.path().join("root").join(name), 10);
    assert_eq!(named("link").unwrap().into_text(), "content");
    assert_eq!(named("inside/file").unwrap().into_text(), "deeper");
    for name in ["pipe", "device", "folder", "missing"] {
        assert!(named(name).is_err(), "{name}");
    }
}

#[test]
fn a_character_that_the_limit_cuts_is_left_out_and_other_bytes_are_replaced() {
    let bounded = |bytes: &[u8], truncated| Bounded { bytes: bytes.to_vec(), truncated }.into_text();
    assert_eq!(bounded("aé".as_bytes(), false), "aé");
    assert_eq!(bounded(b"a\xc3", true), "a");
    assert_eq!(bounded(b"a\xc3", false), "a\u{fffd}");
    assert_eq!(bounded(b"a\xffb", true), "a\u{fffd}b");
}

#[tokio::test]
async fn the_async_form_reads_on_another_thread() {
    let (_home, folder) = scene();
    assert_eq!(folder.read_async("file", 3).await.unwrap().into_text(), "con");
    assert!(matches!(folder.read_async("pipe", 3).await, Err(PathError::NotRegular { .. })));
}
