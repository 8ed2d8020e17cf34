//! Finds the processes of a call by a marker in their environment.
//!
//! `setsid` creates a new process group, which a signal to the group of the command does not reach. Every command
//! therefore gets a variable with a random id, which its child processes inherit. Only Linux shows the environment of
//! other processes; elsewhere a process that left the group keeps running. So does one that changed its environment, and
//! one whose environment the kernel hides from this program.

#[cfg(target_os = "linux")]
mod hunt;

use std::collections::BTreeMap;
use std::ffi::OsString;
#[cfg(any(target_os = "linux", feature = "mcp"))]
use std::time::Duration;

use crate::environment::MARKER;

/// The maximum time to look for processes that start others faster than they are found.
#[cfg(any(target_os = "linux", feature = "mcp"))]
pub(crate) const MAX_TIME: Duration = Duration::from_secs(2);

/// Adds the id of a call to the variable.
pub(crate) fn add(variables: &mut BTreeMap<OsString, OsString>, call: &str) {
    let names = variables.entry(MARKER.into()).or_default();
    if !names.is_empty() {
        names.push(",");
    }
    names.push(call);
}

/// Kills every process of this call. Blocks for some milliseconds, and for up to [`MAX_TIME`] while processes start others.
#[cfg(target_os = "linux")]
pub(crate) fn kill_all(call: &str) {
    hunt::Hunt::new(call).run();
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn kill_all(_: &str) {}
