//! The files of a directory of sessions.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::SystemTime;

use agent_core::SessionId;

use super::super::id;
use super::JsonStore;
use crate::error::SessionError;

/// The maximum number of threads that read files for a list.
const THREADS: usize = 4;

/// The number of files that a thread takes at a time. Fewer are read without threads.
const CHUNK: usize = 64;

/// The files of one session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) id: SessionId,
    pub(super) has_journal: bool,
}

/// Returns the sessions of a directory; those with a journal, which take longest, come first.
pub(super) fn of(store: &JsonStore) -> Result<Vec<Entry>, SessionError> {
    let mut names: Vec<(String, bool)> = Vec::new();
    let entries = std::fs::read_dir(store.dir()).map_err(SessionError::io(store.dir(), "listed"))?;
    for entry in entries {
        let entry = entry.map_err(SessionError::io(store.dir(), "listed"))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let (id, is_journal) = match (name.strip_suffix(".journal.jsonl"), name.strip_suffix(".json")) {
            (Some(id), _) => (id, true),
            (None, Some(id)) => (id, false),
            (None, None) => continue,
        };
        if id::check(id).is_ok() && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            names.push((id.to_owned(), is_journal));
        }
    }
    // The journal of a session comes before its file.
    names.sort_by(|(a, a_journal), (b, b_journal)| (a, !a_journal).cmp(&(b, !b_journal)));
    names.dedup_by(|next, first| next.0 == first.0);
    let (mut found, closed): (Vec<Entry>, Vec<Entry>) = names
        .into_iter()
        .map(|(id, has_journal)| Entry { id: SessionId::from(id), has_journal })
        .partition(|entry| entry.has_journal);
    found.extend(closed);
    Ok(found)
}

/// Returns when a session was last written.
pub(super) fn written(store: &JsonStore, entry: &Entry) -> Option<SystemTime> {
    let paths = [store.path_of(&entry.id), store.journal_of(entry.id.as_str())];
    let times = paths.into_iter().flatten().filter_map(|path| std::fs::metadata(path).ok()?.modified().ok());
    times.max()
}

/// Calls `look` with each session, on several threads if there are many. The order of the results is not defined.
pub(super) fn each<T: Send>(entries: &[Entry], look: impl Fn(&Entry) -> T + Sync) -> Vec<(Entry, T)> {
    let next = AtomicUsize::new(0);
    let all = Mutex::new(Vec::with_capacity(entries.len()));
    let work = || {
        let mut results = Vec::new();
        loop {
            let from = next.fetch_add(CHUNK, Ordering::Relaxed);
            let Some(rest) = entries.get(from..) else { break };
            results.extend(rest.iter().take(CHUNK).map(|entry| (entry.clone(), look(entry))));
        }
        all.lock().unwrap_or_else(PoisonError::into_inner).append(&mut results);
    };
    let processors = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = THREADS.min(processors).min(entries.len().div_ceil(CHUNK));
    thread::scope(|scope| {
        for _ in 1..threads {
            // Without another thread, this one does the work.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}
