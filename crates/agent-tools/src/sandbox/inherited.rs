//! Descriptors that a confined child would inherit by accident.
//!
//! A program may itself have been started with open files or sockets, for example by a shell. Its children inherit those
//! that are not marked close-on-exec, and an open descriptor is not subject to the rules of a sandbox. Closing them in
//! the child needs code between `fork` and `exec`, which is unsafe, so a shell in the sandbox does it. This happens only
//! if there are such descriptors.

use std::ffi::OsString;
use std::path::Path;

use super::launch::Launch;
use super::{SandboxError, SandboxRules};

/// Closes all descriptors but the first three, then runs the program in its arguments.
const CLOSE: &str = "for one in /proc/self/fd/*; do one=${one##*/}; \
    if [[ $one == [0-9]* && $one -gt 2 ]]; then eval \"exec $one>&-\"; fi; done; exec \"$@\"";

/// The flag in `/proc/self/fdinfo` of a descriptor that children do not inherit.
const CLOSE_ON_EXEC: u32 = 0o2_000_000;

/// Lets the child close the descriptors that it would inherit, if there are any.
pub(super) fn close(launch: &mut Launch, rules: &SandboxRules) -> Result<(), SandboxError> {
    if !any(Path::new("/proc/self/fdinfo")) {
        return Ok(());
    }
    let shell = rules.search_path().find("bash")?;
    let program = std::mem::replace(&mut launch.program, shell);
    program.check()?;
    let shell = ["-c", CLOSE, "bash"].map(OsString::from);
    launch.args.splice(0..0, shell.into_iter().chain([program.path().into()]));
    Ok(())
}

/// Whether a child would inherit one of the descriptors of this folder, which has a file for each.
fn any(folder: &Path) -> bool {
    let Ok(all) = std::fs::read_dir(folder) else { return true };
    all.flatten().any(|entry| {
        let standard =
            entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()).is_none_or(|fd| fd <= 2);
        // A descriptor that was closed meanwhile has no entry any more.
        !standard && std::fs::read_to_string(entry.path()).is_ok_and(|text| is_inherited(&text))
    })
}

fn is_inherited(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.is_none_or(|flags| {
        u32::from_str_radix(flags.trim(), 8).is_ok_and(|flags| flags & CLOSE_ON_EXEC == 0)
    })
}

#[cfg(test)]
mod tests;
