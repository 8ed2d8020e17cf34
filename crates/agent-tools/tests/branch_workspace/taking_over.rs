//! What a branch changed goes to the origin, all of it or nothing.

use std::fs;
use std::path::PathBuf;

use agent_tools::{BranchWorkspace, BranchWorkspaceError, BranchWorkspaces, ChangeKind, Ignored};

use crate::project::{Project, files, write};

async fn open(project: &Project) -> BranchWorkspace {
    BranchWorkspaces::copies_of(project.root()).unwrap().open().await.unwrap()
}

fn project() -> Project {
    Project::new(&[
        (".gitignore", "target/\n"),
        ("a.txt", "a"),
        ("b.txt", "b"),
        ("src/c.txt", "c"),
        ("src/only/d.txt", "d"),
    ])
}

/// X7.
#[tokio::test]
async fn files_that_are_new_changed_or_gone_are_taken_over() {
    let project = project();
    let branch = open(&project).await;
    let root = branch.root().to_path_buf();
    write(&root, "a.txt", "A");
    write(&root, "new/deep/e.txt", "e");
    write(&root, "target/x", "made by a build");
    fs::remove_file(root.join("b.txt")).unwrap();
    fs::remove_dir_all(root.join("src/only")).unwrap();
    let changes = branch.changes().await.unwrap();
    let shown: Vec<_> = changes.iter().map(|c| (c.path.to_str().unwrap(), c.kind)).collect();
    assert_eq!(
        shown,
        [
            ("a.txt", ChangeKind::Modified),
            ("b.txt", ChangeKind::Deleted),
            ("new/deep/e.txt", ChangeKind::Added),
            ("src/only/d.txt", ChangeKind::Deleted),
        ]
    );
    assert_eq!(branch.take_over().await.unwrap(), changes);
    assert_eq!(project.files(), [".gitignore", "a.txt", "new/deep/e.txt", "src/c.txt"]);
    assert_eq!((project.read("a.txt"), project.read("new/deep/e.txt")), ("A".into(), "e".into()));
    assert!(!project.root().join("src/only").exists(), "a folder that is empty now goes, too");
    assert!(branch.take_over().await.unwrap().is_empty(), "the origin has it");
}

#[tokio::test]
async fn where_the_origin_has_changed_meanwhile_nothing_is_written() {
    let project = project();
    let branch = open(&project).await;
    let root = branch.root().to_path_buf();
    for path in ["a.txt", "b.txt", "x/new.txt", "src/c.txt"] {
        write(&root, path, "branch");
    }
    fs::remove_file(root.join("src/only/d.txt")).unwrap();
    project.write("a.txt", "somebody");
    project.write("x/new.txt", "somebody");
    project.write("src/only/d.txt", "somebody");
    project.write("elsewhere.txt", "somebody");
    // The same change at both ends is none.
    project.write("src/c.txt", "branch");
    let before = files(project.root());
    let error = branch.take_over().await.unwrap_err();
    let BranchWorkspaceError::Conflict { paths } = &error else { panic!("{error}") };
    assert_eq!(*paths, ["a.txt", "src/only/d.txt", "x/new.txt"].map(PathBuf::from));
    assert!(error.to_string().contains("a.txt, src/only/d.txt, x/new.txt"), "{error}");
    assert_eq!(files(project.root()), before);

    // Once the origin is as it was at these places, it goes.
    project.write("a.txt", "a");
    project.write("src/only/d.txt", "d");
    fs::remove_dir_all(project.root().join("x")).unwrap();
    let taken = branch.take_over().await.unwrap();
    assert_eq!(taken.len(), 4);
    assert_eq!(project.read("elsewhere.txt"), "somebody", "what the branch did not touch stays");
}

#[tokio::test]
async fn a_file_may_become_a_folder_and_a_folder_a_file() {
    let project = project();
    let branch = open(&project).await;
    let root = branch.root().to_path_buf();
    fs::remove_file(root.join("a.txt")).unwrap();
    write(&root, "a.txt/inner", "i");
    fs::remove_dir_all(root.join("src")).unwrap();
    write(&root, "src", "a file now");
    branch.take_over().await.unwrap();
    assert_eq!(files(project.root()), files(&root));

    // A folder in which somebody put something does not give way.
    let project = self::project();
    let branch = open(&project).await;
    fs::remove_dir_all(branch.root().join("src")).unwrap();
    write(branch.root(), "src", "a file now");
    project.write("src/somebody.txt", "s");
    let error = branch.take_over().await.unwrap_err();
    assert!(
        matches!(&error, BranchWorkspaceError::Conflict { paths } if paths == &[PathBuf::from("src")]),
        "{error}"
    );
    assert_eq!(project.read("src/c.txt"), "c");
}

