//! Reads the key `sandbox`, which confines a child process.
//!
//! Unlike in the rest of the file, an unknown key is an error, because a misspelt key would confine a server less than
//! the file intends.

use serde_json::{Map, Value};

use super::{Entry, McpConfigError};
use crate::mcp::server::{McpServer, McpTransport};
use crate::sandbox::{Network, Sandbox, SandboxRules, TempFolder, UnixSockets};

const KINDS: &str = "`none`, `landlock` or `bwrap`";

const KEYS: &str = "`kind`, `readRoots`, `writeRoots`, `network`, `unixSockets`, `temp` or `systemRoots`";

/// The kind of sandbox that a file names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    None,
    Landlock,
    Bwrap,
}

impl Entry<'_> {
    /// Returns the server with the sandbox of its entry.
    pub(super) fn held(
        &self,
        entry: &Map<String, Value>,
        server: McpServer,
    ) -> Result<McpServer, McpConfigError> {
        let empty = Map::new();
        let (kind, fields) = match entry.get("sandbox") {
            None | Some(Value::Null) => return Ok(server),
            Some(Value::String(kind)) => (self.sandbox_kind("sandbox", kind)?, &empty),
            Some(Value::Object(fields)) => {
                let kind = match fields.get("kind") {
                    None => Kind::Bwrap,
                    Some(kind) => self.sandbox_kind("sandbox.kind", self.word("sandbox.kind", kind)?)?,
                };
                (kind, fields)
            }
            Some(_) => return Err(self.problem("sandbox", "it is neither a string nor an object")),
        };
        let McpTransport::Stdio(_) = server.transport() else {
            let problem = "a server over HTTP is no child and cannot be held; take the key away";
            return Err(self.problem("sandbox", problem));
        };
        if kind == Kind::None {
            if let Some(key) = fields.keys().find(|key| *key != "kind") {
                return Err(self.problem(&format!("sandbox.{key}"), "the kind `none` keeps no rules"));
            }
            return Ok(server);
        }
        let rules = self.rules(fields)?;
        Ok(match kind {
            Kind::None => server,
            Kind::Landlock => server.with_sandbox(Sandbox::landlock(rules)),
            Kind::Bwrap => server.with_sandbox(Sandbox::bwrap(rules)),
        })
    }

    fn sandbox_kind(&self, field: &str, kind: &str) -> Result<Kind, McpConfigError> {
        match kind {
            "none" => Ok(Kind::None),
            "landlock" => Ok(Kind::Landlock),
            "bwrap" => Ok(Kind::Bwrap),
            other => Err(self.unknown(field, other, KINDS)),
        }
    }

    fn rules(&self, fields: &Map<String, Value>) -> Result<SandboxRules, McpConfigError> {
        let mut rules = SandboxRules::new().with_network(Network::Off);
        for (key, value) in fields {
            let field = format!("sandbox.{key}");
            rules = match key.as_str() {
                "kind" => rules,
                "readRoots" => {
                    self.roots(&field, value)?.into_iter().fold(rules, SandboxRules::with_read_root)
                }
                "writeRoots" => {
                    self.roots(&field, value)?.into_iter().fold(rules, SandboxRules::with_write_root)
                }
                "network" => match self.word(&field, value)? {
                    "off" => rules.with_network(Network::Off),
                    "no-tcp" => rules.with_network(Network::NoTcp),
                    "open" => rules.with_network(Network::Open),
                    other => return Err(self.unknown(&field, other, "`off`, `no-tcp` or `open`")),
                },
                "unixSockets" => match self.word(&field, value)? {
                    "refused" => rules.with_unix_sockets(UnixSockets::Refused),
                    "allowed" => rules.with_unix_sockets(UnixSockets::Allowed),
                    other => return Err(self.unknown(&field, other, "`refused` or `allowed`")),
                },
                "temp" => match self.word(&field, value)? {
                    "private" => rules.with_temp(TempFolder::Private),
                    "shared" => rules.with_temp(TempFolder::Shared),
                    "none" => rules.with_temp(TempFolder::None),
                    other => return Err(self.unknown(&field, other, "`private`, `shared` or `none`")),
                },
                "systemRoots" => match value.as_bool() {
                    Some(true) => rules,
                    Some(false) => rules.without_system_roots(),
                    None => return Err(self.problem(&field, "it is neither true nor false")),
                },
                other => return Err(self.unknown("sandbox", other, KEYS)),
            };
        }
        Ok(rules)
    }

    /// Returns the paths with their variables substituted.
    fn roots(&self, field: &str, value: &Value) -> Result<Vec<String>, McpConfigError> {
        let roots = value.as_array().ok_or_else(|| self.problem(field, "it is not a list of paths"))?;
        let read = |(place, root): (usize, &Value)| {
            let field = format!("{field}[{place}]");
            self.word(&field, root)?;
            let path = self.text(&field, root)?;
            // A relative path would depend on the folder in which the program is started.
            if std::path::Path::new(&path).is_absolute() {
                Ok(path)
            } else {
                Err(self.problem(&field, "it is not an absolute path"))
            }
        };
        roots.iter().enumerate().map(read).collect()
    }

    fn word<'a>(&self, field: &str, value: &'a Value) -> Result<&'a str, McpConfigError> {
        value.as_str().ok_or_else(|| self.problem(field, "it is not a string"))
    }

    fn unknown(&self, field: &str, value: &str, known: &'static str) -> McpConfigError {
        let (server, field, value) = (self.server.to_owned(), field.to_owned(), value.to_owned());
        McpConfigError::Unknown { server, field, value, known }
    }
}
