//! Records the states of files while tools run.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_core::ToolCallId;
use agent_core::hooks::{Hooks, ToolEnded, Verdict};
use agent_core::run::ToolChange;
use serde_json::{Value, json};

use super::mark::{Found, Key, Look};
use super::{FILE_NOTES, FileDifference, FileMark, FileState, Notes, difference, mark};

/// The maximum number of files that one watch checks after each call. Further files are not recorded.
pub const MAX_WATCHED_FILES: usize = 4096;

/// The keys under which arguments and details of tools name files.
const PATH_KEYS: [&str; 2] = ["path", "file_path"];

/// Opens a file for a watch by its path below the root.
pub(super) type OpenFile = dyn Fn(&str) -> io::Result<File> + Send + Sync;

/// Records the states of the files that tools use. Clones are handles to the same watch.
///
/// It watches the files below the root that successful calls name as `path` or `file_path` in arguments or details. After
/// each call it checks all of them, so that it also detects changes by a shell. The cost is opening each file, and one read
/// of each file that changed. It reads only files that its opener returns, and records nothing about others.
#[derive(Clone)]
pub struct FileWatch {
    inner: Arc<Inner>,
}

struct Inner {
    root: PathBuf,
    open: Box<OpenFile>,
    key: Key,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    files: BTreeMap<String, Option<FileMark>>,
    /// Earlier states that are not in a result yet.
    before: BTreeMap<String, Option<FileMark>>,
    /// The states before calls whose end is not known. They are recorded if the call succeeds: a tool or a policy may refuse
    /// the file.
    pending: VecDeque<(ToolCallId, String, Option<FileMark>)>,
}

impl Seen {
    /// Adds a file that is not known yet, with its state before the call.
    fn admit(&mut self, path: String, mark: Option<FileMark>) {
        if self.files.len() < MAX_WATCHED_FILES && !self.files.contains_key(&path) {
            self.before.insert(path.clone(), mark.clone());
            self.files.insert(path, mark);
        }
    }
}

impl fmt::Debug for FileWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileWatch").field("root", &self.inner.root).finish_non_exhaustive()
    }
}

impl FileWatch {
    /// Creates a watch over the files below a directory, which `open` opens by their path below it. Pass the `open_file` of the
    /// tools' workspace, so that the watch reads no file that the tools refuse: an error other than `NotFound` is such a
    /// file. `open` must not block on a pipe, and runs on a thread for blocking work.
    #[must_use]
    pub fn new<E: Into<io::Error>>(
        root: impl Into<PathBuf>,
        open: impl Fn(&str) -> Result<File, E> + Send + Sync + 'static,
    ) -> Self {
        let open = Box::new(move |path: &str| open(path).map_err(Into::into));
        Self { inner: Arc::new(Inner { root: root.into(), open, key: Key::new(), seen: Mutex::default() }) }
    }

