//! The configuration of a server: its transport and its limits.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent_core::{Secret, ToolLoading};

use super::elicitation::ElicitationHandler;
use super::restart::Restart;
use super::{CALL_TIMEOUT, CONNECT_TIMEOUT, MAX_CALL_TIME};
use crate::OutputStore;
use crate::program::{Program, ProgramError, SearchPath};
use crate::sandbox::{Sandbox, SandboxRules};
use crate::secrets::Secrets;

/// The configuration of an MCP server: its transport, its tool prefix, time limits and restarts.
///
/// ```
/// use agent_tools::mcp::McpServer;
/// let files = McpServer::stdio("files", "mcp-server-filesystem").with_arg("/srv/data").with_prefix("fs");
/// let search = McpServer::http("search", "https://mcp.example.com/mcp").with_bearer("a-token");
/// assert!(!format!("{search:?}").contains("a-token"));
/// # let _ = files;
/// ```
#[derive(Clone)]
pub struct McpServer {
    pub(super) name: String,
    pub(super) transport: McpTransport,
    pub(super) prefix: Option<String>,
    pub(super) connect_timeout: Duration,
    pub(super) call_timeout: Duration,
    pub(super) max_call_time: Duration,
    pub(super) restart: Restart,
    pub(super) annotations: AnnotationTrust,
    pub(super) elicitation: Option<ElicitationHandler>,
    pub(super) only: Option<Vec<String>>,
    pub(super) store: Option<OutputStore>,
    pub(super) loading: ToolLoading,
}

/// The transport of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum McpTransport {
    /// A child process that communicates over its standard input and output.
    Stdio(StdioTransport),
    /// A server over streamable HTTP.
    Http(HttpTransport),
}

/// How a child process is started. Its environment is the one of `bash` commands with additional variables.
#[derive(Clone)]
pub struct StdioTransport {
    pub(super) command: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) env: BTreeMap<OsString, OsString>,
    pub(super) inherited: Vec<String>,
    /// `None` means a new folder for each start.
    pub(super) folder: Option<PathBuf>,
    pub(super) sandbox: Sandbox,
    /// The folders that commands of the agent can write to.
    pub(super) writable: Vec<PathBuf>,
    /// The program, from the first start on.
    pub(super) program: Arc<OnceLock<Program>>,
}

impl StdioTransport {
    /// Returns the folders in which the child, and the programs that it starts, are looked up.
    pub(super) fn search_path(&self, variable: Option<&OsString>) -> SearchPath {
        let of_sandbox = self.sandbox.rules().into_iter().flat_map(SandboxRules::writable);
        let writable = self.writable.iter().cloned().chain(of_sandbox);
        SearchPath::new(variable.map(OsString::as_os_str).unwrap_or_default(), writable)
    }

    /// Returns the program. It is looked up at the first start, and each restart uses the same file.
    pub(super) fn program(&self, search: &SearchPath) -> Result<Program, ProgramError> {
        if let Some(program) = self.program.get() {
            return Ok(program.clone());
        }
        let is_name = Path::new(&self.command).file_name() == Some(&self.command);
        // A path is relative to the current folder of this process, as the user wrote it.
        let program = if is_name { search.find(&self.command)? } else { Program::at(&self.command)? };
        Ok(self.program.get_or_init(|| program).clone())
    }
}

/// The address of an HTTP server, and the headers of its requests.
#[derive(Clone)]
pub struct HttpTransport {
    pub(super) url: String,
    /// The parts of the address that come from variables.
    pub(super) url_secrets: Vec<Secret>,
    pub(super) headers: Vec<(String, Secret)>,
    pub(super) bearer: Option<Secret>,
    pub(super) client: Option<reqwest::Client>,
    #[cfg(feature = "mcp-oauth")]
    pub(super) oauth: Option<super::oauth::OAuth>,
}

/// Whether the annotations of a server about its tools are trusted.
///
/// The protocol calls annotations untrusted, because a server can send any: a tool that deletes files can claim to be
/// read-only, and would then pass a policy that allows calls that change nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AnnotationTrust {
    /// Every call is [`Effects::Once`](agent_core::Effects::Once): it must not be repeated. This is the default.
    #[default]
    Ignored,
    /// `readOnlyHint` and `idempotentHint` determine the effects of a tool, and with them whether a call may be
    /// repeated and which policies allow it. Use it only for servers whose program you trust.
    Believed,
}

impl McpServer {
    /// Configures a program that is started as a child process. `name` identifies the server in errors.
    #[must_use]
    pub fn stdio(name: impl Into<String>, command: impl Into<OsString>) -> Self {
        Self::new(
            name,
            McpTransport::Stdio(StdioTransport {
                command: command.into(),
                args: Vec::new(),
                env: BTreeMap::new(),
                inherited: Vec::new(),
                folder: None,
                sandbox: Sandbox::none(),
                writable: Vec::new(),
                program: Arc::default(),
            }),
        )
    }

