//! Runs the `git` program.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use tokio::io::AsyncReadExt;

use super::BranchWorkspaceError;
use crate::bash::CommandSlots;
use crate::environment;
use crate::program::Program;
use crate::sandbox::{Input, Launch};

/// The maximum duration of a git command that reads or writes the files of a tree.
const TREE_TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum duration of every other git command.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The commands that read or write the files of a tree.
const OF_TREE: [&str; 3] = ["add", "read-tree", "write-tree"];

/// The number of git commands that run at once. They do not use the slots of `bash`, so a repository on which git waits
/// does not keep commands from running.
static SLOTS: LazyLock<CommandSlots> = LazyLock::new(CommandSlots::of_git);

/// The maximum size of the output of git, and of its error output. The list of a repository's files is the longest.
const GIT_OUTPUT: u64 = 64 << 20;

/// Variables of every git command: no prompts, no network, and no program that git could start by its name.
const VARIABLES: [(&str, &str); 9] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_ASKPASS", ""),
    ("SSH_ASKPASS", ""),
    ("GIT_PAGER", ""),
    ("GIT_EDITOR", ":"),
    ("LC_ALL", "C"),
];

/// Settings of every git command. They take precedence over those of the repository.
const SETTINGS: [&str; 4] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "protocol.allow=never",
];

/// Runs git and returns its output without the last line end.
pub(super) async fn git<S: AsRef<OsStr>>(
    program: &Program,
    folder: &Path,
    parts: &[S],
    set: &[(&str, &OsStr)],
) -> Result<String, BranchWorkspaceError> {
    let mut variables: BTreeMap<OsString, OsString> = BTreeMap::new();
    let fixed = VARIABLES.iter().map(|(name, value)| (*name, OsStr::new(value)));
    for (name, value) in fixed.chain(set.iter().copied()) {
        variables.insert(name.into(), value.into());
    }
    // Git for Windows finds its libraries by `PATH`.
    #[cfg(unix)]
    for name in ["PATH", "GIT_EXEC_PATH"] {
        variables.insert(name.into(), "/dev/null".into());
    }
    let variables = environment::of_command(&[], &variables);
    let settings = SETTINGS.iter().flat_map(|setting| ["-c", setting]).map(OsStr::new);
    let launch = Launch {
        program: program.clone(),
        args: settings.chain(parts.iter().map(AsRef::as_ref)).map(OsStr::to_owned).collect(),
        folder: Some(folder.to_path_buf()),
        variables,
        input: Input::Empty,
    };
    let command = parts.first().map(|p| p.as_ref().display().to_string()).unwrap_or_default();
    let limit = if OF_TREE.contains(&command.as_str()) { TREE_TIMEOUT } else { TIMEOUT };
    let _slot = SLOTS.take().await;
    let mut child = launch.spawn().map_err(|source| BranchWorkspaceError::NoGit { source })?;
    let (stdout, stderr) = (child.stdout().take(), child.stderr().take());
    let said = async { tokio::join!(read(stdout), read(stderr), child.wait()) };
    let failed = |message: String| BranchWorkspaceError::Git { command: command.clone(), message };
    let Ok((out, error, status)) = tokio::time::timeout(limit, said).await else {
        return Err(BranchWorkspaceError::GitTimedOut { command, limit });
    };
    match status {
        Ok(status) if status.success() => Ok(out.trim_end_matches('\n').to_owned()),
        Ok(_) => Err(failed(error.trim().to_owned())),
        Err(source) => Err(failed(source.to_string())),
    }
}

/// Collects output up to the limit. The rest is read and dropped, so the writer never blocks.
async fn read(pipe: Option<impl tokio::io::AsyncRead + Unpin>) -> String {
    let Some(mut pipe) = pipe else { return String::new() };
    let mut kept = Vec::new();
    drop((&mut pipe).take(GIT_OUTPUT).read_to_end(&mut kept).await);
    drop(tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await);
    String::from_utf8_lossy(&kept).into_owned()
}
