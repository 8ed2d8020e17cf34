//! Access to files by descriptor, after the rule of the workspace.

#[cfg(test)]
#[cfg(unix)]
mod tests;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use agent_core::ToolContext;
use agent_core::tool::FileAccess;
use serde_json::Value;

use super::rules::Intent;
use super::{Labels, PathError, Workspace};
use crate::dir::{Dir, Facts, Kind, is_link_error};

/// What one call of a tool can access: the rule that all file tools consult.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    workspace: Workspace,
    /// The call, whose run can have policies about files.
    call: ToolContext,
}

impl Workspace {
    /// Returns what the call of `ctx` can access: the rules of this workspace, and the policies of the run.
    pub(crate) fn access(&self, ctx: &ToolContext) -> Access {
        Access { workspace: self.clone(), call: ctx.clone() }
    }

    /// Returns arguments with their `path` resolved as results show it, for policies. `None` if there is no path, or it is
    /// refused.
    pub(crate) fn resolved_arguments(&self, arguments: &Value) -> Option<Value> {
        let path = arguments.get("path").and_then(Value::as_str)?;
        let real = self.resolve(path).ok()?;
        let mut resolved = arguments.clone();
        *resolved.get_mut("path")? = Value::String(self.labels().of(&real));
        Some(resolved)
    }

    /// Resolves a path and checks it against the rules of this workspace, without those of a run.
    pub(crate) fn place(&self, named: &str, intent: Intent) -> Result<Place, PathError> {
        let real = self.resolve(named)?;
        let (dir, below) = self.split(&real).map_err(|source| PathError::access(named, source))?;
        self.rules.check(&real, &below, intent, named)?;
        Ok(Place { dir, below, real, named: named.to_owned() })
    }

    /// Returns the folder at which relative paths start, for an approver.
    pub(crate) fn working_directory(&self) -> Option<PathBuf> {
        self.root().map(Path::to_path_buf).or_else(|| std::env::current_dir().ok())
    }
}

impl Access {
    /// Resolves a path of the arguments and checks whether the call can access it in this way. The result names a path
    /// without symlinks; a link that replaces a part of it later makes its methods fail.
    pub(crate) fn locate(&self, named: &str, intent: Intent) -> Result<Place, PathError> {
        let place = self.workspace.place(named, intent)?;
        let label = self.labels().of(&place.real);
        let decided = self.call.resolved_arguments.as_deref().and_then(|decided| decided.get("path"));
        if decided.is_some_and(|decided| *decided != *label) {
            // The hooks of the run have decided about another file.
            return Err(PathError::Changed { path: named.to_owned() });
        }
        let policy = match intent {
            Intent::List => None,
            Intent::Read => Some(FileAccess::Read),
            Intent::Write => Some(FileAccess::Write),
        };
        if let Some(access) = policy
            && let Some(reason) = self.call.denies_file(&label, access)
        {
            return Err(PathError::Policy { path: named.to_owned(), reason });
        }
        Ok(place)
    }

    /// Returns whether the call can access a path in this way. `below` is relative to the folder of a [`Place`].
    pub(crate) fn allows(&self, place: &Place, below: &Path, intent: Intent) -> bool {
        let rest = below.strip_prefix(&place.below).unwrap_or(below);
        let real = if rest.as_os_str().is_empty() { place.real.clone() } else { place.real.join(rest) };
        self.workspace.rules.check(&real, below, intent, "").is_ok()
            && (intent == Intent::List
                || self.call.denies_file(&self.labels().of(&real), FileAccess::Find).is_none())
    }

    /// Checks whether the call can access an entry below a [`Place`] in this way, by its name `label` for policies.
    pub(crate) fn check_below(
        &self,
        place: &Place,
        rest: &Path,
        intent: Intent,
        label: &str,
    ) -> Result<(), PathError> {
        let (real, below) = (place.real.join(rest), place.below.join(rest));
        self.workspace.rules.check(&real, &below, intent, label)?;
        let access = match intent {
            Intent::List => return Ok(()),
            Intent::Read => FileAccess::Read,
            Intent::Write => FileAccess::Write,
        };
        let denied = self.call.denies_file(label, access);
        denied.map_or(Ok(()), |reason| Err(PathError::Policy { path: label.to_owned(), reason }))
    }

    /// Returns the formatter of real paths for the model.
    pub(crate) fn labels(&self) -> Labels {
        self.workspace.labels()
    }
}

/// A path without symlinks that was checked, and the open folder that it is relative to.
#[derive(Debug)]
pub(crate) struct Place {
    /// The root of the workspace, or of the file system.
    dir: Dir,
    /// The path relative to it.
    below: PathBuf,
    real: PathBuf,
    named: String,
}

impl Place {
    /// Returns the path as an absolute path, for display and for the lock of a file.
    pub(crate) fn real(&self) -> &Path {
        &self.real
    }

    /// Returns the open folder that [`below`](Self::below) is relative to.
    pub(crate) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Returns the path relative to [`dir`](Self::dir).
    pub(crate) fn below(&self) -> &Path {
        &self.below
    }

    /// Returns the properties of the file or folder.
    pub(crate) fn facts(&self) -> Result<Facts, PathError> {
        let facts = self.dir.facts(&self.below).map_err(|source| self.failed(source))?;
        if facts.kind == Kind::Link {
            Err(PathError::Changed { path: self.named.clone() })
        } else {
            Ok(facts)
        }
    }

    /// Opens the file for reading if it is a regular file, and returns its size.
    pub(crate) fn open_file(&self) -> Result<(File, u64), PathError> {
        match self.facts()?.kind {
            Kind::Folder => return Err(PathError::IsADirectory { path: self.named.clone() }),
            Kind::Other => return Err(PathError::NotRegular { path: self.named.clone() }),
            Kind::File | Kind::Link => {}
        }
        let (file, facts) = self.dir.open_file(&self.below).map_err(|source| self.failed(source))?;
        Ok((file, facts.bytes))
    }

    /// Replaces the file in one step, and creates missing folders.
    ///
    /// # Errors
    /// Returns [`PathError::Changed`] if a part of the path has become a link, and [`PathError::Access`] with the error of the
    /// operating system otherwise. The old file is then unchanged.
    pub(crate) fn replace(&self, content: &[u8]) -> Result<(), PathError> {
        self.dir.replace(&self.below, content).map_err(|source| self.failed(source))
    }

    /// Returns the error of an access that failed.
    pub(crate) fn failed(&self, source: io::Error) -> PathError {
        if is_link_error(&source) {
            PathError::Changed { path: self.named.clone() }
        } else {
            PathError::access(&self.named, source)
        }
    }
}
