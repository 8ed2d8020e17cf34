//! The attempts of the table in docs/tools/bash.md, in its order, with the outcomes that the page states.

use agent_tools::sandbox::Network;

use Outcome::{Passes, Refused};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passes,
    Refused,
}

impl Outcome {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Passes => "passes",
            Refused => "refused",
        }
    }
}

/// When the outcome with Landlock is the stated one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    Any,
    /// From this release on.
    Since(u32, u32),
}

/// A row of the table.
pub(crate) struct Attempt {
    pub(crate) name: &'static str,
    pub(crate) network: Network,
    /// The body of a Python function. It raises `OSError` if the attempt is refused.
    pub(crate) script: String,
    /// Without a sandbox, with Landlock, with bubblewrap.
    pub(crate) outcomes: [Outcome; 3],
    pub(crate) kernel: Kernel,
}

/// The objects of the test, outside of the sandbox, that attempts aim at.
pub(crate) struct Targets {
    /// A folder with the file `secret`.
    pub(crate) outside: String,
    /// A running process.
    pub(crate) process: u32,
    /// The ports of servers that answer, on 127.0.0.1.
    pub(crate) tcp: u16,
    pub(crate) udp: u16,
    /// A socket in the file system, and the name of an abstract one.
    pub(crate) path_socket: String,
    pub(crate) abstract_socket: String,
    /// The key of a System V memory segment, and the name of a message queue.
    pub(crate) memory_key: u32,
    pub(crate) queue: String,
}

const OPEN_EVERYWHERE: [Outcome; 3] = [Passes, Passes, Passes];
const CLOSED: [Outcome; 3] = [Passes, Refused, Refused];
const ONLY_BWRAP: [Outcome; 3] = [Passes, Passes, Refused];
const OWN_IN_BWRAP: [Outcome; 3] = [Passes, Refused, Passes];

fn row(name: &'static str, outcomes: [Outcome; 3], script: impl Into<String>) -> Attempt {
    Attempt { name, network: Network::NoTcp, script: script.into(), outcomes, kernel: Kernel::Any }
}

impl Attempt {
    fn with(self, network: Network) -> Self {
        Self { network, ..self }
    }

    fn on(self, kernel: Kernel) -> Self {
        Self { kernel, ..self }
    }
}

pub(crate) fn all(to: &Targets) -> Vec<Attempt> {
    let mut all = files(to);
    all.extend(network(to));
    all.extend(processes(to));
    all.extend(kernel());
    all
}

/// Sets a bit by the less usual calls. One that works is enough.
const UNUSUAL: &str = r"last = None
    def unnamed(): os.close(os.open('.', os.O_TMPFILE | os.O_WRONLY, 0o2755))
    def other_open():
        how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o4755, 0)
        os.close(call(437, -100, b'other', how, 24))
    def other_mode():
        open('mode', 'w').close()
        call(452, -100, b'mode', 0o4755, 0)
    for one in (unnamed, other_open, other_mode):
        try: one(); return
        except OSError as error: last = error
    raise last";

