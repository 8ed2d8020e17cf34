//! What a command in a sandbox can do and what it cannot, in each kind of sandbox.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is a part of tests")]
#![allow(clippy::print_stderr, reason = "what a machine cannot show is said in a line")]

mod support;

use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

use agent_tools::sandbox::{Network, Sandbox, SandboxKind, SandboxRules, TempFolder, UnixSockets};
use agent_tools::{Background, BashTool};
use serde_json::json;
use support::sandbox::{each_sandbox, no_tcp};
use support::{Folder, call, call_and_cancel, context, failure, folder, runs, text, until};

fn bash(folder: &Folder, sandbox: &Sandbox) -> BashTool {
    BashTool::new(folder.workspace.clone()).with_sandbox(sandbox.clone())
}

async fn shown(tool: &BashTool, command: &str) -> String {
    text(call(tool, json!({"command": command})).await)
}

/// A command that must fail, in words of its own and not by the sandbox being missing.
#[track_caller]
fn check_refused(kind: SandboxKind, command: &str, shown: &str) {
    assert!(!shown.starts_with("Exit code: 0"), "{kind}: {command}: {shown}");
    assert!(!shown.contains("bwrap:"), "{kind}: {command}: {shown}");
}

#[tokio::test]
async fn the_workspace_can_be_read_and_written_and_programs_run() {
    for make in each_sandbox(no_tcp).await {
        let folder = folder();
        folder.put("a.txt", "one\n");
        let tool = bash(&folder, &make(&folder));
        assert_eq!(
            shown(&tool, "cat a.txt; echo two > b.txt; mkdir d; mv b.txt d/; pwd; ls d").await,
            format!("Exit code: 0\none\n{}\nb.txt\n", folder.path().canonicalize().unwrap().display())
        );
        assert_eq!(folder.get("d/b.txt"), b"two\n");
        assert_eq!(
            shown(&tool, "echo x > /dev/null; head -c 1 /dev/zero | wc -c").await,
            "Exit code: 0\n1\n"
        );
        assert_eq!(
            shown(&tool, "kill -9 $$").await.lines().next().map(|line| line == "Exit code: 0"),
            Some(false)
        );
    }
}

#[tokio::test]
async fn nothing_outside_can_be_read_or_changed_by_any_name() {
    for make in each_sandbox(no_tcp).await {
        let (outside, folder) = (folder(), folder());
        outside.put("secret.txt", "the secret");
        let sandbox = make(&folder);
        let tool = bash(&folder, &sandbox);
        let far = outside.path().canonicalize().unwrap();
        let (far, name) = (far.display(), far.file_name().unwrap().to_str().unwrap());
        std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
        for command in [
            format!("cat {far}/secret.txt"),
            format!("cat ../{name}/secret.txt"),
            "cat link/secret.txt".to_owned(),
            format!("cat /proc/self/root{far}/secret.txt"),
            format!("cat /proc/{}/root{far}/secret.txt", std::process::id()),
            format!("ln {far}/secret.txt hard && cat hard"),
            format!("ln -s {far}/secret.txt soft && cat soft"),
            format!("echo x >> {far}/secret.txt"),
            format!(": > {far}/secret.txt"),
            format!("truncate -s 0 {far}/secret.txt"),
            format!("rm {far}/secret.txt"),
            format!("mv {far}/secret.txt ."),
            format!("touch {far}/new"),
            format!("mkdir {far}/new"),
            "touch link/new".to_owned(),
            "touch /usr/new-file-of-a-test".to_owned(),
            "touch /etc/new-file-of-a-test".to_owned(),
            format!("find {far} -type f | grep ."),
        ] {
            let shown = shown(&tool, &command).await;
            check_refused(sandbox.kind(), &command, &shown);
            assert!(!shown.contains("the secret"), "{}: {command}: {shown}", sandbox.kind());
        }
        assert_eq!(outside.get("secret.txt"), b"the secret");
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
        // This process is as free as before.
        outside.put("mine.txt", "x");
    }
}

