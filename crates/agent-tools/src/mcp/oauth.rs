//! OAuth logins for servers over HTTP (feature `mcp-oauth`).
//!
//! The SDK finds the authorization server, registers the program and renews tokens. This module decides when to log in,
//! and the caller supplies a function that opens the page for the user and a store for the tokens.
//!
//! ```
//! use std::sync::Arc;
//! use agent_tools::mcp::{McpServer, oauth::OAuth};
//!
//! // Opens the page, waits for the browser at the address below, and gives the address that the browser came with.
//! let visit = Arc::new(|page: String| Box::pin(async move { Err(format!("nobody is here to open {page}")) }) as _);
//! let login = OAuth::new("http://127.0.0.1:8914/callback", visit).with_client_name("My agent");
//! let server = McpServer::http("search", "https://mcp.example.com/mcp").with_oauth(login);
//! # let _ = server;
//! ```

mod enterprise_login;
#[cfg(feature = "mcp-oauth-jwt")]
mod key;

use std::fmt;
use std::sync::Arc;

use agent_core::{BoxFuture, Secret};
use async_trait::async_trait;
use rmcp::transport::auth::{
    AuthClient, AuthError, AuthorizationManager, AuthorizationRequest, ClientCredentialsConfig,
    CredentialStore, InMemoryCredentialStore, OAuthState, StoredCredentials,
};

pub use enterprise_login::{IdentityProvider, IdentitySource, IdentityToken};
#[cfg(feature = "mcp-oauth-jwt")]
pub use key::SigningAlgorithm;

use super::error::McpError;
use super::sdk_error::Redacted;
use crate::secrets::Secrets;

/// The maximum number of logins for one request. A second login may be necessary for further rights.
pub(super) const MAX_LOGINS: usize = 3;

/// A function that shows the user a page and returns the address to which the browser was redirected at the end, or the
/// reason why there is none.
pub type OAuthVisit = Arc<dyn Fn(String) -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// Stores tokens between two starts of the program.
#[async_trait]
pub trait OAuthStore: Send + Sync {
    /// Returns the credentials of the last call of [`save`](Self::save), or `None` if there are none.
    ///
    /// # Errors
    /// Returns the reason why the credentials cannot be read.
    async fn load(&self) -> Result<Option<Secret>, String>;

    /// Stores this JSON text in a place that only the user can read. `None` deletes the stored text.
    ///
    /// # Errors
    /// Returns the reason why the credentials cannot be written.
    async fn save(&self, credentials: Option<Secret>) -> Result<(), String>;
}

/// The OAuth configuration of a server: who logs in, for which rights, and where tokens are stored.
#[derive(Clone)]
pub struct OAuth {
    user: Option<User>,
    client_name: String,
    client_id: Option<String>,
    client_secret: Option<Secret>,
    #[cfg(feature = "mcp-oauth-jwt")]
    key: Option<key::SigningKey>,
    provider: Option<IdentityProvider>,
    client_metadata_url: Option<String>,
    scopes: Vec<String>,
    store: Store,
}

/// A login by a user in a browser.
#[derive(Clone)]
struct User {
    redirect: String,
    visit: OAuthVisit,
}

impl OAuth {
    /// Configures a login of the user with the authorization code flow and PKCE. `visit` opens the page, which
    /// redirects the browser to `redirect` at the end.
    ///
    /// Unless configured otherwise, the program registers itself with the authorization server. Tokens are stored in
    /// memory, as long as this value or a clone exists.
    #[must_use]
    pub fn new(redirect: impl Into<String>, visit: OAuthVisit) -> Self {
        Self::of(Some(User { redirect: redirect.into(), visit }))
    }

    /// Configures a login without a user. The program has its own account with this id and secret.
    #[must_use]
    pub fn for_program(id: impl Into<String>, secret: impl Into<Secret>) -> Self {
        Self::of(None).with_client(id, Some(secret.into()))
    }