    /// Returns the directory that is watched.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.inner.root
    }

    /// Returns the state of the files that the watch knows.
    #[must_use]
    pub fn state(&self) -> FileState {
        FileState(self.lock().files.clone())
    }

    /// Continues from the file state that a session has at a place, after a restart, a rewind or a fork. Differences
    /// to the current files are recorded with the next call.
    pub fn adopt(&self, state: &FileState) {
        let mut seen = self.lock();
        seen.before.clear();
        let files = state.0.iter().take(MAX_WATCHED_FILES);
        seen.files = files.map(|(path, mark)| (path.clone(), mark.clone())).collect();
    }

    /// Returns the files whose current state differs from the recorded one. Reads files of equal length whose time has changed;
    /// a file whose hash has the key of another process counts as different then. Files that the watch may not open are left
    /// out. Blocks.
    #[must_use]
    pub fn differences(&self, state: &FileState) -> Vec<FileDifference> {
        let mut look = self.look();
        let files = state.0.iter().take(MAX_WATCHED_FILES);
        let found = files.filter_map(|(path, then)| match look.at(path, then.as_ref()) {
            Found::State(now) => difference(path, then, now),
            Found::Refused => None,
        });
        found.collect()
    }

    /// Reads these files, so that their state is known. Blocks.
    pub fn look_at(&self, paths: impl IntoIterator<Item = impl AsRef<str>>) {
        let paths: Vec<String> = paths.into_iter().filter_map(|p| self.relative(p.as_ref())).collect();
        for (path, mark) in self.meet(paths) {
            self.lock().admit(path, mark);
        }
    }

    /// Returns `hooks` with the watch's own hooks around tool calls at the end. Existing hooks run first.
    #[must_use]
    pub fn hooks(&self, hooks: Hooks) -> Hooks {
        let (before, after) = (self.clone(), self.clone());
        hooks
            .before_tool(move |call| {
                let watch = before.clone();
                async move {
                    let paths = watch.paths(&call.arguments);
                    if !paths.is_empty() {
                        let id = call.call.id.clone();
                        watch.blocking(move |watch| watch.meet_before(&id, paths)).await;
                    }
                    Verdict::Allow
                }
            })
            .after_tool(move |ended: ToolEnded| {
                let watch = after.clone();
                async move {
                    let end = *ended.end;
                    let paths = if end.is_error { Vec::new() } else { watch.paths(&end.result.details) };
                    let (id, is_error) = (ended.call.id, end.is_error);
                    let notes = watch.blocking(move |watch| {
                        watch.settle(&id, is_error);
                        watch.take_notes(paths)
                    });
                    notes.await.map_or_else(ToolChange::none, |notes| {
                        ToolChange::none().with_details(with_notes(end.result.details, &notes))
                    })
                }
            })
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.inner.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn paths(&self, value: &Value) -> Vec<String> {
        let named = PATH_KEYS.iter().filter_map(|key| value.get(key)?.as_str());
        named.filter_map(|path| self.relative(path)).collect()
    }

    /// A path below the root, without the root; `None` for one that is elsewhere.
    fn relative(&self, path: &str) -> Option<String> {
        let path = Path::new(path);
        let below = if path.is_absolute() { path.strip_prefix(&self.inner.root).ok()? } else { path };
        let mut parts: Vec<&str> = Vec::new();
        for part in below.components() {
            match part {
                Component::Normal(name) => parts.push(name.to_str()?),
                Component::CurDir => {}
                Component::ParentDir => drop(parts.pop()?),
                Component::RootDir | Component::Prefix(_) => return None,
            }
        }
        (!parts.is_empty()).then(|| parts.join("/"))
    }

    fn look(&self) -> Look<'_> {
        Look::new(&*self.inner.open, &self.inner.key)
    }

    /// Returns the states of the files that are not known and that the tools read.
    fn meet(&self, mut paths: Vec<String>) -> Vec<(String, Option<FileMark>)> {
        {
            let seen = self.lock();
            paths.truncate(MAX_WATCHED_FILES.saturating_sub(seen.files.len()));
            paths.retain(|path| !seen.files.contains_key(path));
        }
        let mut look = self.look();
        let found = paths.into_iter().filter_map(|path| match look.at(&path, None) {
            Found::State(mark) => Some((path, mark)),
            Found::Refused => None,
        });
        found.collect()
    }

    /// Remembers the states of files before a call.
    fn meet_before(&self, id: &ToolCallId, paths: Vec<String>) {
        let found = self.meet(paths);
        let mut seen = self.lock();
        seen.pending.extend(found.into_iter().map(|(path, mark)| (id.clone(), path, mark)));
        // Calls that were denied have no end.
        while seen.pending.len() > MAX_WATCHED_FILES {
            seen.pending.pop_front();
        }
    }

    /// Records the files of a call that succeeded, and forgets those of one that failed.
    fn settle(&self, id: &ToolCallId, is_error: bool) {
        let mut seen = self.lock();
        for (call, path, mark) in std::mem::take(&mut seen.pending) {
            if call != *id {
                seen.pending.push_back((call, path, mark));
            } else if !is_error {
                seen.admit(path, mark);
            }
        }
    }

    /// Returns the changes since the last notes; `None` without changes.
    fn take_notes(&self, paths: Vec<String>) -> Option<Notes> {
        let mut known = self.lock().files.clone();
        // No check before the call covered these files, so their earlier state is unknown.
        let room = MAX_WATCHED_FILES.saturating_sub(known.len());
        let new: Vec<String> =
            paths.into_iter().filter(|path| !known.contains_key(path)).take(room).collect();
        known.extend(new.iter().map(|path| (path.clone(), None)));
        let mut notes = Notes::default();
        let mut look = self.look();
        for (path, then) in known {
            let now = match look.at(&path, then.as_ref()) {
                Found::State(now) => now,
                Found::Refused if new.contains(&path) => continue,
                // The file that was there is not there any more, and nothing is recorded about what is.
                Found::Refused => None,
            };
            if now != then || new.contains(&path) {
                // Stored also if only the time changed, so that the next check does not read the file again.
                self.lock().files.insert(path.clone(), now.clone());
            }
            if !mark::same(then.as_ref(), now.as_ref()) {
                notes.after.insert(path, now);
            }
        }
        let mut seen = self.lock();
        notes.before = std::mem::take(&mut seen.before);
        (!notes.before.is_empty() || !notes.after.is_empty()).then_some(notes)
    }

    /// Runs blocking work on the blocking pool, or in place without a runtime.
    async fn blocking<T: Send + Default + 'static>(
        &self,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        let watch = self.clone();
        match tokio::runtime::Handle::try_current() {
            Err(_) => work(&watch),
            Ok(runtime) => runtime.spawn_blocking(move || work(&watch)).await.unwrap_or_default(),
        }
    }
}

/// The details with the notes among them.
fn with_notes(details: Value, notes: &Notes) -> Value {
    let notes = json!(notes);
    match details {
        Value::Object(mut fields) => {
            fields.insert(FILE_NOTES.to_owned(), notes);
            Value::Object(fields)
        }
        Value::Null => json!({ FILE_NOTES: notes }),
        other => json!({ "details": other, FILE_NOTES: notes }),
    }
}