fn files(to: &Targets) -> Vec<Attempt> {
    let secret = format!("{}/secret", to.outside);
    let outside = &to.outside;
    vec![
        row("read a file outside of the roots", CLOSED, format!("open('{secret}').read()")),
        row("list a folder outside", CLOSED, format!("os.listdir('{outside}')")),
        row("see that a file exists outside, its size and owner", ONLY_BWRAP, format!("os.stat('{secret}')")),
        row(
            "watch a folder outside (`inotify`)",
            ONLY_BWRAP,
            format!(
                "watch = libc.inotify_init()\n    if libc.inotify_add_watch(watch, b'{outside}', 0x100) == -1: raise OSError(13, 'no')"
            ),
        ),
        row("create a file outside", CLOSED, format!("open('{outside}/new', 'w')")),
        row("change a file outside", CLOSED, format!("open('{secret}', 'a')")),
        row("truncate a file outside", CLOSED, format!("os.truncate('{secret}', 1)")),
        row(
            "delete or rename a file outside",
            CLOSED,
            format!("os.rename('{secret}', '{secret}2'); os.rename('{secret}2', '{secret}')"),
        ),
        row(
            "link a file from outside into the workspace",
            CLOSED,
            format!("os.link('{secret}', 'hard' + str(os.getpid()))"),
        ),
        row(
            "change the mode of a file outside (`chmod`)",
            ONLY_BWRAP,
            format!("os.chmod('{secret}', 0o600)"),
        ),
        row(
            "change the owner of a file outside (`chown`)",
            ONLY_BWRAP,
            format!("os.chown('{secret}', os.getuid(), -1)"),
        ),
        row(
            "change the times of a file outside (`utimes`)",
            ONLY_BWRAP,
            format!("os.utime('{secret}', (1, 1))"),
        ),
        row(
            "change extended attributes of a file outside (`setxattr`)",
            ONLY_BWRAP,
            format!("os.setxattr('{secret}', 'user.a', b'b')"),
        ),
        row(
            "change the mode of a file in a read root",
            ONLY_BWRAP,
            "os.chmod(os.environ['READ_ROOT'] + '/library', 0o600)",
        ),
        row(
            "set the set-uid or set-gid bit of its own file (`chmod`)",
            CLOSED,
            "open('own', 'w').close(); os.chmod('own', 0o4755); os.chmod('own', 0o2755)",
        ),
        row(
            "create a file with such a bit (`open`, `mknod`)",
            CLOSED,
            "os.umask(0); os.close(os.open('suid', os.O_CREAT | os.O_WRONLY, 0o4755)); os.mknod('sgid', 0o102755)",
        ),
        row("the same with `openat2`, `fchmodat2` and an unnamed file", CLOSED, UNUSUAL),
        row(
            "give a file capabilities (`setxattr`)",
            CLOSED,
            "open('cap', 'w').close(); os.setxattr('cap', 'security.capability', bytes.fromhex('0100000200200000000000000000000000000000'))",
        ),
        row(
            "change the settings of the project (`.looptree`) as the command protects them",
            ONLY_BWRAP,
            "os.makedirs('.looptree', exist_ok=True); open('.looptree/config.toml', 'w').close()",
        ),
        row(
            "create a device (`mknod`)",
            CLOSED,
            "os.mknod('disk', 0o60600, os.makedev(7, 0)); os.unlink('disk')",
        ),
        row(
            "as root, read password hashes and private keys of the system (`/etc/shadow`)",
            CLOSED,
            "open('/etc/shadow').read()",
        ),
    ]
}

fn network(to: &Targets) -> Vec<Attempt> {
    let (tcp, udp) = (to.tcp, to.udp);
    let connect = |family: &str, kind: &str, protocol: u32, to: &str| {
        format!("s = socket.socket(socket.{family}, socket.{kind}, {protocol}); s.connect({to}); echoes(s)")
    };
    let at = |port: u16| format!("('127.0.0.1', {port})");
    let of_path = format!("'{}'", to.path_socket);
    let of_name = format!("'\\0{}'", to.abstract_socket);
    let fast_open = format!(
        "s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)\n    s.sendto(b'ping', 0x20000000, ('127.0.0.1', {tcp}))\n    s.settimeout(2)\n    if s.recv(16) != b'pong': end('refused')"
    );
    let listen = "s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)\n    s.listen(1)\n    open('port.new', 'w').write(str(s.getsockname()[1])); os.rename('port.new', 'port')\n    s.settimeout(2)\n    s.accept()";
    let create = |kinds: &str| format!("sockets({}, {kinds})", libc::SYS_socket);
    let pair = "a, b = socket.socketpair(); a.send(b'x'); b.recv(1)";
    let pair_out = format!(
        "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendto(b'x', '{}.dgram')",
        to.path_socket
    );
    let tcp_of = |network| {
        let outcomes = if network == Network::Open { OPEN_EVERYWHERE } else { CLOSED };
        connect_row(network, outcomes, connect("AF_INET", "SOCK_STREAM", 0, &at(tcp)))
    };
    vec![
        tcp_of(Network::NoTcp),
        row("`NoTcp`: accept TCP connections", CLOSED, listen),
        row("`NoTcp`: multipath TCP", CLOSED, connect("AF_INET", "SOCK_STREAM", 262, &at(tcp))),
        row("`NoTcp`: TCP fast open (`sendto`)", CLOSED, fast_open),
        row("`NoTcp`: SCTP", CLOSED, create("(2, 1, 132), (10, 1, 132), (2, 5, 132)")),
        row("`NoTcp`: ICMP", CLOSED, create("(2, 2, 1), (10, 2, 58)")),
        row("`NoTcp`: UDP, and with it DNS", ONLY_BWRAP, connect("AF_INET", "SOCK_DGRAM", 0, &at(udp))),
        row(
            "`NoTcp`: a socket in the file system, outside of the roots",
            CLOSED,
            connect("AF_UNIX", "SOCK_STREAM", 0, &of_path),
        ),
        row("`NoTcp`: an abstract socket", CLOSED, connect("AF_UNIX", "SOCK_STREAM", 0, &of_name)),
        row("`NoTcp`: a datagram of a pair of sockets to a socket outside", CLOSED, pair_out.clone()),
        row(
            "`NoTcp`: list network interfaces (netlink)",
            OWN_IN_BWRAP,
            "socket.if_nameindex(); s = socket.socket(16, 3, 0); s.bind((0, 0))",
        ),
        tcp_of(Network::Off),
        row("`Off`: UDP, and with it DNS", CLOSED, connect("AF_INET", "SOCK_DGRAM", 0, &at(udp)))
            .with(Network::Off),
        row(
            "`Off`: a socket in the file system, outside of the roots",
            CLOSED,
            connect("AF_UNIX", "SOCK_STREAM", 0, &of_path),
        )
        .with(Network::Off),
        row("`Off`: an abstract socket", CLOSED, connect("AF_UNIX", "SOCK_STREAM", 0, &of_name))
            .with(Network::Off),
        row(
            "`Off`: a socket in the workspace",
            OWN_IN_BWRAP,
            "s = socket.socket(socket.AF_UNIX); s.bind('own' + str(os.getpid()))",
        )
        .with(Network::Off),
        row("`Off`: a pair of sockets of one program (`socketpair`)", OPEN_EVERYWHERE, pair)
            .with(Network::Off),
        row("`Off`: a datagram of such a pair to a socket outside", CLOSED, pair_out).with(Network::Off),
        tcp_of(Network::Open),
        row(
            "`Open`: a socket in the file system, outside of the roots",
            CLOSED,
            connect("AF_UNIX", "SOCK_STREAM", 0, &of_path),
        )
        .with(Network::Open),
        row("`Open`: UDP, and with it DNS", OPEN_EVERYWHERE, connect("AF_INET", "SOCK_DGRAM", 0, &at(udp)))
            .with(Network::Open),
        row("any: virtual machine sockets (`AF_VSOCK`)", CLOSED, create("(40, 1, 0), (40, 2, 0)"))
            .with(Network::Open),
        row("any: raw and packet sockets", CLOSED, create("(2, 3, 255), (10, 3, 255), (17, 3, 0)"))
            .with(Network::Open),
        row("any: the kernel's ciphers (`AF_ALG`)", CLOSED, create("(38, 5, 0)")).with(Network::Open),
        row("any: netlink beside routes", CLOSED, create("(16, 3, 15), (16, 2, 9)")).with(Network::Open),
        row(
            "any: SMC, TIPC, RDS, Bluetooth, CAN",
            CLOSED,
            create("(43, 1, 0), (30, 2, 0), (21, 5, 0), (31, 3, 1), (29, 3, 1)"),
        )
        .with(Network::Open),
    ]
}

