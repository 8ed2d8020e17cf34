//! Processes that left the process group of their command.
//!
//! `setsid` makes a group of its own, which a signal to the command's group does not reach. Every command gets a
//! variable with a random name in it, and processes hand their environment on: whoever has the name belongs to the
//! call. Only Linux shows the environment of other processes; elsewhere such a process lives on.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// The variable. It holds a name for every call that the process belongs to, with commas between: a command may run
/// an agent, which runs commands.
pub(crate) const MARK: &str = "LOOPTREE_CALL";

/// Adds the name of a call to the variable.
pub(crate) fn mark(variables: &mut BTreeMap<OsString, OsString>, call: &str) {
    let names = variables.entry(MARK.into()).or_default();
    if !names.is_empty() {
        names.push(",");
    }
    names.push(call);
}

/// How often the processes are gone through: one that is found may just have started another.
#[cfg(target_os = "linux")]
const PASSES: usize = 4;

/// How much of a process's environment is looked at, in bytes.
#[cfg(target_os = "linux")]
const MAX_ENVIRON_BYTES: u64 = 1024 * 1024;

/// Kills every process that belongs to this call. Blocks for some milliseconds.
#[cfg(target_os = "linux")]
pub(crate) fn end(call: &str) {
    for _ in 0..PASSES {
        let Ok(processes) = std::fs::read_dir("/proc") else { return };
        let mut found = false;
        for name in processes.flatten().map(|process| process.file_name()) {
            if let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) {
                found |= end_one(pid, call.as_bytes());
            }
        }
        if !found {
            return;
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn end(_: &str) {}

/// Kills the process if it belongs to the call; whether it did.
#[cfg(target_os = "linux")]
fn end_one(pid: i32, call: &[u8]) -> bool {
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    if !belongs(pid, call) {
        return false;
    }
    let Some(Ok(handle)) = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        return false;
    };
    // The number may have gone to another process before the handle was there.
    belongs(pid, call) && pidfd_send_signal(handle, Signal::KILL).is_ok()
}

#[cfg(target_os = "linux")]
fn belongs(pid: i32, call: &[u8]) -> bool {
    use std::io::Read as _;

    let mut environ = Vec::new();
    let Ok(file) = std::fs::File::open(format!("/proc/{pid}/environ")) else { return false };
    // A process that ends while it is read has no environment any more.
    if file.take(MAX_ENVIRON_BYTES).read_to_end(&mut environ).is_err() {
        return false;
    }
    let names = environ
        .split(|byte| *byte == 0)
        .find_map(|variable| variable.strip_prefix(MARK.as_bytes()).and_then(|rest| rest.strip_prefix(b"=")));
    names.is_some_and(|names| names.split(|byte| *byte == b',').any(|name| name == call))
}
