//! A control group for each command.
//!
//! A process can leave its process group and its session, and clear its environment; it cannot leave its cgroup without
//! the rights to write there. Linux ends all processes of one at once (`cgroup.kill`, Linux 5.14). That needs cgroup v2
//! and the right to make a group below the one that this process is in: root has it, and users have it where systemd
//! delegates to them.

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The number of attempts to remove a group. Its processes need a moment to end.
const REMOVALS: usize = 40;

/// The pause between two attempts.
const REMOVAL_PAUSE: Duration = Duration::from_millis(25);

/// A control group. All methods block for some milliseconds.
#[derive(Debug, Clone)]
pub(super) struct Cgroup {
    folder: PathBuf,
}

impl Cgroup {
    /// Creates an empty group below the one of this process.
    pub(super) fn new(name: &str) -> io::Result<Self> {
        let cgroups = std::fs::read_to_string("/proc/self/cgroup")?;
        let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
        let above = own_folder(&cgroups, &mounts)
            .ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "no cgroup v2 is mounted here"))?;
        let folder = above.join(format!("looptree-{name}"));
        std::fs::create_dir(&folder)?;
        let group = Self { folder };
        if !group.folder.join("cgroup.kill").exists() {
            group.remove();
            return Err(io::Error::new(io::ErrorKind::Unsupported, "cgroup.kill needs Linux 5.14"));
        }
        Ok(group)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds a process. The processes that it starts from now on are in the group as well.
    pub(super) fn add(&self, process: u32) -> io::Result<()> {
        std::fs::write(self.folder.join("cgroup.procs"), process.to_string())
    }

    /// Kills all processes of the group and removes it.
    pub(super) fn kill(&self) {
        // An error means that the group no longer exists.
        drop(std::fs::write(self.folder.join("cgroup.kill"), "1"));
        for _ in 0..REMOVALS {
            if self.remove() {
                return;
            }
            std::thread::sleep(REMOVAL_PAUSE);
        }
    }

    fn remove(&self) -> bool {
        match std::fs::remove_dir(&self.folder) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }
}

/// Returns the folder of the group of this process.
fn own_folder(cgroups: &str, mounts: &str) -> Option<PathBuf> {
    let own = cgroups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        if after.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = before.split(' ').skip(3);
        let (root, place) = (fields.next()?, fields.next()?);
        let inside = Path::new(own).strip_prefix(root).ok()?;
        Some(Path::new(place).join(inside))
    })
}
