//! Records the states of files while tools run.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_core::hooks::{Hooks, ToolEnded, Verdict};
use agent_core::run::ToolChange;
use serde_json::{Value, json};

use super::{FILE_NOTES, FileMark, FileState, Notes, mark};

/// The maximum number of files that one watch checks after each call. Further files are not recorded.
pub const MAX_WATCHED_FILES: usize = 4096;

/// The keys under which arguments and details of tools name files.
const PATH_KEYS: [&str; 2] = ["path", "file_path"];

/// Records the states of the files that tools use. Clones are handles to the same watch.
///
/// It watches the files below the root that calls name as `path` or `file_path` in arguments or details. After each call
/// it checks all of them, so that it also detects changes by a shell. The cost is one metadata query for each file, and
/// one read of each file that changed.
#[derive(Clone)]
pub struct FileWatch {
    inner: Arc<Inner>,
}

struct Inner {
    root: PathBuf,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    files: BTreeMap<String, Option<FileMark>>,
    /// Earlier states that are not in a result yet.
    before: BTreeMap<String, Option<FileMark>>,
}

impl fmt::Debug for FileWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileWatch").field("root", &self.inner.root).finish_non_exhaustive()
    }
}

impl FileWatch {
    /// Creates a watch over the files below a directory. It knows no files yet.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { inner: Arc::new(Inner { root: root.into(), seen: Mutex::default() }) }
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
        seen.files.clone_from(&state.0);
    }

    /// Reads these files, so that their state is known. Blocks.
    pub fn look_at(&self, paths: impl IntoIterator<Item = impl AsRef<str>>) {
        let paths: Vec<String> = paths.into_iter().filter_map(|p| self.relative(p.as_ref())).collect();
        self.meet(&paths);
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
                        watch.blocking(move |watch| watch.meet(&paths)).await;
                    }
                    Verdict::Allow
                }
            })
            .after_tool(move |ended: ToolEnded| {
                let watch = after.clone();
                async move {
                    let details = ended.end.result.details;
                    let paths = watch.paths(&details);
                    let notes = watch.blocking(move |watch| watch.take_notes(&paths)).await;
                    notes.map_or_else(ToolChange::none, |notes| {
                        ToolChange::none().with_details(with_notes(details, &notes))
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

    /// Records the states of files that were not known.
    fn meet(&self, paths: &[String]) {
        for path in paths {
            if self.lock().files.contains_key(path) {
                continue;
            }
            let mark = mark::look(&self.inner.root.join(path), None);
            let mut seen = self.lock();
            if seen.files.len() < MAX_WATCHED_FILES {
                seen.before.insert(path.clone(), mark.clone());
                seen.files.insert(path.clone(), mark);
            }
        }
    }

    /// Returns the changes since the last notes; `None` without changes.
    fn take_notes(&self, paths: &[String]) -> Option<Notes> {
        // No check before the call covered this file, so its earlier state is unknown.
        for path in paths {
            let mut seen = self.lock();
            if seen.files.len() < MAX_WATCHED_FILES {
                seen.files.entry(path.clone()).or_insert(None);
            }
        }
        let known = self.lock().files.clone();
        let mut notes = Notes::default();
        for (path, then) in known {
            let now = mark::look(&self.inner.root.join(&path), then.as_ref());
            if now != then {
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
