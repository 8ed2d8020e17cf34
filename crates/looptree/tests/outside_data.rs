//! Every reader of files that somebody else can place, with the worst that can be placed: it ends soon and allocates little.
//!
//! The test counts what the whole process allocates, so it is the only one of its binary.
#![cfg(all(
    unix,
    feature = "tools",
    feature = "session",
    feature = "skills",
    feature = "openapi",
    feature = "mcp",
    feature = "pi",
    feature = "testing"
))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

use std::alloc::System;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use looptree::agent::AgentSnapshot;
use looptree::environment::SystemEnvironment;
use looptree::prelude::*;
use looptree::session::{AgentSnapshotFile as _, Cassette, FileWatch, pi};
use looptree::tools::bounded::BoundedFolder;
use looptree::tools::mcp::McpConfig;
use looptree::tools::openapi::{OpenApiAdapter, OpenApiConfig, OperationFilter};
use looptree::tools::skills::SkillSet;
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The growth of the process's memory during one read: 16 MiB, and one for the runtime.
const MEMORY: usize = 17 << 20;

/// The CPU time of one read, also in a debug build.
const CPU: Duration = Duration::from_secs(1);

/// A reader that waits for something never ends; others end also on a busy machine.
const TIME: Duration = Duration::from_secs(20);

/// The content of a file outside of the folder.
const SECRET: &str = "the secret of the user";

