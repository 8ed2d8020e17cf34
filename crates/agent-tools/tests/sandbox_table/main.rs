//! The table of docs/tools/bash.md: every cell is an attempt, and the page states what the attempts show.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is a part of tests")]
#![allow(
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "tests say what they skip and start programs"
)]

mod attempts;
#[path = "../support/mod.rs"]
mod support;

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent_tools::BashTool;
use agent_tools::sandbox::{Sandbox, SandboxKind, SandboxRules};
use attempts::{Attempt, Kernel, Outcome, Targets};
use serde_json::json;
use support::sandbox::kernel_at_least;
use support::{Folder, call, folder, text};

const PRELUDE: &str = include_str!("prelude.py");

/// A Python in the system's folders, which every sandbox can read.
fn python() -> Option<&'static str> {
    ["/usr/bin/python3", "/bin/python3"].into_iter().find(|path| Path::new(path).exists())
}

fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

/// What attempts aim at. Dropping it removes everything.
struct World {
    outside: Folder,
    process: Child,
    targets: Targets,
    _sockets: UnixDatagram,
}

impl World {
    fn new(python: &str) -> Self {
        let outside = folder();
        outside.put("secret", "the secret");
        let root = outside.path().canonicalize().unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let path_socket = root.join("socket");
        let name = format!("looptree-{}", root.file_name().unwrap().to_str().unwrap());
        let abstract_socket =
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let of_path = UnixListener::bind(&path_socket).unwrap();
        let datagrams = UnixDatagram::bind(root.join("socket.dgram")).unwrap();
        let process = Command::new("sleep").arg("600").env("SOME_KEY", "sk-0123456789").spawn().unwrap();
        let targets = Targets {
            outside: root.display().to_string(),
            process: process.id(),
            tcp: tcp.local_addr().unwrap().port(),
            udp: udp.local_addr().unwrap().port(),
            path_socket: path_socket.display().to_string(),
            abstract_socket: name.clone(),
            memory_key: 0x4c00_0000 | process.id(),
            queue: name,
        };
        std::thread::spawn(move || tcp.incoming().flatten().for_each(answer));
        std::thread::spawn(move || abstract_socket.incoming().flatten().for_each(answer));
        std::thread::spawn(move || of_path.incoming().flatten().for_each(answer));
        std::thread::spawn(move || {
            while let Ok((_, from)) = udp.recv_from(&mut [0; 16]) {
                drop(udp.send_to(b"pong", from));
            }
        });
        let world = Self { outside, process, targets, _sockets: datagrams };
        let (memory, queue) = (libc::SYS_shmget, libc::SYS_mq_open);
        world.python(python, &format!("call({memory}, {}, 4096, 0o1600)", world.targets.memory_key));
        world.python(python, &format!("call({queue}, b'{}', 0o102, 0o600, 0)", world.targets.queue));
        world
    }

    /// Runs a script without a sandbox.
    fn python(&self, python: &str, script: &str) {
        let script = format!("{PRELUDE}\n{script}\n");
        let out = Command::new(python).args(["-I", "-c", &script]).output().unwrap();
        assert!(out.status.success(), "{script}: {}", String::from_utf8_lossy(&out.stderr));
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
        let Some(python) = python() else { return };
        let (find, remove, unlink) = (libc::SYS_shmget, libc::SYS_shmctl, libc::SYS_mq_unlink);
        self.python(
            python,
            &format!("call({remove}, call({find}, {}, 0, 0), 0, 0)", self.targets.memory_key),
        );
        self.python(python, &format!("call({unlink}, b'{}')", self.targets.queue));
        assert!(self.outside.has("secret"));
    }
}

fn answer(mut one: impl std::io::Read + std::io::Write) {
    if one.read(&mut [0; 16]).is_ok_and(|read| read > 0) {
        drop(one.write_all(b"pong"));
    }
}

/// Connects to the port that an attempt writes into the file `port`.
struct Caller {
    done: Arc<AtomicBool>,
}

