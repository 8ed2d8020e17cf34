//! The sessions of a directory: listing, searching, showing, forking, exporting, salvaging, deleting.

mod salvage;
mod traces;

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use looptree::Timestamp;
use looptree::identity::SessionId;
use looptree::otel::Content;
use looptree::prelude::*;
use looptree::serve::owning_key;
use looptree::session::{
    FoundSession, FoundSessions, OutlineTurn, Point, Session, SessionQuery, SessionSummary, pi, to_markdown,
};

use crate::args::{Form, Sessions};
use crate::exit::{Exit, usage};
use crate::money;
use crate::screen::{Screen, Style, Styled, brief, write_output};
use crate::settings::Settings;
use crate::text::tokens;

/// The shortest beginning of an id that is accepted.
const MIN_PREFIX: usize = 4;
/// Digits of an id in a list.
const SHORT: usize = 8;

pub(crate) async fn run(
    what: Sessions,
    store: &JsonStore,
    root: &Path,
    settings: &Settings,
    screen: &Screen,
) -> Result<Exit> {
    match what {
        Sessions::List { limit } => list(store, &SessionQuery::new().page(0, limit), screen).await,
        Sessions::Search { words } => {
            list(store, &SessionQuery::new().with_text(words.join(" ")), screen).await
        }
        Sessions::Show { id, tree } => show(store, &id, tree, screen).await,
        Sessions::Fork { id, turn } => fork(store, &id, turn, settings, screen).await,
        Sessions::Export { id, otlp: Some(url), content, .. } => {
            let content = if content { Content::Included } else { Content::Omitted };
            traces::send(store, &id, &url, content, screen).await
        }
        Sessions::Export { id, form, output, .. } => {
            export(store, root, &id, form, output.as_deref(), screen).await
        }
        Sessions::Salvage { session, output, id } => {
            salvage::run(store, &session, id.as_deref(), output.as_deref(), settings, screen).await
        }
        Sessions::Delete { ids } => {
            for id in ids {
                let id = resolve(store, &id).await?;
                store.delete_session(&id)?;
                screen.line(format!("deleted {id}"));
            }
            Ok(Exit::Done)
        }
    }
}

/// Returns the id of a stored session that begins with a text.
pub(crate) async fn resolve(store: &JsonStore, text: &str) -> Result<String> {
    among(&store.list_session_ids()?, text)
}

/// Returns the one of these ids that begins with a text.
pub(crate) fn among(ids: &[SessionId], text: &str) -> Result<String> {
    if ids.iter().any(|id| id.as_str() == text) {
        return Ok(text.to_owned());
    }
    if text.len() < MIN_PREFIX {
        bail!(usage(format!(
            "{text:?} is too short for the beginning of a session's id; write at least {MIN_PREFIX} characters"
        )));
    }
    let found: Vec<_> = ids.iter().filter(|id| id.as_str().starts_with(text)).collect();
    match found[..] {
        [] => bail!(usage(format!(
            "there is no session {text:?} of this directory; looptree sessions lists them"
        ))),
        [id] => Ok(id.as_str().to_owned()),
        _ => {
            let ids: Vec<_> = found.iter().map(|id| id.as_str()).collect();
            bail!(usage(format!("{text:?} is the beginning of several sessions: {}", ids.join(", "))))
        }
    }
}

/// Returns the newest session that is not the one of a sub-agent.
pub(crate) async fn newest(store: &JsonStore) -> Result<String> {
    let found = store.find_sessions(&SessionQuery::new().page(0, 100)).await?;
    // What a client of the service wrote must not act with the permissions of the user.
    let is_own = |found: &FoundSession| {
        found.summary.parent_session_id.is_none() && owning_key(found.summary.agent_id.as_str()).is_none()
    };
    let newest = found.sessions.into_iter().find(is_own);
    let newest = newest.map(|found| found.summary.session_id.as_str().to_owned());
    newest.ok_or_else(|| usage("this directory has no session to continue"))
}