#[tokio::test]
async fn a_read_root_can_be_read_and_not_written() {
    for make in each_sandbox(no_tcp).await {
        let (library, folder) = (folder(), folder());
        library.put("a.txt", "one");
        let rules = make(&folder).rules().unwrap().clone().with_read_root(library.path());
        let sandbox = same_kind(make(&folder).kind(), rules);
        let tool = bash(&folder, &sandbox);
        let place = library.path().display();
        assert_eq!(shown(&tool, &format!("cat {place}/a.txt")).await, "Exit code: 0\none");
        let command = format!("echo x > {place}/a.txt");
        check_refused(sandbox.kind(), &command, &shown(&tool, &command).await);
        assert_eq!(library.get("a.txt"), b"one");
    }
}

#[tokio::test]
async fn a_root_can_be_a_single_file() {
    for make in each_sandbox(no_tcp).await {
        let (library, folder) = (folder(), folder());
        for (name, content) in [("read.txt", "one"), ("write.txt", "two"), ("beside.txt", "three")] {
            library.put(name, content);
        }
        let rules = make(&folder).rules().unwrap().clone();
        let rules = rules.with_read_root(library.path().join("read.txt"));
        let sandbox =
            same_kind(make(&folder).kind(), rules.with_write_root(library.path().join("write.txt")));
        let tool = bash(&folder, &sandbox);
        let place = library.path().display();
        let command = format!("cat {place}/read.txt; echo new > {place}/write.txt; cat {place}/write.txt");
        assert_eq!(shown(&tool, &command).await, "Exit code: 0\nonenew\n");
        for command in [
            format!("echo x > {place}/read.txt"),
            format!("echo x >> {place}/read.txt"),
            format!("truncate -s 0 {place}/read.txt"),
            format!("cat {place}/beside.txt"),
        ] {
            check_refused(sandbox.kind(), &command, &shown(&tool, &command).await);
        }
        // In bubblewrap this is a file of a folder that ends with the call.
        shown(&tool, &format!("echo x > {place}/beside.txt")).await;
        assert_eq!(library.get("read.txt"), b"one");
        assert_eq!(library.get("write.txt"), b"new\n");
        assert_eq!(library.get("beside.txt"), b"three");
    }
}

fn same_kind(kind: SandboxKind, rules: SandboxRules) -> Sandbox {
    match kind {
        SandboxKind::Bwrap => Sandbox::bwrap(rules),
        _ => Sandbox::landlock(rules),
    }
}

#[tokio::test]
async fn the_temporary_folder_is_its_own_and_gone_after_the_call() {
    for make in each_sandbox(no_tcp).await {
        let folder = folder();
        let tool = bash(&folder, &make(&folder)).with_env("HOME", "/var/of-nobody");
        let first =
            shown(&tool, "echo x > $TMPDIR/mark; cat $TMPDIR/mark; echo $HOME $TMPDIR; stat -c %a $TMPDIR")
                .await;
        let lines: Vec<&str> = first.lines().collect();
        assert_eq!((lines[1], lines[3]), ("x", "700"), "{first}");
        let (home, temp) = lines[2].split_once(' ').unwrap();
        assert_eq!(home, temp);
        assert_eq!(shown(&tool, "test -e $TMPDIR/mark || echo gone").await, "Exit code: 0\ngone\n");
        if temp != "/tmp" {
            until("the end of the folder", || !std::path::Path::new(temp).exists()).await;
        }
    }
}

#[tokio::test]
async fn without_a_temporary_folder_nothing_but_the_roots_can_be_written() {
    for make in each_sandbox(no_tcp).await {
        let folder = folder();
        let rules = make(&folder).rules().unwrap().clone().with_temp(TempFolder::None);
        let sandbox = same_kind(make(&folder).kind(), rules);
        for place in ["/tmp", "/dev/shm", "/dev", "/", "/home", "/var/tmp", "/run", "/usr/local"] {
            let command = format!("touch {place}/new-file-of-a-test");
            check_refused(sandbox.kind(), &command, &shown(&bash(&folder, &sandbox), &command).await);
        }
    }
}

