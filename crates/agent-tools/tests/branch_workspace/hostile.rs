//! Repositories that name programs, or that lead to other folders. A command of an agent can write all of this.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "tests may start git as it is")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use agent_tools::{BranchWorkspaceError, BranchWorkspaces, WorktreeStart};

use crate::project::{Project, files};

/// A repository with a program that leaves a file behind when it runs, outside of the repository.
struct Hostile {
    project: Project,
    _place: tempfile::TempDir,
    program: PathBuf,
    ran: PathBuf,
}

impl Hostile {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let (program, ran) = (place.path().join("program"), place.path().join("ran"));
        fs::write(&program, format!("#!/bin/sh\ntouch '{}'\nexec timeout 1 cat\n", ran.display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self {
            project: Project::committed(&[("a.txt", "a"), ("sub/b.txt", "b")]),
            _place: place,
            program,
            ran,
        }
    }

    fn set(&self, name: &str) {
        self.project.git(&["config", name, self.program.to_str().unwrap()]);
    }

    fn dot_git(&self, path: &str) -> PathBuf {
        self.project.root().join(".git").join(path)
    }

    /// Opens a branch in every way and checks that the program does not run and that the files are right.
    #[track_caller]
    fn check(&self, what: &str) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            let workspaces = BranchWorkspaces::worktrees_of(self.project.root()).unwrap();
            for start in
                [WorktreeStart::Head, WorktreeStart::Commit("HEAD~0".into()), WorktreeStart::WorkingTree]
            {
                let branch = workspaces.clone().starting_at(start.clone()).open().await.unwrap();
                assert!(!self.ran.exists(), "{caller}: {what}: {start:?}");
                assert_eq!(
                    fs::read_to_string(branch.root().join("sub/b.txt")).unwrap(),
                    "b",
                    "{caller}: {what}"
                );
                branch.close().await.unwrap();
                assert!(!self.ran.exists(), "{caller}: {what}: {start:?}");
            }
        }
    }

    /// Checks that git by itself would have run the program, so that the test shows something.
    #[track_caller]
    fn runs_in_git(&self, parts: &[&str]) {
        let out =
            std::process::Command::new("git").args(parts).current_dir(self.project.root()).output().unwrap();
        assert!(self.ran.exists(), "git {parts:?} did not run it: {}", String::from_utf8_lossy(&out.stderr));
        fs::remove_file(&self.ran).unwrap();
    }

    fn add_worktree(&self) {
        let other = tempfile::tempdir().unwrap();
        self.runs_in_git(&[
            "worktree",
            "add",
            "--detach",
            "--quiet",
            other.path().join("t").to_str().unwrap(),
        ]);
    }
}

/// Attack 4.
#[tokio::test]
async fn filters_of_the_repository_do_not_run() {
    for attributes in [".gitattributes", ".git/info/attributes", "named"] {
        for filter in ["smudge", "clean", "process"] {
            let hostile = Hostile::new();
            hostile.set(&format!("filter.x.{filter}"));
            hostile.project.git(&["config", "filter.x.required", "true"]);
            if attributes == "named" {
                let path = hostile.project.root().join("named");
                hostile.project.git(&["config", "core.attributesFile", path.to_str().unwrap()]);
            }
            hostile.project.write(attributes, "* filter=x\n");
            if attributes == ".gitattributes" {
                // The attributes of the last commit count as well.
                let settings =
                    ["-c", "filter.x.clean=", "-c", "filter.x.process=", "-c", "filter.x.required=false"];
                hostile.project.git(&[&settings[..], &["add", "--all"]].concat());
                let author = ["-c", "user.name=t", "-c", "user.email=t@localhost"];
                hostile
                    .project
                    .git(&[&settings[..], &author[..], &["commit", "--quiet", "-m", "two"]].concat());
            }
            hostile.check(&format!("{attributes}: {filter}")).await;
            hostile.project.write("sub/b.txt", "changed");
            if filter == "smudge" {
                hostile.add_worktree();
            } else {
                hostile.runs_in_git(&["add", "--all"]);
            }
        }
    }
}

