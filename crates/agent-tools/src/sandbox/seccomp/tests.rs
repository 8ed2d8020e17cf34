use super::*;

const EPERM: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
const ENOSYS: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;

/// `AUDIT_ARCH` of this computer, and of i386.
#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xC000_00B7;
#[cfg(target_arch = "riscv64")]
const ARCH: u32 = 0xC000_00F3;
const I386: u32 = 0x4000_0003;

/// Returns what the kernel does with a call: runs the instructions of a filter over the words of `struct seccomp_data`.
fn action(program: &[sock_filter], arch: u32, call: u32, arguments: &[u64]) -> u32 {
    let mut words = vec![call, arch, 0, 0];
    for argument in arguments.iter().copied().chain(std::iter::repeat(0)).take(6) {
        let bytes = argument.to_ne_bytes();
        words.extend(bytes.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())));
    }
    let (mut accumulator, mut at) = (0, 0);
    loop {
        let sock_filter { code, jt, jf, k } = &program[at];
        let compared = match code {
            0x15 => Some(accumulator == *k),
            0x25 => Some(accumulator > *k),
            0x35 => Some(accumulator >= *k),
            0x45 => Some(accumulator & k != 0),
            _ => None,
        };
        at += 1;
        match (code, compared) {
            (_, Some(true)) => at += usize::from(*jt),
            (_, Some(false)) => at += usize::from(*jf),
            (0x20, _) => accumulator = words[*k as usize / 4],
            (0x54, _) => accumulator &= k,
            (0x05, _) => at += *k as usize,
            (0x06, _) => return *k,
            other => panic!("an instruction that this test does not know: {other:?}"),
        }
    }
}

fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).unwrap()
}

fn unsigned(number: libc::c_int) -> u64 {
    u64::from(number.unsigned_abs())
}

const LANDLOCK: Beside = Beside::Landlock(UnixSockets::Refused);

const EACH: [(Beside, Network); 7] = [
    (LANDLOCK, Network::Open),
    (LANDLOCK, Network::NoTcp),
    (LANDLOCK, Network::Off),
    (Beside::Landlock(UnixSockets::Allowed), Network::Off),
    (Beside::Bwrap, Network::Open),
    (Beside::Bwrap, Network::NoTcp),
    (Beside::Bwrap, Network::Off),
];

#[test]
fn calls_that_the_filter_does_not_know_do_not_exist() {
    for (beside, network) in EACH {
        let program = program(beside, network).unwrap();
        for (call, expected) in [
            (number(libc::SYS_read), ALLOW),
            (NEWEST_CALL, ALLOW),
            (NEWEST_CALL + 1, ENOSYS),
            (1 << 20, ENOSYS),
            // `read` of the x32 architecture.
            (0x4000_0000, ENOSYS),
            (u32::MAX, ENOSYS),
            (number(libc::SYS_clone3), ENOSYS),
            (number(libc::SYS_openat2), ENOSYS),
            (number(libc::SYS_io_uring_setup), EPERM),
            (number(libc::SYS_keyctl), EPERM),
        ] {
            assert_eq!(action(&program, ARCH, call, &[]), expected, "{beside:?} {network:?} {call}");
        }
    }
}

#[test]
fn a_call_of_another_architecture_ends_the_process() {
    for (beside, network) in EACH {
        let program = program(beside, network).unwrap();
        for call in [0, number(libc::SYS_read), number(libc::SYS_socket)] {
            assert_eq!(
                action(&program, I386, call, &[]),
                libc::SECCOMP_RET_KILL_PROCESS,
                "{beside:?} {network:?} {call}"
            );
        }
    }
}