fn connect_row(network: Network, outcomes: [Outcome; 3], script: String) -> Attempt {
    let name = match network {
        Network::NoTcp => "`NoTcp`: connect with TCP",
        Network::Open => "`Open`: connect with TCP",
        _ => "`Off`: connect with TCP",
    };
    row(name, outcomes, script).with(network)
}

fn processes(to: &Targets) -> Vec<Attempt> {
    let process = to.process;
    let call = |number: libc::c_long, arguments: String| format!("call({number}, {arguments})");
    vec![
        row(
            "read the environment of another process",
            CLOSED,
            format!("open('/proc/{process}/environ').read()"),
        ),
        row(
            "read the arguments of another process (`/proc/PID/cmdline`)",
            ONLY_BWRAP,
            format!(
                "if b'sleep' not in open('/proc/{process}/cmdline', 'rb').read(): raise OSError(2, 'no')"
            ),
        ),
        row(
            "read the memory of another process",
            CLOSED,
            format!(
                "reaches_the_kernel({}, {process}, (ctypes.c_ulong * 2)(8, 8), 1, (ctypes.c_ulong * 2)(8, 8), 1, 0)",
                libc::SYS_process_vm_readv
            ),
        ),
        row(
            "trace another process (`ptrace`)",
            CLOSED,
            call(libc::SYS_ptrace, format!("0x4206, {process}, 0, 0")),
        ),
        row(
            "make the parent the tracer (`PTRACE_TRACEME`)",
            CLOSED,
            format!(
                "if os.fork() == 0:\n        try: {}\n        except OSError: os._exit(1)\n        os._exit(0)\n    if os.wait()[1] != 0: raise OSError(1, 'refused')",
                call(libc::SYS_ptrace, "0, 0, 0, 0".to_owned())
            ),
        ),
        row(
            "take a descriptor of another process (`pidfd_getfd`)",
            CLOSED,
            format!("call({}, os.pidfd_open({process}), 0, 0)", libc::SYS_pidfd_getfd),
        ),
        row("signal another process", CLOSED, format!("os.kill({process}, 0)")).on(Kernel::Since(6, 12)),
        row(
            "change the limits of another process (`prlimit`)",
            CLOSED,
            format!("import resource; resource.prlimit({process}, resource.RLIMIT_NOFILE)"),
        ),
        row(
            "change the priority of another process",
            CLOSED,
            format!("os.setpriority(os.PRIO_PROCESS, {process}, 1)"),
        ),
        row(
            "change the processors of another process",
            CLOSED,
            format!("os.sched_setaffinity({process}, os.sched_getaffinity(0))"),
        ),
        row(
            "change its own limits (`ulimit`)",
            OPEN_EVERYWHERE,
            "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))",
        ),
        row(
            "lower its own priority (`nice`)",
            OPEN_EVERYWHERE,
            "os.nice(1); os.setpriority(os.PRIO_PROCESS, 0, 2)",
        ),
        row(
            "hide its environment (`PR_SET_DUMPABLE`)",
            OWN_IN_BWRAP,
            format!("call({}, {}, 0)", libc::SYS_prctl, libc::PR_SET_DUMPABLE),
        ),
        row(
            "start threads and processes",
            OPEN_EVERYWHERE,
            "import threading, subprocess; t = threading.Thread(target=lambda: None); t.start(); t.join(); subprocess.run(['true'], check=True)",
        ),
        row(
            "use System V memory of other programs",
            CLOSED,
            call(libc::SYS_shmget, format!("{}, 0, 0", to.memory_key)),
        ),
        row(
            "use a message queue of other programs",
            CLOSED,
            call(libc::SYS_mq_open, format!("b'{}', 0, 0, 0", to.queue)),
        ),
        row(
            "gain rights by a program with more rights (`sudo`)",
            CLOSED,
            "if 'NoNewPrivs:\\t1' in open('/proc/self/status').read(): raise OSError(1, 'no')",
        ),
    ]
}

