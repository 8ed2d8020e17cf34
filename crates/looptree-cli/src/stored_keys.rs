//! Keys from the keyring of the operating system.

use looptree::model::Secret;

/// What the keyring has for a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "keyring"),
    expect(dead_code, reason = "only a build with the feature keyring has keys")
)]
pub(crate) enum Stored {
    Key(Secret),
    Nothing,
    /// The keyring could not be read; the reason is one sentence.
    Unreadable(String),
}

#[cfg(not(feature = "keyring"))]
pub(crate) fn key(_provider: &str) -> Stored {
    Stored::Nothing
}

#[cfg(feature = "keyring")]
pub(crate) use with_keyring::key;

#[cfg(feature = "keyring")]
mod with_keyring {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, PoisonError, mpsc};
    use std::time::Duration;

    use keyring::v1::{Entry, Error};
    use looptree::model::Secret;

    use super::Stored;

    /// The service by which the keys are stored.
    const SERVICE: &str = "looptree";
    /// The longest wait for the keyring, which can ask the user for its password.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// What was found, by provider. A list of models asks for the same ones again and again.
    static FOUND: Mutex<BTreeMap<String, Stored>> = Mutex::new(BTreeMap::new());

    /// Returns the key of a provider. Once the keyring could not be read, it is not asked again.
    pub(crate) fn key(provider: &str) -> Stored {
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(broken) = found.values().find(|stored| matches!(stored, Stored::Unreadable(_))) {
            return broken.clone();
        }
        if let Some(known) = found.get(provider) {
            return known.clone();
        }
        let name = provider.to_owned();
        let stored = within(PATIENCE, move || read(&name));
        found.insert(provider.to_owned(), stored.clone());
        stored
    }

    /// Reads in a thread of its own: a keyring that does not answer must not hold the program.
    fn within(patience: Duration, read: impl FnOnce() -> Stored + Send + 'static) -> Stored {
        let (tell, told) = mpsc::sync_channel(1);
        std::thread::spawn(move || {
            // The program has not waited for it.
            let _ = tell.send(read());
        });
        told.recv_timeout(patience).unwrap_or_else(|_| {
            Stored::Unreadable(format!("the keyring did not answer within {} s", patience.as_secs()))
        })
    }

    fn read(provider: &str) -> Stored {
        let password = Entry::new(SERVICE, provider).and_then(|entry| entry.get_password());
        match password {
            Ok(key) if key.trim().is_empty() => Stored::Nothing,
            Ok(key) => Stored::Key(Secret::new(key)),
            Err(Error::NoEntry) => Stored::Nothing,
            Err(Error::NoDefaultStore) => {
                let why = Entry::store_status().as_ref().err().map(|error| one_line(&error.to_string()));
                Stored::Unreadable(format!("there is no keyring here: {}", why.unwrap_or_default()))
            }
            // The texts of these have no secrets; that of a password in another encoding could.
            Err(error @ (Error::NoStorageAccess(_) | Error::PlatformFailure(_))) => {
                Stored::Unreadable(format!("the keyring cannot be read: {}", one_line(&error.to_string())))
            }
            Err(_) => Stored::Unreadable(format!("the key of {provider} in the keyring is no text")),
        }
    }

    fn one_line(text: &str) -> String {
        crate::text::one_line(text).trim_end_matches('.').to_owned()
    }

    #[cfg(test)]
    mod tests;
}