    /// Configures a server at an address that begins with `http://` or `https://`. `name` identifies the server in
    /// errors.
    #[must_use]
    pub fn http(name: impl Into<String>, url: impl Into<String>) -> Self {
        let transport = HttpTransport {
            url: url.into(),
            url_secrets: Vec::new(),
            headers: Vec::new(),
            bearer: None,
            client: None,
            #[cfg(feature = "mcp-oauth")]
            oauth: None,
        };
        Self::new(name, McpTransport::Http(transport))
    }

    /// Configures a program, with its file name as the server's name.
    pub(super) fn of_command<A, K, V>(
        command: impl Into<OsString>,
        args: impl IntoIterator<Item = A>,
        env: impl IntoIterator<Item = (K, V)>,
    ) -> Self
    where
        A: Into<OsString>,
        K: Into<OsString>,
        V: Into<OsString>,
    {
        let command = command.into();
        let name = Path::new(&command).file_name().unwrap_or(&command).to_string_lossy().into_owned();
        let server = Self::stdio(name, command).with_args(args);
        env.into_iter().fold(server, |server, (name, value)| server.with_env(name, value))
    }

    /// Configures a server over HTTP, with its address without the query as the server's name.
    pub(super) fn of_url(url: impl Into<String>) -> Self {
        let url = url.into();
        Self::http(url.split('?').next().unwrap_or_default(), url.clone())
    }

    fn new(name: impl Into<String>, transport: McpTransport) -> Self {
        Self {
            name: name.into(),
            transport,
            prefix: None,
            connect_timeout: CONNECT_TIMEOUT,
            call_timeout: CALL_TIMEOUT,
            max_call_time: MAX_CALL_TIME,
            restart: Restart::default(),
            annotations: AnnotationTrust::default(),
            elicitation: None,
            only: None,
            store: None,
            loading: ToolLoading::Always,
        }
    }

    /// Returns the server's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the transport of the server.
    #[must_use]
    pub fn transport(&self) -> &McpTransport {
        &self.transport
    }

    /// Adds a command-line argument. Like all settings of the child process, it has no effect on a server over HTTP.
    #[must_use]
    pub fn with_arg(self, arg: impl Into<OsString>) -> Self {
        self.with_args([arg])
    }

    /// Adds command-line arguments of the child.
    #[must_use]
    pub fn with_args(self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.stdio_with(|stdio| stdio.args.extend(args.into_iter().map(Into::into)))
    }

    /// Sets an environment variable of the child.
    #[must_use]
    pub fn with_env(self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.stdio_with(|stdio| {
            stdio.env.insert(name.into(), value.into());
        })
    }

    /// Lets the child inherit one more variable of this process, in addition to [`INHERITED`](crate::bash::INHERITED).
    #[must_use]
    pub fn with_inherited_env(self, name: impl Into<String>) -> Self {
        self.stdio_with(|stdio| stdio.inherited.push(name.into()))
    }

    /// Sets the folder in which the child starts. The default is a new empty folder for each start, which is removed after it, or
    /// `/` in a sandbox: many programs, such as `npx`, `uvx` and `python -m`, run code of the folder in which they start.
    #[must_use]
    pub fn with_folder(self, folder: impl Into<PathBuf>) -> Self {
        self.stdio_with(|stdio| stdio.folder = Some(folder.into()))
    }

    /// Runs the child in this sandbox. If the sandbox is not available, the server is not started. By default the child
    /// has all permissions of this process.
    #[must_use]
    pub fn with_sandbox(self, sandbox: Sandbox) -> Self {
        self.stdio_with(|stdio| stdio.sandbox = sandbox)
    }

    /// Names a folder that commands of the agent can write to, such as the root of its workspace. The program, and `PATH` of the
    /// child, then lead to no folder in it; the program's absolute path still does.
    #[must_use]
    pub fn with_writable_folder(self, folder: impl Into<PathBuf>) -> Self {
        self.stdio_with(|stdio| stdio.writable.push(folder.into()))
    }

    /// Sends one more header with every request. Like all settings of HTTP, it has no effect on a child process.
    #[must_use]
    pub fn with_header(self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        self.http_with(|http| http.headers.push((name.into(), value.into())))
    }

    /// Sends `Authorization: Bearer …` with every request.
    #[must_use]
    pub fn with_bearer(self, token: impl Into<Secret>) -> Self {
        self.http_with(|http| http.bearer = Some(token.into()))
    }

    /// Sends requests through this client. It should not follow redirects to other hosts, because they would receive
    /// the headers.
    #[must_use]
    pub fn with_http_client(self, client: reqwest::Client) -> Self {
        self.http_with(|http| http.client = Some(client))
    }

