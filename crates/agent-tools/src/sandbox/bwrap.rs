//! The command line of bubblewrap.

use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use super::plan::{Grant, Plan};
use super::{Network, SandboxError};
use crate::environment;

/// The path of the private folder inside of the sandbox.
pub(super) const TEMP: &str = "/tmp";

/// Returns the path of the program if it is installed.
pub(super) fn find() -> Result<PathBuf, SandboxError> {
    environment::program("bwrap").ok_or(SandboxError::NoBwrap)
}

/// The kind of a path inside of the sandbox.
enum Mount<'a> {
    Bind(&'a Path, Grant),
    Devices,
    Processes,
}

/// Returns the arguments that precede the program and its own arguments.
///
/// A child has its own user, process, host name and IPC namespaces, no capabilities and no terminal, and ends with the
/// thread that started it. Bubblewrap reads the filter of system calls from the descriptor `filter` and closes it.
pub(super) fn arguments(plan: &Plan, filter: RawFd) -> Vec<OsString> {
    let mut args: Vec<OsString> = [
        "--unshare-user",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
    ]
    .map(OsString::from)
    .into();
    args.extend(["--seccomp".into(), filter.to_string().into()]);
    match plan.network {
        Network::Open => {}
        Network::NoTcp | Network::Off => args.push("--unshare-net".into()),
    }
    // An outer path must exist before an inner one, which the order of paths ensures.
    let mut mounts: Vec<(&Path, Mount<'_>)> =
        plan.grants.iter().map(|(path, grant)| (path.as_path(), Mount::Bind(path, *grant))).collect();
    mounts.push((Path::new("/dev"), Mount::Devices));
    mounts.push((Path::new("/proc"), Mount::Processes));
    if let Some(private) = &plan.private {
        mounts.push((Path::new(TEMP), Mount::Bind(private.path(), Grant::Write)));
    }
    mounts.sort_by_key(|(path, _)| *path);
    for (path, mount) in mounts {
        match mount {
            Mount::Bind(source, Grant::Read) => push(&mut args, "--ro-bind", &[source, path]),
            Mount::Bind(source, Grant::Write) => push(&mut args, "--bind", &[source, path]),
            Mount::Devices => push(&mut args, "--dev", &[path]),
            Mount::Processes => push(&mut args, "--proc", &[path]),
        }
    }
    if !plan.grants.contains_key(Path::new("/")) {
        for (link, target) in &plan.links {
            push(&mut args, "--symlink", &[target, link]);
        }
    }
    // The folders between the roots are in memory and read-only.
    push(&mut args, "--remount-ro", &[Path::new("/dev")]);
    // The kernel lets user 0 change its settings in `/proc/sys` without any capability.
    push(&mut args, "--remount-ro", &[Path::new("/proc")]);
    if !plan.grants.contains_key(Path::new("/")) {
        push(&mut args, "--remount-ro", &[Path::new("/")]);
    }
    push(&mut args, "--chdir", &[&plan.folder]);
    args.push("--".into());
    args
}

fn push(args: &mut Vec<OsString>, option: &str, values: &[&Path]) {
    args.push(option.into());
    args.extend(values.iter().map(|value| OsStr::to_os_string(value.as_os_str())));
}
