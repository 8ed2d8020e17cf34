//! The command line of bubblewrap.

use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::path::Path;

use super::Network;
use super::plan::{Grant, Plan};

/// The path of the private folder inside of the sandbox.
pub(super) const TEMP: &str = "/tmp";

/// The kind of a path inside of the sandbox.
enum Mount<'a> {
    Bind(&'a Path, Grant),
    /// An empty file.
    NoFile,
    /// An empty folder.
    NoFolder,
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
    // The kernel refuses to rename, remove or exchange a mount point, but not a folder above it.
    mounts.extend(plan.folders_above_read_roots().map(|path| (path, Mount::Bind(path, Grant::Write))));
    mounts.extend(
        plan.hidden
            .iter()
            .map(|path| (path.as_path(), if path.is_dir() { Mount::NoFolder } else { Mount::NoFile })),
    );
    mounts.push((Path::new("/dev"), Mount::Devices));
    mounts.push((Path::new("/proc"), Mount::Processes));
    if let Some(private) = &plan.private {
        mounts.push((Path::new(TEMP), Mount::Bind(private.path(), Grant::Write)));
    }
    mounts.sort_by_key(|(path, _)| *path);
    let mut read_only = Vec::new();
    for (path, mount) in mounts {
        match mount {
            Mount::Bind(source, Grant::Read) => push(&mut args, "--ro-bind", &[source, path]),
            Mount::Bind(source, Grant::Write) => push(&mut args, "--bind", &[source, path]),
            // A bound device cannot be opened.
            Mount::NoFile => push(&mut args, "--ro-bind", &[Path::new("/dev/null"), path]),
            Mount::NoFolder => {
                push(&mut args, "--tmpfs", &[path]);
                read_only.push(path);
            }
            Mount::Devices => push(&mut args, "--dev", &[path]),
            Mount::Processes => push(&mut args, "--proc", &[path]),
        }
    }
    if !plan.grants.contains_key(Path::new("/")) {
        for (link, target) in &plan.links {
            push(&mut args, "--symlink", &[target, link]);
        }
    }
    for path in read_only {
        push(&mut args, "--remount-ro", &[path]);
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
