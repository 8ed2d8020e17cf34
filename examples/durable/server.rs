//! Starts the Restate server that `cargo xtask restate` has installed, with a temporary folder, on free ports of loopback.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::json;

/// How often a request is repeated until the server or the worker is ready, and the time between two requests.
const ATTEMPTS: u32 = 500;
const PAUSE: Duration = Duration::from_millis(40);

pub(crate) struct Server {
    process: Child,
    ingress: u16,
    admin: u16,
    http: reqwest::Client,
    _folder: tempfile::TempDir,
}

/// Returns a port that is free at this moment.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

impl Server {
    /// Starts a server; `None` if none is installed.
    pub(crate) async fn start() -> Result<Option<Self>> {
        let Some(program) = program() else { return Ok(None) };
        let folder = tempfile::tempdir()?;
        let (ingress, admin, node) = (free_port()?, free_port()?, free_port()?);
        let data = folder.path().join("data");
        let config = format!(
            "base-dir = {data:?}\nbind-ip = \"127.0.0.1\"\nbind-port = {node}\ndisable-telemetry = true\n\
             log-filter = \"error\"\n[ingress]\nbind-port = {ingress}\n[admin]\nbind-port = {admin}\n"
        );
        let file = folder.path().join("restate.toml");
        std::fs::write(&file, config)?;
        let mut command = Command::new(program);
        command.arg("-c").arg(file).args(["--no-logo", "--listen-mode", "tcp"]).current_dir(folder.path());
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let server = Self { process, ingress, admin, http: reqwest::Client::new(), _folder: folder };
        for url in
            [format!("http://127.0.0.1:{admin}/health"), format!("{}/restate/health", server.ingress())]
        {
            server.repeat(|| server.http.get(&url)).await.context("the server does not start")?;
        }
        Ok(Some(server))
    }

    /// Returns the address for clients.
    pub(crate) fn ingress(&self) -> String {
        format!("http://127.0.0.1:{}", self.ingress)
    }

    /// Tells the server where a worker is, as soon as the worker answers.
    pub(crate) async fn register(&self, worker: SocketAddr) -> Result<()> {
        let url = format!("http://127.0.0.1:{}/deployments", self.admin);
        let body = json!({"uri": format!("http://{worker}")}).to_string();
        let request = || self.http.post(&url).header("content-type", "application/json").body(body.clone());
        self.repeat(request).await.context("the worker cannot be registered")
    }

    async fn repeat(&self, request: impl Fn() -> reqwest::RequestBuilder) -> Result<()> {
        for _ in 0..ATTEMPTS {
            if request().send().await.is_ok_and(|response| response.status().is_success()) {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
        bail!("no answer after {ATTEMPTS} attempts")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server is stopped with everything that it has stored.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the installed program.
fn program() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
    let folders = std::fs::read_dir(target.join("restate/node_modules/@restatedev")).ok()?;
    folders
        .filter_map(|folder| Some(folder.ok()?.path().join("bin/restate-server")))
        .find(|path| path.is_file())
}
