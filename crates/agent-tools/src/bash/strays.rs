//! Processes that left the process group of their command.
//!
//! `setsid` makes a group of its own, which a signal to the command's group does not reach. Every command gets a
//! variable with a random value, and processes hand their environment on: whoever has the value in it belongs to the
//! call. Only Linux shows the environment of other processes; elsewhere such a process lives on.

/// The variable. Its value is different for every call.
pub(super) const MARK: &str = "LOOPTREE_CALL";

/// How often the processes are gone through: one that is found may just have started another.
#[cfg(target_os = "linux")]
const PASSES: usize = 4;

/// How much of a process's environment is looked at, in bytes.
#[cfg(target_os = "linux")]
const MAX_ENVIRON_BYTES: u64 = 1024 * 1024;

/// Kills every process that has this value in its environment. Blocks for some milliseconds.
#[cfg(target_os = "linux")]
pub(super) fn end(value: &str) {
    let mark = format!("{MARK}={value}");
    for _ in 0..PASSES {
        let Ok(processes) = std::fs::read_dir("/proc") else { return };
        let mut found = false;
        for name in processes.flatten().map(|process| process.file_name()) {
            if let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) {
                found |= end_one(pid, mark.as_bytes());
            }
        }
        if !found {
            return;
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn end(_: &str) {}

/// Kills the process if it has the mark; whether it had.
#[cfg(target_os = "linux")]
fn end_one(pid: i32, mark: &[u8]) -> bool {
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    if !has_mark(pid, mark) {
        return false;
    }
    let Some(Ok(handle)) = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        return false;
    };
    // The number may have gone to another process before the handle was there.
    has_mark(pid, mark) && pidfd_send_signal(handle, Signal::KILL).is_ok()
}

#[cfg(target_os = "linux")]
fn has_mark(pid: i32, mark: &[u8]) -> bool {
    use std::io::Read as _;

    let mut environ = Vec::new();
    let Ok(file) = std::fs::File::open(format!("/proc/{pid}/environ")) else { return false };
    // A process that ends while it is read has no environment any more.
    file.take(MAX_ENVIRON_BYTES).read_to_end(&mut environ).is_ok()
        && environ.split(|byte| *byte == 0).any(|variable| variable == mark)
}
