//! Programs that are found once and run by their absolute path.
//!
//! A folder of `PATH` can belong to the project: an activated `.venv` and `node_modules/.bin` do. A command that can write
//! there, also one in a sandbox, could replace a program that this process starts later, outside of the sandbox. A
//! [`SearchPath`] skips such folders, and a [`Program`] is the file that was found: it is not looked up again.
//!
//! ```
//! use agent_tools::program::{ProgramError, SearchPath};
//!
//! let project = std::env::current_dir()?;
//! match SearchPath::outside([&project]).find("less") {
//!     Ok(less) => println!("{}", less.path().display()),
//!     Err(error @ ProgramError::InWritableFolder { .. }) => eprintln!("{error}"),
//!     Err(_) => eprintln!("there is no less"),
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::environment;

/// The value of `PATH` if there is none, or no folder of it remains. An empty value would mean the current folder.
const SYSTEM_PATH: &str = "/usr/bin:/bin";

/// The reason why a program cannot be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// No folder of `PATH` has the program, or the path does not lead to an executable file.
    #[error("the program {name} was not found; install it, or correct its name or PATH")]
    NotFound {
        /// The name or the path of the program.
        name: String,
    },
    /// The program is only in a folder that commands can write to, so a command could have put it there.
    #[error(
        "the program {name} was found only as {}, in a folder that commands can write to; install it in a folder of PATH \
         outside of {}, or give its absolute path", .found.display(), .folder.display()
    )]
    InWritableFolder {
        /// The name of the program.
        name: String,
        /// The file that was found.
        found: PathBuf,
        /// The folder that commands can write to.
        folder: PathBuf,
    },
    /// Another file has taken the place of the program since it was found.
    #[error(
        "the program {} is not the file that was found at the start; restart this program if you have updated it",
        .path.display()
    )]
    Replaced {
        /// The path of the program.
        path: PathBuf,
    },
}

impl From<ProgramError> for io::Error {
    fn from(error: ProgramError) -> Self {
        let kind = match error {
            ProgramError::NotFound { .. } => io::ErrorKind::NotFound,
            ProgramError::InWritableFolder { .. } | ProgramError::Replaced { .. } => {
                io::ErrorKind::PermissionDenied
            }
        };
        Self::new(kind, error)
    }
}

/// The folders in which programs are looked up: those of `PATH` that are absolute, exist, and are not in a folder that
/// commands can write to. Create it once, before the first command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchPath {
    folders: Vec<PathBuf>,
    skipped: Vec<PathBuf>,
    writable: Vec<PathBuf>,
    /// Whether `PATH` has a folder that depends on the working directory.
    has_relative: bool,
}

impl SearchPath {
    /// Returns the folders of this process's `PATH` that are outside of `writable`, the folders that commands can write to, such
    /// as the root of the workspace.
    #[must_use]
    pub fn outside(writable: impl IntoIterator<Item = impl AsRef<Path>>) -> Self {
        Self::new(&environment::variable("PATH").unwrap_or_default(), writable)
    }

    /// Does the same for another value of `PATH`, such as the one that is set for a child.
    #[must_use]
    pub fn new(variable: &OsStr, writable: impl IntoIterator<Item = impl AsRef<Path>>) -> Self {
        let variable = if variable.is_empty() { OsStr::new(SYSTEM_PATH) } else { variable };
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let writable = writable.into_iter().map(|folder| real(folder.as_ref()));
        // The author of a repository chose its programs, also if the work is in a folder of it.
        let writable = writable.map(|folder| enclosing_repository(&folder).unwrap_or(folder)).collect();
        let has_relative = std::env::split_paths(variable).any(|folder| !folder.is_absolute());
        let mut search = Self { folders: Vec::new(), skipped: Vec::new(), writable, has_relative };
        for folder in std::env::split_paths(variable).filter(|folder| folder.is_absolute()) {
            match folder.canonicalize() {
                Ok(real) if search.writable_around(&real).is_some() => search.skipped.push(folder),
                Ok(_) => search.folders.push(folder),
                Err(_) if search.writable_around(&folder).is_some() => search.skipped.push(folder),
                // A folder that is created later was not checked.
                Err(_) => {}
            }
        }
        search
    }

