//! Reads the `mcpServers` configuration file that other agents use as well.

mod sandbox;

use std::path::Path;
use std::time::Duration;

use agent_core::Secret;
use serde_json::{Map, Value};

use super::server::{McpServer, McpTransport};

/// The value of `cwd` for the folder of the project.
const PROJECT: &str = "project";

/// The servers of a configuration file with the key `mcpServers`.
///
/// ```
/// use agent_tools::mcp::McpConfig;
/// let text = r#"{"mcpServers": {
///     "files": {"command": "mcp-server-filesystem", "args": ["${HOME}/notes"]},
///     "search": {"url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}
/// }}"#;
/// let config = McpConfig::parse(text, |name| match name {
///     "HOME" => Some("/home/me".to_owned()),
///     _ => None,
/// })?;
/// assert_eq!(config.servers().len(), 1);
/// assert_eq!(
///     config.problems()[0].to_string(),
///     "server `search`, headers.Authorization: the variable TOKEN is not set; set it or write ${TOKEN:-default}"
/// );
/// # Ok::<(), agent_tools::mcp::McpConfigError>(())
/// ```
///
/// | key | meaning |
/// |---|---|
/// | `command`, `args`, `env` | a child of this process |
/// | `cwd` | the folder in which it starts; without it, a new empty one ([`McpServer::with_folder`]) |
/// | `url`, `headers` | a server over streamable HTTP |
/// | `type` | `stdio`, `http` or `streamable-http`, only needed if the entry has both `command` and `url`; `sse` is not supported |
/// | `disabled` | `true` leaves the server out |
/// | `sandbox` | the sandbox of a child: `none`, `landlock`, `bwrap`, or an object (below) |
/// | `startup_timeout` or `startupTimeout` | milliseconds until the server must have started and answered; 30,000 without it |
/// | `timeout` | milliseconds that a request may go without an answer or progress |
/// | `deferred` | `true` sends the definition of a tool after the model has searched for it ([`McpServer::deferred`]) |
/// | `tools` | the names of the tools that are used; without it, all are |
///
/// Other keys are ignored. `${NAME}` and `${NAME:-default}` in values are replaced by variables, whose values are
/// inserted unchanged and are not parsed as JSON. The name of a server is the prefix of its tools.
///
/// A `sandbox` as an object has the keys `kind` (without it `bwrap`), `readRoots` and `writeRoots` (lists of paths),
/// `network` (`off`, `no-tcp`, `open`), `unixSockets` (`refused`, `allowed`), `temp` (`private`, `shared`, `none`) and `systemRoots` (`false` leaves out
/// [`SYSTEM_ROOTS`](crate::sandbox::SYSTEM_ROOTS)); another key is a problem. The default for `network` is `off`.
/// A confined server without `cwd` starts in `/`.
#[derive(Debug, Clone)]
pub struct McpConfig {
    servers: Vec<McpServer>,
    problems: Vec<McpConfigError>,
}

/// An error in a configuration file, or in one server of it.
#[derive(Debug, thiserror::Error, Clone)]
#[non_exhaustive]
pub enum McpConfigError {
    /// The text is not JSON.
    #[error("the MCP configuration is not valid JSON: {0}")]
    Json(#[source] std::sync::Arc<serde_json::Error>),
    /// The text is JSON of another form.
    #[error(
        "the MCP configuration has no object `mcpServers`; write {{\"mcpServers\": {{\"name\": {{\"command\": …}}}}}}"
    )]
    NoServers,
    /// A field has a word that is not known.
    #[error("server `{server}`, {field}: `{value}` is not known; write {known}")]
    Unknown {
        /// The name of the server.
        server: String,
        /// The path of the field in the configuration.
        field: String,
        /// The value of the field.
        value: String,
        /// The values that are allowed.
        known: &'static str,
    },
    /// A field has the wrong form.
    #[error("server `{server}`, {field}: {problem}")]
    Field {
        /// The name of the server.
        server: String,
        /// The path of the field in the configuration.
        field: String,
        /// The problem and how to solve it.
        problem: String,
    },
}

