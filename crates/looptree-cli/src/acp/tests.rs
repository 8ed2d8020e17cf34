use std::path::Path;

use agent_client_protocol::v1::schema::{ListSessionsRequest, NewSessionRequest};
use clap::Parser as _;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

use super::*;
use crate::args::{Cli, Color};
use crate::screen::Stream;

/// A host in an empty directory, with a model that is not called.
fn host(folder: &Path) -> Sessions {
    let (config, sessions, work) = (folder.join("config.toml"), folder.join("sessions"), folder.join("work"));
    std::fs::write(&config, "").unwrap();
    std::fs::create_dir(&work).unwrap();
    let path = |path: &Path| path.display().to_string();
    let words =
        ["looptree", "acp", "--model", "local/x", "--base-url", "http://127.0.0.1:9/v1"].map(str::to_owned);
    let paths = [
        "--config".to_owned(),
        path(&config),
        "--sessions".to_owned(),
        path(&sessions),
        "--cwd".to_owned(),
        path(&work),
    ];
    let cli = Cli::try_parse_from(words.into_iter().chain(paths)).unwrap();
    Arc::new(Host::new(cli.flags, Screen::new(Stream::Err, Color::Never).quiet()))
}

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
