//! Copies of a folder.

use std::fs;

use agent_tools::{BranchWorkspaceError, BranchWorkspaces, Ignored};

use crate::project::{Project, files, write};

/// X7.
#[tokio::test]
async fn each_branch_writes_in_a_copy_of_its_own() {
    let project = Project::new(&[("a.txt", "a"), ("src/b.txt", "b")]);
    let workspaces = BranchWorkspaces::copies_of(project.root()).unwrap();
    let branches = workspaces.open_many(3).await.unwrap();
    for (n, branch) in branches.iter().enumerate() {
        assert_eq!(files(branch.root()), files(project.root()));
        write(branch.root(), "a.txt", &format!("branch {n}"));
    }
    for (n, branch) in branches.iter().enumerate() {
        assert_eq!(fs::read_to_string(branch.root().join("a.txt")).unwrap(), format!("branch {n}"));
        assert!(branch.workspace().resolve("../x").is_err(), "its tools stay inside");
    }
    assert_eq!(project.read("a.txt"), "a");
}

#[tokio::test]
async fn what_is_ignored_is_left_out_unless_it_is_asked_for() {
    let project = Project::committed(&[
        (".gitignore", "target/\n*.log\n"),
        ("src/main.rs", "fn main() {}"),
        ("src/.gitignore", "generated.rs\n"),
        (".hidden", "h"),
    ]);
    for path in ["target/debug/app", "x.log", "src/generated.rs", "src/deep/y.log"] {
        project.write(path, "made");
    }
    let workspaces = BranchWorkspaces::copies_of(project.root()).unwrap();
    let branch = workspaces.open().await.unwrap();
    let names: Vec<_> = files(branch.root()).into_keys().collect();
    assert_eq!(names, [".gitignore", ".hidden", "src/.gitignore", "src/main.rs"]);
    assert!(!branch.root().join(".git").exists());

    let all = workspaces.with_ignored(Ignored::Included).open().await.unwrap();
    assert_eq!(files(all.root()), files(project.root()));
    assert!(all.root().join(".git/HEAD").is_file(), "a repository by itself");
    assert!(all.changes().await.unwrap().is_empty());
}

/// The rules of the repository count also for a folder in it.
#[tokio::test]
async fn rules_above_the_folder_count() {
    let project = Project::committed(&[(".gitignore", "target/\n*.log\n!keep.log\n"), ("part/a.txt", "a")]);
    project.write("part/target/x", "made");
    project.write("part/keep.log", "kept");
    let branch = BranchWorkspaces::copies_of(project.root().join("part")).unwrap().open().await.unwrap();
    assert_eq!(files(branch.root()).into_keys().collect::<Vec<_>>(), ["a.txt", "keep.log"]);
    // What a build makes there is no change, either.
    write(branch.root(), "target/debug/x", "made");
    write(branch.root(), "new.txt", "n");
    let paths: Vec<_> = branch.changes().await.unwrap().into_iter().map(|c| c.path).collect();
    assert_eq!(paths, [std::path::PathBuf::from("new.txt")]);
}

#[cfg(unix)]
#[tokio::test]
async fn links_are_copied_as_links_and_none_leads_out() {
    use std::os::unix::fs::symlink;
    let outside = Project::new(&[("secret.txt", "s"), ("folder/x.txt", "x")]);
    let project = Project::new(&[("a.txt", "a"), ("s/deep/b.txt", "b")]);
    let link = |to: &str, at: &str| symlink(to, project.root().join(at)).unwrap();
    link("a.txt", "inner");
    link("../a.txt", "s/up");
    link("missing", "dangling");
    link(outside.root().join("secret.txt").to_str().unwrap(), "absolute");
    link(project.root().join("a.txt").to_str().unwrap(), "absolute-inside");
    link("../../etc/passwd", "out");
    link(outside.root().join("folder").to_str().unwrap(), "folder");
    // Its text stays inside, and the link on its way leads one level up.
    fs::create_dir_all(project.root().join("g/h")).unwrap();
    link("../s", "g/p");
    link("../p/../../etc", "g/h/sly");
    let branch = BranchWorkspaces::copies_of(project.root()).unwrap().open().await.unwrap();
    let copied = files(branch.root());
    assert_eq!(copied["inner"], "-> a.txt");
    assert_eq!(copied["s/up"], "-> ../a.txt");
    assert_eq!(copied["dangling"], "-> missing");
    let left: Vec<_> = branch.left_out().iter().map(|p| p.to_str().unwrap()).collect();
    assert_eq!(left, ["absolute", "absolute-inside", "folder", "g/h/sly", "out"]);
    assert!(left.iter().all(|p| !copied.contains_key(*p)) && !copied.contains_key("folder/x.txt"));
    assert!(branch.changes().await.unwrap().is_empty());
    assert!(branch.take_over().await.unwrap().is_empty(), "what was left out is not taken for deleted");
}

