//! A second party exchanges folders and symlinks while the tools work. No file outside of the root may be read, listed or
//! written. `LOOPTREE_RACE_SECONDS` sets the duration of each test.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is a part of tests")]
#![allow(clippy::print_stderr, reason = "the counts show that the test was not idle")]

mod support;

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use agent_core::AgentTool;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use support::{Folder, call, folder, now_ms};

const THREADS: usize = 8;

/// Only outside: in the content of a file, and in the name of another.
const SECRET: &str = "the-secret-of-the-outside";

fn duration() -> Duration {
    #[expect(clippy::disallowed_methods, reason = "a long run is asked for by the environment")]
    let seconds = std::env::var("LOOPTREE_RACE_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(2))
}

/// A folder beside the root, with the same names as the folder in the root that is exchanged.
struct Scene {
    inside: Folder,
    outside: Folder,
}

impl Scene {
    fn new() -> Self {
        let (inside, outside) = (folder(), folder());
        for (path, text) in [
            ("shared.txt", SECRET.to_owned()),
            (&format!("{SECRET}.txt"), "x".to_owned()),
            ("deep/shared.txt", SECRET.to_owned()),
            (".gitignore", format!("!{SECRET}\n")),
        ] {
            outside.put(path, format!("{text} needle\n"));
        }
        for path in ["a/shared.txt", "a/deep/shared.txt", "file"] {
            inside.put(path, "mine needle\n");
        }
        symlink(outside.path(), inside.path().join("b")).unwrap();
        symlink(outside.path().join("shared.txt"), inside.path().join("link")).unwrap();
        Self { inside, outside }
    }

    /// Everything outside, by path with its content.
    fn state(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut folders = vec![self.outside.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
                }
            }
        }
        found.sort();
        found
    }
}

/// The pairs that are exchanged in the root.
const PAIRS: &[(&str, &str)] = &[("a", "b"), ("file", "link")];

/// Exchanges the pairs until `done`, and returns how often.
fn exchange(folder: &Path, pairs: &[(&str, &str)], done: &AtomicBool) -> u64 {
    let mut times = 0;
    while !done.load(Ordering::Relaxed) {
        for (one, other) in pairs {
            renameat_with(CWD, folder.join(one), CWD, folder.join(other), RenameFlags::EXCHANGE).unwrap();
            times += 1;
        }
    }
    times
}

/// What the threads found.
#[derive(Default)]
struct Counts {
    worked: AtomicU64,
    refused: AtomicU64,
    leaks: Mutex<Vec<String>>,
}

impl Counts {
    fn note(&self, what: &str, result: Result<String, String>) {
        let text = match result {
            Ok(text) => {
                self.worked.fetch_add(1, Ordering::Relaxed);
                text
            }
            Err(text) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                text
            }
        };
        if text.contains(SECRET) {
            self.leaks.lock().unwrap().push(format!("{what}: {text}"));
        }
    }
}

/// Runs `work` in [`THREADS`] threads beside the exchange, and checks that nothing outside was read or changed.
fn race(name: &str, scene: &Scene, work: impl Fn(usize, &Counts) + Sync) {
    race_of(name, scene, PAIRS, work);
}

fn race_of(name: &str, scene: &Scene, pairs: &[(&str, &str)], work: impl Fn(usize, &Counts) + Sync) {
    let before = scene.state();
    let (done, counts) = (AtomicBool::new(false), Counts::default());
    let end = now_ms() + u64::try_from(duration().as_millis()).unwrap();
    let times = std::thread::scope(|scope| {
        let swapper = scope.spawn(|| exchange(scene.inside.path(), pairs, &done));
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (work, counts) = (&work, &counts);
                scope.spawn(move || {
                    while now_ms() < end {
                        work(thread, counts);
                    }
                })
            })
            .collect();
        let ends: Vec<_> = workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        let times = swapper.join().unwrap();
        ends.into_iter().for_each(|end| end.unwrap());
        times
    });
    let (worked, refused) = (counts.worked.into_inner(), counts.refused.into_inner());
    let leaks = counts.leaks.into_inner().unwrap();
    let after = scene.state();
    let changed = after.iter().filter(|file| !before.contains(file)).count()
        + before.iter().filter(|file| !after.contains(file)).count();
    eprintln!("{name}: {times} exchanges, {worked} calls worked, {refused} failed");
    assert!(
        leaks.is_empty() && changed == 0,
        "{} leaks, {changed} files outside changed: {leaks:.2?}",
        leaks.len()
    );
    assert!(times > 100 && worked > 10, "the race did not take place");
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn run(tool: &dyn AgentTool, arguments: Value) -> Result<String, String> {
    wait(call(tool, arguments)).map(|result| result.to_text()).map_err(|error| error.to_string())
}

