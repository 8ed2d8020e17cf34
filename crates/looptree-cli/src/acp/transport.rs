//! Messages as lines of bounded length.

use std::io::{Error, ErrorKind};

use agent_client_protocol::{Agent, ConnectTo, Lines};
use futures_util::{SinkExt, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::codec::{FramedRead, FramedWrite, LinesCodec, LinesCodecError};

/// The maximum size of a message of the editor: 64 MiB. Prompts contain files and images; a longer line ends the connection.
const MAX_LINE: usize = 64 << 20;

/// Returns the transport over a pair of streams.
pub(super) fn of(
    input: impl AsyncRead + Send + 'static,
    output: impl AsyncWrite + Send + 'static,
) -> impl ConnectTo<Agent> + 'static {
    let incoming =
        FramedRead::new(input, LinesCodec::new_with_max_length(MAX_LINE)).map(|line| line.map_err(plain));
    let outgoing = SinkExt::<String>::sink_map_err(FramedWrite::new(output, LinesCodec::new()), plain);
    Lines::new(Box::pin(outgoing), Box::pin(incoming))
}

fn plain(error: LinesCodecError) -> Error {
    match error {
        LinesCodecError::MaxLineLengthExceeded => {
            Error::new(ErrorKind::InvalidData, format!("a message has more than {MAX_LINE} bytes"))
        }
        LinesCodecError::Io(error) => error,
    }
}