impl McpConfig {
    /// Parses the text of a file. `variable` returns the values of variables, because this library does not read the
    /// environment.
    ///
    /// # Errors
    /// Returns an error if the text as a whole cannot be read. A problem with one server is reported in
    /// [`problems`](Self::problems) and leaves the others alone.
    pub fn parse(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, McpConfigError> {
        let value: Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))
            .map_err(|error| McpConfigError::Json(std::sync::Arc::new(error)))?;
        let servers = value.get("mcpServers").and_then(Value::as_object).ok_or(McpConfigError::NoServers)?;
        let mut config = Self { servers: Vec::new(), problems: Vec::new() };
        for (name, entry) in servers {
            let entry = Entry { server: name, entry, variable: &variable };
            match entry.read() {
                Ok(server) => config.servers.extend(server),
                Err(problem) => config.problems.push(problem),
            }
        }
        Ok(config)
    }

    /// Resolves the relative paths of child processes against the folder of the project: a `command` with more than one component,
    /// and `cwd`, where the word `project` means the folder itself. Without this call, these paths are relative to the
    /// current folder of this process. Programs in the folder are used only if `command` is a path
    /// ([`McpServer::with_writable_folder`]).
    #[must_use]
    pub fn relative_to(mut self, folder: impl AsRef<Path>) -> Self {
        let folder = folder.as_ref();
        for server in &mut self.servers {
            let McpTransport::Stdio(stdio) = &mut server.transport else { continue };
            if Path::new(&stdio.command).components().count() > 1 {
                stdio.command = folder.join(&stdio.command).into();
            }
            stdio.folder = stdio
                .folder
                .as_ref()
                .map(|own| if own.as_os_str() == PROJECT { folder.to_owned() } else { folder.join(own) });
            stdio.writable.push(folder.to_owned());
        }
        self
    }

    /// Returns the servers in the order of the file.
    #[must_use]
    pub fn servers(&self) -> &[McpServer] {
        &self.servers
    }

    /// Returns the servers, which can be changed and started.
    #[must_use]
    pub fn into_servers(self) -> Vec<McpServer> {
        self.servers
    }

    /// Returns the errors of the servers that were skipped.
    #[must_use]
    pub fn problems(&self) -> &[McpConfigError] {
        &self.problems
    }
}

/// The entry of one server in the file.
struct Entry<'a> {
    server: &'a str,
    entry: &'a Value,
    variable: &'a dyn Fn(&str) -> Option<String>,
}

/// The kind of transport that an entry describes.
enum Kind {
    Child,
    Http,
}

