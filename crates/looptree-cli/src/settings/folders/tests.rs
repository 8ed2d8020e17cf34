use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_folder_above_counts_only_while_nobody_else_can_write_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap();
    let (middle, root) = (top.join("middle"), top.join("middle/root"));
    std::fs::create_dir_all(top.join(".git")).unwrap();
    std::fs::create_dir_all(&root).unwrap();
    std::fs::create_dir(top.join(".looptree")).unwrap();
    std::fs::write(top.join(".looptree/config.toml"), "").unwrap();
    for path in [&top, &middle, &root, &top.join(".looptree"), &top.join(".looptree/config.toml")] {
        set_mode(path, 0o755);
    }
    let file = |root: &Path| project_folders(root).named(".looptree/config.toml").find(|path| path.exists());
    assert_eq!(project_folders(&root).folders, [root.clone(), middle.clone(), top.clone()]);
    assert_eq!(file(&root), Some(top.join(".looptree/config.toml")));
    for (path, mode) in [(&top, 0o777), (&top, 0o1777), (&middle, 0o757)] {
        set_mode(path, mode);
        let found = project_folders(&root);
        assert_eq!(
            (&found.folders[..], &found.foreign),
            (&[root.clone()][..], &Some(path.clone())),
            "{mode:o}"
        );
        set_mode(path, 0o755);
    }
    // A file or folder in a folder above that others can change does not count either; in the working directory it does.
    for path in [top.join(".looptree"), top.join(".looptree/config.toml")] {
        set_mode(&path, 0o777);
        assert_eq!(file(&root), None);
        assert!(file(&top).is_some());
        set_mode(&path, 0o755);
    }
    // The mode of the working directory itself is the user's choice.
    set_mode(&root, 0o777);
    assert_eq!(project_folders(&root).folders.len(), 3);
}

#[test]
fn a_folder_above_of_another_user_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap();
    let root = top.join("root");
    std::fs::create_dir_all(top.join(".git")).unwrap();
    std::fs::create_dir(&root).unwrap();
    if std::os::unix::fs::chown(&top, Some(12_345), Some(12_345)).is_err() {
        println!("skipped: only root can give a folder to another user");
        return;
    }
    assert_eq!(project_folders(&root).folders, std::slice::from_ref(&root));
    assert_eq!(project_folders(&root).foreign, Some(top));
}

#[test]
fn without_a_repository_the_working_directory_counts_alone_and_nothing_is_foreign() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let found = project_folders(&root);
    assert_eq!((found.folders, found.foreign), (vec![root], None));
}
