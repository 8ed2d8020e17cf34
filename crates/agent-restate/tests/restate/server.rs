//! Starts a Restate server on free ports of loopback, and kills it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use agent_restate::Client;
use serde_json::{Value, json};

/// How long a server may take to start.
const START: Duration = Duration::from_secs(40);

/// A server with a temporary folder.
pub(crate) struct Server {
    folder: tempfile::TempDir,
    binary: PathBuf,
    ingress: u16,
    admin: u16,
    process: Child,
    http: reqwest::Client,
}

/// Returns a free port.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// Returns the program that `cargo xtask restate` installs.
fn binary() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("LOOPTREE_RESTATE_SERVER") {
        return Some(path.into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), PathBuf::from);
    let platforms = target.join("restate/node_modules/@restatedev");
    let folders = std::fs::read_dir(platforms).ok()?;
    folders
        .filter_map(|folder| Some(folder.ok()?.path().join("bin/restate-server")))
        .find(|path| path.is_file())
}

impl Server {
    /// Starts a server; says why and returns `None` if none is installed.
    pub(crate) async fn start() -> Option<Self> {
        let Some(binary) = binary() else {
            println!("skipped: no Restate server; `cargo xtask restate` installs one");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let (ingress, admin, node) = (free_port(), free_port(), free_port());
        let base = folder.path().join("data");
        let config = format!(
            "base-dir = {base:?}\ncluster-name = \"test\"\nnode-name = \"node\"\nbind-ip = \"127.0.0.1\"\n\
             bind-port = {node}\ndisable-telemetry = true\nlog-filter = \"warn\"\ndefault-num-partitions = 4\n\
             rocksdb-total-memory-size = \"256 MiB\"\n[ingress]\nbind-port = {ingress}\n[admin]\nbind-port = {admin}\n"
        );
        std::fs::write(folder.path().join("restate.toml"), config).unwrap();
        let process = spawn(&binary, folder.path());
        let mut server = Self { folder, binary, ingress, admin, process, http: reqwest::Client::new() };
        server.wait_until_ready().await;
        Some(server)
    }

    /// Kills the server without warning and starts it again with the same data.
    pub(crate) async fn restart(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = spawn(&self.binary, self.folder.path());
        self.wait_until_ready().await;
    }

    async fn wait_until_ready(&mut self) {
        let started = Instant::now();
        let urls = [
            format!("http://127.0.0.1:{}/health", self.admin),
            format!("http://127.0.0.1:{}/restate/health", self.ingress),
        ];
        loop {
            let mut ready = true;
            for url in &urls {
                ready &= self.http.get(url).send().await.is_ok_and(|response| response.status().is_success());
            }
            if ready {
                return;
            }
            let log = || std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(self.process.try_wait().unwrap().is_none(), "the server has ended:\n{}", log());
            assert!(started.elapsed() < START, "the server does not start:\n{}", log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns the id of the server's process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(format!("http://127.0.0.1:{}", self.ingress)).unwrap()
    }

    /// Registers a worker.
    pub(crate) async fn register(&self, worker: SocketAddr) {
        let body = json!({"uri": format!("http://{worker}"), "force": true}).to_string();
        let deadline = Instant::now() + START;
        loop {
            let response = self.admin("deployments", body.clone()).await;
            match response {
                Ok(_) => return,
                Err(text) => assert!(Instant::now() < deadline, "the worker cannot be registered: {text}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Sends a request to the API for administrators.
    pub(crate) async fn admin(&self, path: &str, body: String) -> Result<Value, String> {
        let url = format!("http://127.0.0.1:{}/{path}", self.admin);
        let request = self.http.post(url).header("content-type", "application/json");
        let request = request.header("accept", "application/json").body(body);
        let response = request.send().await.map_err(|error| error.to_string())?;
        let status = response.status();
        let text = response.text().await.map_err(|error| error.to_string())?;
        if status.is_success() {
            Ok(serde_json::from_str(&text).unwrap_or(Value::Null))
        } else {
            Err(format!("{status}: {text}"))
        }
    }

    /// Cancels an invocation as an administrator does.
    pub(crate) async fn cancel(&self, invocation: &str) {
        let url = format!("http://127.0.0.1:{}/invocations/{invocation}/cancel", self.admin);
        let response = self.http.patch(url).send().await.unwrap();
        assert!(response.status().is_success(), "{}", response.text().await.unwrap());
    }

    /// Asks the server with SQL.
    pub(crate) async fn query(&self, sql: &str) -> Vec<Value> {
        let answer = self.admin("query", json!({"query": sql}).to_string()).await.unwrap();
        answer["rows"].as_array().cloned().unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(binary: &Path, folder: &Path) -> Child {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap();
    Command::new(binary)
        .arg("-c")
        .arg(folder.join("restate.toml"))
        .args(["--no-logo", "--listen-mode", "tcp"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}
