//! The environment of commands. This is the only file of the crate that reads the environment of the process.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// The variables of this process that commands inherit, in addition to those that begin with `LC_`. Other variables
/// are removed, because the environment of an agent often contains API keys.
pub const INHERITED: [&str; 11] = [
    "PATH",
    "HOME",
    "USER",
    "SHELL",
    "LANG",
    "TERM",
    "TMPDIR",
    "TZ",
    "CARGO_HOME",
    "RUSTUP_HOME",
    // Windows finds nothing without it.
    "SystemRoot",
];

/// The variable. It contains the ids of all calls that the process belongs to, separated by commas, because a command
/// may run an agent that runs commands.
pub(crate) const MARKER: &str = "LOOPTREE_CALL";

/// Returns the environment of a command: the inherited variables, the additional ones, and those that are set.
pub(crate) fn of_command(
    inherited: &[String],
    set: &BTreeMap<OsString, OsString>,
) -> BTreeMap<OsString, OsString> {
    let wanted = |name: &str| {
        INHERITED.contains(&name)
            || name.starts_with("LC_")
            || name == MARKER
            || inherited.iter().any(|more| more == name)
    };
    let mut variables: BTreeMap<OsString, OsString> =
        std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(wanted)).collect();
    variables.extend(set.iter().map(|(name, value)| (name.clone(), value.clone())));
    variables
}

/// Returns the value of a variable of this process.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::vars_os().find(|(variable, _)| variable == name).map(|(_, value)| value)
}