#[tokio::test]
async fn tcp_is_refused_and_udp_is_as_the_page_says() {
    for make in each_sandbox(no_tcp).await {
        let folder = folder();
        let sandbox = make(&folder);
        let tool = bash(&folder, &sandbox);
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let command = format!("echo x > /dev/tcp/127.0.0.1/{}", tcp.local_addr().unwrap().port());
        check_refused(sandbox.kind(), &command, &shown(&tool, &command).await);

        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let command = format!("echo x > /dev/udp/127.0.0.1/{}", udp.local_addr().unwrap().port());
        shown(&tool, &command).await;
        let arrived = udp.recv(&mut [0; 8]).is_ok();
        // `NoTcp` allows UDP; only the network namespace of bubblewrap refuses it.
        assert_eq!(arrived, sandbox.kind() == SandboxKind::Landlock, "{}", sandbox.kind());
    }
}

#[tokio::test]
async fn an_open_network_is_open() {
    for make in each_sandbox(|rules| rules.with_network(Network::Open)).await {
        let folder = folder();
        let tool = bash(&folder, &make(&folder));
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let command = format!("echo x > /dev/tcp/127.0.0.1/{}", tcp.local_addr().unwrap().port());
        assert_eq!(shown(&tool, &command).await, "Exit code: 0\n");
    }
}

#[tokio::test]
async fn other_processes_are_neither_read_nor_signalled() {
    let mut other = tokio::process::Command::new("sleep");
    let other = other.arg("300").env("SOME_KEY", "sk-0123456789").kill_on_drop(true).spawn().unwrap();
    let pid = other.id().unwrap();
    for make in each_sandbox(no_tcp).await {
        let folder = folder();
        let sandbox = make(&folder);
        let tool = bash(&folder, &sandbox);
        for command in [
            format!("tr '\\0' '\\n' < /proc/{pid}/environ | grep sk-"),
            "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep sk-".to_owned(),
            "tr '\\0' '\\n' < /proc/$PPID/environ | grep CARGO_MANIFEST_DIR".to_owned(),
            format!("head -c 1 /proc/{pid}/mem"),
            format!("ls -l /proc/{pid}/fd/"),
        ] {
            check_refused(sandbox.kind(), &command, &shown(&tool, &command).await);
        }
        let command = format!("kill -0 {pid}");
        if sandbox.kind() == SandboxKind::Bwrap || support::sandbox::kernel_at_least(6, 12) {
            check_refused(sandbox.kind(), &command, &shown(&tool, &command).await);
        } else {
            eprintln!("skipped: signals are not held by Landlock before Linux 6.12");
        }
    }
    assert!(runs(pid));
}

#[tokio::test]
async fn rights_cannot_be_gained() {
    for make in each_sandbox(no_tcp).await {
        let folder = folder();
        let sandbox = make(&folder);
        let tool = bash(&folder, &sandbox);
        let status = shown(&tool, "grep NoNewPrivs /proc/self/status").await;
        assert_eq!(status, "Exit code: 0\nNoNewPrivs:\t1\n", "{}", sandbox.kind());
        // Also where the tests run as the superuser.
        let rights = shown(&tool, "bash -c 'grep CapEff /proc/self/status'").await;
        assert!(rights.contains("0000000000000000"), "{}: {rights}", sandbox.kind());
    }
}

/// B-170.
#[tokio::test]
async fn nothing_is_left_running_after_exit_time_out_abort_and_drop() {
    // `setsid` leaves the group.
    const FAMILY: &str = "
        sleep 301 &
        setsid bash -c 'exec sleep 301' &
        sleep 0.2; touch ready;
    ";
    for make in each_sandbox(no_tcp).await {
        let folder = folder();
        let sandbox = make(&folder);
        let mark = format!("mark-{}", folder.path().file_name().unwrap().to_str().unwrap());
        let tool = bash(&folder, &sandbox).with_env("TEST_MARK", &mark);
        let gone = async || {
            until("the end of the processes", || support::sandbox::marked(&mark).is_empty()).await;
            drop(std::fs::remove_file(folder.path().join("ready")));
        };
        shown(&tool, FAMILY).await;
        gone().await;
        failure(call(&tool, json!({"command": format!("{FAMILY} sleep 301"), "timeout": 2})).await);
        gone().await;
        let command = json!({"command": format!("{FAMILY} sleep 301")});
        let ready = async || until("ready", || folder.has("ready")).await;
        call_and_cancel(&tool, command.clone(), ready).await.unwrap_err();
        gone().await;
        tokio::select! {
            result = agent_core::AgentTool::execute(&tool, command, context(&tool)) => panic!("it ended: {result:?}"),
            () = until("ready", || folder.has("ready")) => {}
        }
        gone().await;
    }
}

