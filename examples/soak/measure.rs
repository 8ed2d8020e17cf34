//! What a process holds, read from `/proc`.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// The size of a page on Linux where this runs.
const PAGE: u64 = 4_096;

/// How long what a round has killed may take to be gone.
const GONE: Duration = Duration::from_secs(5);

/// At the end of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Bytes of memory.
    pub(crate) resident: u64,
    pub(crate) descriptors: usize,
    /// Processes that work in the repository, whichever process is their parent.
    pub(crate) processes: usize,
    /// Files in the repository and in the scratch folder, where temporary files are too.
    pub(crate) files: usize,
    pub(crate) threads: usize,
}

/// Measures this process.
pub(crate) async fn sample(repository: &Path, scratch: &Path) -> Result<Sample> {
    let mut waited = Duration::ZERO;
    // A killed process is there until its parent has waited for it; one that stays longer is left behind.
    while processes_in(repository) > 0 && waited < GONE {
        tokio::time::sleep(Duration::from_millis(10)).await;
        waited += Duration::from_millis(10);
    }
    Ok(Sample {
        resident: resident()?,
        descriptors: entries("/proc/self/fd")?,
        processes: processes_in(repository),
        files: files_below(repository)? + files_below(scratch)?,
        threads: entries("/proc/self/task")?,
    })
}

fn resident() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").context("cannot read /proc/self/statm")?;
    let pages: u64 = text.split(' ').nth(1).context("statm has no resident pages")?.parse()?;
    Ok(pages * PAGE)
}

fn entries(folder: &str) -> Result<usize> {
    Ok(std::fs::read_dir(folder).with_context(|| format!("cannot read {folder}"))?.count())
}

/// Processes whose folder is this one or lies below it.
fn processes_in(folder: &Path) -> usize {
    let Ok(all) = std::fs::read_dir("/proc") else { return 0 };
    let is_there = |entry: &std::fs::DirEntry| {
        let is_process = entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok());
        is_process && std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
    };
    all.flatten().filter(is_there).count()
}

fn files_below(folder: &Path) -> Result<usize> {
    let mut count = 0;
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        count += if entry.file_type()?.is_dir() { files_below(&entry.path())? } else { 1 };
    }
    Ok(count)
}
