//! Sends a session as traces to an OTLP receiver.

use anyhow::{Context as _, Result};
use looptree::otel::{Content, Telemetry, session};
use looptree::session::{JsonStore, LoadedSession, Session};

use super::resolve;
use crate::exit::Exit;
use crate::screen::Screen;

/// The maximum number of sessions of sub-agents that are sent with a session.
const MAX_SESSIONS: usize = 10_000;

/// Sends a session and those of its sub-agents. Headers come from `OTEL_EXPORTER_OTLP_HEADERS`.
pub(super) async fn send(
    store: &JsonStore,
    id: &str,
    url: &str,
    content: Content,
    screen: &Screen,
) -> Result<Exit> {
    let loaded = with_sub_agents(store, store.load_session(resolve(store, id).await?)?)?;
    let sessions: Vec<&Session> = loaded.iter().map(|loaded| &**loaded).collect();
    let telemetry = Telemetry::to(url).with_content(content);
    let sent = session::export(&telemetry, &sessions)
        .await
        .with_context(|| format!("cannot send to {}", plain(url)))?;
    screen.line(format!("sent: {} spans in {} traces", sent.spans, sent.traces));
    Ok(Exit::Done)
}

/// Loads the sessions of the sub-agents that a session called, and of those that they called.
fn with_sub_agents(store: &JsonStore, first: LoadedSession) -> Result<Vec<LoadedSession>> {
    let stored = store.list_session_ids()?;
    let mut sessions = vec![first];
    let mut next = 0;
    while let Some(session) = sessions.get(next).filter(|_| next < MAX_SESSIONS) {
        let links = session.loops.iter().flat_map(|record| &record.child_loop_refs);
        let ids: Vec<_> = links.map(|link| link.child_session_id.clone()).collect();
        for id in ids {
            let known = sessions.iter().any(|session| session.session_id == id);
            // A sub-agent that was not recorded, or whose session was deleted, has no spans.
            if !known && stored.contains(&id) {
                sessions.push(store.load_session(id.as_str())?);
            }
        }
        next += 1;
    }
    Ok(sessions)
}

/// Returns an address without a query, which can contain a key.
fn plain(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}
