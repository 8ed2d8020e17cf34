//! The keys of clients, with their budgets and rates.
//!
//! A service stores the SHA-256 hash of each key. A given key is hashed and compared with all of them in constant time.
//!
//! ```
//! use agent_core::{BudgetLimits, Secret};
//! use agent_serve::Key;
//! let key = Key::new("alice", &Secret::new("a-token-of-16-chars-or-more"))?
//!     .with_budget(BudgetLimits::none().with_tokens(1_000_000))
//!     .with_requests_per_minute(120);
//! assert_eq!(key.name(), "alice");
//! # Ok::<(), agent_serve::KeyError>(())
//! ```

mod bounds;
mod rate;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent_core::{Budget, BudgetLimits, Secret};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};
use tokio::sync::OnceCell;

pub(crate) use bounds::Bounds;
pub(crate) use rate::Bucket;

use crate::limits::Limits;

/// The minimum length of a key in characters. Shorter ones can be guessed.
pub const MIN_KEY_CHARS: usize = 16;

/// The maximum length of the name of a key in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// The requests that a key may make in a minute, unless it is given another number.
pub const DEFAULT_REQUESTS_PER_MINUTE: u32 = 600;

/// The prefix of the agent ids of a service's sessions. The rest is the name of the key that made the conversation.
const OWNER: &str = "serve:";

/// A key of a client: a name, the hash of a token, a budget and a rate. It does not contain the token.
#[derive(Clone)]
pub struct Key {
    name: Arc<str>,
    hash: [u8; 32],
    budget: BudgetLimits,
    requests_per_minute: u32,
}

/// Shows the name and the limits.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("name", &self.name)
            .field("budget", &self.budget)
            .field("requests_per_minute", &self.requests_per_minute)
            .finish_non_exhaustive()
    }
}

/// The reason why a key cannot be used. The texts do not contain the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The token has too few characters.
    #[error(
        "the key {name} has fewer than {MIN_KEY_CHARS} characters, so it can be guessed; choose a longer one"
    )]
    TooShort {
        /// The name of the key.
        name: String,
    },
    /// The name has other characters than letters, digits, `-`, `_` and `.`, or is too long or empty.
    #[error("{name:?} cannot name a key; use 1 to {MAX_NAME_BYTES} letters, digits, and the signs - _ .")]
    Name {
        /// The name, cut to a length that can be shown.
        name: String,
    },
    /// The hash is not 64 hexadecimal digits.
    #[error(
        "the hash of the key {name} is not `sha256:` with 64 hexadecimal digits; `printf %s TOKEN | sha256sum` prints them"
    )]
    Hash {
        /// The name of the key.
        name: String,
    },
    /// Two keys have the same name or the same token.
    #[error("the key {name} is given twice")]
    Duplicate {
        /// The name of the second one.
        name: String,
    },
}

impl Key {
    /// Creates a key from its token, which is hashed and not stored.
    ///
    /// # Errors
    /// [`KeyError::TooShort`] and [`KeyError::Name`].
    pub fn new(name: impl Into<Arc<str>>, token: &Secret) -> Result<Self, KeyError> {
        let name = checked(name.into())?;
        if token.expose().chars().count() < MIN_KEY_CHARS {
            return Err(KeyError::TooShort { name: name.to_string() });
        }
        Ok(Self::of(name, hash_of(token.expose().as_bytes())))
    }

    /// Creates a key from the SHA-256 hash of its token: 64 hexadecimal digits, with or without `sha256:` before them.
    ///
    /// # Errors
    /// [`KeyError::Hash`] and [`KeyError::Name`].
    pub fn hashed(name: impl Into<Arc<str>>, hash: &str) -> Result<Self, KeyError> {
        let name = checked(name.into())?;
        let digits = hash.strip_prefix("sha256:").unwrap_or(hash).as_bytes();
        let wrong = || KeyError::Hash { name: name.to_string() };
        if digits.len() != 64 {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let text = std::str::from_utf8(pair).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(text, 16).map_err(|_| wrong())?;
        }
        Ok(Self::of(name, bytes))
    }

