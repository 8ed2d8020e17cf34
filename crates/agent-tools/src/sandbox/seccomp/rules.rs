//! The system calls that a confined child cannot make.

use libc::{
    AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, IPPROTO_ICMP, IPPROTO_ICMPV6, IPPROTO_MPTCP, IPPROTO_TCP,
    IPPROTO_UDP, NETLINK_ROUTE, O_CREAT, O_DIRECTORY, O_TMPFILE, SOCK_DGRAM, SOCK_SEQPACKET, SOCK_STREAM,
    c_int, c_long,
};
use seccompiler::{BackendError, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use super::{Beside, Network, Rules, UnixSockets};

/// Calls without a place in `libc` for every supported target. Numbers from 424 on are the same on every architecture.
const SYS_QUOTACTL_FD: c_long = 443;
const SYS_OPEN_TREE_ATTR: c_long = 467;
const SYS_FCHMODAT2: c_long = 452;
#[cfg(target_arch = "x86_64")]
const SYS_KEXEC_FILE_LOAD: c_long = 320;
#[cfg(not(target_arch = "x86_64"))]
const SYS_KEXEC_FILE_LOAD: c_long = 294;

/// Calls that are refused in every sandbox, whatever their arguments.
const ALWAYS: &[c_long] = &[
    // Performs other calls without passing the filter.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // The keyring belongs to the user, not to a process.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Other processes, and the parent: `PTRACE_TRACEME` makes the parent of a child its tracer.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Parts of the kernel with a large attack surface.
    libc::SYS_perf_event_open,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    SYS_OPEN_TREE_ATTR,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    // A file handle opens a file without its path.
    libc::SYS_open_by_handle_at,
    // The machine.
    libc::SYS_quotactl,
    SYS_QUOTACTL_FD,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    SYS_KEXEC_FILE_LOAD,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Calls of System V and POSIX message queues, shared memory and semaphores. They belong to the IPC namespace.
const IPC: &[c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Calls whose first argument is a process or a thread, where 0 is the caller.
const OF_A_PROCESS: &[c_long] = &[
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
];

/// Calls that set permission bits, with the number of the argument that has them. Opening a file sets them too
/// ([`OPENING`]).
const MODES: &[(c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (SYS_FCHMODAT2, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, 1),
    (libc::SYS_mkdirat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];

/// Calls that open a file, with the numbers of the arguments that have the flags and the permission bits.
const OPENING: &[(c_long, u8, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
    (libc::SYS_openat, 2, 3),
];

/// The bits that run a program with the rights of the file's owner or group. A child could leave such a file in the workspace
/// for a user with fewer rights.
const MORE_RIGHTS: [u64; 2] = [0o4000, 0o2000];

/// The flags with which opening a file uses the permission bits; without them, the register can have any value.
const CREATING: [c_int; 2] = [O_CREAT, O_TMPFILE & !O_DIRECTORY];

/// The flags of `clone` and `unshare` that create a namespace.
const NAMESPACES: [c_int; 8] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    CLONE_NEWTIME,
];

/// Creates a time namespace. In `clone` this bit is a part of the signal's number.
const CLONE_NEWTIME: c_int = 0x80;

/// Requests that type into a terminal or change how it is read.
const TERMINAL: [u64; 3] = [TIOCSTI, TIOCLINUX, TIOCSETD];
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541C;
const TIOCSETD: u64 = 0x5423;

/// The `which` of `setpriority` and `ioprio_set` for a process.
const PRIO_PROCESS: u64 = 0;
const IOPRIO_WHO_PROCESS: u64 = 1;

/// The part of a socket's type that is not a flag.
const SOCKET_TYPE: u64 = 0xf;

/// Sockets of a family that can be created. Other sockets are refused.
struct Sockets {
    family: c_int,
    /// The types that can be created. `None` means all.
    types: Option<&'static [c_int]>,
    /// The protocols that can be created. `None` means all.
    protocols: Option<&'static [c_int]>,
}

impl Sockets {
    const fn all(family: c_int) -> Self {
        Self { family, types: None, protocols: None }
    }

    /// Sockets of TCP, UDP and ICMP.
    const fn internet(family: c_int) -> Self {
        let protocols = &[0, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP, IPPROTO_ICMPV6, IPPROTO_MPTCP];
        Self { family, types: Some(&[SOCK_STREAM, SOCK_DGRAM]), protocols: Some(protocols) }
    }

    const fn udp(family: c_int) -> Self {
        Self { family, types: Some(&[SOCK_DGRAM]), protocols: Some(&[0, IPPROTO_UDP]) }
    }
}

/// Sockets in an own network namespace, or with an open network.
const INTERNET: &[Sockets] = &[
    Sockets::internet(AF_INET),
    Sockets::internet(AF_INET6),
    Sockets { family: AF_NETLINK, types: None, protocols: Some(&[NETLINK_ROUTE]) },
];

/// Sockets without TCP, or any other protocol that connects or is routed by TCP.
const NO_TCP: &[Sockets] = &[Sockets::udp(AF_INET), Sockets::udp(AF_INET6)];

/// Sockets in the file system and with abstract names, and pairs of them.
const UNIX: &[Sockets] = &[Sockets::all(AF_UNIX)];

/// Pairs that cannot be connected with another socket later, which datagram sockets can.
const FIXED_PAIRS: &[Sockets] =
    &[Sockets { family: AF_UNIX, types: Some(&[SOCK_STREAM, SOCK_SEQPACKET]), protocols: None }];

/// Returns the calls that do not exist for a child.
pub(super) fn absent() -> Rules {
    Rules::from([(libc::SYS_clone3, Vec::new()), (libc::SYS_openat2, Vec::new())])
}

/// Returns the calls that are refused.
pub(super) fn refused(beside: Beside, network: Network) -> Result<Rules, BackendError> {
    let mut rules: Rules = ALWAYS.iter().map(|call| (*call, Vec::new())).collect();
    let (sockets, unix) = match (beside, network) {
        (Beside::Bwrap, _) => (INTERNET, UnixSockets::Allowed),
        (Beside::Landlock(unix), Network::Open) => (INTERNET, unix),
        (Beside::Landlock(unix), Network::NoTcp) => (NO_TCP, unix),
        (Beside::Landlock(unix), Network::Off) => (&[][..], unix),
    };
    let pairs = match unix {
        UnixSockets::Allowed => UNIX,
        UnixSockets::Refused => FIXED_PAIRS,
    };
    let unix = if unix == UnixSockets::Allowed { UNIX } else { &[] };
    rules.insert(libc::SYS_socket, all_but(sockets.iter().chain(unix))?);
    rules.insert(libc::SYS_socketpair, all_but(pairs)?);
    for (call, mode) in MODES {
        rules.insert(*call, any_of(MORE_RIGHTS.map(|bit| Ok(vec![has_bits(*mode, bit)?])))?);
    }
    for (call, flags, mode) in OPENING {
        let pairs = CREATING.iter().flat_map(|flag| MORE_RIGHTS.map(|bit| (value(*flag), bit)));
        let rule = |(flag, bit)| Ok(vec![has_bits(*flags, flag)?, has_bits(*mode, bit)?]);
        rules.insert(*call, any_of(pairs.map(rule))?);
    }
    for call in [libc::SYS_clone, libc::SYS_unshare] {
        let bits = NAMESPACES.iter().filter(|bit| call == libc::SYS_unshare || **bit != CLONE_NEWTIME);
        let rule = |bit: &c_int| Ok(vec![has_bits(0, value(*bit))?]);
        rules.insert(call, any_of(bits.map(rule))?);
    }
    rules.insert(libc::SYS_ioctl, any_of(TERMINAL.iter().map(|request| Ok(vec![equal(1, *request)?])))?);
    match beside {
        // Processes and queues of others are in other namespaces.
        Beside::Bwrap => {}
        Beside::Landlock(_) => {
            rules.extend(IPC.iter().map(|call| (*call, Vec::new())));
            for call in OF_A_PROCESS {
                rules.insert(*call, any_of([Ok(vec![differs(0, 0)?])])?);
            }
            // The environment of such a process, and the mark in it, is hidden from the program that ends it.
            let hide = vec![equal(0, value(libc::PR_SET_DUMPABLE))?, differs(1, 1)?];
            rules.insert(libc::SYS_prctl, any_of([Ok(hide)])?);
            let process = [(libc::SYS_setpriority, PRIO_PROCESS), (libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS)];
            for (call, which) in process {
                rules.insert(call, any_of([Ok(vec![differs(0, which)?]), Ok(vec![differs(1, 0)?])])?);
            }
        }
    }
    Ok(rules)
}

/// Returns rules that match every socket which is not in `allowed`. No rules match everything.
fn all_but<'a>(allowed: impl IntoIterator<Item = &'a Sockets>) -> Result<Vec<SeccompRule>, BackendError> {
    let allowed: Vec<_> = allowed.into_iter().collect();
    if allowed.is_empty() {
        return Ok(Vec::new());
    }
    let mut rules = vec![allowed.iter().map(|sockets| differs(0, value(sockets.family))).collect()];
    for sockets in allowed {
        let family = || equal(0, value(sockets.family));
        if let Some(types) = sockets.types {
            let others = (0..=SOCKET_TYPE).filter(|one| !types.iter().any(|known| value(*known) == *one));
            rules.extend(others.map(|one| Ok(vec![family()?, is_type(1, one)?])));
        }
        if let Some(protocols) = sockets.protocols {
            let others = protocols.iter().map(|protocol| differs(2, value(*protocol)));
            rules.push(std::iter::once(family()).chain(others).collect());
        }
    }
    any_of(rules)
}

type Conditions = Result<Vec<SeccompCondition>, BackendError>;

fn any_of(rules: impl IntoIterator<Item = Conditions>) -> Result<Vec<SeccompRule>, BackendError> {
    rules.into_iter().map(|conditions| SeccompRule::new(conditions?)).collect()
}

fn value(number: c_int) -> u64 {
    u64::from(number.unsigned_abs())
}

// The kernel reads these arguments as 32-bit numbers and ignores the upper half of the register, as `Dword` does.

fn equal(argument: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

fn differs(argument: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
}

fn has_bits(argument: u8, bits: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(bits), bits)
}

fn is_type(argument: u8, socket: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(SOCKET_TYPE), socket)
}
