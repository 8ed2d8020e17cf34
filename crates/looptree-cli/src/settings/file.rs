//! A configuration file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use etcetera::BaseStrategy as _;
use looptree::tools::PathError;
use looptree::tools::bounded::{Bounded, BoundedFolder};
use serde::Deserialize as _;

use super::Layer;
use super::folders::ProjectFolders;
use crate::args::Flags;
use crate::exit::usage;

/// The most that is read of the user's file.
const MAX_BYTES: u64 = 1 << 20;

/// The most that is read of a project's file. The time for parsing grows with its size.
const MAX_PROJECT_BYTES: u64 = 64 << 10;

/// The place of a project's file in a folder.
const PROJECT_FILE: &str = ".looptree/config.toml";

pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    /// The keys at the top.
    pub(crate) keys: Vec<String>,
    pub(crate) layer: Layer,
    /// The profile that is used if the command line names none.
    pub(crate) profile: Option<String>,
    pub(crate) profiles: BTreeMap<String, Layer>,
}

/// Returns the folders of the user; `None` without a home directory. A home that is relative would be a folder of the project.
pub(crate) fn platform() -> Option<impl etcetera::BaseStrategy> {
    let platform = etcetera::base_strategy::choose_native_strategy().ok()?;
    platform.home_dir().is_absolute().then_some(platform)
}

/// Returns the path of the user's file; `None` without a home directory.
pub(crate) fn user_file(flags: &Flags) -> Result<Option<PathBuf>> {
    if let Some(path) = &flags.config {
        let path = std::path::absolute(path).with_context(|| format!("cannot find {}", path.display()))?;
        return Ok(Some(path));
    }
    let platform = platform();
    Ok(platform.map(|platform| platform.config_dir().join("looptree/config.toml")))
}

/// Returns the project's file: `.looptree/config.toml` in the nearest folder of the project that has one.
pub(crate) fn project_file(folders: &ProjectFolders) -> Option<PathBuf> {
    // Also a link or a pipe: it is refused, and not skipped for a file above.
    folders.named(PROJECT_FILE).find(|file| file.symlink_metadata().is_ok())
}

/// Reads the user's file, which may be a link; `None` if it does not exist and may be missing.
pub(crate) fn read_own(path: &Path, must_exist: bool) -> Result<Option<ConfigFile>> {
    match BoundedFolder::read_named(path, MAX_BYTES) {
        Err(error) if error.is_not_found() && !must_exist => Ok(None),
        read => content(path, read, MAX_BYTES).map(Some),
    }
}

/// Reads the file of a project. A link in it or in its folder is refused: it would be a file from elsewhere.
pub(crate) fn read_project(path: &Path) -> Result<Option<ConfigFile>> {
    let above = path.ancestors().nth(2).unwrap_or(path);
    let read = BoundedFolder::open(above).and_then(|folder| folder.read(PROJECT_FILE, MAX_PROJECT_BYTES));
    match read {
        Err(error) if error.is_not_found() => Ok(None),
        read => content(path, read, MAX_PROJECT_BYTES).map(Some),
    }
}

fn content(path: &Path, read: Result<Bounded, PathError>, limit: u64) -> Result<ConfigFile> {
    let cannot = |why: &dyn std::fmt::Display| {
        usage(format!("cannot read the configuration {}: {why}", path.display()))
    };
    let read = read.map_err(|error| cannot(&error))?;
    if read.truncated {
        return Err(cannot(&format!("it has more than {limit} bytes")));
    }
    let text = String::from_utf8(read.bytes).map_err(|error| cannot(&error))?;
    parse(path, text)
}

/// Returns the error of a text that is not TOML. Its lines are not shown: they can contain a secret of an MCP server.
fn wrong_text(path: &Path, text: &str, error: &toml::de::Error) -> anyhow::Error {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    usage(format!("the configuration {} cannot be used: line {line}: {}", path.display(), error.message()))
}

fn parse(path: &Path, text: String) -> Result<ConfigFile> {
    let wrong = |error: toml::de::Error, place: &str| {
        usage(format!(
            "the configuration {}{place} cannot be used: {}",
            path.display(),
            error.to_string().trim_end()
        ))
    };
    let mut table: toml::Table =
        text.parse().map_err(|error: toml::de::Error| wrong_text(path, &text, &error))?;
    let keys = table.keys().cloned().collect();
    let profile = match table.remove("profile") {
        None => None,
        Some(toml::Value::String(name)) => Some(name),
        Some(_) => {
            return Err(usage(format!("{}: profile is the name of a profile, a text", path.display())));
        }
    };
    let mut profiles = BTreeMap::new();
    match table.remove("profiles") {
        None => {}
        Some(toml::Value::Table(named)) => {
            for (name, value) in named {
                let layer =
                    Layer::deserialize(value).map_err(|error| wrong(error, &format!(", profile {name},")))?;
                profiles.insert(name, layer);
            }
        }
        Some(_) => return Err(usage(format!("{}: profiles is a table of profiles", path.display()))),
    }
    // Only what is wrong is shown, without the place: it is in a table that has no text any more.
    let layer = Layer::deserialize(table).map_err(|error| wrong(error, ""))?;
    Ok(ConfigFile { path: path.to_owned(), text, keys, layer, profile, profiles })
}