async fn list(store: &JsonStore, query: &SessionQuery, screen: &Screen) -> Result<Exit> {
    let found: FoundSessions = store.find_sessions(query).await?;
    if found.sessions.is_empty() {
        screen.line(if query.text.is_some() { "no session contains these words" } else { "no sessions yet" });
    }
    for session in &found.sessions {
        screen.line(described(&session.summary));
        for hit in &session.hits {
            screen.line(screen.paint(Style::Dim, Styled::from("    ") + brief(&hit.snippet)));
        }
    }
    let left = found.total.saturating_sub(found.sessions.len());
    if left > 0 {
        screen.line(format!("… {left} more"));
    }
    for (id, error) in &found.unreadable {
        screen.line(format!("{id} cannot be read: {error}"));
    }
    Ok(Exit::Done)
}

/// Describes a session in one line.
pub(crate) fn described(summary: &SessionSummary) -> Styled {
    let id = summary.session_id.as_str();
    let short = id.get(..SHORT).unwrap_or(id);
    let when = summary.last_active_at.to_rfc3339();
    let when = when.get(..16).unwrap_or(&when).replace('T', " ");
    let title = summary.title.as_deref().map_or_else(|| "(empty)".into(), brief);
    let state = match summary.status {
        Some(looptree::session::LoopStatus::Suspended) => ", waits for an answer",
        Some(looptree::session::LoopStatus::Interrupted | looptree::session::LoopStatus::Running) => {
            ", not finished"
        }
        _ => "",
    };
    let cost = if summary.cost_micros > 0 {
        format!(", {}", money::dollars(summary.cost_micros))
    } else {
        String::new()
    };
    let tokens = tokens(summary.usage.total_tokens);
    Styled::from(format!("{short}  {when}  {} messages, {tokens} tokens{cost}{state}  ", summary.messages))
        + title
}

async fn show(store: &JsonStore, id: &str, as_tree: bool, screen: &Screen) -> Result<Exit> {
    let session = store.load_session(resolve(store, id).await?)?;
    if as_tree {
        tree(&session, None, screen)?;
    } else {
        screen.markdown(&to_markdown(&session));
    }
    Ok(Exit::Done)
}

/// Shows the turns of a session; `*` marks a place.
pub(crate) fn tree(session: &Session, here: Option<&Point>, screen: &Screen) -> Result<()> {
    screen.line(format!("session {}", session.session_id));
    if let Some(fork) = &session.forked_from {
        screen.line(format!("forked from session {}", fork.session_id));
    }
    let end = session.end_point();
    let here = here.or(end.as_ref());
    let mut depths: Vec<usize> = Vec::new();
    for (n, turn) in session.outline()?.iter().enumerate() {
        let before = turn.follows.and_then(|at| depths.get(at)).copied().unwrap_or(0);
        let depth = before + usize::from(turn.branch > 0);
        depths.push(depth);
        let mark = if Some(&turn.point) == here { '*' } else { ' ' };
        let from = match (turn.branch, turn.follows) {
            (0, _) => String::new(),
            (_, Some(at)) => format!("(from {}) ", at + 1),
            (_, None) => "(from the beginning) ".to_owned(),
        };
        let head = format!("{mark}{:>3}  {}{from}", n + 1, "  ".repeat(depth));
        let text = Styled::from(head) + turn_line(turn);
        screen.line(if screen.live { text.cut(screen.width().saturating_sub(1)) } else { text });
    }
    Ok(())
}

/// Describes a turn in one line: its message and its outcome.
fn turn_line(turn: &OutlineTurn) -> Styled {
    let asked = turn.input.iter().map(|m| Styled::from("> ") + brief(&m.text()) + " ");
    let calls = turn.calls.iter().map(|name| Styled::from("[") + brief(name.as_str()) + "] ");
    let reply = turn.reply.as_ref().map(|m| brief(&m.text())).unwrap_or_default();
    let stopped = turn.stopped.as_deref().map(|reason| Styled::from(" (stopped: ") + brief(reason) + ")");
    asked
        .chain(calls)
        .chain([reply])
        .chain(stopped)
        .fold(Styled::default(), |line, part| line + part)
        .trim_end()
}