#[tokio::test]
async fn under_bwrap_a_process_without_mark_and_group_ends_too() {
    for make in each_sandbox(no_tcp).await {
        let folder = folder();
        let sandbox = make(&folder);
        if sandbox.kind() != SandboxKind::Bwrap {
            continue;
        }
        for background in [Background::End, Background::Keep] {
            let tool = bash(&folder, &sandbox).with_background(background);
            let seconds = 900_000 + std::process::id();
            shown(&tool, &format!("setsid env -i sleep {seconds} & sleep 0.2")).await;
            let left = || support::sandbox::with_argument(&seconds.to_string());
            until("the end of the processes", || left().is_empty()).await;
        }
    }
}

#[tokio::test]
async fn a_command_is_not_run_when_its_sandbox_cannot_be_had() {
    let folder = folder();
    for sandbox in [
        Sandbox::bwrap(SandboxRules::for_workspace(&folder.workspace)).with_program("/no/such/bwrap"),
        Sandbox::bwrap(SandboxRules::for_workspace(&folder.workspace)).with_program("/bin/false"),
        Sandbox::landlock(SandboxRules::new().with_network(Network::NoTcp)),
        Sandbox::landlock(no_tcp(SandboxRules::for_workspace(&folder.workspace)).with_read_root("/no/such")),
    ] {
        let error = failure(call(&bash(&folder, &sandbox), json!({"command": "touch ran"})).await);
        assert!(error.starts_with("the command was not run: "), "{error}");
        assert!(!folder.has("ran"), "{error}");
    }
}

#[tokio::test]
async fn the_model_is_told_that_there_is_a_sandbox() {
    use agent_core::AgentTool as _;
    let rules = no_tcp(SandboxRules::new());
    let held = BashTool::default().with_sandbox(Sandbox::landlock(rules.clone()));
    assert!(held.description().contains("sandbox") && held.description().contains("no network"));
    let open = held.with_sandbox(Sandbox::landlock(rules.with_network(Network::Open)));
    assert!(open.description().contains("sandbox") && !open.description().contains("no network"));
    assert!(!BashTool::default().description().contains("sandbox"));
}

/// Attack of a model: an activated `.venv` of the workspace is first in `PATH`, and a command writes a `bwrap` there.
#[tokio::test]
async fn a_bwrap_that_a_command_could_have_written_is_never_started() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = folder();
    folder.put("bin/bwrap", "#!/bin/sh\ntouch \"$(dirname \"$0\")/../escaped\"\n");
    let place = folder.path().join("bin/bwrap");
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755)).unwrap();
    // A process with this `PATH`, which the test itself cannot have.
    let exe = std::env::current_exe().unwrap();
    let path = format!("{}:/no/such", folder.path().join("bin").display());
    let program = agent_tools::program::Program::at(exe).unwrap();
    let said = program
        .command()
        .unwrap()
        .args(["child_that_uses_bwrap", "--exact", "--nocapture"])
        .env("PATH", path)
        .env("WORKSPACE", folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("in a folder that commands can write to"), "{said}");
    assert!(!folder.has("escaped"));
}

/// Does nothing unless the test above starts it.
#[tokio::test]
#[allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "the test that starts it sets and reads this"
)]
async fn child_that_uses_bwrap() {
    let Some(root) = std::env::var_os("WORKSPACE") else { return };
    let workspace = agent_tools::Workspace::open(root).unwrap();
    let sandbox = Sandbox::bwrap(SandboxRules::for_workspace(&workspace));
    println!("{}", sandbox.check().await.unwrap_err());
    let tool = BashTool::new(workspace).with_sandbox(sandbox);
    println!("{}", failure(call(&tool, json!({"command": "true"})).await));
}

