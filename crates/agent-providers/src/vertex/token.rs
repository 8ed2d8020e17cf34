//! Tokens of Google Cloud, which `gcp_auth` fetches and caches until they expire.
//!
//! The library has its own HTTP clients and retries five times within a second. Its errors contain few details, and
//! those about unreadable credentials may quote them, so they are not shown.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent_core::{ErrorKind, ModelConfig, ProviderError, Secret};
use gcp_auth::{CustomServiceAccount, TokenProvider};
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use tokio::sync::OnceCell;

use crate::request::refuse;

/// The scope of the tokens.
const SCOPES: &[&str] = &["https://www.googleapis.com/auth/cloud-platform"];

/// The maximum time to wait for a token.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum number of service accounts in the cache.
const MAX_ACCOUNTS: usize = 16;

/// The sources of tokens, one per service account.
#[derive(Default)]
pub(super) struct Tokens {
    default: OnceCell<Arc<dyn TokenProvider>>,
    accounts: Mutex<Vec<(Secret, Arc<CustomServiceAccount>)>>,
}

/// The members of a service account that are checked before it is used.
#[derive(Deserialize)]
struct Account {
    #[serde(rename = "type")]
    kind: Option<String>,
    token_uri: Option<String>,
}

impl Tokens {
    /// Returns a token of the application default credentials.
    pub(super) async fn of_default(
        &self,
        model: &ModelConfig,
    ) -> Result<(HeaderName, HeaderValue), ProviderError> {
        let fetching = async {
            let provider = self.default.get_or_try_init(gcp_auth::provider).await?;
            provider.token(SCOPES).await
        };
        bearer(model, tokio::time::timeout(TIMEOUT, fetching).await)
    }

    /// Returns a token of this service account.
    pub(super) async fn of_account(
        &self,
        model: &ModelConfig,
        json: &Secret,
    ) -> Result<(HeaderName, HeaderValue), ProviderError> {
        let account = self.account(model, json)?;
        bearer(model, tokio::time::timeout(TIMEOUT, account.token(SCOPES)).await)
    }

    fn account(
        &self,
        model: &ModelConfig,
        json: &Secret,
    ) -> Result<Arc<CustomServiceAccount>, ProviderError> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, account)) = accounts.iter().find(|(known, _)| known == json) {
            return Ok(Arc::clone(account));
        }
        let account = Arc::new(read(model, json)?);
        if accounts.len() >= MAX_ACCOUNTS {
            accounts.remove(0);
        }
        accounts.push((json.clone(), Arc::clone(&account)));
        Ok(account)
    }
}

/// Parses a service account.
fn read(model: &ModelConfig, json: &Secret) -> Result<CustomServiceAccount, ProviderError> {
    let refused = |message: &str| {
        let advice = "give the whole JSON of a service account's key, as the console hands it out";
        Err(refuse(model, ErrorKind::Auth, message, advice))
    };
    let Ok(account) = serde_json::from_str::<Account>(json.expose()) else {
        return refused("the API key begins like the JSON of a service account and is none");
    };
    if account.kind.as_deref().is_some_and(|kind| kind != "service_account") {
        let kind = account.kind.unwrap_or_default();
        let message =
            format!("credentials of the type {kind:?} cannot be used as a key; a service account's can");
        let advice = "leave the key out and sign in by application default credentials";
        return Err(refuse(model, ErrorKind::Auth, &message, advice));
    }
    // The library panics if this is not a URL.
    let is_address = account.token_uri.as_deref().is_none_or(|uri| {
        uri.parse::<http::Uri>().is_ok_and(|u| matches!(u.scheme_str(), Some("http" | "https")))
    });
    if !is_address {
        return refused("the token_uri of the service account is no web address");
    }
    match CustomServiceAccount::from_json(json.expose()) {
        Ok(account) => Ok(account),
        Err(gcp_auth::Error::Io(..)) => {
            let message = "the certificates of this machine cannot be read, so no token can be fetched";
            Err(refuse(
                model,
                ErrorKind::Auth,
                message,
                "install them, or set the model's api_key to a token",
            ))
        }
        Err(_) => {
            refused("the service account cannot be read: a field is missing or its private key is none")
        }
    }
}

fn bearer(
    model: &ModelConfig,
    fetched: Result<Result<Arc<gcp_auth::Token>, gcp_auth::Error>, tokio::time::error::Elapsed>,
) -> Result<(HeaderName, HeaderValue), ProviderError> {
    let sign_in = "sign in with `gcloud auth application-default login`, name a service account's file in \
                   GOOGLE_APPLICATION_CREDENTIALS, or set the model's api_key to a token or to the JSON of a service \
                   account";
    let token = match fetched {
        Err(_) => {
            let message = format!("no token of Google Cloud came within {} s", TIMEOUT.as_secs());
            return Err(refuse(
                model,
                ErrorKind::Network,
                &message,
                "try again, or give a token as the api_key",
            ));
        }
        Ok(Err(error)) => return Err(told(model, &error, sign_in)),
        Ok(Ok(token)) => token,
    };
    match HeaderValue::from_str(&format!("Bearer {}", token.as_str())) {
        Ok(value) => Ok((AUTHORIZATION, value)),
        Err(_) => Err(refuse(
            model,
            ErrorKind::Auth,
            "the token that Google Cloud gave cannot be sent in a header",
            "check the token_uri of the credentials",
        )),
    }
}

/// Converts an error of the library. Parts that may contain a credential are omitted.
fn told(model: &ModelConfig, error: &gcp_auth::Error, sign_in: &str) -> ProviderError {
    match error {
        gcp_auth::Error::NoAuthMethod(..) => {
            refuse(model, ErrorKind::Auth, "no Google Cloud credentials were found on this machine", sign_in)
        }
        gcp_auth::Error::Http(..) => refuse(
            model,
            ErrorKind::Network,
            "the connection to the token endpoint of Google Cloud broke",
            "check the connection, and the token_uri of the credentials",
        ),
        gcp_auth::Error::Other("HTTP request failed", _) => refuse(
            model,
            ErrorKind::Network,
            "the token endpoint of Google Cloud cannot be reached",
            "check the connection, and the token_uri of the credentials",
        ),
        gcp_auth::Error::Str(said) => {
            let message = format!("Google Cloud gave no token: {said}");
            refuse(
                model,
                ErrorKind::Auth,
                &message,
                &format!(
                    "check that the credential was not revoked and that this machine's clock is right; or {sign_in}"
                ),
            )
        }
        _ => refuse(model, ErrorKind::Auth, "the credentials of Google Cloud cannot be used", sign_in),
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens")
    }
}
