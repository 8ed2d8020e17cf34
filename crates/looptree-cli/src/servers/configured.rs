//! The MCP servers of the settings and of `--mcp-config`, before they are started.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use looptree::tools::bounded::BoundedFolder;
use looptree::tools::mcp::{McpConfig, McpServer};
use serde_json::{Value, json};

use crate::exit::usage;
use crate::settings::{Origin, Settings, key_of, shown_entry, unknown_key};

/// The most that is read of a file.
const MAX_BYTES: u64 = 1 << 20;

/// Where a server is configured.
#[derive(Debug, Clone)]
enum Source {
    Settings(Origin),
    /// A file of `--mcp-config`. Its other keys belong to other agents.
    File(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(origin) => origin.fmt(f),
            Self::File(path) => write!(f, "--mcp-config {}", path.display()),
        }
    }
}

impl Source {
    /// Returns whether the server is in the file of the project, to which the user has consented.
    fn is_project(&self) -> bool {
        matches!(self, Self::Settings(Origin::Project(..)))
    }
}

/// The value of `cwd` for the directory of the task.
const PROJECT: &str = "project";

/// The configured servers by their names.
pub(crate) struct Configured(BTreeMap<String, (Value, Source)>);

/// The servers that can be started, and the others.
pub(super) struct Prepared {
    pub(super) servers: Vec<McpServer>,
    /// The names of those that the configuration disables.
    pub(super) disabled: Vec<String>,
    /// The names of those that cannot be used, with the reasons.
    pub(super) problems: Vec<(String, String)>,
}

impl Configured {
    /// Reads the files of `--mcp-config` and adds their servers to those of the settings.
    pub(crate) fn of(settings: &Settings) -> Result<Self> {
        let table = &settings.mcp_servers;
        let of_settings = table.value.iter().flat_map(|servers| &servers.0);
        let mut all: BTreeMap<_, _> = of_settings
            .map(|(name, entry)| (name.clone(), (entry.clone(), Source::Settings(table.origin.clone()))))
            .collect();
        for file in &settings.mcp_files {
            let entries = read(file)?;
            all.extend(entries.into_iter().map(|(name, entry)| (name, (entry, Source::File(file.clone())))));
        }
        Ok(Self(all))
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Returns the key, the value without secrets and the origin of each server.
    pub(crate) fn rows(&self) -> Vec<(String, String, String)> {
        let rows = self.0.iter().map(|(name, (entry, source))| {
            (format!("mcp_servers.{}", key_of(name)), shown_entry(entry), source.to_string())
        });
        rows.collect()
    }

    /// Returns a line for each server that cannot be used.
    pub(crate) fn problems(&self, root: &Path) -> Vec<String> {
        let problems = self.prepared(root).problems.into_iter();
        problems.map(|(name, problem)| super::unusable(&name, &problem)).collect()
    }

    /// Reads the entries. A server of the project's file starts in the directory of the task, to which `command` and `cwd` are
    /// relative. Another server starts in an empty directory unless `cwd` names one.
    pub(super) fn prepared(&self, root: &Path) -> Prepared {
        let mut prepared = Prepared { servers: Vec::new(), disabled: Vec::new(), problems: Vec::new() };
        for (name, (entry, source)) in &self.0 {
            match server(name, entry, source, root) {
                Ok(Some(server)) => prepared.servers.push(server),
                Ok(None) => prepared.disabled.push(name.clone()),
                Err(problem) => prepared.problems.push((name.clone(), problem)),
            }
        }
        prepared
    }
}

/// Returns a server, or `None` if it is disabled.
fn server(name: &str, entry: &Value, source: &Source, root: &Path) -> Result<Option<McpServer>, String> {
    if let Source::Settings(_) = source
        && let Some(unknown) = unknown_key(entry)
    {
        return Err(unknown);
    }
    let mut entry = entry.clone();
    let cwd = entry.get("cwd").filter(|cwd| !cwd.is_null());
    if let Some(cwd) = cwd.and_then(Value::as_str).filter(|cwd| !cwd.contains("${") && *cwd != PROJECT)
        && !root.join(cwd).is_dir()
    {
        // The error of a start does not tell a missing folder from a missing program.
        return Err(format!("cwd: {} is not a directory", root.join(cwd).display()));
    }
    let command = entry.get("command").and_then(Value::as_str).map(Path::new);
    if let (None, Some(command)) = (cwd, command) {
        if source.is_project() {
            if let Some(entry) = entry.as_object_mut() {
                entry.insert("cwd".to_owned(), json!(PROJECT));
            }
        } else if command.is_relative() && command.components().count() > 1 {
            return Err(format!(
                "command: {} would be a program of the project; write cwd = \"project\" beside it to start the server \
                 there, or an absolute path",
                command.display()
            ));
        }
    }
    let text = json!({ "mcpServers": { name: entry } }).to_string();
    let config =
        McpConfig::parse(&text, |name| std::env::var(name).ok()).map_err(|error| error.to_string())?;
    if let Some(problem) = config.problems().first() {
        let text = problem.to_string();
        return Err(text.strip_prefix(&format!("server `{name}`, ")).unwrap_or(&text).to_owned());
    }
    Ok(config.relative_to(root).into_servers().into_iter().next())
}

/// Reads a file with servers, in the form that other agents use as well.
fn read(path: &Path) -> Result<serde_json::Map<String, Value>> {
    let wrong = |why: &dyn fmt::Display| usage(format!("--mcp-config {}: {why}", path.display()));
    let read = BoundedFolder::read_named(path, MAX_BYTES).map_err(|error| wrong(&error))?;
    if read.truncated {
        return Err(wrong(&format!("the file has more than {MAX_BYTES} bytes")));
    }
    let text = String::from_utf8(read.bytes).map_err(|error| wrong(&error))?;
    // Checks the form of the file; the entries are read one by one.
    McpConfig::parse(&text, |_| None).map_err(|error| wrong(&error))?;
    let mut value: Value =
        serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|error| wrong(&error))?;
    match value.get_mut("mcpServers").map(Value::take) {
        Some(Value::Object(servers)) => Ok(servers),
        _ => Err(wrong(&"there is no object mcpServers")),
    }
}
