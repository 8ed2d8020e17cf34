//! Free ports, and single questions over HTTP that are no part of what is checked.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The most bytes of an answer.
const MAX_ANSWER: u64 = 8 << 20;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns a free port of this machine.
pub(super) fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on loopback")?;
    Ok(listener.local_addr().context("cannot read the port")?.port())
}

/// Whether a server on this port answers the path with 200.
pub(super) async fn is_up(port: u16, path: &str) -> bool {
    get(port, path).await.is_ok()
}

/// The JSON under a path.
pub(super) async fn get_json(port: u16, path: &str) -> anyhow::Result<Value> {
    let body = get(port, path).await?;
    serde_json::from_slice(&body).with_context(|| format!("{path} gives no JSON"))
}

async fn get(port: u16, path: &str) -> anyhow::Result<Vec<u8>> {
    let exchange = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        // HTTP/1.0: the body comes as it is and ends with the connection.
        let request = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nAccept: */*\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(MAX_ANSWER).read_to_end(&mut answer).await?;
        anyhow::Ok(answer)
    };
    let answer = tokio::time::timeout(PATIENCE, exchange).await.context("no answer")??;
    let end =
        answer.windows(4).position(|w| w == b"\r\n\r\n").context("an answer without an end of its head")?;
    let (head, body) = answer.split_at(end + 4);
    let head = String::from_utf8_lossy(head);
    let status = head.split(' ').nth(1).unwrap_or_default();
    ensure!(status == "200", "{path} gives {status}");
    if head.to_ascii_lowercase().contains("transfer-encoding") {
        bail!("{path} is answered in chunks");
    }
    Ok(body.to_vec())
}
