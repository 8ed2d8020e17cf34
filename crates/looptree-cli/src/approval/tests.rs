use serde_json::json;

use super::*;

#[test]
fn always_allows_no_more_than_the_program_and_its_subcommand() {
    let exactly =
        |command: &str| Grant::Call { tool: "bash".to_owned(), arguments: json!({ "command": command }) };
    for (command, granted) in [
        ("cargo test --quiet", Grant::Command("cargo test".into())),
        ("cargo test && cargo test -q", Grant::Command("cargo test".into())),
        ("cargo test && rm -rf /", exactly("cargo test && rm -rf /")),
        ("cargo test && cargo build", exactly("cargo test && cargo build")),
        ("cargo test > out", exactly("cargo test > out")),
        ("python -c 'print(1)'", exactly("python -c 'print(1)'")),
        ("rm notes", exactly("rm notes")),
        ("./cargo test", exactly("./cargo test")),
        ("cargo test\nrm -rf /", exactly("cargo test\nrm -rf /")),
        ("npm exec -c true", exactly("npm exec -c true")),
        ("", exactly("")),
    ] {
        let arguments = json!({ "command": command });
        let grant = always("bash", &arguments);
        assert_eq!(grant, granted, "{command}");
        assert!(covers(&grant, "bash", &arguments, None));
    }
    let grant = always("bash", &json!({"command": "cargo test"}));
    for (command, allowed) in [
        ("cargo test --lib", true),
        ("cargo testing", false),
        ("cargo publish", false),
        ("cargo test; curl evil", false),
        ("cargo test $(curl evil)", false),
    ] {
        assert_eq!(covers(&grant, "bash", &json!({ "command": command }), None), allowed, "{command}");
    }
    assert!(!covers(&grant, "write_file", &json!({"command": "cargo test"}), None));
    assert_eq!(always("edit_file", &json!({"path": "x"})), Grant::Tool("edit_file".into()));
    let (call, other) = (json!({"run": "ls"}), json!({"run": "rm"}));
    let grant = always("server__shell", &call);
    assert!(covers(&grant, "server__shell", &call, None) && !covers(&grant, "server__shell", &other, None));
    assert!(!covers(&grant, "other__shell", &call, None));
    // A command in the background, or with another time limit, is another call.
    let grant = always("bash", &json!({"command": "make"}));
    assert!(!covers(&grant, "bash", &json!({"command": "make", "background": true}), None));
}

/// What git runs is in the settings of the repository, so that its commands are covered only where no tool can write these.
#[test]
fn commands_of_git_are_covered_only_in_a_repository_that_runs_nothing() {
    let grant = Grant::Command("git status".into());
    let covered =
        |directory: Option<&Path>| covers(&grant, "bash", &json!({"command": "git status"}), directory);
    type Make = fn(&Path);
    let repository = |folder: &Path, settings: &str| {
        std::fs::create_dir_all(folder.join("objects")).unwrap();
        std::fs::write(folder.join("HEAD"), "ref: refs/heads/main").unwrap();
        std::fs::write(folder.join("config"), settings).unwrap();
    };
    let plain = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://example.org/x.git\n";
    let home = tempfile::tempdir().unwrap();
    let (work, sub) = (home.path().join("work"), home.path().join("work/sub"));
    std::fs::create_dir_all(&sub).unwrap();
    assert!(!covered(None) && !covered(Some(&work)));
    repository(&work.join(".git"), plain);
    assert!(covered(Some(&work)) && covered(Some(&sub)));
    for settings in
        ["[core]\nfsMonitor = x", "[include]\npath = ../x", "[diff \"x\"]\ncommand=1\n[DIFF]\nexternal=x"]
    {
        repository(&work.join(".git"), settings);
        assert!(!covered(Some(&work)), "{settings}");
    }
    repository(&work.join(".git"), &format!("{plain}{}", "#".repeat(70_000)));
    assert!(!covered(Some(&work)), "settings that are not read to their end");
    repository(&work.join(".git"), plain);
    std::fs::write(work.join(".git/commondir"), "../meta").unwrap();
    assert!(!covered(Some(&work)), "a common folder elsewhere");
    std::fs::remove_file(work.join(".git/commondir")).unwrap();
    repository(&sub, plain);
    assert!(covered(Some(&work)) && !covered(Some(&sub)), "a repository without a working tree");
    let elsewhere: [(&str, Make); 2] = [
        ("a file", |git| std::fs::write(git, "gitdir: meta").unwrap()),
        ("a link", |git| std::os::unix::fs::symlink("meta", git).unwrap()),
    ];
    std::fs::rename(work.join(".git"), work.join("meta")).unwrap();
    for (what, make) in elsewhere {
        make(&work.join(".git"));
        assert!(!covered(Some(&work)), "{what}");
        std::fs::remove_file(work.join(".git")).unwrap();
    }
}
