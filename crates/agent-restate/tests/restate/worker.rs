//! Workers in this process, and as processes that can be killed.

use std::net::{Ipv4Addr, SocketAddr};

use agent_restate::{DurableAgent, serve_until};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::server::free_port;

/// A worker in this process.
pub(crate) struct Worker {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Worker {
    pub(crate) fn start(agent: DurableAgent) -> Self {
        Self::start_at(agent, SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())))
    }

    pub(crate) fn start_at(agent: DurableAgent, address: SocketAddr) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            serve_until(agent, address, stopped).await.unwrap();
        });
        Self { address, stop: Some(stop), task }
    }

    /// Stops the worker at once, with everything that it does.
    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}