#[cfg(unix)]
#[tokio::test]
async fn nothing_is_written_through_a_link() {
    use std::os::unix::fs::symlink;
    let outside = Project::new(&[("target.txt", "outside")]);
    // The origin has a link now where the branch has a folder.
    let project = project();
    let branch = open(&project).await;
    write(branch.root(), "src/only/new.txt", "branch");
    fs::remove_dir_all(project.root().join("src/only")).unwrap();
    symlink(outside.root(), project.root().join("src/only")).unwrap();
    let error = branch.take_over().await.unwrap_err();
    assert!(matches!(error, BranchWorkspaceError::Conflict { .. }), "{error}");
    assert_eq!(outside.files(), ["target.txt"]);

    // The branch made a link that leads out, or put one in the place of a folder.
    let project = self::project();
    let branch = open(&project).await;
    symlink(outside.root().join("target.txt"), branch.root().join("sly")).unwrap();
    let error = branch.take_over().await.unwrap_err();
    assert!(
        matches!(&error, BranchWorkspaceError::LeadsOut { path } if path == &PathBuf::from("sly")),
        "{error}"
    );
    fs::remove_file(branch.root().join("sly")).unwrap();
    fs::remove_dir_all(branch.root().join("src/only")).unwrap();
    write(outside.root(), "d.txt", "d");
    symlink(outside.root(), branch.root().join("src/only")).unwrap();
    let error = branch.take_over().await.unwrap_err();
    assert!(matches!(error, BranchWorkspaceError::LeadsOut { .. }), "{error}");

    // One that stays inside is taken over as a link.
    let branch = open(&project).await;
    symlink("../a.txt", branch.root().join("src/link")).unwrap();
    branch.take_over().await.unwrap();
    assert_eq!(files(project.root())["src/link"], "-> ../a.txt");
}

#[cfg(unix)]
#[tokio::test]
async fn being_executable_is_a_change_and_is_taken_over() {
    use std::os::unix::fs::PermissionsExt as _;
    let project = project();
    let branch = open(&project).await;
    fs::set_permissions(branch.root().join("a.txt"), fs::Permissions::from_mode(0o755)).unwrap();
    let changes = branch.take_over().await.unwrap();
    assert_eq!((changes.len(), changes[0].kind), (1, ChangeKind::Modified));
    let mode = fs::metadata(project.root().join("a.txt")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
}

/// Git's own files are nobody's changes.
#[tokio::test]
async fn a_commit_in_a_copy_changes_no_repository_but_its_own() {
    let project = Project::committed(&[("a.txt", "a")]);
    let workspaces = BranchWorkspaces::copies_of(project.root()).unwrap().with_ignored(Ignored::Included);
    let branch = workspaces.open().await.unwrap();
    write(branch.root(), "a.txt", "A");
    write(branch.root(), ".git/description", "mine");
    let changes = branch.take_over().await.unwrap();
    assert_eq!(changes.len(), 1);
    assert_ne!(project.read(".git/description"), "mine");
    assert_eq!(project.git(&["status", "--short"]), " M a.txt");
}

/// The settings of a project decide what the command may do, and a branch is written by a model.
#[tokio::test]
async fn settings_of_the_project_are_in_a_copy_and_are_not_taken_over() {
    for committed in [false, true] {
        let files =
            [("a.txt", "a"), (".looptree/config.toml", "yes"), (".looptree/skills/a/SKILL.md", "skill")];
        let project = if committed { Project::committed(&files) } else { Project::new(&files) };
        let workspaces = match committed {
            false => BranchWorkspaces::copies_of(project.root()),
            true => BranchWorkspaces::worktrees_of(project.root()),
        };
        let branch = workspaces.unwrap().open().await.unwrap();
        let root = branch.root().to_path_buf();
        assert_eq!(fs::read_to_string(root.join(".looptree/skills/a/SKILL.md")).unwrap(), "skill");
        write(&root, ".looptree/config.toml", "evil");
        write(&root, "sub/.looptree/config.toml", "evil");
        fs::remove_file(root.join(".looptree/skills/a/SKILL.md")).unwrap();
        write(&root, "a.txt", "A");
        let changes = branch.take_over().await.unwrap();
        assert_eq!(changes.len(), 1, "{changes:?}");
        assert_eq!(project.read(".looptree/config.toml"), "yes");
        assert_eq!(project.read("a.txt"), "A");
        assert!(
            !project.root().join("sub").exists()
                && project.root().join(".looptree/skills/a/SKILL.md").exists()
        );
    }
}
