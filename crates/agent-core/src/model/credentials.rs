//! Keys and headers of a model by the names of environment variables.

use super::providers::key_variable;
use super::{ModelConfig, Secret};

/// The error of a model whose configuration names an environment variable that is not set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable} is not set; {provider}/{model} needs it for {needed_for}")]
#[non_exhaustive]
pub struct MissingSecret {
    /// The name of the variable.
    pub variable: String,
    /// The name of the provider.
    pub provider: String,
    /// The id of the model.
    pub model: String,
    /// What the variable holds: the key, or the name of a header.
    pub needed_for: String,
}

impl ModelConfig {
    /// Sets the environment variable that holds the API key. A serialized configuration has this name and never the key.
    /// [`with_secrets`](Self::with_secrets) reads it.
    #[must_use]
    pub fn with_key_from(mut self, variable: impl Into<String>) -> Self {
        self.api_key_env = Some(variable.into());
        self
    }

    /// Adds a header whose value is in an environment variable. A serialized configuration has the name of the variable.
    #[must_use]
    pub fn with_header_from(mut self, name: impl Into<String>, variable: impl Into<String>) -> Self {
        self.header_env.insert(name.into(), variable.into());
        self
    }

    /// Reads the key and the headers that the configuration names by variables. Without a name, the key is read from the
    /// provider's usual variable if that is set and the model has no key. `lookup` is usually
    /// `|name| std::env::var(name).ok()`.
    ///
    /// # Errors
    /// Returns [`MissingSecret`] if a variable that the configuration names is not set or empty.
    pub fn with_secrets(
        mut self,
        mut lookup: impl FnMut(&str) -> Option<String>,
    ) -> Result<Self, MissingSecret> {
        let mut read = |variable: &str| lookup(variable).filter(|text| !text.trim().is_empty());
        let missing = |variable: &str, needed_for: String| MissingSecret {
            variable: variable.to_owned(),
            provider: self.provider.clone(),
            model: self.id.clone(),
            needed_for,
        };
        let key = match &self.api_key_env {
            Some(variable) => {
                Some(read(variable).ok_or_else(|| missing(variable, "its API key".to_owned()))?)
            }
            None if self.api_key.is_none() => key_variable(&self.provider).and_then(&mut read),
            None => None,
        };
        let mut headers = Vec::new();
        for (name, variable) in &self.header_env {
            let value = read(variable).ok_or_else(|| missing(variable, format!("the header {name:?}")))?;
            headers.push((name.clone(), Some(value)));
        }
        if let Some(key) = key {
            self.api_key = Some(Secret::new(key.trim()));
        }
        self.headers.extend(headers);
        Ok(self)
    }
}