#[test]
fn arguments_are_compared_as_the_kernel_reads_them() {
    let (unix, inet, inet6) = (unsigned(libc::AF_UNIX), unsigned(libc::AF_INET), unsigned(libc::AF_INET6));
    let (stream, datagram) = (unsigned(libc::SOCK_STREAM), unsigned(libc::SOCK_DGRAM));
    let flags = unsigned(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
    // The kernel ignores the upper half of the register.
    let above = 0xdead_beef << 32;
    let program = program(Beside::Landlock(UnixSockets::Allowed), Network::NoTcp).unwrap();
    for (call, arguments, expected) in [
        (libc::SYS_socket, [unix, stream, 0], ALLOW),
        (libc::SYS_socket, [unix | above, stream | flags | above, 0], ALLOW),
        (libc::SYS_socket, [inet, datagram, 0], ALLOW),
        (libc::SYS_socket, [inet6, datagram | flags, unsigned(libc::IPPROTO_UDP)], ALLOW),
        (libc::SYS_socket, [inet, stream, 0], EPERM),
        (libc::SYS_socket, [inet | above, stream | flags | above, 0], EPERM),
        (libc::SYS_socket, [inet6, stream, unsigned(libc::IPPROTO_MPTCP)], EPERM),
        (libc::SYS_socket, [inet, datagram, unsigned(libc::IPPROTO_ICMP)], EPERM),
        (libc::SYS_socket, [inet, unsigned(libc::SOCK_RAW), 0], EPERM),
        (libc::SYS_socket, [unsigned(libc::AF_VSOCK), stream, 0], EPERM),
        (libc::SYS_socket, [unsigned(libc::AF_NETLINK), datagram, 0], EPERM),
        (libc::SYS_socketpair, [unix, stream, 0], ALLOW),
        (libc::SYS_socketpair, [inet, stream, 0], EPERM),
        (libc::SYS_clone, [unsigned(libc::SIGCHLD), 0, 0], ALLOW),
        (libc::SYS_clone, [unsigned(libc::CLONE_NEWUSER | libc::SIGCHLD), 0, 0], EPERM),
        (libc::SYS_unshare, [unsigned(libc::CLONE_NEWNET) | above, 0, 0], EPERM),
        (libc::SYS_unshare, [unsigned(libc::CLONE_FILES), 0, 0], ALLOW),
        (libc::SYS_ioctl, [0, 0x5412 | above, 0], EPERM),
        (libc::SYS_ioctl, [0, 0x5413, 0], ALLOW),
        (libc::SYS_prlimit64, [0, 0, 0], ALLOW),
        (libc::SYS_prlimit64, [1, 0, 0], EPERM),
        (libc::SYS_prctl, [unsigned(libc::PR_SET_DUMPABLE), 1, 0], ALLOW),
        (libc::SYS_prctl, [unsigned(libc::PR_SET_DUMPABLE), 0, 0], EPERM),
        (libc::SYS_prctl, [unsigned(libc::PR_SET_NAME), 0, 0], ALLOW),
    ] {
        assert_eq!(action(&program, ARCH, number(call), &arguments), expected, "{call} {arguments:x?}");
    }
}

#[test]
fn unix_sockets_are_refused_beside_landlock_except_pairs_that_stay_connected() {
    let unix = unsigned(libc::AF_UNIX);
    for (beside, network) in EACH {
        let expected = if beside == LANDLOCK { EPERM } else { ALLOW };
        let program = program(beside, network).unwrap();
        for (call, kind, expected) in [
            (libc::SYS_socket, libc::SOCK_STREAM, expected),
            (libc::SYS_socket, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, expected),
            (libc::SYS_socketpair, libc::SOCK_DGRAM, expected),
            (libc::SYS_socketpair, libc::SOCK_STREAM, ALLOW),
            (libc::SYS_socketpair, libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK, ALLOW),
        ] {
            let arguments = [unix, unsigned(kind), 0];
            assert_eq!(action(&program, ARCH, number(call), &arguments), expected, "{beside:?} {network:?}");
        }
    }
}

#[test]
fn bits_that_give_more_rights_are_refused_where_a_call_uses_them() {
    let (create, temporary) = (unsigned(libc::O_CREAT | libc::O_WRONLY), unsigned(libc::O_TMPFILE));
    let above = 0xdead_beef << 32;
    for (beside, network) in EACH {
        let program = program(beside, network).unwrap();
        for (call, arguments, expected) in [
            (libc::SYS_fchmod, [3, 0o755, 0, 0], ALLOW),
            (libc::SYS_fchmod, [3, 0o1777, 0, 0], ALLOW),
            (libc::SYS_fchmod, [3, 0o4755 | above, 0, 0], EPERM),
            (libc::SYS_fchmodat, [0, 0, 0o2755, 0], EPERM),
            (452, [0, 0, 0o6000, 0], EPERM),
            (libc::SYS_mkdirat, [0, 0, 0o2755, 0], EPERM),
            (libc::SYS_mknodat, [0, 0, 0o104_755, 0], EPERM),
            (libc::SYS_mknodat, [0, 0, 0o100_755, 0], ALLOW),
            (libc::SYS_openat, [0, 0, create, 0o644], ALLOW),
            (libc::SYS_openat, [0, 0, create, 0o4755], EPERM),
            (libc::SYS_openat, [0, 0, temporary, 0o2755], EPERM),
            // Without a new file the mode is not used, and its register is not set.
            (libc::SYS_openat, [0, 0, 0, 0o6777], ALLOW),
            (libc::SYS_openat, [0, 0, unsigned(libc::O_DIRECTORY), 0o6777], ALLOW),
            #[cfg(target_arch = "x86_64")]
            (libc::SYS_chmod, [0, 0o4755, 0, 0], EPERM),
            #[cfg(target_arch = "x86_64")]
            (libc::SYS_open, [0, create, 0o2755, 0], EPERM),
            #[cfg(target_arch = "x86_64")]
            (libc::SYS_creat, [0, 0o4755, 0, 0], EPERM),
        ] {
            let seen = action(&program, ARCH, number(call), &arguments);
            assert_eq!(seen, expected, "{beside:?} {network:?} {call} {arguments:x?}");
        }
    }
}

#[test]
fn the_file_for_bubblewrap_holds_the_same_instructions() {
    use std::io::Read as _;
    let program = program(Beside::Bwrap, Network::Off).unwrap();
    let mut bytes = Vec::new();
    File::from(file(Beside::Bwrap, Network::Off).unwrap()).read_to_end(&mut bytes).unwrap();
    let read: Vec<sock_filter> = bytes
        .chunks(8)
        .map(|one| sock_filter {
            code: u16::from_ne_bytes([one[0], one[1]]),
            jt: one[2],
            jf: one[3],
            k: u32::from_ne_bytes(one[4..].try_into().unwrap()),
        })
        .collect();
    assert_eq!(read, program);
}