    /// Configures a login without a user and without a shared secret: the program signs with its own key
    /// (`private_key_jwt`, feature `mcp-oauth-jwt`). `key` is the PEM text of a private key, in PKCS#8 for the `Es`
    /// algorithms; the authorization server knows the public key. Each signature is valid for one login at this server.
    #[cfg(feature = "mcp-oauth-jwt")]
    #[must_use]
    pub fn for_program_with_key(
        id: impl Into<String>,
        key: impl Into<Secret>,
        algorithm: SigningAlgorithm,
    ) -> Self {
        let key = Some(key::SigningKey { pem: key.into(), algorithm });
        Self { key, ..Self::of(None).with_client(id, None) }
    }

    /// Configures a login through the identity provider of the user's company (enterprise-managed authorization,
    /// SEP-990), without a page for the server. `provider` decides whether the user may use the server and issues an
    /// assertion, which is exchanged for a token at the server's authorization server. The program is registered there
    /// with this id and secret.
    ///
    /// The provider decides for which authorization servers it issues assertions. When the server rejects the token,
    /// both steps are repeated.
    #[must_use]
    pub fn for_enterprise(id: impl Into<String>, secret: Option<Secret>, provider: IdentityProvider) -> Self {
        Self { provider: Some(provider), ..Self::of(None).with_client(id, secret) }
    }

    fn of(user: Option<User>) -> Self {
        Self {
            user,
            client_name: "Looptree".to_owned(),
            client_id: None,
            client_secret: None,
            #[cfg(feature = "mcp-oauth-jwt")]
            key: None,
            provider: None,
            client_metadata_url: None,
            scopes: Vec::new(),
            store: Store::Memory(InMemoryCredentialStore::new()),
        }
    }

    /// Sets the name that the user sees when the program registers itself. The default is `Looptree`.
    #[must_use]
    pub fn with_client_name(mut self, name: impl Into<String>) -> Self {
        self.client_name = name.into();
        self
    }

    /// Uses a client that was registered before, with its secret if it has one.
    #[must_use]
    pub fn with_client(mut self, id: impl Into<String>, secret: Option<Secret>) -> Self {
        self.client_id = Some(id.into());
        self.client_secret = secret;
        self
    }

    /// Sets the address of a document that describes this program, for authorization servers that accept one instead of
    /// a registration.
    #[must_use]
    pub fn with_client_metadata_url(mut self, url: impl Into<String>) -> Self {
        self.client_metadata_url = Some(url.into());
        self
    }

    /// Requests these scopes instead of those that the server names.
    #[must_use]
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Stores tokens in this store. The default is memory.
    #[must_use]
    pub fn with_store(mut self, store: Arc<dyn OAuthStore>) -> Self {
        self.store = Store::Given(store);
        self
    }

    fn secrets(&self) -> Secrets {
        let provider = self.provider.as_ref().and_then(IdentityProvider::secret);
        Secrets::new(self.client_secret.iter().chain(provider).cloned())
    }

    /// Returns the program's own account for the server at `url`.
    fn account(&self, url: &str) -> ClientCredentialsConfig {
        let client_id = self.client_id.clone().unwrap_or_default();
        let (scopes, resource) = (self.scopes.clone(), Some(url.to_owned()));
        #[cfg(feature = "mcp-oauth-jwt")]
        if let Some(key) = &self.key {
            return ClientCredentialsConfig::PrivateKeyJwt {
                client_id,
                signing_key: key.pem.expose().as_bytes().to_vec(),
                signing_algorithm: key.algorithm.into(),
                token_endpoint_audience: None,
                scopes,
                resource,
            };
        }
        let client_secret = self.client_secret.as_ref().map(Secret::expose).unwrap_or_default().to_owned();
        ClientCredentialsConfig::ClientSecret { client_id, client_secret, scopes, resource }
    }

    fn error(&self, server: &str, error: impl fmt::Display) -> McpError {
        let source = Arc::new(Redacted(self.secrets().redact(&error.to_string())));
        McpError::Login { server: server.to_owned(), source }
    }

    /// Returns a client that adds the stored token to requests and renews it.
    pub(super) async fn client(
        &self,
        server: &str,
        url: &str,
        http: reqwest::Client,
    ) -> Result<AuthClient<reqwest::Client>, McpError> {
        let manager = self.manager(url).await.map_err(|error| self.error(server, error))?;
        Ok(AuthClient::new(http, manager))
    }

