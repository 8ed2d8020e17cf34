//! `cargo xtask otel`: checks the traces that arrive in Phoenix, which it installs from PyPI below the target directory.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::cargo;
use crate::workspace::Workspace;

/// The package of PyPI and its version.
const PACKAGE: &str = "arize-phoenix==20.26.1";

/// The longest start of Phoenix.
const START: Duration = Duration::from_secs(120);

/// Installs and starts Phoenix, and runs the tests that ask it for traces. `false` if one fails.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    if let Some(unknown) = arguments.first() {
        bail!("`cargo xtask otel` takes no argument, but got `{unknown}`");
    }
    let folder = workspace.root.join("target/phoenix");
    let program = match install(&folder) {
        Ok(program) => program,
        Err(error) => {
            say!("skipped: Phoenix cannot be installed: {error:#}");
            return Ok(true);
        }
    };
    let phoenix = Phoenix::start(&program, &folder)?;
    say!("Phoenix listens on {}", phoenix.url);
    let test =
        ["test", "--package", "looptree-otel", "--all-features", "--test", "phoenix", "--", "--nocapture"];
    cargo::run(&workspace.root, &test, &[("LOOPTREE_PHOENIX_URL", &phoenix.url)])
}

/// Installs Phoenix into a virtual environment, unless it is there, and returns the program.
fn install(folder: &Path) -> anyhow::Result<PathBuf> {
    let program = folder.join("bin/phoenix");
    if program.is_file() {
        return Ok(program);
    }
    done(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    done(Command::new(folder.join("bin/pip")).args(["install", "--quiet", PACKAGE]))?;
    Ok(program)
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

/// A running Phoenix, which ends when it is dropped.
struct Phoenix {
    child: Child,
    url: String,
}

impl Phoenix {
    fn start(program: &Path, folder: &Path) -> anyhow::Result<Self> {
        let data = folder.join("data");
        // An exported session has the same ids each time, and Phoenix ignores spans that it has.
        if data.exists() {
            std::fs::remove_dir_all(&data)?;
        }
        std::fs::create_dir_all(&data)?;
        let (port, grpc) = (free_port()?, free_port()?);
        let log = File::create(folder.join("phoenix.log"))?;
        let child = Command::new(program)
            .arg("serve")
            .env("PHOENIX_HOST", "127.0.0.1")
            .env("PHOENIX_PORT", port.to_string())
            .env("PHOENIX_GRPC_PORT", grpc.to_string())
            .env("PHOENIX_WORKING_DIR", &data)
            .env("PHOENIX_TELEMETRY_ENABLED", "false")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("Phoenix does not start")?;
        let mut phoenix = Self { child, url: format!("http://127.0.0.1:{port}") };
        let until = Instant::now() + START;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if phoenix.child.try_wait()?.is_some() || Instant::now() > until {
                bail!("Phoenix did not start; {} has its log", folder.join("phoenix.log").display());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(phoenix)
    }
}

impl Drop for Phoenix {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on loopback")?;
    Ok(listener.local_addr()?.port())
}
