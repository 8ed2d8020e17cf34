use agent_client_protocol::v1::schema::{ListSessionsRequest, NewSessionRequest};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

use super::*;
use crate::served::tests::host;

/// Serves over a pipe in this process, and connects the client of the crate to it.
async fn with_client<R>(
    host: Sessions,
    work: impl AsyncFnOnce(ConnectionTo<Agent>) -> Result<R, Error>,
) -> R {
    let (client, agent) = tokio::io::duplex(1 << 16);
    let serving = tokio::spawn(serve(host, transport(agent)));
    let (input, output) = tokio::io::split(client);
    let incoming = BufReader::new(input).lines();
    let incoming = futures_util::stream::unfold(incoming, async |mut lines| {
        let line = lines.next_line().await.transpose()?;
        Some((line, lines))
    });
    let outgoing = futures_util::sink::unfold(output, async |mut output, line: String| {
        output.write_all(format!("{line}\n").as_bytes()).await?;
        Ok::<_, std::io::Error>(output)
    });
    let lines = agent_client_protocol::Lines::new(Box::pin(outgoing), Box::pin(incoming));
    let done = Client.v1().connect_with(lines, async move |to| work(to).await).await.unwrap();
    serving.await.unwrap().unwrap();
    done
}

fn transport(stream: DuplexStream) -> impl ConnectTo<Agent> + 'static {
    let (input, output) = tokio::io::split(stream);
    transport::of(input, output)
}

#[tokio::test]
async fn the_client_of_the_crate_opens_and_lists_sessions_over_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    let host = host(folder.path());
    with_client(Arc::clone(&host), async move |to| {
        let introduced = to.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
        assert_eq!(introduced, introduction());
        let opened = to.send_request(NewSessionRequest::new(&work)).block_task().await?;
        assert_eq!(opened.modes.unwrap().available_modes.len(), 4);
        // Without a prompt there is nothing to list.
        let listed = to.send_request(ListSessionsRequest::new()).block_task().await?;
        assert!(listed.sessions.is_empty());
        let lost =
            to.send_request(NewSessionRequest::new(work.join("nowhere"))).block_task().await.unwrap_err();
        assert_eq!(lost.code, ErrorCode::INVALID_PARAMS);
        assert!(lost.message.contains("nowhere"), "{}", lost.message);
        Ok(())
    })
    .await;
    host.close_all().await;
}

#[tokio::test]
async fn a_client_that_closes_the_pipe_ends_the_connection() {
    let folder = tempfile::tempdir().unwrap();
    let (client, agent) = tokio::io::duplex(1 << 16);
    let serving = tokio::spawn(serve(host(folder.path()), transport(agent)));
    drop(client);
    serving.await.unwrap().unwrap();
}