    async fn manager(&self, url: &str) -> Result<AuthorizationManager, AuthError> {
        let mut manager = AuthorizationManager::new(url).await?;
        manager.set_credential_store(self.store.clone());
        // Without a token the first request is sent without one, and the server's answer names what it requires.
        let _has_token = manager.initialize_from_store().await?;
        Ok(manager)
    }

    /// Logs in according to the server's `challenge`.
    pub(super) async fn log_in(
        &self,
        server: &str,
        url: &str,
        challenge: Option<&str>,
    ) -> Result<(), McpError> {
        let fail = |error: AuthError| self.error(server, error);
        if let Some(provider) = &self.provider {
            let manager = self.manager(url).await.map_err(fail)?;
            let exchanged = enterprise_login::exchange(self, provider, &manager, url, challenge).await;
            let credentials = exchanged.map_err(|error| self.error(server, error))?;
            return self.store.save(credentials).await.map_err(fail);
        }
        let mut state = OAuthState::Unauthorized(self.manager(url).await.map_err(fail)?);
        let Some(user) = &self.user else {
            let account = self.account(url);
            // With `mcp-oauth-jwt` the SDK's future is not `Send`, and the future of a tool must be.
            let runtime = tokio::runtime::Handle::current();
            let done = tokio::task::spawn_blocking(move || {
                runtime.block_on(state.authenticate_client_credentials(account))
            });
            return done.await.map_err(|why| self.error(server, why))?.map_err(fail);
        };
        let mut request =
            AuthorizationRequest::new(user.redirect.as_str()).with_client_name(self.client_name.as_str());
        if let Some(challenge) = challenge {
            request = request.with_challenge(challenge);
        }
        if let Some(id) = &self.client_id {
            request = request.with_preregistered_client(id.as_str());
            if let Some(secret) = &self.client_secret {
                request = request.with_client_secret(secret.expose());
            }
        }
        if let Some(document) = &self.client_metadata_url {
            request = request.with_client_metadata_url(document.as_str());
        }
        if !self.scopes.is_empty() {
            request = request.with_scopes(self.scopes.iter().map(String::as_str));
        }
        state.start_authorization(request).await.map_err(fail)?;
        let page = state.get_authorization_url().await.map_err(fail)?;
        let back = (user.visit)(page).await.map_err(|why| self.error(server, why))?;
        state.handle_callback_url(&back).await.map_err(fail)
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth")
            .field("redirect", &self.user.as_ref().map(|user| &user.redirect))
            .field("client_name", &self.client_name)
            .field("client_id", &self.client_id)
            .field("client_secret", &self.client_secret.is_some())
            .field("provider", &self.provider)
            .field("client_metadata_url", &self.client_metadata_url)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// The store of the tokens.
#[derive(Clone)]
enum Store {
    Memory(InMemoryCredentialStore),
    Given(Arc<dyn OAuthStore>),
}

#[async_trait]
impl CredentialStore for Store {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        match self {
            Self::Memory(memory) => memory.load().await,
            Self::Given(store) => {
                let text = store.load().await.map_err(AuthError::CredentialStoreError)?;
                // The parser's error could quote the text, which is secret.
                let read = |text: Secret| {
                    serde_json::from_str(text.expose()).map_err(|_| {
                        let why = "what was kept is not what was saved; forget it and log in again";
                        AuthError::CredentialStoreError(why.to_owned())
                    })
                };
                text.map(read).transpose()
            }
        }
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        match self {
            Self::Memory(memory) => memory.save(credentials).await,
            Self::Given(store) => {
                let text = serde_json::to_string(&credentials)
                    .map_err(|error| AuthError::CredentialStoreError(error.to_string()))?;
                store.save(Some(text.into())).await.map_err(AuthError::CredentialStoreError)
            }
        }
    }

    async fn clear(&self) -> Result<(), AuthError> {
        match self {
            Self::Memory(memory) => memory.clear().await,
            Self::Given(store) => store.save(None).await.map_err(AuthError::CredentialStoreError),
        }
    }
}
