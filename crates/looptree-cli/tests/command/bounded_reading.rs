//! What a hostile repository can place where the command reads by itself: it costs bounded time and memory, and no file that
//! the tools refuse reaches the prompt, an event or a session.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode};

use super::{HANG, Model, Project, Said, finish};

/// The memory of the process, in KiB: far more than it needs, and far less than the files below.
const MEMORY: u64 = 4 << 20;

/// The CPU time of the process in seconds. A debug build needs less than one.
const CPU: u64 = 10;

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn pipe(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

fn sparse(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
}

/// Runs the program with bounds on its memory and CPU time, which kill it.
async fn bounded(dir: &Project, model: &Model, words: &[&str]) -> Said {
    let mut command = tokio::process::Command::new("bash");
    command.current_dir(dir.path()).kill_on_drop(true).env_clear().envs(dir.environment());
    let script = format!("ulimit -v {MEMORY} -t {CPU}; exec \"$@\"");
    command.args(["-c", &script, "bash", env!("CARGO_BIN_EXE_looptree")]).args(model.words()).args(words);
    tokio::time::timeout(HANG, finish(command, "")).await.unwrap()
}

#[tokio::test]
async fn what_a_repository_places_at_the_start_costs_bounded_time_and_memory() {
    let brackets = |open: &str| format!("---\nname: x\ndescription: x\nx: {}\n---\n", open.repeat(4_000));
    type Place<'a> = (&'a str, &'a str, &'a dyn Fn(&Path));
    let place: [Place<'_>; 9] = [
        ("AGENTS.md", "the rest is left out", &|path| sparse(path)),
        ("AGENTS.md", "not a regular file", &|path| pipe(path)),
        ("AGENTS.md", "is not followed here", &|path| symlink("/dev/zero", path).unwrap()),
        (".looptree/skills/x/SKILL.md", "larger than", &|path| sparse(path)),
        (".looptree/skills/x/SKILL.md", "not a regular file", &|path| pipe(path)),
        (".looptree/skills/x/SKILL.md", "32 open brackets", &|path| write(path, &brackets("["))),
        (".looptree/skills/x/SKILL.md", "32 open brackets", &|path| write(path, &brackets("{a: "))),
        (".looptree/skills", "is not a directory", &|path| write(path, "")),
        (".looptree/skills/x/SKILL.md", "longer than", &|path| {
            write(path, &format!("---\n{}", "a: b\n".repeat(200_000)));
        }),
    ];
    let model = Model::start().await;
    for (name, note, make) in place {
        let dir = Project::new();
        make(&dir.path().join(name));
        let said = bounded(&dir, &model, &["-p", "say x"]).await;
        assert!(said.code == 0 && said.err.contains(note), "{name}, {note}: {said:?}");
    }
    let dir = Project::new();
    for number in 0..400 {
        let skill = format!("---\nname: s{number}\ndescription: {}\n---\n", "d".repeat(1_000));
        write(&dir.path().join(format!(".looptree/skills/s{number}/SKILL.md")), &skill);
    }
    let said = bounded(&dir, &model, &["-p", "say x"]).await;
    assert!(said.code == 0 && said.err.contains("more than 128 skills"), "{said:?}");
}

#[tokio::test]
async fn no_link_of_a_repository_leads_out_of_it_by_instructions_or_skills() {
    let model = Model::start().await;
    let dir = Project::new();
    let outside = dir.home().join("agents");
    write(&outside.join("foo.md"), "---\nname: foo\ndescription: secret-instruction\n---\nbody\n");
    write(&outside.join("key.txt"), "TOP-SECRET");
    write(&outside.join("AGENTS.md"), "secret-instruction");
    write(&outside.join("skills/bar/SKILL.md"), "---\nname: bar\ndescription: secret-instruction\n---\n");
    let skill = "call skill {\"name\":\"foo\",\"file\":\"key.txt\"}";
    let links = [
        (".looptree/skills/y/SKILL.md", "foo.md"),
        (".looptree/skills/y", "skills/bar"),
        (".looptree/skills", "skills"),
        (".looptree", ""),
        ("AGENTS.md", "AGENTS.md"),
    ];
    for (name, target) in links {
        let dir_of = dir.path().join(name);
        fs::create_dir_all(dir_of.parent().unwrap()).unwrap();
        symlink(outside.join(target), &dir_of).unwrap();
        let said = dir.ask(&model, &["-p", "--json", skill]).await;
        assert!(said.err.contains("is not followed here"), "{name}: {said:?}");
        assert!(!said.out.contains("TOP-SECRET") && !said.err.contains("skills: foo"), "{name}: {said:?}");
        assert!(!said.err.contains("skills: bar"), "{name}: {said:?}");
        assert!(!model.asked().iter().any(|asked| asked.contains("secret-instruction")), "{name}");
        fs::remove_file(&dir_of).unwrap();
        drop(fs::remove_dir_all(dir.path().join(".looptree")));
    }
}

/// Many repositories keep one file of instructions and link the other name to it.
#[tokio::test]
async fn instructions_are_read_by_a_link_to_another_file_of_the_same_folder_and_by_no_other_link() {
    let model = Model::start().await;
    for (target, is_read) in [
        ("CLAUDE.md", true),
        ("./CLAUDE.md", true),
        (".git/CLAUDE.md", false),
        ("sub/CLAUDE.md", false),
        ("../CLAUDE.md", false),
        ("second.md", false),
    ] {
        let dir = Project::new();
        for name in ["CLAUDE.md", ".git/CLAUDE.md", "sub/CLAUDE.md", "../CLAUDE.md"] {
            write(&dir.path().join(name), "secret-instruction");
        }
        symlink("CLAUDE.md", dir.path().join("second.md")).unwrap();
        symlink(target, dir.path().join("AGENTS.md")).unwrap();
        let said = dir.ask(&model, &["-p", "say x"]).await;
        let asked = model.asked().pop().unwrap();
        assert_eq!(asked.contains("secret-instruction"), is_read, "{target}: {said:?}");
        assert_eq!(said.err.contains("is not followed here"), !is_read, "{target}: {said:?}");
    }
}

/// The events of a call that the file tools refuse contain nothing about the file.
#[tokio::test]
async fn the_file_watch_says_nothing_about_a_file_that_the_tools_refuse() {
    let model = Model::start().await;
    let dir = Project::new();
    write(&dir.home().join("pin"), "4711");
    write(&dir.path().join(".git/config"), "hunter2");
    write(&dir.path().join("allowed"), "0815");
    symlink(dir.home().join("pin"), dir.path().join("link")).unwrap();
    symlink(dir.home(), dir.path().join("folder")).unwrap();
    symlink(".git/config", dir.path().join("inner")).unwrap();
    pipe(&dir.path().join("pipe"));
    for path in ["link", "folder/pin", ".git/config", "inner", ".GIT/config", "pipe", "/etc/hostname"] {
        let said =
            bounded(&dir, &model, &["-p", "--json", &format!("call read_file {{\"path\":\"{path}\"}}")])
                .await;
        assert!(said.code == 0 && said.out.contains("\"is_error\":true"), "{path}: {said:?}");
        assert!(!said.out.contains("file_state"), "{path}: {said:?}");
    }
    let said = bounded(&dir, &model, &["-p", "--json", "call read_file {\"path\":\"allowed\"}"]).await;
    assert!(said.out.contains("file_state"), "{said:?}");
    // The hash of an allowed file is not one that a guess of the content gives.
    let unkeyed = "0815".bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    assert!(!said.out.contains(&format!("{unkeyed:016x}")), "{said:?}");
}