/// Returns the place after a turn, by its number from 1; 0 is the beginning.
pub(crate) fn place(session: &Session, n: usize) -> Result<Point> {
    let turns = session.outline()?;
    let point = match n.checked_sub(1) {
        None => turns.first().and_then(|t| session.point_before_turn(&t.turn_id)),
        Some(at) => turns.get(at).map(|t| t.point.clone()),
    };
    point.with_context(|| format!("there is no turn {n}; the session has {}", turns.len()))
}

async fn fork(
    store: &JsonStore,
    id: &str,
    turn: Option<usize>,
    settings: &Settings,
    screen: &Screen,
) -> Result<Exit> {
    let session = store.load_session(resolve(store, id).await?)?;
    let point = match turn {
        Some(n) => place(&session, n)?,
        None => session.end_point().context("the session is empty")?,
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let forked = session.forked(&point, new_id(), Timestamp(u64::try_from(now.as_millis())?))?;
    store.save_session(&forked)?;
    let id = forked.session_id.as_str();
    screen.line(format!("{id}; {} continues it", settings.resume(id)));
    Ok(Exit::Done)
}

async fn export(
    store: &JsonStore,
    root: &Path,
    id: &str,
    form: Form,
    output: Option<&Path>,
    screen: &Screen,
) -> Result<Exit> {
    let loaded = store.load_session(resolve(store, id).await?)?;
    let session: &Session = &loaded;
    let text = match form {
        Form::Markdown => to_markdown(session),
        Form::Json => serde_json::to_string_pretty(session)? + "\n",
        Form::Pi => pi::export_from(session, root)?,
    };
    let Some(path) = output else {
        return Ok(if write_output(&text).is_ok() { Exit::Done } else { Exit::Unread });
    };
    write_new(path, &text)?;
    screen.line(format!("written: {}", path.display()));
    Ok(Exit::Done)
}

/// Writes a file that does not exist yet.
fn write_new(path: &Path, text: &str) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let mut file = std::fs::File::create_new(path).with_context(cannot)?;
    file.write_all(text.as_bytes()).with_context(cannot)
}

/// Returns an id for a new session. A new agent has a new random one.
fn new_id() -> SessionId {
    looptree::agent(ModelConfig::default()).session_id()
}

/// Lets the user choose one of the newest sessions.
pub(crate) async fn pick(store: &JsonStore, can_ask: bool, screen: &Screen) -> Result<String> {
    let found = store.find_sessions(&SessionQuery::new().page(0, 20)).await?;
    let left = found.total.saturating_sub(found.sessions.len());
    let found: Vec<_> = found.sessions.iter().filter(|f| f.summary.parent_session_id.is_none()).collect();
    if found.is_empty() {
        return Err(usage("this directory has no session to continue"));
    }
    for (n, session) in found.iter().enumerate() {
        let line = Styled::from(format!("{:>3}  ", n + 1)) + described(&session.summary);
        screen.line(if screen.live { line.cut(screen.width().saturating_sub(1)) } else { line });
    }
    if left > 0 {
        screen.line(format!(
            "… {left} more; looptree sessions search WORD finds one, and --resume ID continues it"
        ));
    }
    if !can_ask {
        return Err(usage("name one of these sessions: --resume ID"));
    }
    loop {
        screen.ask("Which one? [1] ");
        let mut line = String::new();
        if std::io::stdin().read_line(&mut line)? == 0 {
            return Err(usage("no session was chosen"));
        }
        let n: usize = if line.trim().is_empty() { 1 } else { line.trim().parse().unwrap_or(0) };
        if let Some(chosen) = n.checked_sub(1).and_then(|at| found.get(at)) {
            return Ok(chosen.summary.session_id.as_str().to_owned());
        }
        screen.line(format!("{:?} is none of the numbers", line.trim()));
    }
}
