//! Ends the children of this process when it is gone, also after SIGKILL.
//!
//! The first child starts a guard: a shell outside of all sandboxes and in a process group of its own, whose input is a pipe
//! that only this process writes to. The guard reads from it which children run. When the pipe ends, it kills their process
//! groups, ends their cgroups, and then looks for processes with their marks. One guard serves all children, so a child costs
//! three short lines. If the guard was killed, the next child starts another one.
//!
//! Parent-death signals are not used: they arrive when the *thread* ends that started the child, they reach only the
//! child itself, and setting one needs code between `fork` and `exec`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::environment;
use crate::program::{Program, ProgramError, SearchPath};

#[cfg(test)]
mod tests;

/// The folders in which the guard and its programs are looked up. Commands in a sandbox must not be able to write there,
/// because the guard runs outside of it.
const PATH: &str = "/usr/bin:/bin";

/// The script of the guard. A line is `+`, a number, a process group or 0, a mark or `-`, and the folder of a cgroup, or `-` and
/// a number, which removes the entry. `grep` finds the marked processes that have left their groups; a system without `/proc`
/// has none to show. Their groups end, too: this process may have ended before it could tell the group of a child. A child that
/// has not replaced itself yet has no mark, so an empty pass is repeated.
const GUARD: &str = r#"trap '' HUP INT TERM
nl='
'
all=$nl
while IFS= read -r line; do
    sign=${line%% *} entry=${line#* }
    number=${entry%% *}
    case $all in
        *"$nl$number "*)
            rest=${all#*"$nl$number "}
            all=${all%%"$nl$number "*}$nl${rest#*"$nl"} ;;
    esac
    [ "$sign" = - ] || all=$all$entry$nl
done
[ "$all" != "$nl" ] || exit 0
set -f
IFS=$nl
marks=
for entry in $all; do
    rest=${entry#* }
    group=${rest%% *} rest=${rest#* }
    mark=${rest%% *} folder=${rest#* }
    [ "$group" = 0 ] || kill -s KILL -- "-$group"
    [ "$folder" = - ] || echo 1 > "$folder/cgroup.kill"
    [ "$mark" = - ] || marks="$marks|$mark"
done
set +f
quiet=0 pass=0
while [ "$quiet" -lt 4 ] && [ "$pass" -lt 60 ]; do
    quiet=$((quiet + 1)) pass=$((pass + 1))
    for one in $(grep -lzsE -e "^LOOPTREE_CALL=(.*,)?(${marks#|})(,.*)?$" /proc/[0-9]*/environ); do
        one=${one#/proc/} one=${one%/environ}
        kill -s KILL -- "-$one" && quiet=0
        kill -s KILL "$one" && quiet=0
    done
    [ "$quiet" = 0 ] || sleep 0.05
done
set -f
for entry in $all; do
    folder=${entry#* * * }
    [ "$folder" = - ] || rmdir "$folder"
done
"#;

static CHILDREN: Mutex<Children> = Mutex::new(Children { next: 0, tied: BTreeMap::new(), guard: None });

/// The children that end with this process.
#[derive(Debug)]
struct Children {
    next: u64,
    tied: BTreeMap<u64, Tied>,
    guard: Option<Guard>,
}

/// What the guard ends for a child.
#[derive(Debug)]
struct Tied {
    /// The process group, as soon as there is one.
    group: Option<u32>,
    mark: String,
    cgroup: Option<PathBuf>,
}

impl Tied {
    fn line(&self, number: u64) -> Vec<u8> {
        use std::os::unix::ffi::OsStrExt as _;
        let mut line = format!("+ {number} {} {} ", self.group.unwrap_or_default(), self.mark).into_bytes();
        line.extend(self.cgroup.as_deref().map_or(OsStr::new("-"), Path::as_os_str).as_bytes());
        line.push(b'\n');
        line
    }
}

#[derive(Debug)]
struct Guard {
    child: Child,
    pipe: ChildStdin,
}

impl Guard {
    fn start(shell: &Program) -> io::Result<Self> {
        let mut command = shell.command()?;
        command.args(["-c", GUARD, "looptree-guard"]).current_dir("/").process_group(0);
        // The mark of an outer agent's command stays, so that the guard ends with that command.
        command.env_clear().envs(environment::of_command(&[], &BTreeMap::new())).env("PATH", PATH);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let pipe = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { child, pipe })
    }

    fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // It is replaced, so it must not end the children. An error means that it has ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Children {
    /// Tells the guard a line. A guard that has ended, or that reads no more, is replaced.
    fn tell(&mut self, line: &[u8]) -> io::Result<()> {
        if let Some(guard) = self.guard.as_mut()
            && guard.runs()
            && guard.pipe.write_all(line).is_ok()
        {
            return Ok(());
        }
        self.guard = None;
        let shell = match SearchPath::new(OsStr::new(PATH), [] as [&Path; 0]).find("sh") {
            Err(ProgramError::NotFound { .. }) => return Ok(()),
            shell => shell?,
        };
        let mut guard = Guard::start(&shell)?;
        for (number, tied) in &self.tied {
            guard.pipe.write_all(&tied.line(*number))?;
        }
        // A guard that was stopped must not stop this process.
        fcntl_setfl(&guard.pipe, fcntl_getfl(&guard.pipe)? | OFlags::NONBLOCK)?;
        self.guard = Some(guard);
        Ok(())
    }
}

fn children() -> MutexGuard<'static, Children> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ties a child to this process until it is dropped. Drop it when the child has ended.
#[derive(Debug)]
pub(crate) struct Lifeline {
    number: u64,
}

impl Lifeline {
    /// Ties a child that is about to start to this process, with all processes that have its mark, and those of its cgroup. A
    /// system without `/bin/sh` has no guard.
    pub(crate) fn new(mark: &str, cgroup: Option<&Path>) -> io::Result<Self> {
        // Another mark would be a pattern, or several words.
        let is_plain = !mark.is_empty()
            && mark.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        let tied = Tied {
            group: None,
            mark: if is_plain { mark } else { "-" }.to_owned(),
            cgroup: cgroup.map(Path::to_path_buf),
        };
        let mut children = children();
        let number = children.next;
        children.next += 1;
        let line = tied.line(number);
        children.tied.insert(number, tied);
        match children.tell(&line) {
            Ok(()) => Ok(Self { number }),
            Err(error) => {
                children.tied.remove(&number);
                Err(error)
            }
        }
    }

    /// Ties the process group of the child, too.
    pub(crate) fn tie_group(&self, leader: Option<u32>) {
        let mut children = children();
        let Some(tied) = children.tied.get_mut(&self.number) else { return };
        tied.group = leader;
        let line = tied.line(self.number);
        // Without a guard there was none before the child.
        drop(children.tell(&line));
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        let mut children = children();
        children.tied.remove(&self.number);
        if children.guard.is_some() {
            // Without a guard nothing is ended.
            drop(children.tell(format!("- {}\n", self.number).as_bytes()));
        }
    }
}