fn kernel() -> Vec<Attempt> {
    let reaches =
        |number: libc::c_long, arguments: &str| format!("reaches_the_kernel({number}, {arguments})");
    let mut rows = vec![
        row("change a setting of the kernel (files of `/proc` that belong to no process)", CLOSED, SETTINGS),
        row("`io_uring`", CLOSED, reaches(libc::SYS_io_uring_setup, "1, 0")),
        row(
            "the keyring (`keyctl`, `add_key`)",
            CLOSED,
            reaches(libc::SYS_keyctl, "0, 0xfffffffc, 0")
                + "; "
                + &reaches(libc::SYS_add_key, "b'user', b'looptree', b'x', 1, 0xfffffffc"),
        ),
        row(
            "create a user namespace (`unshare`)",
            CLOSED,
            format!("call({}, 0x10000000)", libc::SYS_unshare),
        ),
        row(
            "create a user namespace (`clone3`)",
            CLOSED,
            format!("reaches_the_kernel({}, 8, 1)", libc::SYS_clone3),
        ),
        row("mount a file system", CLOSED, reaches(libc::SYS_fsopen, "b'no such type', 0")),
        row("load eBPF", CLOSED, reaches(libc::SYS_bpf, "0, 0, 0")),
        row("performance events", CLOSED, reaches(libc::SYS_perf_event_open, "0, 0, 0, 0, 0")),
        row("handle page faults (`userfaultfd`)", CLOSED, reaches(libc::SYS_userfaultfd, "0xffff")),
        row("type into a terminal (`TIOCSTI`)", CLOSED, reaches(libc::SYS_ioctl, "1, 0x5412, 0")),
        row("the same with bits above the 32nd set", CLOSED, reaches(libc::SYS_ioctl, "1, 0xf00005412, 0")),
        row("a system call that is newer than Linux 6.17", CLOSED, "reaches_the_kernel(100000)"),
    ];
    if cfg!(target_arch = "x86_64") {
        rows.push(row("a system call of i386", CLOSED, I386));
        rows.push(row("a system call of x32", CLOSED, "call(39 | 0x40000000)"));
    }
    rows
}

/// Opens every file of `/proc` that belongs to no process for writing, and writes nothing.
const SETTINGS: &str = r"import stat
    writable = []
    for name in os.listdir('/proc'):
        if name.isdigit() or name in ('self', 'thread-self', 'net', 'mounts'): continue
        top = os.path.join('/proc', name)
        paths = [os.path.join(folder, one) for folder, _, files in os.walk(top) for one in files] or [top]
        for path in paths:
            try:
                if stat.S_ISREG(os.lstat(path).st_mode):
                    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                    writable.append(path)
            except OSError: pass
    if not writable: raise OSError(30, 'none of them')
    print(len(writable), writable[:5])";

/// `getpid` by `int 0x80`, in a process of its own.
const I386: &str = r"import mmap, signal
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex('53b814000000cd805bc3'))
    code = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    child = os.fork()
    if child == 0:
        os._exit(0 if code() == os.getpid() else 1)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSEGV: end('absent', 'no i386 here')
    if status != 0: raise OSError(1, 'status ' + str(status))";