/// Attack of a model: a folder above a read root is renamed, and another one takes its place.
#[tokio::test]
async fn a_read_root_deep_inside_of_a_write_root_cannot_be_replaced() {
    let folder = folder();
    folder.put("vendor/lib/.git/config", "original\n");
    folder.put("vendor/other/a", "x");
    let rules = no_tcp(SandboxRules::for_workspace(&folder.workspace));
    let sandbox = Sandbox::bwrap(rules.clone().with_read_root(folder.path().join("vendor/lib/.git")));
    if let Err(error) = sandbox.check().await {
        support::skip::sandbox(sandbox.kind(), &error);
    } else {
        let tool = bash(&folder, &sandbox);
        let exchange = |one: &str, other: &str| {
            format!(
                "/usr/bin/python3 -I -c \"import ctypes,sys; sys.exit(ctypes.CDLL(None).renameat2(-100, b'{one}', -100, b'{other}', 2) == 0 and 0 or 1)\""
            )
        };
        for command in [
            "mv vendor/lib/.git vendor/lib/g".to_owned(),
            "mv vendor/lib vendor/old".to_owned(),
            "mv -T vendor v2".to_owned(),
            "rmdir vendor/lib vendor".to_owned(),
            "rm -rf vendor/lib/.git/config".to_owned(),
            "ln vendor/lib/.git/config hard && echo evil > hard".to_owned(),
            "mv -T vendor/other vendor/lib".to_owned(),
            "echo evil > vendor/lib/.git/config".to_owned(),
            exchange("vendor/other", "vendor/lib"),
            exchange("vendor", "bin"),
        ] {
            check_refused(SandboxKind::Bwrap, &command, &shown(&tool, &command).await);
            assert_eq!(folder.get("vendor/lib/.git/config"), b"original\n", "{command}");
        }
        // Everything beside the read root can still be changed.
        let command = "echo new > vendor/lib/b && mv vendor/other vendor/lib/c && cat vendor/lib/c/a";
        assert_eq!(shown(&tool, command).await, "Exit code: 0\nx");
    }
    let landlock = Sandbox::landlock(rules.with_read_root(folder.path().join("vendor/lib/.git")));
    let error = failure(call(&bash(&folder, &landlock), json!({"command": "true"})).await);
    assert!(error.contains("use the sandbox `bwrap`"), "{error}");
}

/// A root in a folder that commands can write to is resolved once.
#[tokio::test]
async fn a_command_cannot_move_a_root_of_the_next_command() {
    for make in each_sandbox(no_tcp).await {
        let (outside, folder) = (folder(), folder());
        outside.put("secret.txt", "the secret");
        folder.put("out/a.txt", "one");
        let rules = make(&folder).rules().unwrap().clone().with_write_root(folder.path().join("out"));
        let sandbox = same_kind(make(&folder).kind(), rules);
        let tool = bash(&folder, &sandbox);
        let target = outside.path().canonicalize().unwrap();
        let command = format!("rm -r out; ln -s {} out; ls -l", target.display());
        shown(&tool, &command).await;
        if !folder.path().join("out").is_symlink() {
            continue;
        }
        let next = call(&tool, json!({"command": "cat out/secret.txt; echo x > out/new"})).await;
        let next = next.map_or_else(|error| error.to_string(), |result| text(Ok(result)));
        assert!(!next.contains("the secret") && next.contains("led to"), "{}: {next}", sandbox.kind());
        assert!(!outside.has("new"));
    }
}

