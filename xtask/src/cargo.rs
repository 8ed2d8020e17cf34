//! Starting cargo.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::Context as _;

/// A command for the cargo that started this program.
pub(crate) fn command(root: &Path) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root);
    // Set by the cargo that runs xtask; a nested cargo must not take them for its own package's.
    for name in ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_PKG_NAME", "CARGO_PKG_VERSION"] {
        command.env_remove(name);
    }
    command
}

/// Runs cargo with its output on this terminal. `false` when it failed.
pub(crate) fn run(root: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<bool> {
    say(arguments, environment);
    let mut command = command(root);
    command.args(arguments).envs(environment.iter().copied()).stdin(Stdio::null());
    let status = command.status().with_context(|| format!("cannot start cargo {}", arguments.join(" ")))?;
    Ok(status.success())
}

/// Runs cargo and gives what it printed.
pub(crate) fn output(root: &Path, arguments: &[&str]) -> anyhow::Result<Output> {
    let mut command = command(root);
    command.args(arguments).stdin(Stdio::null());
    command.output().with_context(|| format!("cannot start cargo {}", arguments.join(" ")))
}

/// Whether `cargo NAME` is installed.
pub(crate) fn has_subcommand(root: &Path, name: &str) -> bool {
    output(root, &[name, "--version"]).is_ok_and(|o| o.status.success())
}

/// The target that rustc builds for when none is named.
pub(crate) fn host() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot start rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|l| l.strip_prefix("host: ")).context("rustc -vV names no host")?;
    Ok(host.trim().to_owned())
}

/// Whether rustc has the standard library for `target`.
pub(crate) fn has_target(target: &str) -> bool {
    let output = Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output();
    output.is_ok_and(|o| o.status.success() && Path::new(String::from_utf8_lossy(&o.stdout).trim()).is_dir())
}

/// Prints the command line, so that the user can repeat it.
pub(crate) fn say(arguments: &[&str], environment: &[(&str, &str)]) {
    let environment: String = environment.iter().map(|(name, value)| format!("{name}='{value}' ")).collect();
    say!("$ {environment}cargo {}", arguments.join(" "));
}
