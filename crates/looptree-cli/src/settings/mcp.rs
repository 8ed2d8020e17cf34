//! The MCP servers of the configuration files.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, json};

/// The keys of a server, as `McpConfig` of the library reads them.
const KEYS: [&str; 14] = [
    "args",
    "command",
    "cwd",
    "deferred",
    "disabled",
    "env",
    "headers",
    "sandbox",
    "startupTimeout",
    "startup_timeout",
    "timeout",
    "tools",
    "type",
    "url",
];

/// What is shown instead of a value that can be a secret.
pub(crate) const HIDDEN: &str = "(hidden)";

/// The MCP servers by their names, each with the keys of an entry of `mcp.json`.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub(crate) struct McpTable(pub(crate) BTreeMap<String, Value>);

/// Shows the names of the servers.
impl fmt::Debug for McpTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Writes the servers without what can be a secret.
impl Serialize for McpTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, entry)| (name, masked(entry))))
    }
}

/// Returns a key of a server that has no meaning, with the keys that have one.
pub(crate) fn unknown_key(entry: &Value) -> Option<String> {
    let mut keys = entry.as_object()?.keys();
    let unknown = keys.find(|key| !KEYS.contains(&key.as_str()))?;
    Some(format!("{unknown}: there is no such key; known are {}", KEYS.join(", ")))
}

/// Returns a server as an inline table of TOML, without what can be a secret.
pub(crate) fn shown_entry(entry: &Value) -> String {
    inline(&masked(entry))
}

/// Returns a key of TOML, in quotes if it needs them.
pub(crate) fn key_of(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { json!(name).to_string() }
}

fn inline(value: &Value) -> String {
    match value {
        Value::Object(table) if table.is_empty() => "{}".to_owned(),
        Value::Object(table) => {
            let mut rows: Vec<_> =
                table.iter().map(|(key, value)| format!("{} = {}", key_of(key), inline(value))).collect();
            rows.sort();
            format!("{{ {} }}", rows.join(", "))
        }
        Value::Array(values) => {
            format!("[{}]", values.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        value => value.to_string(),
    }
}

/// Replaces what can be a secret: an argument, a variable, a header, the part of an address behind the host.
fn masked(entry: &Value) -> Value {
    let Value::Object(entry) = entry else { return json!(HIDDEN) };
    let rows = entry.iter().map(|(key, value)| {
        let shown = match (key.as_str(), value) {
            ("args" | "env" | "headers", value) => concealed(value),
            ("url", Value::String(url)) => json!(host_of(url)),
            (key, value) if KEYS.contains(&key) => value.clone(),
            _ => json!(HIDDEN),
        };
        (key.clone(), shown)
    });
    Value::Object(rows.collect::<Map<_, _>>())
}

fn concealed(value: &Value) -> Value {
    match value {
        Value::Object(pairs) => {
            pairs.iter().map(|(name, value)| (name.clone(), concealed(value))).collect::<Map<_, _>>().into()
        }
        Value::Array(values) => values.iter().map(concealed).collect(),
        Value::String(text) if is_reference(text.strip_prefix("Bearer ").unwrap_or(text)) => value.clone(),
        _ => json!(HIDDEN),
    }
}

/// Returns whether a text is the name of a variable in `${}` and nothing else. A default can be a secret.
fn is_reference(text: &str) -> bool {
    let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

/// Returns the scheme and the host of an address.
pub(crate) fn host_of(url: &str) -> String {
    if is_reference(url) {
        return url.to_owned();
    }
    let Some((scheme, rest)) = url.split_once("://") else { return HIDDEN.to_owned() };
    let (host, behind) = without_user(rest);
    let behind = if matches!(behind, "" | "/") { behind.to_owned() } else { format!("/{HIDDEN}") };
    format!("{scheme}://{host}{behind}")
}

/// Returns an address without what can be a secret in front of the host and behind the path.
pub(crate) fn shown_address(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let start = url.find("://").map_or(0, |at| at + "://".len());
    let (scheme, rest) = url.split_at(start);
    let (host, path) = without_user(rest);
    format!("{scheme}{host}{path}")
}

/// Splits what is behind the scheme of an address into the host, without the name and the password in front of it, and the rest.
fn without_user(rest: &str) -> (&str, &str) {
    let (host, behind) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    (host.rsplit('@').next().unwrap_or_default(), behind)
}

#[cfg(test)]
mod tests;