    /// Logs in when the server requires it.
    #[cfg(feature = "mcp-oauth")]
    #[must_use]
    pub fn with_oauth(self, login: super::oauth::OAuth) -> Self {
        self.http_with(|http| http.oauth = Some(login))
    }

    /// Sets a prefix for the tool names, which become `{prefix}__{name}`.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Sets the maximum duration of starting and initializing. The default is [`CONNECT_TIMEOUT`].
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the maximum time of a request without a response or progress. The default is [`CALL_TIMEOUT`].
    #[must_use]
    pub fn with_call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = timeout;
        self
    }

    /// Sets the maximum total duration of a request. The default is [`MAX_CALL_TIME`].
    #[must_use]
    pub fn with_max_call_time(mut self, time: Duration) -> Self {
        self.max_call_time = time;
        self
    }

    /// Sets what happens if the server ends by itself.
    #[must_use]
    pub fn with_restart(mut self, restart: Restart) -> Self {
        self.restart = restart;
        self
    }

    /// Sets whether the annotations of the tools are trusted. By default they are not.
    #[must_use]
    pub fn with_annotations(mut self, trust: AnnotationTrust) -> Self {
        self.annotations = trust;
        self
    }

    /// Sets the handler for questions of the server to the user during a call. Without a handler the server is notified
    /// that elicitation is not supported.
    #[must_use]
    pub fn with_elicitation(mut self, handler: ElicitationHandler) -> Self {
        self.elicitation = Some(handler);
        self
    }

    /// Uses only these tools, given by the server's names for them.
    #[must_use]
    pub fn with_only_tools(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.only = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Marks the tools of the server as deferred, also those that it adds later: the model receives the definition of a tool
    /// after it has searched for it. Use it for servers with many tools; see [`Tools::deferred`](agent_core::Tools::deferred).
    #[must_use]
    pub fn deferred(mut self) -> Self {
        self.loading = ToolLoading::Deferred;
        self
    }

    /// Stores the text of results above [`MAX_RESULT_TEXT_BYTES`](super::MAX_RESULT_TEXT_BYTES) in this store, and adds
    /// the key to the result. Without a store the rest is discarded.
    #[must_use]
    pub fn with_output_store(mut self, store: OutputStore) -> Self {
        self.store = Some(store);
        self
    }

    /// Changes the transport of a child. Does nothing to a server over HTTP.
    fn stdio_with(mut self, change: impl FnOnce(&mut StdioTransport)) -> Self {
        if let McpTransport::Stdio(stdio) = &mut self.transport {
            change(stdio);
            stdio.program = Arc::default();
        }
        self
    }

    /// Sets the parts of the address that must not appear in texts.
    pub(super) fn with_url_secrets(self, secrets: Vec<Secret>) -> Self {
        self.http_with(|http| http.url_secrets = secrets)
    }

    /// Changes the transport of a server over HTTP. Does nothing to a child.
    fn http_with(mut self, change: impl FnOnce(&mut HttpTransport)) -> Self {
        if let McpTransport::Http(http) = &mut self.transport {
            change(http);
        }
        self
    }

    /// Returns the secrets that must not appear in texts.
    pub(super) fn secrets(&self) -> Secrets {
        match &self.transport {
            McpTransport::Stdio(stdio) => {
                Secrets::new(stdio.env.values().map(|value| value.to_string_lossy().into_owned().into()))
            }
            McpTransport::Http(http) => {
                let of_headers = http.headers.iter().map(|(_, value)| value);
                Secrets::new(of_headers.chain(&http.bearer).chain(&http.url_secrets).cloned())
            }
        }
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer")
            .field("name", &self.name)
            .field("transport", &self.transport)
            .field("prefix", &self.prefix)
            .field("connect_timeout", &self.connect_timeout)
            .field("call_timeout", &self.call_timeout)
            .field("max_call_time", &self.max_call_time)
            .field("restart", &self.restart)
            .field("annotations", &self.annotations)
            .field("elicitation", &self.elicitation.is_some())
            .field("only", &self.only)
            .field("store", &self.store)
            .finish()
    }
}

/// Shows the names of the variables without their values.
impl fmt::Debug for StdioTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioTransport")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &self.env.keys())
            .field("inherited", &self.inherited)
            .field("folder", &self.folder)
            .field("sandbox", &self.sandbox)
            .finish()
    }
}

/// Shows the names of the headers without their values, and the address without its query.
impl fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTransport")
            // The path and the query can have a secret.
            .field("url", &self.url.splitn(4, ['/', '?', '#']).take(3).collect::<Vec<_>>().join("/"))
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("bearer", &self.bearer.is_some())
            .finish_non_exhaustive()
    }
}