#[test]
fn no_tool_leaves_the_root_while_folders_and_links_are_exchanged() {
    let scene = Scene::new();
    let tools = scene.inside.workspace.tools();
    let next = AtomicU64::new(0);
    race("tools", &scene, |thread, counts| {
        let n = next.fetch_add(1, Ordering::Relaxed);
        for (tool, arguments) in [
            ("read_file", json!({"path": "a/shared.txt"})),
            ("read_file", json!({"path": "file"})),
            ("write_file", json!({"path": format!("a/new-{n}.txt"), "content": "mine"})),
            ("write_file", json!({"path": format!("a/new-{thread}/deep/file.txt"), "content": "mine"})),
            ("write_file", json!({"path": "file", "content": "mine needle\n"})),
            ("edit_file", json!({"path": "a/deep/shared.txt", "old_text": "needle", "new_text": "needle "})),
            ("edit_file", json!({"path": "a/shared.txt", "old_text": "needle", "new_text": "needle "})),
            ("list_files", json!({"path": "a"})),
            ("list_files", json!({})),
            ("search", json!({"path": "a", "pattern": "needle"})),
            ("search", json!({"path": "a/deep/shared.txt", "pattern": "needle"})),
        ] {
            let tool = tools.iter().find(|found| found.name() == tool).unwrap();
            let what = format!("{} {arguments}", tool.name());
            counts.note(&what, run(tool.as_ref(), arguments));
        }
    });
}

/// The descriptor of the root stays that of the folder that was opened.
#[test]
fn no_tool_leaves_the_root_while_the_root_itself_is_exchanged_for_a_link() {
    let scene = Scene::new();
    let workspace = agent_tools::Workspace::open(scene.inside.path().join("a")).unwrap();
    let tools = workspace.tools();
    race_of("root", &scene, &[("a", "b")], |thread, counts| {
        for (tool, arguments) in [
            ("read_file", json!({"path": "shared.txt"})),
            ("write_file", json!({"path": format!("new-{thread}/file.txt"), "content": "mine"})),
            ("edit_file", json!({"path": "deep/shared.txt", "old_text": "needle", "new_text": "needle "})),
            ("list_files", json!({})),
            ("search", json!({"pattern": "needle"})),
        ] {
            let tool = tools.iter().find(|found| found.name() == tool).unwrap();
            let what = format!("{} {arguments}", tool.name());
            counts.note(&what, run(tool.as_ref(), arguments));
        }
    });
}

#[test]
fn no_branch_leaves_the_root_while_folders_and_links_are_exchanged() {
    let scene = Scene::new();
    let workspaces = agent_tools::BranchWorkspaces::copies_of(scene.inside.path()).unwrap();
    race("branches", &scene, |thread, counts| {
        let mut texts = String::new();
        let done = wait(async {
            let branch = workspaces.open().await?;
            for path in ["a/shared.txt", "a/deep/shared.txt", "b/shared.txt", "file"] {
                // A link to the outside in the copy does not count: it was not the copy that read it.
                let path = branch.root().join(path);
                if std::fs::canonicalize(&path).is_ok_and(|real| real.starts_with(branch.root())) {
                    texts.push_str(&std::fs::read_to_string(path).unwrap());
                }
            }
            let new = branch.root().join(format!("a/by-{thread}/new.txt"));
            if std::fs::symlink_metadata(branch.root().join("a")).is_ok_and(|meta| meta.is_dir()) {
                std::fs::create_dir_all(new.parent().unwrap()).unwrap();
                std::fs::write(&new, format!("mine {}", now_ms())).unwrap();
                std::fs::write(branch.root().join("a/shared.txt"), "mine needle\n").unwrap();
            }
            branch.changes().await?;
            branch.take_over().await?;
            Ok::<(), agent_tools::BranchWorkspaceError>(())
        });
        counts.note("a copy", Ok(texts));
        counts.note("a branch", done.map(|()| String::new()).map_err(|error| error.to_string()));
    });
}

#[cfg(feature = "skills")]
#[test]
fn no_skill_leaves_its_folder_while_folders_and_links_are_exchanged() {
    let scene = Scene::new();
    // The folder of the skill is the one that is exchanged.
    scene.inside.put("a/SKILL.md", "---\nname: a\ndescription: A skill.\n---\nDo it.\n");
    let tool = agent_tools::SkillSet::load([scene.inside.path()]).tool();
    race("skills", &scene, |_, counts| {
        for file in [json!("shared.txt"), json!("deep/shared.txt"), json!("link"), Value::Null] {
            let mut arguments = json!({"name": "a"});
            if !file.is_null() {
                arguments["file"] = file;
            }
            let what = format!("skill {arguments}");
            counts.note(&what, run(tool.as_ref(), arguments));
        }
    });
}