impl Caller {
    fn new(port: PathBuf) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&done);
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                if let Ok(text) = std::fs::read_to_string(&port) {
                    drop(TcpStream::connect(("127.0.0.1", text.parse().unwrap_or_default())));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Self { done }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

fn sandbox(kind: SandboxKind, rules: SandboxRules) -> Sandbox {
    match kind {
        SandboxKind::Landlock => Sandbox::landlock(rules),
        SandboxKind::Bwrap => Sandbox::bwrap(rules),
        _ => Sandbox::none(),
    }
}

fn column(kind: SandboxKind) -> usize {
    match kind {
        SandboxKind::Landlock => 1,
        SandboxKind::Bwrap => 2,
        _ => 0,
    }
}

async fn check_column(kind: SandboxKind) {
    let Some(python) = python() else {
        eprintln!("skipped: the attempts need python3 in /usr/bin");
        return;
    };
    if let Err(error) = sandbox(kind, SandboxRules::new()).check().await {
        support::skip::sandbox(kind, &error);
        return;
    }
    let world = World::new(python);
    let library = folder();
    library.put("library", "x");
    let mut wrong = Vec::new();
    for attempt in attempts::all(&world.targets) {
        let folder = folder();
        let _caller = Caller::new(folder.path().join("port"));
        let mut rules = SandboxRules::for_workspace(&folder.workspace)
            .with_network(attempt.network)
            .with_read_root(library.path());
        if kind == SandboxKind::Bwrap {
            // As the command does. Landlock has no exceptions below a folder.
            let settings = folder.path().join(".looptree");
            std::fs::create_dir(&settings).unwrap();
            rules = rules.with_read_root(settings);
        }
        let tool = BashTool::new(folder.workspace.clone())
            .with_sandbox(sandbox(kind, rules))
            .with_env("KIND", kind.name())
            .with_env("READ_ROOT", library.path());
        folder.put("attempt.py", format!("{PRELUDE}\ndef body():\n    {}\nattempt(body)\n", attempt.script));
        let command = format!("{python} -I attempt.py");
        let shown = text(call(&tool, json!({"command": command})).await);
        let expected = attempt.outcomes[column(kind)].name();
        match shown.trim_end().lines().last() {
            Some(outcome) if outcome == expected => {}
            Some("absent") => eprintln!("skipped: {}: this machine does not have it: {shown}", attempt.name),
            Some("refused") if kind == SandboxKind::None && !is_root() => {
                eprintln!("skipped: {}: it needs the superuser: {shown}", attempt.name);
            }
            _ if kind == SandboxKind::Landlock && !holds(attempt.kernel) => {
                eprintln!("skipped: {}: this kernel differs: {shown}", attempt.name);
            }
            _ => wrong.push(format!("{}: expected {expected}: {shown}", attempt.name)),
        }
    }
    assert!(wrong.is_empty(), "{kind}:\n{}", wrong.join("\n"));
}

fn holds(kernel: Kernel) -> bool {
    match kernel {
        Kernel::Any => true,
        Kernel::Since(major, minor) => kernel_at_least(major, minor),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_sandbox_each_attempt_ends_as_the_page_states() {
    check_column(SandboxKind::None).await;
}

/// Attacks 2 and 16.
#[tokio::test(flavor = "multi_thread")]
async fn with_landlock_each_attempt_ends_as_the_page_states() {
    check_column(SandboxKind::Landlock).await;
}

/// Attack 2.
#[tokio::test(flavor = "multi_thread")]
async fn with_bubblewrap_each_attempt_ends_as_the_page_states() {
    check_column(SandboxKind::Bwrap).await;
}

fn line(attempt: &Attempt) -> String {
    let [none, landlock, bwrap] = attempt.outcomes.map(|outcome| match outcome {
        Outcome::Passes => "**passes**",
        Outcome::Refused => "refused",
    });
    let landlock = match attempt.kernel {
        Kernel::Any => landlock.to_owned(),
        Kernel::Since(major, minor) => format!("{landlock} since Linux {major}.{minor}"),
    };
    format!("| {} | {} | {landlock} | {bwrap} |", attempt.name, none.replace('*', ""))
}

#[test]
fn the_page_has_the_table_of_the_attempts() {
    let targets = Targets {
        outside: String::new(),
        process: 0,
        tcp: 0,
        udp: 0,
        path_socket: String::new(),
        abstract_socket: String::new(),
        memory_key: 0,
        queue: String::new(),
    };
    let lines: Vec<String> = attempts::all(&targets).iter().map(line).collect();
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tools/bash.md"));
    let table = lines.join("\n");
    if cfg!(target_arch = "x86_64") {
        assert!(page.unwrap().contains(&table), "docs/tools/bash.md must have these lines:\n{table}");
    }
}
