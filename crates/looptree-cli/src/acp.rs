//! `looptree acp`: the agent of an editor, by the Agent Client Protocol over standard input and output.
//!
//! Version 1 of the protocol is spoken, with the stable methods of the schema that the crate `agent-client-protocol` pins.

mod editor_servers;
mod modes;
mod permission;
mod prompt;
mod sessions;
mod transport;
mod turn;
mod updates;

use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, CancelNotification, CloseSessionRequest, Implementation, InitializeRequest,
    InitializeResponse, ListSessionsRequest, LoadSessionRequest, McpCapabilities, NewSessionRequest,
    PromptCapabilities, PromptRequest, ResumeSessionRequest, SessionCapabilities, SessionCloseCapabilities,
    SessionListCapabilities, SessionResumeCapabilities, SetSessionModeRequest, SetSessionModeResponse,
};
use agent_client_protocol::{
    Agent, Client, ConnectTo, Error, ErrorCode, on_receive_notification, on_receive_request,
};
use anyhow::Result;

use crate::args::Flags;
use crate::exit::Exit;
use crate::screen::Screen;
use crate::served::{Host, Served, told_to_end};
use crate::text::chain;
use updates::Updates;

/// What is kept about each session: the updates that the editor has received.
type Session = Served<Mutex<Updates>>;
/// The sessions of an editor.
type Sessions = Arc<Host<Mutex<Updates>>>;

/// Serves an editor on the standard input and output until it closes them or a signal ends the process.
pub(crate) async fn run(flags: Flags, screen: Screen) -> Result<Exit> {
    let host: Sessions = Arc::new(Host::new(flags, screen.clone())?);
    screen.line(format!(
        "looptree {} speaks ACP version 1 on standard input and output",
        env!("CARGO_PKG_VERSION")
    ));
    let transport = transport::of(tokio::io::stdin(), tokio::io::stdout());
    let ended = tokio::select! {
        ended = serve(Arc::clone(&host), transport) => ended,
        () = told_to_end() => Ok(()),
    };
    host.close_all().await;
    match ended {
        Ok(()) => Ok(Exit::Done),
        Err(error) => Err(anyhow::anyhow!("the connection to the editor broke: {}", error.message)),
    }
}

/// Serves one connection until the other side closes it.
async fn serve(host: Sessions, transport: impl ConnectTo<Agent> + 'static) -> Result<(), Error> {
    let of = || Arc::clone(&host);
    let (new, load, resume, list) = (of(), of(), of(), of());
    let (close, mode, prompt, cancel) = (of(), of(), of(), of());
    Agent
        .v1()
        .name("looptree")
        .on_receive_request(
            async move |_: InitializeRequest, responder, _cx: ConnectionTo<Client>| {
                responder.respond(introduction())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest, responder, cx: ConnectionTo<Client>| {
                let host = Arc::clone(&new);
                cx.spawn(async move { responder.respond_with_result(sessions::new(&host, request).await) })
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: LoadSessionRequest, responder, cx: ConnectionTo<Client>| {
                let (host, to) = (Arc::clone(&load), cx.clone());
                cx.spawn(
                    async move { responder.respond_with_result(sessions::load(&host, request, &to).await) },
                )
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ResumeSessionRequest, responder, cx: ConnectionTo<Client>| {
                let host = Arc::clone(&resume);
                cx.spawn(async move { responder.respond_with_result(sessions::resume(&host, request).await) })
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ListSessionsRequest, responder, cx: ConnectionTo<Client>| {
                let host = Arc::clone(&list);
                cx.spawn(async move { responder.respond_with_result(sessions::list(&host, request).await) })
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: CloseSessionRequest, responder, cx: ConnectionTo<Client>| {
                let host = Arc::clone(&close);
                cx.spawn(async move { responder.respond_with_result(sessions::close(&host, &request).await) })
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: SetSessionModeRequest, responder, _cx: ConnectionTo<Client>| {
                let set = found(&mode, &request.session_id.0)
                    .and_then(|session| modes::set(&session.setup.approvals, &request.mode_id));
                responder.respond_with_result(set.map(|()| SetSessionModeResponse::new()))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, cx: ConnectionTo<Client>| {
                // The place of the run is taken here, so that a cancellation behind the prompt finds it.
                let session = match found(&prompt, &request.session_id.0) {
                    Ok(session) => session,
                    Err(error) => return responder.respond_with_error(error),
                };
                let Some(turn) = session.begin() else {
                    return responder.respond_with_error(invalid(
                        "this session works on a prompt already; wait for its end, or send session/cancel",
                    ));
                };
                let to = cx.clone();
                cx.spawn(async move {
                    let cancelled = responder.cancellation();
                    let stop = turn.stop.clone();
                    let working = turn::run(&session, request, turn, to);
                    tokio::pin!(working);
                    let ended = tokio::select! {
                        ended = &mut working => ended,
                        () = cancelled.cancelled() => {
                            stop.cancel();
                            working.await
                        }
                    };
                    responder.respond_with_result(ended)
                })
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |request: CancelNotification, _cx: ConnectionTo<Client>| {
                if let Some(session) = cancel.get(&request.session_id.0) {
                    session.cancel();
                }
                Ok(())
            },
            on_receive_notification!(),
        )
        .connect_to(transport)
        .await
}

/// What the agent can do.
fn introduction() -> InitializeResponse {
    let prompts = PromptCapabilities::new().image(true).embedded_context(true);
    let sessions = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .close(SessionCloseCapabilities::new());
    let capabilities = AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(prompts)
        .mcp_capabilities(McpCapabilities::new().http(true))
        .session_capabilities(sessions);
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities)
        .agent_info(Implementation::new("looptree", env!("CARGO_PKG_VERSION")).title("Looptree".to_owned()))
}

/// Returns an open session.
fn found(host: &Sessions, id: &str) -> Result<Arc<Session>, Error> {
    host.get(id).ok_or_else(|| missing(id, "is not open here; session/new and session/load open one"))
}

/// The error of a session that cannot be found.
fn missing(id: &str, why: &str) -> Error {
    let data = serde_json::json!({ "sessionId": id });
    Error::new(ErrorCode::RESOURCE_NOT_FOUND, format!("the session {id} {why}")).data(data)
}

/// The error of a request that cannot be followed.
fn invalid(text: impl Into<String>) -> Error {
    Error::new(ErrorCode::INVALID_PARAMS, text)
}

/// The error of a request that failed, with the causes.
fn failed(error: &anyhow::Error) -> Error {
    Error::new(ErrorCode::INTERNAL_ERROR, chain(error))
}

#[cfg(test)]
mod tests;