/// Attack of a model: a service that runs what it is told listens on a socket in the file system.
#[tokio::test]
async fn a_service_with_a_socket_in_the_file_system_is_reached_only_where_the_rules_allow_it() {
    use std::os::unix::net::UnixListener;
    for (sockets, reached) in [(UnixSockets::Refused, false), (UnixSockets::Allowed, true)] {
        for network in [Network::NoTcp, Network::Open, Network::Off] {
            let (outside, folder) = (folder(), folder());
            let place = outside.path().canonicalize().unwrap().join("bus");
            let service = UnixListener::bind(&place).unwrap();
            service.set_nonblocking(true).unwrap();
            let rules = SandboxRules::for_workspace(&folder.workspace).with_network(network);
            let sandbox = Sandbox::landlock(rules.with_unix_sockets(sockets).with_read_root(&place));
            if let Err(error) = sandbox.check().await {
                return support::skip::sandbox(sandbox.kind(), &error);
            }
            let command = format!(
                "/usr/bin/python3 -I -c \"import socket; socket.socket(socket.AF_UNIX).connect('{}')\"",
                place.display()
            );
            shown(&bash(&folder, &sandbox), &command).await;
            assert_eq!(service.accept().is_ok(), reached, "{sockets:?} {network:?}");
        }
    }
}

#[tokio::test]
async fn many_commands_side_by_side_each_have_their_own_sandbox() {
    for make in each_sandbox(no_tcp).await {
        let folders: Vec<Folder> = (0..8).map(|_| folder()).collect();
        let work = folders.iter().enumerate().map(|(at, one)| {
            let tool = bash(one, &make(one));
            let next = folders[(at + 1) % folders.len()].path().join("taken").display().to_string();
            async move { shown(&tool, &format!("echo {at} > own; touch {next}; cat own")).await }
        });
        let mut all = Vec::new();
        for one in work.map(tokio::spawn).collect::<Vec<_>>() {
            all.push(one.await.unwrap());
        }
        for (at, shown) in all.iter().enumerate() {
            assert!(shown.contains(&format!("{at}\n")), "{shown}");
            assert!(folders[at].has("own") && !folders[at].has("taken"), "{shown}");
        }
    }
}

/// What git reads outside of the sandbox: hooks, settings, and the file that names another folder with settings.
#[tokio::test]
async fn a_repository_that_is_a_read_root_in_bwrap_is_not_changed() {
    let folder = folder();
    for file in [".git/HEAD", ".git/config", ".git/hooks/a.sample", "a.txt"] {
        folder.put(file, "one\n");
    }
    let rules = no_tcp(SandboxRules::for_workspace(&folder.workspace));
    let sandbox = Sandbox::bwrap(rules.with_read_root(folder.path().join(".git")));
    if let Err(error) = sandbox.check().await {
        support::skip::sandbox(sandbox.kind(), &error);
        return;
    }
    let tool = bash(&folder, &sandbox);
    for command in [
        "echo two > .git/config",
        "echo two > .git/hooks/post-checkout",
        "echo ../evil > .git/commondir",
        "mv .git old",
        "rm -rf .git/hooks",
        "rm .git/config",
        "ln -f a.txt .git/config",
        "chmod 777 .git/config",
        "mv a.txt .git/",
        "touch -d 2000-01-01 .git/config",
    ] {
        check_refused(SandboxKind::Bwrap, command, &shown(&tool, command).await);
    }
    assert_eq!(shown(&tool, "cat .git/config; echo two > a.txt").await, "Exit code: 0\none\n");
    assert!(folder.get(".git/config") == b"one\n" && folder.get("a.txt") == b"two\n");
    assert!(!folder.path().join(".git/commondir").exists() && !folder.path().join("old").exists());
}

/// A command removes a link in a folder that it can write to, and puts something else in its place.
#[tokio::test]
async fn no_read_root_and_no_trusted_file_is_reached_by_a_link_that_a_command_could_exchange() {
    let (folder, outside) = (folder(), folder());
    outside.put("real/config", "one\n");
    folder.put("inner/config", "one\n");
    let link = |target: &std::path::Path, name: &str| {
        std::os::unix::fs::symlink(target, folder.path().join(name)).unwrap();
    };
    link(&outside.path().join("real"), "out");
    link(std::path::Path::new("inner"), "in");
    // The first of two links is outside.
    std::os::unix::fs::symlink(folder.path().join("out"), outside.path().join("chain")).unwrap();
    let rules = SandboxRules::for_workspace(&folder.workspace);
    let root = folder.path();
    for (path, is_safe) in [
        (outside.path().join("real/config"), true),
        (root.join("inner/config"), true),
        (root.join("missing/config"), true),
        (root.join("out/config"), false),
        (root.join("in/config"), false),
        (root.join("inner/../in/config"), false),
        (outside.path().join("chain/config"), false),
    ] {
        let checked = rules.check_way_to(&path);
        assert_eq!(checked.is_ok(), is_safe, "{}: {checked:?}", path.display());
    }
    let sandbox = Sandbox::bwrap(rules.with_read_root(root.join("in")));
    let error = sandbox.check().await.unwrap_err().to_string();
    assert!(error.contains("which commands could exchange"), "{error}");
}

