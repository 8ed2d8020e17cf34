//! The keys of clients: from a file, from the environment, or a random one.

use std::path::Path;

use anyhow::{Context as _, Result};
use looptree::BudgetLimits;
use looptree::model::Secret;
use looptree::serve::Key;
use looptree::tools::bounded::BoundedFolder;
use serde::Deserialize;

use crate::exit::usage;
use crate::settings::MoneyText;

/// The environment variable with the only key.
const KEY: &str = "LOOPTREE_SERVE_KEY";

/// The name of that key, and of a random one.
const NAME: &str = "default";

/// The maximum size of a file of keys.
const MAX_FILE: u64 = 4 << 20;

/// A file of keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    key: Vec<Entry>,
}

/// A key of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    /// The hash of the token, as 64 hexadecimal digits.
    sha256: String,
    requests_per_minute: Option<u32>,
    /// The maximum cost of all conversations of the key.
    budget: Option<MoneyText>,
    /// The maximum number of their tokens.
    max_tokens_total: Option<u64>,
}

/// Returns the keys, and a line for the user that names their origin.
pub(super) fn read(file: Option<&Path>) -> Result<(Vec<Key>, String)> {
    if let Some(file) = file {
        let keys = of_file(file)?;
        let note = format!("keys: {} from {}", keys.len(), file.display());
        return Ok((keys, note));
    }
    match std::env::var(KEY).ok() {
        Some(token) => {
            let key =
                Key::new(NAME, &Secret::new(token)).map_err(|error| usage(format!("{KEY}: {error}")))?;
            Ok((vec![key], format!("the key is the one of {KEY}")))
        }
        None => {
            let token = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
            let key = Key::new(NAME, &Secret::new(token.as_str()))?;
            Ok((vec![key], format!("key: {token} (set {KEY} to choose it, or use --keys)")))
        }
    }
}

fn of_file(file: &Path) -> Result<Vec<Key>> {
    let shown = file.display();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let facts = std::fs::metadata(file).with_context(|| format!("cannot read {shown}"))?;
        if facts.permissions().mode() & 0o077 != 0 {
            return Err(usage(format!("{shown} can be read by other accounts; run chmod 600 {shown}")));
        }
    }
    let read = BoundedFolder::read_named(file, MAX_FILE).with_context(|| format!("cannot read {shown}"))?;
    if read.truncated {
        return Err(usage(format!("{shown} is larger than {MAX_FILE} bytes")));
    }
    let text = String::from_utf8(read.bytes).with_context(|| format!("cannot read {shown}"))?;
    let entries: File = toml::from_str(&text).map_err(|error| usage(format!("{shown}: {error}")))?;
    let keys: Result<Vec<Key>> = entries.key.iter().map(|entry| key(entry, file)).collect();
    let keys = keys?;
    if keys.is_empty() {
        return Err(usage(format!("{shown} has no key")));
    }
    Ok(keys)
}

fn key(entry: &Entry, file: &Path) -> Result<Key> {
    let made = Key::hashed(entry.name.as_str(), &entry.sha256);
    let mut key = made.map_err(|error| usage(format!("{}: {error}", file.display())))?;
    let mut budget = BudgetLimits::none();
    if let Some(money) = &entry.budget {
        budget = budget.with_money(money.0);
    }
    if let Some(tokens) = entry.max_tokens_total {
        budget = budget.with_tokens(tokens);
    }
    key = key.with_budget(budget);
    if let Some(requests) = entry.requests_per_minute {
        key = key.with_requests_per_minute(requests);
    }
    Ok(key)
}
