//! Finds the processes of a call by a marker in their environment.
//!
//! `setsid` creates a new process group, which a signal to the group of the command does not reach. Every command
//! therefore gets a variable with a random id, which its child processes inherit. Only Linux shows the environment of
//! other processes; elsewhere a process that left the group keeps running.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::environment::MARKER;

/// Adds the id of a call to the variable.
pub(crate) fn add(variables: &mut BTreeMap<OsString, OsString>, call: &str) {
    let names = variables.entry(MARKER.into()).or_default();
    if !names.is_empty() {
        names.push(",");
    }
    names.push(call);
}

/// The number of passes over all processes. A process may start another one during a pass.
#[cfg(target_os = "linux")]
const PASSES: usize = 4;

/// The maximum number of bytes of an environment to read.
#[cfg(target_os = "linux")]
const MAX_ENVIRON_BYTES: u64 = 1024 * 1024;

/// Kills every process of this call. Blocks for some milliseconds.
#[cfg(target_os = "linux")]
pub(crate) fn kill_all(call: &str) {
    for _ in 0..PASSES {
        let Ok(processes) = std::fs::read_dir("/proc") else { return };
        let mut found = false;
        for name in processes.flatten().map(|process| process.file_name()) {
            if let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) {
                found |= kill_one(pid, call.as_bytes());
            }
        }
        if !found {
            return;
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn kill_all(_: &str) {}

/// Kills the process if it belongs to the call. Returns whether it was killed.
#[cfg(target_os = "linux")]
fn kill_one(pid: i32, call: &[u8]) -> bool {
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    if !belongs(pid, call) {
        return false;
    }
    let Some(Ok(handle)) = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        return false;
    };
    // Another process may have got the id before the handle was opened.
    belongs(pid, call) && pidfd_send_signal(handle, Signal::KILL).is_ok()
}

#[cfg(target_os = "linux")]
fn belongs(pid: i32, call: &[u8]) -> bool {
    use std::io::Read as _;

    let mut environ = Vec::new();
    let Ok(file) = std::fs::File::open(format!("/proc/{pid}/environ")) else { return false };
    // A process that ends during the read has no environment.
    if file.take(MAX_ENVIRON_BYTES).read_to_end(&mut environ).is_err() {
        return false;
    }
    let names = environ.split(|byte| *byte == 0).find_map(|variable| {
        variable.strip_prefix(MARKER.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
    });
    names.is_some_and(|names| names.split(|byte| *byte == b',').any(|name| name == call))
}