/// The filter of system calls leaves what builds and tests need.
#[tokio::test]
async fn ordinary_programs_work_in_every_sandbox_without_a_network() {
    for make in each_sandbox(|rules| rules.with_network(Network::Off)).await {
        let folder = folder();
        folder.put("a.txt", "one\n");
        let sandbox = make(&folder);
        let tool = bash(&folder, &sandbox);
        let python = "import asyncio, multiprocessing, subprocess, threading; \
            asyncio.run(asyncio.sleep(0)); multiprocessing.Process(target=print).start(); \
            t = threading.Thread(target=print); t.start(); t.join(); subprocess.run(['true'], check=True)";
        for (program, command) in [
            ("cp", "cp -p a.txt b.txt && chmod 600 b.txt && touch -d 2000-01-01 b.txt && mv b.txt c.txt".to_owned()),
            ("tar", "tar cf x.tar a.txt && mkdir -p t && tar xpf x.tar -C t && cat t/a.txt".to_owned()),
            (
                "git",
                "git init -q . && git add a.txt && git -c user.name=a -c user.email=b commit -qm x && git status"
                    .to_owned(),
            ),
            ("python3", format!("/usr/bin/python3 -I -c \"{python}\"")),
            ("gcc", "echo 'int main(){return 0;}' > x.c && gcc x.c -o x && ./x".to_owned()),
            ("ps", "ps aux > /dev/null; id; ulimit -n 64; nice true; timeout 5 true; sort a.txt | uniq".to_owned()),
        ] {
            if !["/usr/bin", "/usr/local/bin"].iter().any(|place| std::path::Path::new(place).join(program).exists()) {
                eprintln!("skipped: {program} is not installed");
                continue;
            }
            let shown = shown(&tool, &command).await;
            assert!(shown.starts_with("Exit code: 0"), "{}: {command}: {shown}", sandbox.kind());
        }
    }
}

/// An open descriptor is not subject to the rules. Bubblewrap gets the filter in one, which no child has.
#[tokio::test]
async fn a_child_has_no_descriptors_but_its_pipes() {
    use std::os::fd::AsRawFd as _;
    let secret = folder();
    secret.put("secret", "the secret");
    let open = std::fs::File::open(secret.path().join("secret")).unwrap();
    // A descriptor that children inherit, as a shell may have left one.
    rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty()).unwrap();
    for make in each_sandbox(no_tcp).await {
        let folder = folder();
        let sandbox = make(&folder);
        let tool = bash(&folder, &sandbox);
        let commands = (0..4).map(|_| async {
            // The last one is the folder that `ls` reads.
            shown(&tool, "ls /proc/self/fd | tr '\\n' ' '").await
        });
        for shown in futures_util::future::join_all(commands).await {
            assert_eq!(shown, "Exit code: 0\n0 1 2 3 ", "{}", sandbox.kind());
        }
        let command = format!("cat <&{}", open.as_raw_fd());
        check_refused(sandbox.kind(), &command, &shown(&tool, &command).await);
    }
}

#[tokio::test]
async fn the_thread_of_a_test_is_never_restricted() {
    let rules = SandboxRules::new().with_network(Network::NoTcp);
    let sandbox = Sandbox::landlock(rules);
    if let Err(error) = sandbox.check().await {
        support::skip::sandbox(sandbox.kind(), &error);
        return;
    }
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    assert!(status.contains("NoNewPrivs:\t0"), "{status}");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), "a").unwrap();
}
