use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use agent_core::SystemEnvironment;

use super::*;

/// What a race can do at the worst moment: after the resolution and the check, before the access.
#[test]
fn a_link_that_appears_after_the_check_is_not_followed() {
    let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for root in [inside.path(), outside.path()] {
        fs::create_dir_all(root.join("a/deep")).unwrap();
        fs::write(root.join("a/deep/file"), "old").unwrap();
    }
    let ctx = ToolContext::detached("test", Arc::new(SystemEnvironment));
    let access = Workspace::open(inside.path()).unwrap().access(&ctx);
    let folders = [("a", outside.path().join("a")), ("a/deep", outside.path().join("a/deep"))];
    let file = ("a/deep/file", outside.path().join("a/deep/file"));
    for (part, target) in folders.iter().chain([&file]) {
        let place = access.locate("a/deep/file", Intent::Write).unwrap();
        let new = access.locate("a/deep/new/file", Intent::Write).unwrap();
        let folder = access.locate("a/deep", Intent::List).unwrap();
        let (part, aside) = (inside.path().join(part), inside.path().join("aside"));
        fs::rename(&part, &aside).unwrap();
        symlink(target, &part).unwrap();
        let changed =
            |error: &PathError| matches!(error, PathError::Changed { path } if path.starts_with("a/deep"));
        for error in
            [place.open_file().unwrap_err(), place.replace(b"new").unwrap_err(), place.facts().unwrap_err()]
        {
            assert!(changed(&error), "{part:?}: {error}");
        }
        if part.ends_with("file") {
            new.replace(b"new").unwrap();
        } else {
            assert!(changed(&new.replace(b"new").unwrap_err()));
            let error = folder.dir().items(folder.below()).map_err(|error| folder.failed(error)).unwrap_err();
            assert!(changed(&error), "{error}");
        }
        fs::remove_file(&part).unwrap();
        fs::rename(&aside, &part).unwrap();
    }
    assert_eq!(fs::read_to_string(outside.path().join("a/deep/file")).unwrap(), "old");
    assert_eq!(fs::read_dir(outside.path().join("a/deep")).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(inside.path().join("a/deep/new/file")).unwrap(), "new");
}

/// The root that is open is used, not what its path leads to later.
#[test]
fn a_root_that_is_moved_away_is_not_confused_with_the_folder_that_takes_its_place() {
    let home = tempfile::tempdir().unwrap();
    let (root, other) = (home.path().join("root"), home.path().join("other"));
    for (folder, text) in [(&root, "mine"), (&other, "secret")] {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("file"), text).unwrap();
    }
    let ctx = ToolContext::detached("test", Arc::new(SystemEnvironment));
    let access = Workspace::open(&root).unwrap().access(&ctx);
    fs::rename(&root, home.path().join("moved")).unwrap();
    fs::rename(&other, &root).unwrap();
    let (file, _) = access.locate("file", Intent::Read).unwrap().open_file().unwrap();
    assert_eq!(io::read_to_string(file).unwrap(), "mine");
    fs::rename(&root, &other).unwrap();
    symlink(&other, &root).unwrap();
    assert!(matches!(access.locate("file", Intent::Read), Err(PathError::Outside { .. })));
}