#[tokio::test]
async fn hooks_the_monitor_and_included_settings_do_not_run_programs() {
    let hostile = Hostile::new();
    for hook in ["post-checkout", "reference-transaction", "post-index-change", "pre-commit", "post-commit"] {
        fs::copy(&hostile.program, hostile.dot_git("hooks").join(hook)).unwrap();
    }
    hostile.check("hooks").await;
    hostile.add_worktree();

    let hostile = Hostile::new();
    fs::create_dir(hostile.project.root().join("hooks")).unwrap();
    fs::copy(&hostile.program, hostile.project.root().join("hooks/post-checkout")).unwrap();
    hostile.project.git(&["config", "core.hooksPath", "hooks"]);
    hostile.check("core.hooksPath").await;
    hostile.add_worktree();

    let hostile = Hostile::new();
    hostile.set("core.fsmonitor");
    hostile.check("core.fsmonitor").await;
    hostile.runs_in_git(&["status"]);

    for section in ["include", "includeIf \"gitdir:/\""] {
        let hostile = Hostile::new();
        let more = format!("[filter \"x\"]\n\tsmudge = {0}\n\tclean = {0}\n", hostile.program.display());
        fs::write(hostile.dot_git("more"), more).unwrap();
        fs::write(hostile.dot_git("info/attributes"), "* filter=x\n").unwrap();
        let mut config = fs::read_to_string(hostile.dot_git("config")).unwrap();
        config.push_str(&format!("[{section}]\n\tpath = more\n"));
        fs::write(hostile.dot_git("config"), config).unwrap();
        hostile.check(section).await;
        hostile.add_worktree();
    }
}

#[tokio::test]
async fn programs_for_other_purposes_do_not_run() {
    let hostile = Hostile::new();
    for name in [
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "core.askPass",
        "core.gitProxy",
        "core.alternateRefsCommand",
        "credential.helper",
        "diff.external",
        "diff.x.command",
        "diff.x.textconv",
        "merge.x.driver",
        "gpg.program",
        "gpg.ssh.program",
        "sequence.editor",
        "trailer.x.command",
        "uploadpack.packObjectsHook",
        "interactive.diffFilter",
    ] {
        hostile.set(name);
    }
    let program = hostile.program.display().to_string();
    for command in
        ["add", "rev-parse", "read-tree", "write-tree", "commit-tree", "config", "ls-files", "update-index"]
    {
        hostile.project.git(&["config", &format!("alias.{command}"), &format!("!{program}")]);
    }
    hostile.project.git(&["config", "commit.gpgSign", "true"]);
    fs::write(hostile.dot_git("info/attributes"), "* diff=x merge=x\n").unwrap();
    hostile.check("programs").await;
    hostile.project.write("a.txt", "changed");
    hostile.runs_in_git(&["diff"]);
}

/// Git fetches objects that a partial clone does not have, with the programs that the repository names.
#[tokio::test]
async fn missing_objects_are_not_fetched() {
    let hostile = Hostile::new();
    let blob = hostile.project.git(&["rev-parse", "HEAD:sub/b.txt"]);
    let (folder, name) = blob.split_at(2);
    fs::remove_file(hostile.dot_git("objects").join(folder).join(name)).unwrap();
    let root = hostile.project.root().display().to_string();
    for (name, value) in [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "x"),
        ("remote.x.promisor", "true"),
        ("remote.x.url", &root),
    ] {
        hostile.project.git(&["config", name, value]);
    }
    hostile.set("remote.x.uploadpack");
    let workspaces = BranchWorkspaces::worktrees_of(hostile.project.root()).unwrap();
    let error = workspaces.open().await.unwrap_err();
    assert!(matches!(error, BranchWorkspaceError::Git { .. }), "{error}");
    assert!(!hostile.ran.exists());
    let error = workspaces.starting_at(WorktreeStart::Commit(blob.clone())).open().await.unwrap_err();
    assert!(matches!(error, BranchWorkspaceError::Git { .. }), "{error}");
    assert!(!hostile.ran.exists());
    hostile.runs_in_git(&["cat-file", "-p", &blob]);
}

