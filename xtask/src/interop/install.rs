//! Getting the servers: packages of PyPI and npm in folders of their own, in pinned versions.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::process::Command;

use super::process::{Process, last_lines};
use super::text;

/// The file in a folder that lists what was installed there.
const STAMP: &str = "pinned.txt";

/// How long getting the packages of one server may take.
const PATIENCE: Duration = Duration::from_secs(1_800);

/// What pip and npm print when they cannot reach a server.
const NO_NETWORK: &[&str] = &[
    "newconnectionerror",
    "max retries exceeded",
    "name resolution",
    "network is unreachable",
    "connection refused",
    "proxyerror",
    "sslerror",
    "read timed out",
    "enotfound",
    "eai_again",
    "econnrefused",
    "econnreset",
    "etimedout",
    "enetunreach",
    "network request to",
    // Of an index that cannot be reached; of one that can, it lists the versions.
    "(from versions: none)",
];

/// Where things are.
#[derive(Debug)]
pub(super) struct Place {
    root: PathBuf,
    /// For what is installed and written; one folder a server.
    folder: PathBuf,
    /// The project's own files.
    files: PathBuf,
}

/// The result of installing packages.
#[derive(Debug)]
pub(super) enum Installed {
    /// They are in this folder.
    Here(PathBuf),
    /// They cannot be installed on this machine; the text names what is missing.
    Missing(String),
}

impl Place {
    pub(super) fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), folder: root.join("target/interop"), files: root.join("xtask/interop") }
    }

    /// The project.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// A file of the project.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.files.join(name)
    }

    /// A file that a run writes for a server.
    pub(super) fn written(&self, server: &str, name: &str, content: &[u8]) -> anyhow::Result<PathBuf> {
        let path = self.scratch(server, name)?;
        std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// A path of a run's own for a server, in a folder that is there.
    pub(super) fn scratch(&self, server: &str, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.folder.join("run").join(server);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder.join(name))
    }

    /// The log of a server.
    pub(super) fn log(&self, server: &str) -> PathBuf {
        self.folder.join("logs").join(format!("{server}.log"))
    }

    /// A command with an environment that says nothing of this machine but where programs are.
    pub(super) fn command(&self, server: &str, program: &Path) -> anyhow::Result<Command> {
        let home = self.scratch(server, "home")?;
        std::fs::create_dir_all(&home).with_context(|| format!("cannot make {}", home.display()))?;
        let mut command = Command::new(program);
        command.env_clear().env("HOME", &home).env("NO_PROXY", "127.0.0.1").current_dir(&home);
        for name in ["PATH", "SYSTEMROOT", "TMPDIR", "TEMP"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        Ok(command)
    }

    /// The packages of PyPI in a virtual environment of their own.
    pub(super) async fn python(&self, server: &str, packages: &[&str]) -> anyhow::Result<Installed> {
        if !answers("python3", &["--version"]).await {
            return Ok(Installed::Missing("python3 is missing".to_owned()));
        }
        let folder = self.folder.join(server);
        if is_stamped(&folder, packages) {
            return Ok(Installed::Here(folder));
        }
        empty(&folder)?;
        let at = text(&folder)?;
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv", at]);
        if let Err(printed) = self.install(server, venv).await? {
            return Ok(Installed::Missing(format!("python's venv is missing:\n{}", last_lines(&printed))));
        }
        say!("{server}: pip install {}", packages.join(" "));
        let mut pip = Command::new(folder.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
        self.stamped(server, folder, packages, pip).await
    }

    /// The packages of npm in a folder of their own.
    pub(super) async fn node(&self, server: &str, packages: &[&str]) -> anyhow::Result<Installed> {
        for program in ["node", "npm"] {
            if !answers(program, &["--version"]).await {
                return Ok(Installed::Missing(format!("{program} is missing")));
            }
        }
        let folder = self.folder.join(server);
        if is_stamped(&folder, packages) {
            return Ok(Installed::Here(folder));
        }
        empty(&folder)?;
        std::fs::write(folder.join("package.json"), "{\"private\": true}\n")
            .context("cannot write a package.json")?;
        say!("{server}: npm install {}", packages.join(" "));
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", text(&folder)?]);
        npm.args(packages).current_dir(&folder);
        self.stamped(server, folder, packages, npm).await
    }

    async fn stamped(
        &self,
        server: &str,
        folder: PathBuf,
        packages: &[&str],
        command: Command,
    ) -> anyhow::Result<Installed> {
        match self.install(server, command).await? {
            Ok(()) => {
                std::fs::write(folder.join(STAMP), packages.join("\n")).context("cannot write a stamp")?;
                Ok(Installed::Here(folder))
            }
            Err(printed) if is_no_network(&printed) => Ok(Installed::Missing(format!(
                "{} is not here and the network is missing",
                packages.join(" ")
            ))),
            Err(printed) => bail!("{server} cannot be installed:\n{}", last_lines(&printed)),
        }
    }

    /// Runs an installer: `Err` with what it printed when it failed.
    async fn install(&self, server: &str, command: Command) -> anyhow::Result<Result<(), String>> {
        let log = self.log(&format!("{server}-install"));
        let (status, printed) = Process::start(server, command, &log)?.done(PATIENCE).await?;
        Ok(if status.success() { Ok(()) } else { Err(printed) })
    }
}

fn is_stamped(folder: &Path, packages: &[&str]) -> bool {
    std::fs::read_to_string(folder.join(STAMP)).is_ok_and(|stamp| stamp == packages.join("\n"))
}

fn empty(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| format!("cannot clear {}", folder.display()))?;
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

async fn answers(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).stdin(std::process::Stdio::null()).output().await;
    output.is_ok_and(|o| o.status.success())
}

/// Whether an installer failed because it could not reach a server.
pub(super) fn is_no_network(printed: &str) -> bool {
    let printed = printed.to_ascii_lowercase();
    NO_NETWORK.iter().any(|word| printed.contains(word))
}
