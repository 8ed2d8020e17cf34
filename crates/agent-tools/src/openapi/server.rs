//! The address of an API.

use std::collections::BTreeMap;

use reqwest::Url;
use serde_json::Value;

use super::error::OpenApiError;

/// The address to which the paths of a description are appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Base {
    url: Url,
}

impl Base {
    /// Checks an address of the configuration.
    pub(super) fn given(text: &str) -> Result<Self, OpenApiError> {
        let url = Url::parse(text).map_err(|error| error.to_string());
        url.and_then(Self::checked)
            .map_err(|why| OpenApiError::Config { detail: format!("the base address: {why}") })
    }

    /// Returns the first server of a list.
    ///
    /// # Errors
    /// Returns the reason why it cannot be used.
    pub(super) fn of_servers(
        servers: Option<&Value>,
        address: Option<&Url>,
        variables: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let first = servers.and_then(Value::as_array).and_then(|servers| servers.first());
        let text = match first {
            // The specification defines a default server at `/`.
            None => "/".to_owned(),
            Some(server) => substituted(server, variables)?,
        };
        let url = match (Url::parse(&text), address) {
            (Ok(url), _) => url,
            (Err(_), Some(address)) => {
                address.join(&text).map_err(|error| format!("the server `{text}`: {error}"))?
            }
            (Err(_), None) => {
                return Err(format!("the server `{text}` is relative to an address that is not known"));
            }
        };
        Self::checked(url)
    }

    fn checked(url: Url) -> Result<Self, String> {
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err("it must begin with http:// or https://".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it holds a user or a password; give them as credentials".to_owned());
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("it has a query or a fragment".to_owned());
        }
        Ok(Self { url })
    }

    /// Returns scheme, host and port: `https://api.example.com`.
    pub(super) fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// Returns the address.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the path without a `/` at its end.
    pub(super) fn path(&self) -> &str {
        self.url.path().trim_end_matches('/')
    }
}

/// Returns the address of a server with its variables substituted.
fn substituted(server: &Value, variables: &BTreeMap<String, String>) -> Result<String, String> {
    let server: oas3::spec::Server =
        serde_json::from_value(server.clone()).map_err(|error| format!("the first server: {error}"))?;
    let mut text = String::new();
    let mut rest = server.url.as_str();
    while let Some((before, behind)) = rest.split_once('{') {
        text.push_str(before);
        let Some((name, behind)) = behind.split_once('}') else {
            return Err(format!("the server `{}` has a brace that is not closed", server.url));
        };
        let variable = server.variables.get(name);
        let value = match (variables.get(name), variable) {
            (Some(value), Some(variable))
                if !variable.substitutions_enum.is_empty()
                    && !variable.substitutions_enum.contains(value) =>
            {
                return Err(format!(
                    "`{value}` is not one of the values of `{name}`: {}",
                    variable.substitutions_enum.join(", ")
                ));
            }
            (Some(value), _) => value,
            (None, Some(variable)) => &variable.default,
            (None, None) => return Err(format!("the server `{}` has no value for `{name}`", server.url)),
        };
        text.push_str(value);
        rest = behind;
    }
    text.push_str(rest);
    Ok(text)
}
