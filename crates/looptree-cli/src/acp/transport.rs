//! Messages as lines of bounded length.

use std::io::{Error, ErrorKind};

use agent_client_protocol::{Agent, ConnectTo, Lines};
use futures_util::{SinkExt, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::codec::{
    AnyDelimiterCodec, AnyDelimiterCodecError, FramedRead, FramedWrite, LinesCodec, LinesCodecError,
};

use super::editor_servers;

/// The maximum size of a message of the editor: 64 MiB. Prompts contain files and images; a longer line ends the connection.
const MAX_LINE: usize = 64 << 20;

/// Returns the transport over a pair of streams. Bytes that are not UTF-8 are replaced, so that one wrong line is a message that
/// cannot be read, and not the end of the connection.
pub(super) fn of(
    input: impl AsyncRead + Send + 'static,
    output: impl AsyncWrite + Send + 'static,
) -> impl ConnectTo<Agent> + 'static {
    let lines = AnyDelimiterCodec::new_with_max_length(b"\n".to_vec(), b"\n".to_vec(), MAX_LINE);
    let incoming = FramedRead::new(input, lines).map(|line| match line {
        Ok(line) => Ok(editor_servers::normalize(String::from_utf8_lossy(&line).into_owned())),
        Err(AnyDelimiterCodecError::MaxChunkLengthExceeded) => {
            Err(Error::new(ErrorKind::InvalidData, format!("a message has more than {MAX_LINE} bytes")))
        }
        Err(AnyDelimiterCodecError::Io(error)) => Err(error),
    });
    let outgoing =
        SinkExt::<String>::sink_map_err(FramedWrite::new(output, LinesCodec::new()), |error| match error {
            LinesCodecError::MaxLineLengthExceeded => {
                Error::new(ErrorKind::InvalidData, "a message is too long")
            }
            LinesCodecError::Io(error) => error,
        });
    Lines::new(Box::pin(outgoing), Box::pin(incoming))
}
