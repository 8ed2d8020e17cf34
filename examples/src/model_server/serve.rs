//! Taking connections.

use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::Server;

/// The wait after a connection could not be taken: nearly always there are too many open files.
const RESPITE: Duration = Duration::from_millis(100);

/// Answers until `stop` is ready; the connections that are open are then closed.
pub async fn serve(listener: TcpListener, server: Server, stop: impl Future<Output = ()>) {
    let mut stop = std::pin::pin!(stop);
    let routes = server.routes();
    let room = Arc::new(Semaphore::new(server.limits.connections));
    let mut open = JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let taken = tokio::select! {
            () = &mut stop => return,
            taken = listener.accept() => taken,
            Some(_) = open.join_next() => continue,
        };
        let connection = match taken {
            Ok((connection, _)) => connection,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                tokio::time::sleep(RESPITE).await;
                continue;
            }
        };
        // A piece that waits for the next one to fill a packet is no live stream.
        let _ = connection.set_nodelay(true);
        let (routes, head_time) = (routes.clone(), server.limits.head_time);
        open.spawn(async move {
            let mut builder = Builder::new(TokioExecutor::new());
            builder.http1().timer(TokioTimer::new()).header_read_timeout(head_time);
            let service = TowerToHyperService::new(routes);
            if let Err(error) = builder.serve_connection(TokioIo::new(connection), service).await {
                tracing::debug!(error, "a connection ended");
            }
            drop(permit);
        });
    }
}
