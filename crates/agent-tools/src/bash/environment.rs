//! The environment that commands see. The only file of this crate that reads the environment of the process.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// The variables of this process that commands see, besides all that begin with `LC_` (D24). What is not here is
/// kept from them: keys of model providers stand in the environment of many agents.
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

/// What commands see: the usual variables, those that the caller hands on, and those that the caller sets.
pub(crate) fn of_command(
    inherited: &[String],
    set: &BTreeMap<OsString, OsString>,
) -> BTreeMap<OsString, OsString> {
    let wanted = |name: &str| {
        INHERITED.contains(&name)
            || name.starts_with("LC_")
            || name == super::strays::MARK
            || inherited.iter().any(|more| more == name)
    };
    let mut variables: BTreeMap<OsString, OsString> =
        std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(wanted)).collect();
    variables.extend(set.iter().map(|(name, value)| (name.clone(), value.clone())));
    variables
}

/// The program of this name in `PATH`. Folders that are not absolute are not looked into.
#[cfg(target_os = "linux")]
pub(crate) fn program(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::vars_os().find(|(variable, _)| variable == "PATH")?.1;
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|place| std::fs::metadata(place).is_ok_and(|found| found.is_file()))
}
