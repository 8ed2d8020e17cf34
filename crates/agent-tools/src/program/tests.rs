use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

fn put(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, "#!/bin/sh\necho \"$0\"\n").unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn path_of(folders: &[&Path]) -> OsString {
    std::env::join_paths(folders).unwrap()
}

#[test]
fn folders_that_commands_can_write_to_are_skipped_by_every_name() {
    let top = tempfile::tempdir().unwrap();
    let (project, system) = (top.path().join("project"), top.path().join("system"));
    let venv = project.join(".venv/bin");
    put(&venv.join("tool"));
    put(&system.join("tool"));
    symlink(&venv, top.path().join("link")).unwrap();
    symlink(venv.join("tool"), system.join("linked")).unwrap();
    let link = top.path().join("link");
    let dots = system.join("../project/.venv/bin");
    let variable = path_of(&[&venv, &link, &dots, Path::new("relative"), Path::new(""), &system]);
    let search = SearchPath::new(&variable, [&project]);
    assert_eq!(search.find("tool").unwrap().path(), system.join("tool"));
    assert_eq!(search.variable(), path_of(&[&system]));
    let error = search.find("linked").unwrap_err();
    assert!(matches!(error, ProgramError::InWritableFolder { .. }), "{error}");
    for name in ["", ".", "..", "./tool", "sub/tool", "missing", "tool/"] {
        assert!(matches!(search.find(name), Err(ProgramError::NotFound { .. })), "{name}");
    }
}

#[test]
fn a_program_that_is_only_in_the_project_is_refused_with_its_place_and_a_way_out() {
    let top = tempfile::tempdir().unwrap();
    let place = top.path().join("bin/bwrap");
    put(&place);
    let search = SearchPath::new(&path_of(&[&top.path().join("bin")]), [top.path()]);
    let error = search.find("bwrap").unwrap_err().to_string();
    assert!(error.contains(place.to_str().unwrap()) && error.contains("absolute path"), "{error}");
    assert_eq!(search.find(&place).unwrap().path(), place);
    assert_eq!(search.variable(), SYSTEM_PATH);
}

#[test]
fn the_file_that_was_found_runs_and_another_in_its_place_does_not() {
    let top = tempfile::tempdir().unwrap();
    let (one, other) = (top.path().join("one"), top.path().join("other"));
    put(&one);
    put(&other);
    symlink(&one, top.path().join("name")).unwrap();
    let search = SearchPath::new(&path_of(&[top.path()]), [] as [&Path; 0]);
    let program = search.find("name").unwrap();
    // The link leads elsewhere, and the file that was found still runs.
    std::fs::remove_file(top.path().join("name")).unwrap();
    symlink(&other, top.path().join("name")).unwrap();
    let said = program.command().unwrap().output().unwrap().stdout;
    assert_eq!(String::from_utf8(said).unwrap().trim(), one.canonicalize().unwrap().to_str().unwrap());
    std::fs::rename(&other, &one).unwrap();
    assert!(matches!(program.command(), Err(ProgramError::Replaced { .. })));
    std::fs::remove_file(&one).unwrap();
    assert!(matches!(program.command(), Err(ProgramError::Replaced { .. })));
}

#[test]
fn a_program_sees_the_name_by_which_it_was_found() {
    let top = tempfile::tempdir().unwrap();
    let shell = SearchPath::new(OsStr::new("/usr/bin:/bin"), [] as [&Path; 0]).find("sh").unwrap();
    symlink(shell.path(), top.path().join("my-shell")).unwrap();
    let search = SearchPath::new(&path_of(&[top.path()]), [] as [&Path; 0]);
    let mut command = search.find("my-shell").unwrap().command().unwrap();
    let said = command.args(["-c", "echo $0"]).output().unwrap().stdout;
    assert!(String::from_utf8(said).unwrap().trim().ends_with("/my-shell"));
}

/// A repository that is the directory of the task's parent chose what is in it, too. The user's home can be a repository.
#[test]
fn a_program_of_the_repository_around_the_directory_is_skipped() {
    let top = tempfile::tempdir().unwrap();
    let (repository, system) = (top.path().join("repository"), top.path().join("system"));
    let bin = repository.join("node_modules/.bin");
    put(&bin.join("tool"));
    put(&system.join("tool"));
    std::fs::create_dir_all(repository.join("sub/folder")).unwrap();
    std::fs::create_dir(repository.join(".git")).unwrap();
    let search = SearchPath::new(&path_of(&[&bin, &system]), [repository.join("sub/folder")]);
    assert_eq!(search.find("tool").unwrap().path(), system.join("tool"));
    assert_eq!(search.variable(), path_of(&[&system]));
}
