//! Messages as lines: a line that cannot be read is answered with an error, and the next one is read.

use futures_util::StreamExt as _;
use rmcp::model::{ErrorData, ServerJsonRpcMessage};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_util::codec::{AnyDelimiterCodec, AnyDelimiterCodecError, FramedRead};

/// The maximum size of a message of the client: 16 MiB.
const MAX_LINE: usize = 16 << 20;
/// The bytes that are forwarded at once.
const PIPE: usize = 64 << 10;
/// Errors that wait to be sent. The input is not read further while there are more.
const MAX_WAITING: usize = 16;

/// A transport that answers unreadable lines by itself.
pub(super) struct Lines<W: AsyncWrite> {
    inner: AsyncRwTransport<RoleServer, DuplexStream, W>,
    unreadable: Receiver<ErrorData>,
}

/// Returns the transport over a pair of streams.
pub(super) fn over<R, W>(input: R, output: W) -> Lines<W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (readable, receiving) = duplex(PIPE);
    let (tell, unreadable) = channel(MAX_WAITING);
    tokio::spawn(split(input, readable, tell));
    Lines { inner: AsyncRwTransport::new_server(receiving, output), unreadable }
}

/// Forwards the lines that are JSON, and reports the others.
async fn split(input: impl AsyncRead + Unpin, mut readable: DuplexStream, tell: Sender<ErrorData>) {
    let lines = AnyDelimiterCodec::new_with_max_length(b"\n".to_vec(), b"\n".to_vec(), MAX_LINE);
    let mut lines = FramedRead::new(input, lines);
    let mut failed = false;
    loop {
        let line = match lines.next().await {
            Some(line) => line,
            // The reader pauses once after an error.
            None if std::mem::take(&mut failed) => continue,
            None => return,
        };
        failed = line.is_err();
        let error = match line {
            Ok(line) if line.iter().all(u8::is_ascii_whitespace) => continue,
            // Whole values are built, because text that only is skipped can still be unreadable.
            Ok(line) => match serde_json::from_slice::<Value>(&line) {
                Ok(_) => {
                    let passed = readable.write_all(&line).await;
                    if passed.is_err() || readable.write_all(b"\n").await.is_err() {
                        return;
                    }
                    continue;
                }
                Err(error) => ErrorData::parse_error(format!("the line is not JSON: {error}"), None),
            },
            Err(AnyDelimiterCodecError::MaxChunkLengthExceeded) => {
                ErrorData::parse_error(format!("the line has more than {MAX_LINE} bytes"), None)
            }
            Err(AnyDelimiterCodecError::Io(_)) => return,
        };
        if tell.send(error).await.is_err() {
            return;
        }
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> Lines<W> {
    /// Sends an error about a message whose id is unknown. It is sent as a whole even if the caller stops waiting, which the
    /// service does whenever it has something to send itself.
    async fn answer(&mut self, error: ErrorData) -> bool {
        let sending = tokio::spawn(self.inner.send(ServerJsonRpcMessage::error(error, None)));
        sending.await.is_ok_and(|sent| sent.is_ok())
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> Transport<RoleServer> for Lines<W> {
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let error = tokio::select! {
                biased;
                Some(error) = self.unreadable.recv() => error,
                message = self.inner.receive() => match message {
                    Some(message) => return Some(message),
                    // The last line can be an unreadable one.
                    None => self.unreadable.try_recv().ok()?,
                },
            };
            if !self.answer(error).await {
                return None;
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
