//! The filter of system calls (seccomp) of a confined child.
//!
//! Landlock restricts files, and bubblewrap creates namespaces. Neither covers every socket family, the keyring, or the
//! settings of other processes. The filter refuses those calls. It cannot read memory, so it decides by the number of
//! the call and by its arguments in registers.
//!
//! A refused call fails with `EPERM`. Three kinds of calls differ. `clone3` and `openat2`, whose flags are in memory, fail with
//! `ENOSYS`, so that programs use `clone` and `openat`. A number above [`NEWEST_CALL`] fails with `ENOSYS` as on an older kernel; the calls
//! of the x32 architecture are among them. A call of another architecture, such as i386, ends the process.

#[cfg(all(
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
mod rules;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, memfd_create};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule, TargetArch, sock_filter};

use super::{Network, SandboxError, UnixSockets};

/// The highest number of a system call that a child can use: `file_setattr` of Linux 6.17. Later calls may have effects
/// that the filter does not know.
const NEWEST_CALL: u32 = 469;

/// The mechanism that the filter completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beside {
    /// Landlock: the child shares all namespaces with this process.
    Landlock(UnixSockets),
    /// Bubblewrap: the child has its own process, IPC and, unless the network is open, network namespace.
    Bwrap,
}

/// Restricts the calling thread permanently, and the processes that it starts.
pub(super) fn restrict(beside: Beside, network: Network) -> Result<(), SandboxError> {
    seccompiler::apply_filter(&program(beside, network)?).map_err(unavailable)
}

/// Returns a file in memory with the filter as `bwrap --seccomp` reads it.
pub(super) fn file(beside: Beside, network: Network) -> Result<OwnedFd, SandboxError> {
    let mut bytes = Vec::new();
    for instruction in program(beside, network)? {
        bytes.extend(instruction.code.to_ne_bytes());
        bytes.extend([instruction.jt, instruction.jf]);
        bytes.extend(instruction.k.to_ne_bytes());
    }
    let write = || -> io::Result<OwnedFd> {
        let mut file = File::from(memfd_create("looptree-filter", MemfdFlags::CLOEXEC)?);
        file.write_all(&bytes)?;
        file.rewind()?;
        Ok(file.into())
    };
    write().map_err(SandboxError::SetUp)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

#[cfg(not(all(
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
)))]
mod rules {
    use super::{Beside, Network, Rules};

    pub(super) fn absent() -> Rules {
        Rules::new()
    }

    pub(super) fn refused(_: Beside, _: Network) -> Result<Rules, std::io::Error> {
        Err(std::io::Error::other(
            "there is no filter for this architecture; x86_64, aarch64 and riscv64 have one",
        ))
    }
}

/// Builds the filter: the check of the number, the calls that fail with `ENOSYS`, and those that fail with `EPERM`.
fn program(beside: Beside, network: Network) -> Result<BpfProgram, SandboxError> {
    let absent = part(rules::absent(), libc::ENOSYS)?;
    let refused = part(rules::refused(beside, network).map_err(unavailable)?, libc::EPERM)?;
    let mut program = newest_call();
    program.extend(and_then(absent));
    program.extend(refused);
    Ok(program)
}

fn part(rules: Rules, errno: i32) -> Result<BpfProgram, SandboxError> {
    let target = TargetArch::try_from(std::env::consts::ARCH).map_err(unavailable)?;
    let action = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, target).map_err(unavailable)?;
    BpfProgram::try_from(filter).map_err(unavailable)
}

const LOAD_WORD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_IF_GREATER: u16 = 0x25;
const RETURN: u16 = 0x06;

/// Instructions that return `ENOSYS` for a number above [`NEWEST_CALL`] and continue otherwise.
fn newest_call() -> BpfProgram {
    // The number is the first word of the data of a call.
    let load = sock_filter { code: LOAD_WORD, jt: 0, jf: 0, k: 0 };
    let skip = sock_filter { code: JUMP_IF_GREATER, jt: 0, jf: 1, k: NEWEST_CALL };
    let errno = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    vec![load, skip, sock_filter { code: RETURN, jt: 0, jf: 0, k: errno }]
}

/// Replaces "allow" by a jump to the instruction that follows the program.
fn and_then(mut program: BpfProgram) -> BpfProgram {
    let mut behind = u32::try_from(program.len()).unwrap_or(u32::MAX);
    for instruction in &mut program {
        behind = behind.saturating_sub(1);
        if instruction.code == RETURN && instruction.k == libc::SECCOMP_RET_ALLOW {
            *instruction = sock_filter { code: JUMP, jt: 0, jf: 0, k: behind };
        }
    }
    program
}

fn unavailable(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> SandboxError {
    SandboxError::Seccomp { source: source.into() }
}

#[cfg(test)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
mod tests;