#[cfg(unix)]
#[tokio::test]
async fn pipes_are_left_out_and_modes_are_kept() {
    use std::os::unix::fs::PermissionsExt as _;
    let project = Project::new(&[("run.sh", "#!/bin/sh\n")]);
    let script = project.root().join("run.sh");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o750)).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(project.root().join("socket")).unwrap();
    let branch = BranchWorkspaces::copies_of(project.root()).unwrap().open().await.unwrap();
    drop(socket);
    assert_eq!(branch.left_out(), [std::path::PathBuf::from("socket")]);
    let mode = fs::metadata(branch.root().join("run.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750);
}

#[tokio::test]
async fn a_copy_is_bounded_and_leaves_nothing_behind_when_it_is_too_large() {
    let project = Project::new(&[("a", "12345"), ("b", "12345"), ("c", "12345")]);
    let place = tempfile::tempdir().unwrap();
    let workspaces = BranchWorkspaces::copies_of(project.root()).unwrap().in_folder(place.path());
    let left = || fs::read_dir(place.path()).unwrap().count();
    for (bounded, expect) in [
        (workspaces.clone().with_max_files(2), "more than 2 files"),
        (workspaces.clone().with_max_bytes(14), "more than 14 bytes"),
    ] {
        let error = bounded.open().await.unwrap_err();
        assert!(matches!(error, BranchWorkspaceError::TooLarge { .. }), "{error}");
        assert!(error.to_string().contains(expect), "{error}");
        assert_eq!(left(), 0);
    }
    let exact = workspaces.with_max_files(3).with_max_bytes(15).open().await.unwrap();
    // What a branch makes is bounded, too.
    write(exact.root(), "d", "1");
    assert!(matches!(
        exact.changes().await.unwrap_err(),
        BranchWorkspaceError::TooLarge { what: "files", .. }
    ));
    fs::remove_file(exact.root().join("d")).unwrap();
    write(exact.root(), "a", "123456");
    assert!(matches!(
        exact.take_over().await.unwrap_err(),
        BranchWorkspaceError::TooLarge { what: "bytes", .. }
    ));
    assert_eq!(project.read("a"), "12345");
}

#[tokio::test]
async fn workspaces_go_when_they_are_dropped_or_closed_and_stay_when_they_are_kept() {
    let project = Project::new(&[("a.txt", "a")]);
    let place = tempfile::tempdir().unwrap();
    let workspaces = BranchWorkspaces::copies_of(project.root()).unwrap().in_folder(place.path().join("new"));
    let dropped = workspaces.open().await.unwrap();
    let closed = workspaces.open().await.unwrap();
    let kept = workspaces.open().await.unwrap();
    let paths = [dropped.root().to_path_buf(), closed.root().to_path_buf()];
    assert!(paths.iter().all(|p| p.starts_with(place.path().canonicalize().unwrap()) && p.is_dir()));
    drop(dropped);
    closed.close().await.unwrap();
    assert!(paths.iter().all(|p| !p.exists()));
    let kept = kept.keep();
    assert!(kept.join("a.txt").is_file());
}

#[tokio::test]
async fn what_cannot_be_copied_is_a_typed_error() {
    assert!(matches!(BranchWorkspaces::copies_of("/no/such/folder"), Err(BranchWorkspaceError::Path(_))));
    let project = Project::new(&[("a.txt", "a")]);
    let inside = BranchWorkspaces::copies_of(project.root()).unwrap().in_folder(project.root().join("in"));
    assert!(matches!(inside.open().await, Err(BranchWorkspaceError::InsideOrigin { .. })));
    let file = BranchWorkspaces::copies_of(project.root().join("a.txt"));
    assert!(matches!(file, Err(BranchWorkspaceError::Path(_))));
}

/// The one rule of the file tools holds in a branch as well.
#[tokio::test]
async fn a_branch_has_the_rules_of_the_workspace_and_takes_over_nothing_that_is_protected() {
    use agent_tools::Workspace;
    let project = Project::new(&[("a.txt", "a"), ("sessions/one.json", "mine"), (".env", "KEY")]);
    let workspace = Workspace::open(project.root()).unwrap();
    let workspace = workspace.with_protected("sessions").unwrap().with_denied("*.env").unwrap();
    let workspaces = BranchWorkspaces::copies_of(project.root()).unwrap().with_rules_of(&workspace).unwrap();
    let branch = workspaces.open().await.unwrap();
    assert_eq!(files(branch.root()).into_keys().collect::<Vec<_>>(), [".env", "a.txt"]);
    let tools = branch.workspace().tools();
    for (path, words) in [
        ("sessions/new.json", "belongs to this program"),
        (".env", "denied pattern"),
        (".git/config", "git repository"),
    ] {
        let write = tools.iter().find(|tool| tool.name() == "write_file").unwrap();
        let ctx = agent_core::ToolContext::detached(
            "write_file",
            std::sync::Arc::new(agent_core::SystemEnvironment),
        );
        let arguments = serde_json::json!({"path": path, "content": "x"});
        let error = write.execute(arguments, ctx).await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    // What a command makes there is no change.
    write(branch.root(), "sessions/one.json", "forged");
    write(branch.root(), "Sessions/two.json", "forged");
    write(branch.root(), ".git/hooks/pre-commit", "forged");
    write(branch.root(), "sub/.GIT/config", "forged");
    write(branch.root(), "a.txt", "b");
    let changes: Vec<_> = branch.take_over().await.unwrap().into_iter().map(|change| change.path).collect();
    assert_eq!(changes, [std::path::PathBuf::from("a.txt")]);
    assert_eq!(project.files(), [".env", "a.txt", "sessions/one.json"]);
    assert_eq!(project.read("sessions/one.json"), "mine");
    let other = Project::new(&[("a.txt", "a")]);
    assert!(BranchWorkspaces::copies_of(other.root()).unwrap().with_rules_of(&workspace).is_err());
}
