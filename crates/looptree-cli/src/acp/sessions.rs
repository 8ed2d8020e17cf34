//! Opening, loading, listing and closing sessions.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CloseSessionRequest, CloseSessionResponse, ListSessionsRequest, ListSessionsResponse, LoadSessionRequest,
    LoadSessionResponse, McpServer as Wanted, Meta, NewSessionRequest, NewSessionResponse,
    ResumeSessionRequest, ResumeSessionResponse, SessionInfo, SessionNotification,
};
use agent_client_protocol::{Client, Error};
use looptree::model::Secret;
use looptree::prelude::*;
use looptree::session::SessionQuery;
use looptree::tools::mcp::McpServer;

use super::updates::Updates;
use super::{Session, Sessions, editor_servers, failed, found, invalid, missing, modes};
use crate::servers::EditorServers;

/// Sessions on one page of a list.
const PAGE: usize = 50;

pub(super) async fn new(host: &Sessions, request: NewSessionRequest) -> Result<NewSessionResponse, Error> {
    let session = open(host, &request.cwd, None, (request.mcp_servers, request.meta.as_ref())).await?;
    let id = session.setup.agent.session_id();
    Ok(NewSessionResponse::new(id.as_str().to_owned()).modes(modes::state(&session.setup.approvals)))
}

/// Opens a session and sends its conversation to the editor.
pub(super) async fn load(
    host: &Sessions,
    request: LoadSessionRequest,
    to: &ConnectionTo<Client>,
) -> Result<LoadSessionResponse, Error> {
    let id = request.session_id;
    let session = open(host, &request.cwd, Some(&id.0), (request.mcp_servers, request.meta.as_ref())).await?;
    let updates = {
        let mut updates = session.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        updates.conversation(&session.setup.agent.history())
    };
    for update in updates {
        to.send_notification(SessionNotification::new(id.clone(), update))?;
    }
    Ok(LoadSessionResponse::new().modes(modes::state(&session.setup.approvals)))
}

/// Opens a session whose conversation the editor has.
pub(super) async fn resume(
    host: &Sessions,
    request: ResumeSessionRequest,
) -> Result<ResumeSessionResponse, Error> {
    let servers = (request.mcp_servers, request.meta.as_ref());
    let session = open(host, &request.cwd, Some(&request.session_id.0), servers).await?;
    Ok(ResumeSessionResponse::new().modes(modes::state(&session.setup.approvals)))
}

pub(super) async fn close(
    host: &Sessions,
    request: &CloseSessionRequest,
) -> Result<CloseSessionResponse, Error> {
    found(host, &request.session_id.0)?;
    host.close(&request.session_id.0).await.map_err(|error| failed(&error))?;
    Ok(CloseSessionResponse::new())
}

/// Lists the sessions of a directory, the newest first; the cursor is the number of those before the page.
pub(super) async fn list(
    host: &Sessions,
    request: ListSessionsRequest,
) -> Result<ListSessionsResponse, Error> {
    let root = match &request.cwd {
        Some(cwd) => directory(cwd)?,
        None => host.directory().map_err(|error| failed(&error))?,
    };
    let offset = match &request.cursor {
        None => 0,
        Some(cursor) => {
            cursor.parse().map_err(|_| invalid(format!("{cursor:?} is no cursor of this list")))?
        }
    };
    let store = host.store(&root).map_err(|error| failed(&error))?;
    let page = SessionQuery::new().page(offset, PAGE);
    let all = store.find_sessions(&page).await.map_err(|error| failed(&error.into()))?;
    let next = offset.saturating_add(all.sessions.len());
    let own = all.sessions.into_iter().map(|found| found.summary).filter(|s| s.parent_session_id.is_none());
    let infos = own.map(|summary| {
        SessionInfo::new(summary.session_id.as_str().to_owned(), root.clone())
            .title(summary.title.as_deref().map(|title| crate::screen::brief(title).as_str().to_owned()))
            .updated_at(summary.last_active_at.to_rfc3339())
    });
    Ok(ListSessionsResponse::new(infos.collect()).next_cursor((next < all.total).then(|| next.to_string())))
}

async fn open(
    host: &Sessions,
    cwd: &Path,
    id: Option<&str>,
    (wanted, meta): (Vec<Wanted>, Option<&Meta>),
) -> Result<Arc<Session>, Error> {
    let root = directory(cwd)?;
    if let Some(id) = id {
        let store = host.store(&root).map_err(|error| failed(&error))?;
        let known = store.list_session_ids().map_err(|error| failed(&error.into()))?;
        if !known.iter().any(|known| known.as_str() == id) {
            // A session without a prompt is not stored.
            if let Some(session) = host.get(id).filter(|session| session.setup.root == root) {
                return Ok(session);
            }
            return Err(missing(id, &format!("is none of those of {}", root.display())));
        }
        // The editor may load again what is open: it has lost its own copy.
        host.close(id).await.map_err(|error| failed(&error))?;
    }
    let mut servers = EditorServers { left_out: editor_servers::omissions(meta), ..EditorServers::default() };
    servers.servers.extend(wanted.into_iter().filter_map(server));
    let state = Mutex::new(Updates::new(root.clone()));
    host.open(&root, id.map(str::to_owned), servers, state).await.map_err(|error| failed(&error))
}

/// Returns the directory of a session, which the editor names.
fn directory(cwd: &Path) -> Result<PathBuf, Error> {
    if !cwd.is_absolute() {
        return Err(invalid(format!("the directory {} is not absolute", cwd.display())));
    }
    match cwd.canonicalize() {
        Ok(root) if root.is_dir() => Ok(root),
        Ok(root) => Err(invalid(format!("{} is not a directory", root.display()))),
        Err(error) => Err(invalid(format!("cannot open the directory {}: {error}", cwd.display()))),
    }
}

/// Converts an MCP server of the editor's configuration. Its name is the prefix of its tools.
fn server(wanted: Wanted) -> Option<McpServer> {
    match wanted {
        Wanted::Stdio(stdio) => {
            let server =
                McpServer::stdio(&stdio.name, stdio.command).with_args(stdio.args).with_prefix(&stdio.name);
            Some(stdio.env.into_iter().fold(server, |server, set| server.with_env(set.name, set.value)))
        }
        Wanted::Http(http) => {
            let server = McpServer::http(&http.name, http.url).with_prefix(&http.name);
            let with = |server: McpServer, set: agent_client_protocol::v1::schema::HttpHeader| {
                server.with_header(set.name, Secret::new(set.value))
            };
            Some(http.headers.into_iter().fold(server, with))
        }
        // `editor_servers` leaves these entries out, with the reason.
        _ => None,
    }
}
