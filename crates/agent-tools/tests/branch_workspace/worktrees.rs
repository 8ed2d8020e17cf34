//! Git worktrees.

use std::fs;

use agent_tools::{BranchWorkspaceError, BranchWorkspaces, ChangeKind, WorktreeStart};

use crate::project::{Project, files, write};

fn known(project: &Project) -> usize {
    project.git(&["worktree", "list", "--porcelain"]).lines().filter(|l| l.starts_with("worktree ")).count()
}

/// X7.
#[tokio::test]
async fn each_branch_has_a_worktree_of_the_last_commit_and_its_changes_are_taken_over() {
    let project = Project::committed(&[(".gitignore", "target/\n"), ("a.txt", "a"), ("b.txt", "b")]);
    project.write("untracked.txt", "u");
    let workspaces = BranchWorkspaces::worktrees_of(project.root()).unwrap();
    let branches = workspaces.open_many(2).await.unwrap();
    assert_eq!(known(&project), 3);
    for branch in &branches {
        assert_eq!(files(branch.root()).into_keys().collect::<Vec<_>>(), [".gitignore", "a.txt", "b.txt"]);
        assert!(branch.changes().await.unwrap().is_empty());
    }
    let winner = &branches[1];
    write(winner.root(), "a.txt", "A");
    write(winner.root(), "new.txt", "n");
    write(winner.root(), "target/x", "made");
    fs::remove_file(winner.root().join("b.txt")).unwrap();
    let kinds: Vec<_> = winner.take_over().await.unwrap().into_iter().map(|c| c.kind).collect();
    assert_eq!(kinds, [ChangeKind::Modified, ChangeKind::Deleted, ChangeKind::Added]);
    assert_eq!(project.git(&["status", "--short"]), " M a.txt\n D b.txt\n?? new.txt\n?? untracked.txt");
    drop(branches);
    assert_eq!(known(&project), 1, "a drop removes what git knows of it");
    assert_eq!(fs::read_dir(project.root().join(".git/worktrees")).map_or(0, Iterator::count), 0);
}

