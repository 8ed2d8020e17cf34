//! A proxy between clients and a server of Postgres that swallows, cuts or repeats one reply.
#![allow(dead_code, reason = "each user needs a part of it")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What happens to a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// The server has done what it was asked, and the client never learns it: its connection ends.
    Swallow,
    /// The request does not reach the server, and the connection ends.
    Cut,
    /// The client gets the reply twice.
    Repeat,
}

impl Mishap {
    pub(crate) const ALL: [Self; 3] = [Self::Swallow, Self::Cut, Self::Repeat];
}

/// Which reply it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    /// That to the next COMMIT.
    OfCommit,
    /// The one with this number, over all connections.
    Number(usize),
}

/// Passes bytes between clients and the server.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    plan: Mutex<Option<(Mishap, Reply)>>,
    replies: AtomicUsize,
}

impl Proxy {
    /// Listens on a free port for clients of the server on this port.
    pub(crate) async fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        let of_task = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                tokio::spawn(pass(client, server, Arc::clone(&of_task)));
            }
        });
        Self { port, shared }
    }

    /// Plans a mishap.
    pub(crate) fn plan(&self, mishap: Mishap, reply: Reply) {
        *self.shared.plan.lock().unwrap() = Some((mishap, reply));
    }

    /// Whether the planned mishap has not happened.
    pub(crate) fn is_planned(&self) -> bool {
        self.shared.plan.lock().unwrap().is_some()
    }

    /// The number of replies so far.
    pub(crate) fn replies(&self) -> usize {
        self.shared.replies.load(Ordering::SeqCst)
    }

    /// A URL of the server, with the port of the proxy.
    pub(crate) fn url(&self, url: &str) -> String {
        url.replace(&format!(":{}/", port_of(url)), &format!(":{}/", self.port))
    }
}

/// The port in a URL.
pub(crate) fn port_of(url: &str) -> u16 {
    url.rsplit(':').next().unwrap().split('/').next().unwrap().parse().unwrap()
}

impl Shared {
    /// Takes the mishap of the reply to these bytes, or of the one with this number.
    fn due(&self, commits: bool, number: usize) -> Option<Mishap> {
        let mut plan = self.plan.lock().unwrap();
        let is_due = match *plan {
            Some((_, Reply::OfCommit)) => commits,
            Some((_, Reply::Number(planned))) => number >= planned,
            None => false,
        };
        if is_due { plan.take().map(|(mishap, _)| mishap) } else { None }
    }
}

async fn pass(mut client: TcpStream, mut server: TcpStream, shared: Arc<Shared>) {
    let (mut sent, mut received) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut repeats = false;
    loop {
        tokio::select! {
            Ok(count) = client.read(&mut sent) => {
                let bytes = &sent[..count];
                let commits = bytes.windows(6).any(|word| word == b"COMMIT");
                let due = shared.due(commits, shared.replies.load(Ordering::SeqCst) + 1);
                if count == 0 || due == Some(Mishap::Cut) || server.write_all(bytes).await.is_err() {
                    return;
                }
                if due == Some(Mishap::Swallow) {
                    // The server has done it when it answers.
                    let _ = server.read(&mut received).await;
                    shared.replies.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                repeats |= due == Some(Mishap::Repeat);
            }
            Ok(count) = server.read(&mut received) => {
                shared.replies.fetch_add(1, Ordering::SeqCst);
                let times = if std::mem::take(&mut repeats) { 2 } else { 1 };
                for _ in 0..times {
                    if count == 0 || client.write_all(&received[..count]).await.is_err() {
                        return;
                    }
                }
            }
            else => return,
        }
    }
}