    fn of(name: Arc<str>, hash: [u8; 32]) -> Self {
        let requests_per_minute = DEFAULT_REQUESTS_PER_MINUTE;
        Self { name, hash, budget: BudgetLimits::none(), requests_per_minute }
    }

    /// Sets what all conversations of the key may spend together. Default: no limit.
    #[must_use]
    pub fn with_budget(mut self, limits: BudgetLimits) -> Self {
        self.budget = limits;
        self
    }

    /// Sets the number of requests in a minute, at least 1. Default: [`DEFAULT_REQUESTS_PER_MINUTE`].
    #[must_use]
    pub fn with_requests_per_minute(mut self, requests: u32) -> Self {
        self.requests_per_minute = requests.max(1);
        self
    }

    /// Returns the name of the key.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn checked(name: Arc<str>) -> Result<Arc<str>, KeyError> {
    let is_sign = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(is_sign) {
        return Err(KeyError::Name { name: name.chars().take(MAX_NAME_BYTES).collect() });
    }
    Ok(name)
}

fn hash_of(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// A key at work: its account, its rate, and what it can use at once.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) name: Arc<str>,
    pub(crate) budget: Budget,
    pub(crate) bucket: Bucket,
    pub(crate) bounds: Bounds,
    /// The number of conversations in the store, counted before the first new one.
    pub(crate) stored: OnceCell<AtomicUsize>,
}

impl Account {
    fn new(key: &Key, limits: &Limits) -> Self {
        Self {
            name: Arc::clone(&key.name),
            budget: Budget::named(format!("key {}", key.name), key.budget),
            bucket: Bucket::new(key.requests_per_minute),
            bounds: Bounds::new(limits),
            stored: OnceCell::new(),
        }
    }

    /// Counts one conversation less in the store. Nothing happens before they were counted.
    pub(crate) fn count_deleted(&self) {
        if let Some(stored) = self.stored.get() {
            // Two requests can delete the same conversation.
            let _ = stored.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1));
        }
    }

    /// Returns the agent id of the sessions of this key.
    pub(crate) fn owner(&self) -> String {
        format!("{OWNER}{}", self.name)
    }
}

/// Returns the name of the key whose conversation the session with this agent id is; `None` for a session of another program. A
/// program that shares its store with the service uses it to tell the sessions of clients from its own.
#[must_use]
pub fn owning_key(agent_id: &str) -> Option<&str> {
    agent_id.strip_prefix(OWNER)
}

/// The accounts of a service.
#[derive(Debug)]
pub(crate) struct Accounts {
    keys: Vec<([u8; 32], Arc<Account>)>,
    /// The account of all requests, if there are no keys.
    open: Option<Arc<Account>>,
}

/// The name of the account of a service without keys.
const LOCAL: &str = "local";

impl Accounts {
    pub(crate) fn new(keys: &[Key], limits: &Limits) -> Result<Self, KeyError> {
        for (at, key) in keys.iter().enumerate() {
            if keys.iter().take(at).any(|other| other.name == key.name || other.hash == key.hash) {
                return Err(KeyError::Duplicate { name: key.name.to_string() });
            }
        }
        let open = keys.is_empty().then(|| {
            let key = Key::of(LOCAL.into(), [0; 32]).with_requests_per_minute(u32::MAX);
            Arc::new(Account::new(&key, limits))
        });
        let keys = keys.iter().map(|key| (key.hash, Arc::new(Account::new(key, limits)))).collect();
        Ok(Self { keys, open })
    }

    /// Returns the account of requests without a key; `None` if the service has keys.
    pub(crate) fn open(&self) -> Option<&Arc<Account>> {
        self.open.as_ref()
    }

    /// Returns the account of a token. The time does not depend on how much of the token is right, or which key it is.
    pub(crate) fn of_token(&self, token: &[u8]) -> Option<&Arc<Account>> {
        let given = hash_of(token);
        let mut found = None;
        for (hash, account) in &self.keys {
            let same: Choice = hash.ct_eq(&given);
            if bool::from(same) {
                found = Some(account);
            }
        }
        found
    }

    /// Returns the account with this name.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<Account>> {
        self.all().find(|account| &*account.name == name)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Account>> {
        self.keys.iter().map(|(_, account)| account).chain(&self.open)
    }
}
