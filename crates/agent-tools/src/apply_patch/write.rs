//! Reads the files of a patch, makes their new contents, and writes them.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::matching::Work;
use super::parse::Action;
use super::{File, MAX_FILE_BYTES, MAX_TOTAL_BYTES, PatchError, matching};
use crate::PathError;
use crate::dir::{Dir, Staged};
use crate::file_change::FileChange;
use crate::workspace::Place;

/// A file with its content before and after the patch; `None` where it does not exist.
pub(super) struct Changed {
    file: File,
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
}

/// Makes the new content of each file. Changes nothing.
///
/// # Errors
/// Returns the first reason for which the patch cannot be applied.
pub(super) fn prepare(files: Vec<File>, is_cancelled: &dyn Fn() -> bool) -> Result<Vec<Changed>, PatchError> {
    let mut work = Work::new(is_cancelled);
    let mut all = Vec::with_capacity(files.len());
    let mut bytes = 0;
    for file in files {
        let changed = changed(file, &mut work)?;
        bytes += changed.before.as_ref().map_or(0, Vec::len);
        if bytes > MAX_TOTAL_BYTES {
            return Err(PatchError::TotalTooLarge);
        }
        all.push(changed);
    }
    Ok(all)
}

fn changed(file: File, work: &mut Work<'_>) -> Result<Changed, PatchError> {
    let path = &file.section.path;
    let (before, after) = match &file.section.action {
        Action::Add(content) => {
            must_be_missing(&file.place, path)?;
            (None, Some(content.clone().into_bytes()))
        }
        Action::Delete => {
            writable(&file.place, path)?;
            (Some(read(&file.place, path)?), None)
        }
        Action::Update { moved_to, hunks } => {
            let before = read(&file.place, path)?;
            writable(&file.place, path)?;
            let after = matching::apply(path, &before, hunks, work)?;
            if let (Some(place), Some(to)) = (&file.moved_to, moved_to) {
                must_be_missing(place, to)?;
            } else if after == before {
                return Err(PatchError::Unchanged { path: path.clone() });
            }
            (Some(before), Some(after))
        }
    };
    Ok(Changed { file, before, after })
}

fn must_be_missing(place: &Place, path: &str) -> Result<(), PatchError> {
    match place.facts() {
        Ok(_) => Err(PatchError::Exists { path: path.to_owned() }),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn writable(place: &Place, path: &str) -> Result<(), PatchError> {
    place.dir().check_writable(place.below()).map_err(|source| cannot_write(place, path, source))
}

/// Returns the error of a write that failed before any file was changed.
fn cannot_write(place: &Place, path: &str, source: io::Error) -> PatchError {
    match place.failed(source) {
        PathError::Access { source, .. } => PatchError::Write { path: path.to_owned(), source },
        error => error.into(),
    }
}

fn read(place: &Place, path: &str) -> Result<Vec<u8>, PatchError> {
    let failed = |cause: String| PatchError::Read { path: path.to_owned(), cause };
    let (file, bytes) = place.open_file().map_err(|error| match error {
        PathError::Access { source, .. } => failed(source.to_string()),
        error => error.into(),
    })?;
    let mut content = Vec::new();
    if bytes <= MAX_FILE_BYTES {
        // The file may have grown since its size was read, so the read is limited as well.
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut content).map_err(|error| failed(error.to_string()))?;
    }
    let bytes = bytes.max(content.len() as u64);
    if bytes > MAX_FILE_BYTES {
        return Err(PatchError::FileTooLarge { path: path.to_owned(), bytes });
    }
    Ok(content)
}

/// Writes all new contents beside their files, then renames each and removes what is deleted.
///
/// # Errors
/// Returns [`PatchError::Write`] if no file was changed, and [`PatchError::Incomplete`] otherwise.
pub(super) fn write(files: &[Changed]) -> Result<Vec<FileChange>, PatchError> {
    let mut folders = NewFolders::default();
    let mut staged = Vec::new();
    for changed in files {
        let Some(after) = &changed.after else { continue };
        let (place, path) = (changed.target(), changed.shown());
        folders.remember(place);
        let like = changed.file.moved_to.is_some().then(|| changed.file.place.below());
        let new = place.dir().stage(place.below(), after, like);
        staged.push((changed, new.map_err(|source| cannot_write(place, path, source))?));
    }
    commit(files, staged)?;
    folders.retain();
    Ok(files.iter().map(Changed::describe).collect())
}

fn commit(files: &[Changed], staged: Vec<(&Changed, Staged)>) -> Result<(), PatchError> {
    let mut done: Vec<&str> = Vec::new();
    let failed = |done: &[&str], path: &str, source: io::Error| {
        let path = path.to_owned();
        if done.is_empty() {
            return PatchError::Write { path, source };
        }
        PatchError::Incomplete { path, changed: done.join(", "), source }
    };
    for (changed, new) in staged {
        if changed.before.is_none() || changed.file.moved_to.is_some() {
            // Another process may have created it since.
            must_be_missing(changed.target(), changed.shown()).map_err(|error| {
                if done.is_empty() { error } else { failed(&done, changed.shown(), io::Error::other(error)) }
            })?;
        }
        new.commit().map_err(|source| failed(&done, changed.shown(), source))?;
        done.push(changed.shown());
    }
    for changed in files {
        if changed.after.is_none() || changed.file.moved_to.is_some() {
            let (place, path) = (&changed.file.place, changed.file.section.path.as_str());
            place.dir().remove_file(place.below()).map_err(|source| failed(&done, path, source))?;
            done.push(path);
        }
    }
    Ok(())
}

impl Changed {
    /// Returns where the new content goes.
    fn target(&self) -> &Place {
        self.file.moved_to.as_ref().unwrap_or(&self.file.place)
    }

    /// Returns the path of [`target`](Self::target) in the patch.
    fn shown(&self) -> &str {
        self.moved_to().unwrap_or(&self.file.section.path)
    }

    fn moved_to(&self) -> Option<&str> {
        match &self.file.section.action {
            Action::Update { moved_to, .. } => moved_to.as_deref(),
            Action::Add(_) | Action::Delete => None,
        }
    }

    fn describe(&self) -> FileChange {
        let path = &self.file.section.path;
        let change = FileChange::between(path, self.before.as_deref(), self.after.as_deref());
        FileChange { moved_to: self.moved_to().map(str::to_owned), ..change }
    }
}

/// The folders that the patch creates. They are removed again, if they are empty, unless the patch was applied.
#[derive(Default)]
struct NewFolders {
    folders: Vec<(Dir, PathBuf)>,
}

impl NewFolders {
    /// Lists the folders of a file that do not exist yet.
    fn remember(&mut self, place: &Place) {
        let parents = place.below().ancestors().skip(1).filter(|folder| *folder != Path::new(""));
        let is_missing = |folder: &&Path| {
            place.dir().facts(folder).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let mut missing: Vec<_> = parents
            .take_while(is_missing)
            .map(|folder| (place.dir().clone(), folder.to_path_buf()))
            .collect();
        missing.reverse();
        self.folders.append(&mut missing);
    }

    fn retain(&mut self) {
        self.folders.clear();
    }
}

impl Drop for NewFolders {
    fn drop(&mut self) {
        for (dir, folder) in self.folders.iter().rev() {
            // Fails if it is in use, which is right.
            drop(dir.remove_dir(folder));
        }
    }
}