    /// Returns whether no folder of the `PATH` can be written by commands, so that a shell which looks up a name there finds the
    /// programs of the system only. Use it before a command is allowed by its name.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.skipped.is_empty() && !self.has_relative
    }

    /// Finds a program. A name is looked up in the folders; an absolute path is used as it is, because the user who wrote it chose the
    /// file, also in a folder that commands can write to.
    ///
    /// # Errors
    /// Returns [`ProgramError::NotFound`], also for a relative path of several components, and
    /// [`ProgramError::InWritableFolder`] if only a folder that commands can write to has a program of this name.
    pub fn find(&self, name: impl AsRef<OsStr>) -> Result<Program, ProgramError> {
        let name = name.as_ref();
        let missing = || ProgramError::NotFound { name: name.display().to_string() };
        if Path::new(name).is_absolute() {
            return Program::at(name);
        }
        if Path::new(name).components().count() != 1 || Path::new(name).file_name() != Some(name) {
            return Err(missing());
        }
        let mut refused = None;
        for place in self.folders.iter().chain(&self.skipped).flat_map(|folder| candidates(folder, name)) {
            let Ok(program) = Program::at(&place) else { continue };
            match self.check(&program) {
                Ok(()) => return Ok(program),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or_else(missing))
    }

    /// Checks that a program, and the folder in which it was found, are not in a folder that commands can write to.
    pub(crate) fn check(&self, program: &Program) -> Result<(), ProgramError> {
        // A link can lead from one to the other.
        let parent = program.called.parent().and_then(|folder| folder.canonicalize().ok());
        let places = parent.iter().chain([&program.file]);
        match places.filter_map(|place| self.writable_around(place)).next() {
            None => Ok(()),
            Some(folder) => Err(ProgramError::InWritableFolder {
                name: program.called.file_name().unwrap_or_default().display().to_string(),
                found: program.called.clone(),
                folder: folder.to_path_buf(),
            }),
        }
    }

    /// Returns the value of `PATH` for a child that runs outside of a sandbox: programs such as `env` look up others there.
    #[must_use]
    pub fn variable(&self) -> OsString {
        match std::env::join_paths(&self.folders) {
            Ok(path) if !path.is_empty() => path,
            _ => SYSTEM_PATH.into(),
        }
    }

    pub(crate) fn writable_around(&self, real: &Path) -> Option<&Path> {
        self.writable.iter().find(|folder| real.starts_with(folder)).map(PathBuf::as_path)
    }
}

/// Returns the files that a name can mean in a folder.
fn candidates(folder: &Path, name: &OsStr) -> impl Iterator<Item = PathBuf> {
    let plain = folder.join(name);
    let with_ending = (!std::env::consts::EXE_EXTENSION.is_empty() && plain.extension().is_none())
        .then(|| plain.with_extension(std::env::consts::EXE_EXTENSION));
    with_ending.into_iter().chain([plain])
}

/// An executable file that was found. Each start checks that it is still the same file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The absolute path by which it was found. Some programs, such as those of rustup, decide by it what to do.
    called: PathBuf,
    /// The path without links.
    file: PathBuf,
    identity: Identity,
}

/// The device and the inode of a file.
#[cfg(unix)]
type Identity = (u64, u64);
#[cfg(not(unix))]
type Identity = ();

impl Program {
    /// Returns the executable file at a path that the user chose. Links are followed now and not again.
    ///
    /// # Errors
    /// Returns [`ProgramError::NotFound`] if there is no such file, or it cannot be executed.
    pub fn at(path: impl AsRef<Path>) -> Result<Self, ProgramError> {
        let path = path.as_ref();
        let find = || -> io::Result<Option<Self>> {
            let (called, file) = (std::path::absolute(path)?, path.canonicalize()?);
            let metadata = std::fs::metadata(&file)?;
            let identity = identity(&metadata);
            Ok(is_executable(&metadata).then_some(Self { called, file, identity }))
        };
        let missing = || ProgramError::NotFound { name: path.display().to_string() };
        find().ok().flatten().ok_or_else(missing)
    }

    /// Returns the absolute path by which the program was found.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.called
    }

    /// Returns a command that starts this file, without arguments and with the environment of this process.
    ///
    /// # Errors
    /// Returns [`ProgramError::Replaced`] if another file is in its place.
    #[allow(clippy::disallowed_methods, reason = "this is the one place that makes commands")]
    pub fn command(&self) -> Result<Command, ProgramError> {
        self.check()?;
        let mut command = Command::new(&self.file);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::arg0(&mut command, &self.called);
        Ok(command)
    }

    /// Checks that the file is the one that was found.
    pub(crate) fn check(&self) -> Result<(), ProgramError> {
        match std::fs::symlink_metadata(&self.file) {
            Ok(metadata) if identity(&metadata) == self.identity => Ok(()),
            _ => Err(ProgramError::Replaced { path: self.called.clone() }),
        }
    }
}

#[cfg(unix)]
fn identity(metadata: &std::fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn identity(_: &std::fs::Metadata) -> Identity {}

fn is_executable(metadata: &std::fs::Metadata) -> bool {
    #[cfg(unix)]
    let may_run = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let may_run = true;
    metadata.is_file() && may_run
}

/// Returns the root of the repository that has a folder. A home directory that is a repository is none: the user's own programs are in it.
fn enclosing_repository(folder: &Path) -> Option<PathBuf> {
    let root = folder.ancestors().find(|above| above.join(".git").exists())?;
    let home = environment::variable("HOME").map(PathBuf::from).and_then(|home| home.canonicalize().ok());
    home.is_none_or(|home| !home.starts_with(root)).then(|| root.to_path_buf())
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