impl Entry<'_> {
    /// Returns the server, or `None` if it is disabled.
    fn read(&self) -> Result<Option<McpServer>, McpConfigError> {
        let Some(entry) = self.entry.as_object() else {
            return Err(self.problem("its entry", "it is not an object"));
        };
        if entry.get("disabled").and_then(Value::as_bool) == Some(true) {
            return Ok(None);
        }
        let server = match self.kind(entry)? {
            Kind::Child => self.child(entry)?,
            Kind::Http => self.http(entry)?,
        };
        let mut server = self.held(entry, server)?.with_prefix(self.server);
        match entry.get("deferred") {
            None | Some(Value::Null | Value::Bool(false)) => {}
            Some(Value::Bool(true)) => server = server.deferred(),
            Some(_) => return Err(self.problem("deferred", "it is neither `true` nor `false`")),
        }
        match entry.get("tools") {
            None | Some(Value::Null) => {}
            Some(Value::Array(names)) => {
                let names: Option<Vec<&str>> = names.iter().map(Value::as_str).collect();
                let names = names.ok_or_else(|| self.problem("tools", "it is not a list of strings"))?;
                server = server.with_only_tools(names);
            }
            Some(_) => return Err(self.problem("tools", "it is not a list of strings")),
        }
        for field in ["startupTimeout", "startup_timeout"] {
            if let Some(limit) = self.milliseconds(entry, field)? {
                server = server.with_connect_timeout(limit);
            }
        }
        if let Some(limit) = self.milliseconds(entry, "timeout")? {
            server = server.with_call_timeout(limit);
        }
        Ok(Some(server))
    }

    fn milliseconds(
        &self,
        entry: &Map<String, Value>,
        field: &str,
    ) -> Result<Option<Duration>, McpConfigError> {
        let Some(value) = entry.get(field).filter(|value| !value.is_null()) else { return Ok(None) };
        let millis = value.as_u64().filter(|millis| *millis > 0);
        let problem = || self.problem(field, "it is not a number of milliseconds above 0");
        Ok(Some(Duration::from_millis(millis.ok_or_else(problem)?)))
    }

    fn kind(&self, entry: &Map<String, Value>) -> Result<Kind, McpConfigError> {
        match entry.get("type").and_then(Value::as_str) {
            Some("stdio") => Ok(Kind::Child),
            Some("http" | "streamable-http" | "streamableHttp" | "streamable_http") => Ok(Kind::Http),
            Some("sse") => {
                let problem = "the old transport `sse` is not spoken; most servers also have streamable HTTP, \
                               often at the path /mcp: use `\"type\": \"http\"` with that address";
                Err(self.problem("type", problem))
            }
            Some(other) => Err(self.problem("type", &format!("`{other}` is neither `stdio` nor `http`"))),
            None if entry.contains_key("command") && entry.contains_key("url") => {
                Err(self.problem("type", "there is a `command` and a `url`; say which it is"))
            }
            None if entry.contains_key("command") => Ok(Kind::Child),
            None if entry.contains_key("url") => Ok(Kind::Http),
            None => Err(self.problem("its entry", "there is neither a `command` nor a `url`")),
        }
    }

    fn child(&self, entry: &Map<String, Value>) -> Result<McpServer, McpConfigError> {
        let command = self.required(entry, "command")?;
        let mut server = McpServer::stdio(self.server, command);
        match entry.get("args") {
            None | Some(Value::Null) => {}
            Some(Value::Array(args)) => {
                for (place, arg) in args.iter().enumerate() {
                    server = server.with_arg(self.text(&format!("args[{place}]"), arg)?);
                }
            }
            Some(_) => return Err(self.problem("args", "it is not a list of strings")),
        }
        for (name, value) in self.pairs(entry, "env")? {
            server = server.with_env(name, value);
        }
        match entry.get("cwd") {
            None | Some(Value::Null) => Ok(server),
            Some(folder) => Ok(server.with_folder(self.text("cwd", folder)?)),
        }
    }

    fn http(&self, entry: &Map<String, Value>) -> Result<McpServer, McpConfigError> {
        let url = self.required(entry, "url")?;
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(self.problem("url", "it does not begin with http:// or https://"));
        }
        let raw = entry.get("url").and_then(Value::as_str).unwrap_or_default();
        let secrets = variables(raw).filter_map(|name| (self.variable)(name)).map(Secret::from);
        let mut server = McpServer::http(self.server, url).with_url_secrets(secrets.collect());
        for (name, value) in self.pairs(entry, "headers")? {
            server = server.with_header(name, Secret::from(value));
        }
        Ok(server)
    }

    fn required(&self, entry: &Map<String, Value>, field: &str) -> Result<String, McpConfigError> {
        let value = entry.get(field).ok_or_else(|| self.problem(field, "it is missing"))?;
        let text = self.text(field, value)?;
        if text.is_empty() { Err(self.problem(field, "it is empty")) } else { Ok(text) }
    }

    fn pairs(
        &self,
        entry: &Map<String, Value>,
        field: &str,
    ) -> Result<Vec<(String, String)>, McpConfigError> {
        match entry.get(field) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Object(pairs)) => pairs
                .iter()
                .map(|(name, value)| Ok((name.clone(), self.text(&format!("{field}.{name}"), value)?)))
                .collect(),
            Some(_) => Err(self.problem(field, "it is not an object of strings")),
        }
    }

    /// Returns a string with its variables substituted. Numbers and booleans, which many files have in `env`, are
    /// converted to text.
    fn text(&self, field: &str, value: &Value) -> Result<String, McpConfigError> {
        match value {
            Value::String(text) => {
                expand(text, self.variable).map_err(|problem| self.problem(field, &problem))
            }
            Value::Number(number) => Ok(number.to_string()),
            Value::Bool(flag) => Ok(flag.to_string()),
            _ => Err(self.problem(field, "it is not a string")),
        }
    }

    fn problem(&self, field: &str, problem: &str) -> McpConfigError {
        McpConfigError::Field {
            server: self.server.to_owned(),
            field: field.to_owned(),
            problem: problem.to_owned(),
        }
    }
}

/// Returns the names of the variables in a text.
fn variables(text: &str) -> impl Iterator<Item = &str> {
    let inside = text.split("${").skip(1).filter_map(|rest| rest.split_once('}'));
    inside.map(|(inside, _)| inside.split_once(":-").map_or(inside, |(name, _)| name))
}

/// Substitutes variables. Their values are not expanded again.
fn expand(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let Some((inside, next)) = after.split_once('}') else {
            return Err("a `${` has no `}`".to_owned());
        };
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name {
            return Err(format!("`{name}` in `${{…}}` is not the name of a variable"));
        }
        // As in a shell, the default also replaces a variable that is empty.
        match (variable(name), default) {
            (Some(value), None) => out.push_str(&value),
            (Some(value), Some(_)) if !value.is_empty() => out.push_str(&value),
            (_, Some(default)) => out.push_str(default),
            (None, None) => {
                return Err(format!("the variable {name} is not set; set it or write ${{{name}:-default}}"));
            }
        }
        rest = next;
    }
    out.push_str(rest);
    Ok(out)
}