/// A reader: the path where the hostile file is, below the folder, and what reads it. It returns everything that it can show.
type Reader = (&'static str, fn(&Path) -> String);

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn call(folder: &Path, tool: &str, arguments: Value) -> String {
    let tools = CodingTools::new(Workspace::open(folder).unwrap()).tools();
    let tool = tools.into_iter().find(|found| found.name() == tool).unwrap();
    let context = ToolContext::detached(tool.name(), Arc::new(SystemEnvironment));
    match block_on(tool.execute(arguments, context)) {
        Ok(result) => result.to_text(),
        Err(error) => error.to_string(),
    }
}

const READERS: &[Reader] = &[
    ("AGENTS.md", |folder| {
        let folder = BoundedFolder::open(folder).unwrap();
        format!(
            "{:?}",
            block_on(folder.read_async("AGENTS.md", 64 << 10))
                .map(looptree::tools::bounded::Bounded::into_text)
        )
    }),
    ("x/SKILL.md", |folder| format!("{:?}", SkillSet::load([folder]))),
    ("file", |folder| {
        let read = Workspace::open(folder).unwrap().read_bytes("file", 1 << 20);
        format!("{:?}", read.map(|bytes| String::from_utf8_lossy(&bytes).contains(SECRET).then_some(SECRET)))
    }),
    ("file", |folder| {
        let files = Workspace::open(folder).unwrap();
        let watch = FileWatch::new(folder, move |path: &str| files.open_file(path));
        watch.look_at(["file"]);
        format!("{:?}", watch.differences(&watch.state()))
    }),
    ("file", |folder| call(folder, "read_file", json!({"path": "file"}))),
    ("file", |folder| call(folder, "read_file", json!({"path": "file", "offset": 1, "limit": 10}))),
    ("file", |folder| call(folder, "edit_file", json!({"path": "file", "old_text": "a", "new_text": "b"}))),
    ("file", |folder| call(folder, "search", json!({"pattern": "secret"}))),
    (".gitignore", |folder| call(folder, "list_files", json!({}))),
    ("api.yaml", |folder| {
        let (config, filter) = (OpenApiConfig::new(), OperationFilter::All);
        format!("{:?}", block_on(OpenApiAdapter::from_file(folder.join("api.yaml"), config, filter)).err())
    }),
    ("servers.json", |folder| {
        let read = BoundedFolder::read_named(folder.join("servers.json"), 1 << 20);
        format!("{:?}", read.map(|read| McpConfig::parse(&read.into_text(), |_| None).err()))
    }),
    ("cassette", |folder| format!("{:?}", Cassette::load(folder.join("cassette")).err())),
    ("snapshot", |folder| format!("{:?}", AgentSnapshot::load(folder.join("snapshot")).err())),
    ("pi", |folder| format!("{:?}", pi::import_file(folder.join("pi")).err())),
    ("s.json", |folder| {
        let store = JsonStore::open(folder).unwrap();
        let salvaged = block_on(store.salvage_session("s")).err();
        format!("{:?} {salvaged:?}", store.load_session("s").err())
    }),
    ("s.journal.jsonl", |folder| format!("{:?}", JsonStore::open(folder).unwrap().load_session("s").err())),
];

/// The bytes that the process holds.
fn held() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

/// The CPU time that the process has used.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// What a repository can place at a path. The folder beside has a file with a secret.
type Hostile = (&'static str, fn(&Path, &Path));

fn text(path: &Path, text: String) {
    fs::write(path, text).unwrap();
}

const HOSTILE: &[Hostile] = &[
    ("1 GiB sparse", |path, _| fs::File::create(path).unwrap().set_len(1 << 30).unwrap()),
    ("a pipe", |path, _| {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }),
    ("a link to a device", |path, _| symlink("/dev/zero", path).unwrap()),
    ("a link to a terminal", |path, _| symlink("/dev/ptmx", path).unwrap()),
    ("a link out", |path, secret| symlink(secret, path).unwrap()),
    ("a link to itself", |path, _| symlink(path, path).unwrap()),
    ("a folder", |path, _| fs::create_dir(path).unwrap()),
    ("brackets", |path, _| text(path, "[".repeat(1_000_000))),
    ("objects", |path, _| text(path, "{\"a\":".repeat(200_000))),
    ("brackets in front matter", |path, _| {
        text(path, format!("---\nname: x\ndescription: d\nm: {}\n---\n", "[".repeat(1_000_000)));
    }),
    ("dashes in front matter", |path, _| {
        text(path, format!("---\nname: x\ndescription: d\nm:\n {}\n---\n", "- ".repeat(8_000)));
    }),
    ("mappings in front matter", |path, _| {
        let lines: String = (1..170).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
        text(path, format!("---\nname: x\ndescription: d\nmetadata:\n{lines}---\n"));
    }),
    ("aliases in front matter", |path, _| {
        let (list, aliases) = ("x,".repeat(3_000), "*a,".repeat(3_000));
        text(
            path,
            format!("---\nname: x\ndescription: d\nmetadata:\n a: &a [{list}]\n b: [{aliases}]\n---\n"),
        );
    }),
    ("brackets in YAML", |path, _| text(path, format!("openapi: 3.1.0\nx: {}", "{a: ".repeat(250_000)))),
    ("one long line", |path, _| text(path, "a".repeat(1_000_000))),
    ("many lines", |path, _| text(path, "a\n".repeat(500_000))),
];

#[test]
fn every_reader_of_outside_data_ends_soon_and_allocates_little() {
    let mut failures = Vec::new();
    for (name, reader) in READERS {
        for (what, make) in HOSTILE {
            let home = tempfile::tempdir().unwrap();
            let (folder, secret) = (home.path().join("root"), home.path().join("secret"));
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&secret, SECRET).unwrap();
            make(&path, &secret);
            let (reader, of) = (*reader, folder.clone());
            let (done, result) = mpsc::channel();
            let (before, begin) = (held(), cpu());
            std::thread::spawn(move || done.send(reader(&of)));
            let mut peak = 0;
            let shown = (0..TIME.as_millis()).find_map(|_| {
                let shown = result.recv_timeout(Duration::from_millis(1)).ok();
                peak = peak.max(held().saturating_sub(before));
                shown
            });
            let used = cpu().saturating_sub(begin);
            if used > CPU {
                failures.push(format!("{name}, {what}: {used:?} of CPU"));
            }
            if peak > MEMORY {
                failures.push(format!("{name}, {what}: {peak} bytes"));
            }
            match shown {
                None => failures.push(format!("{name}, {what}: it takes too long")),
                Some(shown) if shown.contains(SECRET) => {
                    failures.push(format!("{name}, {what}: it shows the secret"))
                }
                Some(_) => {}
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