#[tokio::test]
async fn a_worktree_can_begin_with_the_files_as_they_are_or_with_any_commit() {
    let project = Project::committed(&[(".gitignore", "*.log\n"), ("a.txt", "one")]);
    project.git(&["tag", "v1"]);
    project.write("a.txt", "two");
    project.commit("second");
    project.write("a.txt", "three");
    project.write("new.txt", "n");
    project.write("x.log", "ignored");
    let index = fs::read(project.root().join(".git/index")).unwrap();
    let workspaces = BranchWorkspaces::worktrees_of(project.root()).unwrap();
    let now = workspaces.clone().starting_at(WorktreeStart::WorkingTree).open().await.unwrap();
    assert_eq!(files(now.root()).into_keys().collect::<Vec<_>>(), [".gitignore", "a.txt", "new.txt"]);
    assert_eq!(fs::read_to_string(now.root().join("a.txt")).unwrap(), "three");
    assert_eq!(fs::read(project.root().join(".git/index")).unwrap(), index, "the index is as it was");
    write(now.root(), "a.txt", "four");
    now.take_over().await.unwrap();
    assert_eq!(project.read("a.txt"), "four");

    let first = workspaces.clone().starting_at(WorktreeStart::Commit("v1".into())).open().await.unwrap();
    assert_eq!(fs::read_to_string(first.root().join("a.txt")).unwrap(), "one");
    // What it began with is not what the origin has.
    write(first.root(), "a.txt", "other");
    assert!(matches!(first.take_over().await, Err(BranchWorkspaceError::Conflict { .. })));

    for name in ["no-such-tag", "--help", "v1 v1"] {
        let error =
            workspaces.clone().starting_at(WorktreeStart::Commit(name.into())).open().await.unwrap_err();
        assert!(matches!(&error, BranchWorkspaceError::Git { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_folder_of_a_repository_is_that_folder_of_the_worktree() {
    let project = Project::committed(&[("top.txt", "t"), ("part/a.txt", "a"), ("part/.gitignore", "out/\n")]);
    let workspaces = BranchWorkspaces::worktrees_of(project.root().join("part")).unwrap();
    let branch = workspaces.open().await.unwrap();
    assert_eq!(files(branch.root()).into_keys().collect::<Vec<_>>(), [".gitignore", "a.txt"]);
    write(branch.root(), "a.txt", "A");
    write(branch.root(), "out/x", "made");
    assert_eq!(branch.take_over().await.unwrap().len(), 1);
    assert_eq!(project.read("part/a.txt"), "A");
}

/// What a repository brings along does not run.
#[cfg(unix)]
#[tokio::test]
async fn hooks_of_the_repository_do_not_run() {
    use std::os::unix::fs::PermissionsExt as _;
    let project = Project::committed(&[("a.txt", "a")]);
    let hook = project.root().join(".git/hooks/post-checkout");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, format!("#!/bin/sh\ntouch '{}'\n", project.root().join("ran").display())).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let branch = BranchWorkspaces::worktrees_of(project.root()).unwrap().open().await.unwrap();
    assert!(!project.root().join("ran").exists());
    drop(branch);
    // The hook is one that runs: git by itself calls it.
    let other = tempfile::tempdir().unwrap();
    project.git(&["worktree", "add", "--detach", "--quiet", other.path().join("t").to_str().unwrap()]);
    assert!(project.root().join("ran").exists());
}

#[tokio::test]
async fn closing_removes_it_keeping_does_not_and_a_branch_cannot_name_what_is_removed() {
    let project = Project::committed(&[("a.txt", "a")]);
    let workspaces = BranchWorkspaces::worktrees_of(project.root()).unwrap();
    let closed = workspaces.open().await.unwrap();
    write(closed.root(), "left.txt", "unsaved");
    let path = closed.root().to_path_buf();
    closed.close().await.unwrap();
    assert!(!path.exists());
    assert_eq!(known(&project), 1);

    let place = tempfile::tempdir().unwrap();
    let kept = workspaces.clone().in_folder(place.path()).open().await.unwrap().keep();
    assert!(kept.join("a.txt").is_file());
    assert_eq!(known(&project), 2);

    // A branch that says that git's own folder is elsewhere has nothing removed there.
    let precious = Project::new(&[("worktrees/x/file", "precious")]);
    let sly = workspaces.open().await.unwrap();
    let to = precious.root().join("worktrees/x");
    fs::write(sly.root().join(".git"), format!("gitdir: {}\n", to.display())).unwrap();
    drop(sly);
    assert_eq!(precious.files(), ["worktrees/x/file"]);
}

#[tokio::test]
async fn where_git_cannot_help_there_is_a_typed_error() {
    let bare = Project::new(&[("a.txt", "a")]);
    let error = BranchWorkspaces::worktrees_of(bare.root()).unwrap().open().await.unwrap_err();
    assert!(error.to_string().contains("not a git repository"), "{error}");
    let unborn = Project::new(&[("a.txt", "a")]);
    unborn.git(&["init", "--quiet"]);
    let workspaces = BranchWorkspaces::worktrees_of(unborn.root()).unwrap();
    let error = workspaces.open().await.unwrap_err();
    assert!(error.to_string().contains("there is no commit HEAD"), "{error}");
    // Its files can be begun with all the same.
    let branch = workspaces.starting_at(WorktreeStart::WorkingTree).open().await.unwrap();
    assert_eq!(files(branch.root()).into_keys().collect::<Vec<_>>(), ["a.txt"]);
}

/// A hostile commit has a link in the place of the folder.
#[cfg(unix)]
#[tokio::test]
async fn a_commit_with_a_link_in_the_place_of_the_folder_leads_no_branch_out() {
    let outside = Project::new(&[("secret.txt", "s")]);
    let project = Project::new(&[("a.txt", "a")]);
    std::os::unix::fs::symlink(outside.root(), project.root().join("part")).unwrap();
    project.git(&["init", "--quiet", "--initial-branch=main"]);
    project.commit("hostile");
    project.git(&["tag", "hostile"]);
    fs::remove_file(project.root().join("part")).unwrap();
    project.write("part/deep/mine.txt", "m");
    project.commit("mine");
    for folder in ["part", "part/deep"] {
        let workspaces = BranchWorkspaces::worktrees_of(project.root().join(folder)).unwrap();
        let hostile = workspaces.starting_at(WorktreeStart::Commit("hostile".into())).open().await;
        assert!(matches!(hostile, Err(BranchWorkspaceError::Io { .. })), "{hostile:?}");
    }
    assert_eq!(outside.files(), ["secret.txt"]);
}
