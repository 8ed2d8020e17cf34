//! `looptree view`: a session as an HTML page.

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use looptree::prelude::*;
use looptree::session::Session;
use looptree::tools::PathError;
use looptree::tools::bounded::BoundedFolder;
use looptree::view::{PAGE_START, Page};

use crate::exit::Exit;
use crate::screen::{Screen, write_output};
use crate::sessions::resolve;

/// The largest number of sessions of sub-agents that a page contains.
const MOST_CHILDREN: usize = 1_000;

/// Where the page goes.
enum Output {
    Standard,
    File(PathBuf),
}

/// Writes the page of a session, or of two side by side.
pub(crate) async fn run(
    store: &JsonStore,
    session: &str,
    other: Option<&str>,
    output: Option<PathBuf>,
    screen: &Screen,
) -> Result<Exit> {
    let main = store.load_session(resolve(store, session).await?)?.into_session();
    let other = match other {
        Some(id) => Some(store.load_session(resolve(store, id).await?)?.into_session()),
        None => None,
    };
    let mut children = children(store, &main, screen);
    if let Some(other) = &other {
        let known: BTreeSet<_> = children.iter().map(|child| child.session_id.clone()).collect();
        let more = self::children(store, other, screen);
        children.extend(more.into_iter().filter(|child| !known.contains(&child.session_id)));
    }
    let page = match &other {
        Some(other) => Page::compare(&main, other),
        None => Page::new(&main),
    };
    let page = page.with_children(&children);
    match output_of(output, &main) {
        Output::Standard => {
            let mut html = Vec::new();
            page.write(&mut html)?;
            let written = write_output(&String::from_utf8(html)?);
            Ok(if written.is_ok() { Exit::Done } else { Exit::Unread })
        }
        Output::File(path) => {
            write(&page, &path)?;
            screen.line(format!("written: {}", path.display()));
            Ok(Exit::Done)
        }
    }
}

/// Returns the file that the user named; without one, a file named after the session in the current directory, or the standard
/// output if it is not a terminal.
fn output_of(output: Option<PathBuf>, session: &Session) -> Output {
    match output {
        Some(path) if path.as_os_str() == "-" => Output::Standard,
        Some(path) => Output::File(path),
        None if !std::io::stdout().is_terminal() => Output::Standard,
        None => {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            let id = session.session_id.as_str();
            let name: String = id.chars().map(|c| if is_plain(c) { c } else { '_' }).take(100).collect();
            Output::File(PathBuf::from(format!("{name}.html")))
        }
    }
}

/// Loads the sessions of sub-agents, and of theirs. One that cannot be read is left out with a line.
fn children(store: &JsonStore, session: &Session, screen: &Screen) -> Vec<Session> {
    let ids = |session: &Session| -> Vec<_> {
        let refs = session.loops.iter().flat_map(|record| &record.child_loop_refs);
        refs.map(|child| child.child_session_id.clone()).collect()
    };
    let mut seen = BTreeSet::from([session.session_id.clone()]);
    let mut open = ids(session);
    let mut found: Vec<Session> = Vec::new();
    while let Some(id) = open.pop() {
        if found.len() >= MOST_CHILDREN || !seen.insert(id.clone()) {
            continue;
        }
        match store.load_session(&id) {
            Ok(child) => {
                let child = child.into_session();
                open.extend(ids(&child));
                found.push(child);
            }
            Err(error) => screen.error_line(format!("the session of a sub-agent is left out: {error}")),
        }
    }
    found
}

/// Writes the page to a file that does not exist, or that is an earlier page. The file is replaced when the page is complete.
fn write(page: &Page<'_>, path: &Path) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    if !is_free(path).with_context(failed)? {
        bail!("{} exists and is not a page of looptree view; name another file with -o", path.display());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file =
        tempfile::Builder::new().prefix(".looptree-view").tempfile_in(folder).with_context(failed)?;
    page.write(&mut file).with_context(failed)?;
    file.flush().with_context(failed)?;
    file.persist(path).map_err(|error| error.error).with_context(failed)?;
    Ok(())
}

/// Returns whether there is no file, or an earlier page.
fn is_free(path: &Path) -> std::result::Result<bool, PathError> {
    match BoundedFolder::read_named(path, PAGE_START.len() as u64) {
        Ok(start) => Ok(start.bytes == PAGE_START.as_bytes()),
        Err(error) if error.is_not_found() => Ok(true),
        Err(PathError::NotRegular { .. } | PathError::IsADirectory { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
