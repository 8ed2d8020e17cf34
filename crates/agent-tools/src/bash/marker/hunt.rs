//! Stops the marked processes, then kills them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::MAX_TIME;
use crate::environment::MARKER;

/// The number of passes that must find nothing while other processes start or end.
const EMPTY_PASSES: usize = 4;

/// The number of times that the newest processes are checked after a pass.
const LOOKS: usize = 16;

/// The numbers below and above that of the newest process that are checked.
const BELOW: i32 = 6;
const ABOVE: i32 = 2;

/// The time between passes in which the kernel ends killed processes.
const PAUSE: Duration = Duration::from_millis(1);

/// The maximum number of bytes of an environment to read. Linux bounds arguments and variables to 6 MiB.
const MAX_ENVIRON_BYTES: u64 = 8 * 1024 * 1024;

/// The result of a look at a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Marked,
    Other,
    /// It ended before its environment was read.
    Gone,
}

/// What a pass over all processes found.
#[derive(Debug, Default)]
struct Pass {
    /// Marked processes.
    found: usize,
    /// Marked processes that no earlier pass found.
    new: usize,
    /// Whether processes started or ended during the pass, so that it may have missed some.
    unsure: bool,
}

/// Finds the processes with the mark of a call.
pub(super) struct Hunt<'a> {
    call: &'a [u8],
    stopped: BTreeSet<i32>,
    environ: Vec<u8>,
}

impl<'a> Hunt<'a> {
    pub(super) fn new(call: &'a str) -> Self {
        Self { call: call.as_bytes(), stopped: BTreeSet::new(), environ: Vec::new() }
    }

    /// Stops processes until a pass finds no other, then kills them. A process that is killed at once frees its number and
    /// its place for the next one, and a process that waits for it would replace it.
    #[allow(
        clippy::disallowed_methods,
        reason = "it bounds the work on processes of the machine, which no test replaces"
    )]
    pub(super) fn run(mut self) {
        let start = Instant::now();
        let mut empty = 0;
        while start.elapsed() < MAX_TIME {
            let pass = self.pass(Signal::STOP);
            let chased = if pass.found > 0 || pass.unsure { self.chase() } else { 0 };
            if pass.new > 0 || chased > 0 {
                empty = 0;
                continue;
            }
            if pass.found > 0 {
                self.pass(Signal::KILL);
                empty = 0;
                std::thread::sleep(PAUSE);
                continue;
            }
            empty += 1;
            if !pass.unsure || empty == EMPTY_PASSES {
                return;
            }
        }
        self.pass(Signal::KILL);
    }

    /// Sends the signal to every marked process.
    fn pass(&mut self, signal: Signal) -> Pass {
        let mut pass = Pass::default();
        let newest = newest();
        let Ok(processes) = std::fs::read_dir("/proc") else { return pass };
        for name in processes.flatten().map(|process| process.file_name()) {
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            match self.signal(pid, signal) {
                Look::Marked => {
                    pass.found += 1;
                    pass.new += usize::from(self.stopped.insert(pid));
                }
                Look::Gone => pass.unsure = true,
                Look::Other => {}
            }
        }
        pass.unsure |= newest != self::newest();
        pass
    }

    /// Stops the newest processes. A process that starts its successor and ends is gone before a pass arrives at it.
    /// Returns the number of marked processes that no pass found.
    fn chase(&mut self) -> usize {
        let mut found = 0;
        for _ in 0..LOOKS {
            let Some(newest) = newest() else { return found };
            for pid in (newest - BELOW..=newest + ABOVE).rev() {
                if self.signal(pid, Signal::STOP) == Look::Marked {
                    found += usize::from(self.stopped.insert(pid));
                }
            }
        }
        found
    }

    /// Sends the signal to the process if it is marked.
    fn signal(&mut self, pid: i32, signal: Signal) -> Look {
        // The handle comes first: another process may get the number later, and then the handle refers to none.
        let Some(Ok(handle)) = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
            return Look::Gone;
        };
        let look = self.look(pid);
        if look == Look::Marked {
            // An error means that it has ended.
            let _ = pidfd_send_signal(handle, signal);
        }
        look
    }

    fn look(&mut self, pid: i32) -> Look {
        match self.look_at(format!("/proc/{pid}/environ")) {
            Look::Gone => {}
            Look::Other if self.environ.is_empty() && has_ended(pid) => {}
            look => return look,
        }
        // A process whose first thread has ended has no environment, but its other threads have.
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Look::Gone };
        let mut threads = threads.flatten().map(|thread| thread.path().join("environ"));
        match threads.any(|path| self.look_at(&path) == Look::Marked) {
            true => Look::Marked,
            false => Look::Other,
        }
    }

    /// Reads an environment into the buffer. That of a thread that has ended, and of the kernel, is empty or missing.
    fn look_at(&mut self, path: impl AsRef<Path>) -> Look {
        self.environ.clear();
        let read =
            File::open(path).and_then(|file| file.take(MAX_ENVIRON_BYTES).read_to_end(&mut self.environ));
        match read {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Look::Other,
            Ok(0) | Err(_) => Look::Gone,
            Ok(_) if is_marked(&self.environ, self.call) => Look::Marked,
            Ok(_) => Look::Other,
        }
    }
}

/// Returns whether a variable contains the mark. A process may have several variables of the same name.
fn is_marked(environ: &[u8], call: &[u8]) -> bool {
    let names = environ.split(|byte| *byte == 0).filter_map(|variable| {
        variable.strip_prefix(MARKER.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
    });
    names.flat_map(|names| names.split(|byte| *byte == b',')).any(|name| name == call)
}

/// Returns whether the first thread has ended. The kernel then hides its environment from all users but root.
fn has_ended(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('Z'))
}

/// Returns the number of the newest process or thread.
fn newest() -> Option<i32> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests;