/// Git asks a repository inside of the working tree about its state, with the settings of that repository.
#[tokio::test]
async fn programs_of_a_nested_repository_do_not_run() {
    let hostile = Hostile::new();
    let inner = hostile.project.root().join("inner");
    fs::create_dir(&inner).unwrap();
    let git = |parts: &[&str]| {
        let path = inner.to_str().unwrap();
        hostile
            .project
            .git(&[&["-C", path, "-c", "user.name=t", "-c", "user.email=t@localhost"], parts].concat());
    };
    git(&["init", "--quiet"]);
    fs::write(inner.join("c.txt"), "c").unwrap();
    git(&["add", "c.txt"]);
    git(&["commit", "--quiet", "-m", "inner"]);
    hostile.check("a nested repository").await;
    hostile.project.git(&["add", "--all"]);
    hostile.project.git(&[
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@localhost",
        "commit",
        "--quiet",
        "-m",
        "submodule",
    ]);
    git(&["config", "core.fsmonitor", hostile.program.to_str().unwrap()]);
    fs::write(inner.join("c.txt"), "changed").unwrap();
    hostile.check("a submodule").await;
    hostile.runs_in_git(&["add", "--all"]);
}

#[track_caller]
fn check_refused(root: &Path) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let workspaces = BranchWorkspaces::worktrees_of(root).unwrap();
        for start in [WorktreeStart::Head, WorktreeStart::WorkingTree] {
            match workspaces.clone().starting_at(start).open().await {
                Ok(branch) => panic!("{caller}: it has {:?}", files(branch.root()).keys()),
                Err(error) => {
                    assert!(matches!(error, BranchWorkspaceError::Repository { .. }), "{caller}: {error}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_repository_that_leads_elsewhere_is_refused() {
    let other = Project::committed(&[("secret.txt", "the secret")]);
    let to = |path: &str| other.root().join(path).canonicalize().unwrap();
    let project = || Project::committed(&[("a.txt", "a")]);

    let one = project();
    one.git(&["config", "core.worktree", other.root().to_str().unwrap()]);
    check_refused(one.root()).await;

    for content in [to(".git"), to(".git/../.git")] {
        let one = Project::new(&[("a.txt", "a")]);
        one.write(".git", &format!("gitdir: {}\n", content.display()));
        check_refused(one.root()).await;
    }

    let one = Project::new(&[("a.txt", "a")]);
    symlink(to(".git"), one.root().join(".git")).unwrap();
    check_refused(one.root()).await;

    let one = project();
    one.write(".git/commondir", to(".git").to_str().unwrap());
    check_refused(one.root()).await;

    // A git folder that leads back to the `.git` file, but whose common folder is that of another repository.
    let one = Project::new(&[("a.txt", "a")]);
    let root = one.root().canonicalize().unwrap();
    one.write("fake/worktrees/x/HEAD", "ref: refs/heads/main\n");
    one.write("fake/worktrees/x/gitdir", root.join(".git").to_str().unwrap());
    one.write("fake/worktrees/x/commondir", to(".git").to_str().unwrap());
    one.write(".git", &format!("gitdir: {}\n", root.join("fake/worktrees/x").display()));
    check_refused(one.root()).await;

    for place in ["objects", "refs", "worktrees"] {
        let one = project();
        let path = one.root().join(".git").join(place);
        if path.exists() {
            fs::remove_dir_all(&path).unwrap();
        }
        fs::create_dir_all(other.root().join(".git").join(place)).unwrap();
        symlink(to(&format!(".git/{place}")), &path).unwrap();
        check_refused(one.root()).await;
    }
    assert_eq!(other.files(), ["secret.txt"]);
    assert_eq!(fs::read_dir(other.root().join(".git/worktrees")).unwrap().count(), 0);
}

#[tokio::test]
async fn linked_worktrees_and_submodules_have_worktrees_of_their_own() {
    let project = Project::committed(&[("a.txt", "a")]);
    let place = tempfile::tempdir().unwrap();
    let linked = place.path().join("linked");
    project.git(&["worktree", "add", "--detach", "--quiet", linked.to_str().unwrap()]);
    let branch = BranchWorkspaces::worktrees_of(&linked).unwrap().open().await.unwrap();
    assert_eq!(files(branch.root()).into_keys().collect::<Vec<_>>(), ["a.txt"]);

    let outer = Project::committed(&[("b.txt", "b")]);
    let url = project.root().to_str().unwrap();
    outer.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", url, "sub"]);
    let branch = BranchWorkspaces::worktrees_of(outer.root().join("sub")).unwrap().open().await.unwrap();
    assert_eq!(files(branch.root()).into_keys().collect::<Vec<_>>(), ["a.txt"]);
}

/// The settings about line ends and the lists of ignored names remain, since they name no program.
#[tokio::test]
async fn harmless_settings_of_the_repository_remain() {
    let project = Project::committed(&[(".gitattributes", "*.txt text\n"), ("a.txt", "one\ntwo\n")]);
    project.git(&["config", "core.eol", "crlf"]);
    project.write(".git/info/exclude", "private.txt\n");
    project.write("private.txt", "x");
    let workspaces = BranchWorkspaces::worktrees_of(project.root()).unwrap();
    let branch = workspaces.starting_at(WorktreeStart::WorkingTree).open().await.unwrap();
    assert_eq!(fs::read_to_string(branch.root().join("a.txt")).unwrap(), "one\r\ntwo\r\n");
    assert!(!branch.root().join("private.txt").exists());
    // The worktree is one that git uses.
    let out =
        std::process::Command::new("git").args(["status", "--porcelain"]).current_dir(branch.root()).output();
    assert_eq!(out.unwrap().stdout, b"");
}

fn fifo(path: &Path) {
    if path.is_file() {
        fs::remove_file(path).unwrap();
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

async fn open(root: &Path, start: WorktreeStart) -> Result<(), BranchWorkspaceError> {
    let workspaces = BranchWorkspaces::worktrees_of(root).unwrap().starting_at(start);
    let result = tokio::time::timeout(std::time::Duration::from_secs(8), workspaces.open()).await;
    result.expect("git waits for the file").map(drop)
}

#[tokio::test]
async fn pipes_in_the_place_of_files_of_git_are_refused() {
    for path in [
        "HEAD",
        "config",
        "config.worktree",
        "commondir",
        "packed-refs",
        "shallow",
        "refs/heads/main",
        "info/exclude",
        "info/grafts",
        "objects/info/alternates",
        "objects/pack/pack-0.idx",
    ] {
        let project = Project::committed(&[("a.txt", "a")]);
        fifo(&project.root().join(".git").join(path));
        let error = open(project.root(), WorktreeStart::Head).await.unwrap_err();
        assert!(matches!(error, BranchWorkspaceError::SpecialFile { .. }), "{path}: {error}");
    }
    let project = Project::committed(&[("a.txt", "a")]);
    fs::remove_file(project.root().join(".git/config")).unwrap();
    symlink("/dev/zero", project.root().join(".git/config")).unwrap();
    let error = open(project.root(), WorktreeStart::Head).await.unwrap_err();
    assert!(matches!(error, BranchWorkspaceError::SpecialFile { .. }), "{error}");
    // Without `.git`, git looks whether the folder itself is a git folder.
    let project = Project::new(&[("a.txt", "a")]);
    fifo(&project.root().join("HEAD"));
    let error = open(project.root(), WorktreeStart::Head).await.unwrap_err();
    assert!(matches!(error, BranchWorkspaceError::SpecialFile { .. }), "{error}");
    fifo(&project.root().join(".git"));
    let error = open(project.root(), WorktreeStart::Head).await.unwrap_err();
    assert!(matches!(error, BranchWorkspaceError::SpecialFile { .. }), "{error}");
}

#[tokio::test]
async fn pipes_that_git_reads_in_a_working_tree_are_refused() {
    for path in [".gitattributes", "sub/.gitattributes", ".gitignore", "sub/deep/.gitignore", ".gitmodules"] {
        let project = Project::committed(&[("a.txt", "a")]);
        fifo(&project.root().join(path));
        let error = open(project.root(), WorktreeStart::WorkingTree).await.unwrap_err();
        assert!(matches!(error, BranchWorkspaceError::SpecialFile { .. }), "{path}: {error}");
        open(project.root(), WorktreeStart::Head).await.unwrap();
    }
    let project = Project::committed(&[("a.txt", "a")]);
    project.git(&["init", "--quiet", "inner"]);
    fifo(&project.root().join("inner/.git/HEAD"));
    let error = open(project.root(), WorktreeStart::WorkingTree).await.unwrap_err();
    assert!(matches!(error, BranchWorkspaceError::SpecialFile { .. }), "{error}");
}

#[tokio::test]
async fn settings_of_a_repository_have_a_maximum_size() {
    for path in ["HEAD", "config"] {
        let project = Project::committed(&[("a.txt", "a")]);
        let file = fs::OpenOptions::new().append(true).open(project.root().join(".git").join(path)).unwrap();
        file.set_len(70 << 20).unwrap();
        let error = open(project.root(), WorktreeStart::Head).await.unwrap_err();
        assert!(matches!(error, BranchWorkspaceError::LargeSettings { .. }), "{path}: {error}");
    }
}

/// Git reads included settings as well. It is ended, and commands of `bash` run meanwhile.
#[tokio::test]
async fn git_that_waits_is_ended_and_holds_no_slot_of_bash() {
    let project = Project::committed(&[("a.txt", "a")]);
    fifo(&project.root().join(".git/hooks/more"));
    project.write(".git/config", "[core]\n\tbare = false\n[include]\n\tpath = hooks/more\n");
    let workspaces = BranchWorkspaces::worktrees_of(project.root()).unwrap();
    let openings = (0..64).map(|_| {
        tokio::spawn({
            let workspaces = workspaces.clone();
            async move { workspaces.open().await.map(drop) }
        })
    });
    let openings: Vec<_> = openings.collect();
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let tool = agent_tools::BashTool::default();
    let context =
        agent_core::ToolContext::detached("bash", std::sync::Arc::new(agent_core::SystemEnvironment));
    let running = agent_core::AgentTool::execute(&tool, serde_json::json!({"command": "echo hi"}), context);
    let shown = tokio::time::timeout(std::time::Duration::from_secs(8), running).await.unwrap().unwrap();
    assert_eq!(shown.to_text(), "Exit code: 0\nhi\n");
    let mut openings = openings.into_iter();
    let error = openings.next().unwrap().await.unwrap().unwrap_err();
    assert!(matches!(error, BranchWorkspaceError::GitTimedOut { .. }), "{error}");
    openings.for_each(|one| one.abort());
}

/// Attack of a model: an activated environment of the project is first in `PATH`, and a command writes a `git` there.
#[test]
fn a_git_of_the_project_is_not_started() {
    let project = Project::committed(&[("a.txt", "a")]);
    let escaped = project.root().join("escaped");
    project.write("bin/git", &format!("#!/bin/sh\ntouch {}\nexit 1\n", escaped.display()));
    let git = project.root().join("bin/git");
    fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).unwrap();
    let usual = std::env::var("PATH").unwrap();
    let path = format!("{}:.::{usual}", git.parent().unwrap().display());
    let said = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["hostile::child_that_opens_a_worktree", "--exact", "--nocapture"])
        .current_dir(git.parent().unwrap())
        .env("PATH", path)
        .env("ORIGIN", project.root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("opened: a"), "{said}");
    assert!(!escaped.exists(), "{said}");
}

/// Does nothing unless the test above starts it.
#[tokio::test]
#[allow(clippy::print_stdout, reason = "the test that starts it reads this")]
async fn child_that_opens_a_worktree() {
    let Some(origin) = std::env::var_os("ORIGIN") else { return };
    let branch = BranchWorkspaces::worktrees_of(origin).unwrap().open().await.unwrap();
    println!("opened: {}", fs::read_to_string(branch.root().join("a.txt")).unwrap());
}
