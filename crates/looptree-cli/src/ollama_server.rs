//! Whether an Ollama server answers on this machine, and which models it has.

use std::time::Duration;

use looptree::ModelConfig;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_millis(500);
/// The most that is read of the list of models.
const MAX_ANSWER: u64 = 1 << 20;

pub(crate) struct Server {
    pub(crate) url: String,
    models: Vec<String>,
}

impl Server {
    /// The default model where it is installed, else the first that is.
    pub(crate) fn best_model(&self) -> Option<String> {
        let wanted = ModelConfig::default().id;
        self.models.iter().find(|m| **m == wanted).or_else(|| self.models.first()).cloned()
    }
}

/// Queries the server at `OLLAMA_HOST`, or at the default address.
pub(crate) async fn find() -> Option<Server> {
    let address = configured().or_else(|| address("127.0.0.1:11434"))?;
    let models = tokio::time::timeout(PATIENCE, tags(&address)).await.ok()??;
    Some(Server { url: format!("http://{address}"), models })
}

/// Returns host and port of `OLLAMA_HOST`, if it is set.
pub(crate) fn configured() -> Option<String> {
    let host = std::env::var("OLLAMA_HOST").ok().filter(|host| !host.is_empty())?;
    address(&host)
}

/// Returns host and port of the value of `OLLAMA_HOST`, for example `box`, `box:8080`, `http://box` or `::1`. A server behind TLS is
/// not looked for; `--model ollama/NAME --base-url URL` names it.
fn address(host: &str) -> Option<String> {
    const PORT: u16 = 11434;
    let host = host.trim().trim_end_matches('/');
    let host = match host.split_once("://") {
        None => host,
        Some(("http", host)) => host,
        Some(_) => return None,
    };
    if host.parse::<std::net::Ipv6Addr>().is_ok() {
        return Some(format!("[{host}]:{PORT}"));
    }
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Some(if has_port { host.to_owned() } else { format!("{host}:{PORT}") })
}

async fn tags(address: &str) -> Option<Vec<String>> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET /api/tags HTTP/1.0\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer).await.ok()?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n")?;
    if !head.contains(" 200 ") {
        return None;
    }
    let list: Value = serde_json::from_str(body.trim()).ok()?;
    let names =
        list.get("models")?.as_array()?.iter().filter_map(|m| m.get("name")?.as_str().map(str::to_owned));
    Some(names.collect())
}
