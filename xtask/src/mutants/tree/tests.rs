use super::*;

#[test]
fn a_copy_has_the_files_of_the_project_with_the_changes_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = Workspace { root: dir.path().join("project") };
    let tree = dir.path().join("tree");
    for (path, text) in [("project/a/x.rs", "x"), ("project/y.rs", "y"), ("tree/a/old.rs", "old")] {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let read = |path: &str| std::fs::read_to_string(tree.join(path)).unwrap();
    copy(&workspace, &tree, &BTreeMap::from([("y.rs".to_owned(), "mutant".to_owned())])).unwrap();
    assert_eq!((read("a/x.rs"), read("y.rs")), ("x".to_owned(), "mutant".to_owned()));
    assert!(!tree.join("a/old.rs").exists());

    let written = |path: &str| std::fs::metadata(tree.join(path)).unwrap().modified().unwrap();
    let before = written("a/x.rs");
    copy(&workspace, &tree, &BTreeMap::new()).unwrap();
    assert_eq!((read("y.rs"), written("a/x.rs")), ("y".to_owned(), before), "only what differs is written");
}
