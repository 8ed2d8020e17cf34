//! A configuration file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use etcetera::BaseStrategy as _;
use serde::Deserialize as _;

use super::Layer;
use super::folders::ProjectFolders;
use crate::args::Flags;
use crate::exit::usage;

/// The most that is read of a file.
const MAX_BYTES: u64 = 1 << 20;

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

/// Returns the path of the user's file; `None` without a home directory.
pub(crate) fn user_file(flags: &Flags) -> Result<Option<PathBuf>> {
    if let Some(path) = &flags.config {
        let path = std::path::absolute(path).with_context(|| format!("cannot find {}", path.display()))?;
        return Ok(Some(path));
    }
    let platform = etcetera::base_strategy::choose_native_strategy().ok();
    Ok(platform.map(|platform| platform.config_dir().join("looptree/config.toml")))
}

/// Returns the project's file: `.looptree/config.toml` in the nearest folder of the project that has one.
pub(crate) fn project_file(folders: &ProjectFolders) -> Option<PathBuf> {
    // Also a link or a pipe: it is refused, and not skipped for a file above.
    folders.named(".looptree/config.toml").find(|file| file.symlink_metadata().is_ok())
}

/// Reads a file; `None` if it does not exist and may be missing.
pub(crate) fn read(path: &Path, must_exist: bool) -> Result<Option<ConfigFile>> {
    let size = match std::fs::metadata(path) {
        Ok(facts) => facts.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => return Ok(None),
        Err(error) => {
            return Err(usage(format!("cannot read the configuration {}: {error}", path.display())));
        }
    };
    if size > MAX_BYTES {
        return Err(usage(format!("the configuration {} has more than {MAX_BYTES} bytes", path.display())));
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| usage(format!("cannot read the configuration {}: {error}", path.display())))?;
    parse(path, text).map(Some)
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
