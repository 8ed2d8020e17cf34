//! A summary of the content of a folder, with which changes are detected.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::scan::is_missing;
use crate::dir::{Dir, Kind};

/// The number of bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// One change in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The path, relative to the folder.
    pub path: PathBuf,
    /// The kind of change.
    pub kind: ChangeKind,
}

/// The kind of a change to a file or link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeKind {
    /// The file is new.
    Added,
    /// The content, the executable flag or the target of the link has changed.
    Modified,
    /// The file was deleted.
    Deleted,
}

/// The kind and the fingerprint of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    File {
        len: u64,
        hash: (u64, u64),
        executable: bool,
    },
    Link(PathBuf),
    /// A folder, a device, a pipe, a socket.
    Other,
}

/// The files and links of a folder, by relative path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Manifest(pub(super) BTreeMap<PathBuf, Entry>);

impl Manifest {
    /// Returns the changes from this state to `now`, ordered by path.
    pub(super) fn changes_to(&self, now: &Self) -> Vec<Change> {
        let change = |path: &PathBuf, kind| Change { path: path.clone(), kind };
        let gone = self.0.keys().filter(|p| !now.0.contains_key(*p)).map(|p| change(p, ChangeKind::Deleted));
        let other = now.0.iter().filter_map(|(path, entry)| match self.0.get(path) {
            None => Some(change(path, ChangeKind::Added)),
            Some(was) if was != entry => Some(change(path, ChangeKind::Modified)),
            Some(_) => None,
        });
        let mut changes: Vec<Change> = gone.chain(other).collect();
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        changes
    }
}

/// Hashes contents with two random keys of this process, so an attacker cannot construct a collision.
#[derive(Debug, Clone)]
pub(super) struct Fingerprints(RandomState, RandomState);

/// The hash of content that is being read.
pub(super) struct Print {
    one: <RandomState as BuildHasher>::Hasher,
    two: <RandomState as BuildHasher>::Hasher,
    len: u64,
}

impl Fingerprints {
    pub(super) fn new() -> Self {
        Self(RandomState::new(), RandomState::new())
    }

    pub(super) fn begin(&self) -> Print {
        Print { one: self.0.build_hasher(), two: self.1.build_hasher(), len: 0 }
    }

    /// Returns the entry at a path below `dir`, or `None` if there is none. Links are not followed.
    pub(super) fn entry(&self, dir: &Dir, below: &Path) -> io::Result<Option<Entry>> {
        let facts = match dir.facts(below) {
            Ok(facts) => facts,
            Err(e) if is_missing(&e) => return Ok(None),
            Err(e) => return Err(e),
        };
        match facts.kind {
            Kind::Link => dir.read_link(below).map(|to| Some(Entry::Link(to))),
            Kind::Folder | Kind::Other => Ok(Some(Entry::Other)),
            Kind::File => {
                let (mut file, facts) = dir.open_file(below)?;
                let mut print = self.begin();
                print.all_of(&mut file, |_| Ok(()))?;
                Ok(Some(print.end(facts.executable)))
            }
        }
    }
}

impl Print {
    /// Hashes all bytes of a reader and passes them on.
    pub(super) fn all_of(
        &mut self,
        from: &mut impl Read,
        mut to: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK];
        loop {
            let n = match from.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            let chunk = buffer.get(..n).unwrap_or_default();
            self.one.write(chunk);
            self.two.write(chunk);
            self.len = self.len.saturating_add(u64::try_from(n).unwrap_or(u64::MAX));
            to(chunk)?;
        }
    }

    pub(super) fn end(self, executable: bool) -> Entry {
        Entry::File { len: self.len, hash: (self.one.finish(), self.two.finish()), executable }
    }
}
