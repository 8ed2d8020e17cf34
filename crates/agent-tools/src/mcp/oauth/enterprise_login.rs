//! Logins through a company (enterprise-managed authorization, SEP-990). The company's identity provider issues an
//! assertion that the user may use a server, and the server's authorization server exchanges it for a token.

use std::fmt;
use std::sync::Arc;

use agent_core::{BoxFuture, Secret};
use oauth2::basic::BasicTokenType;
use oauth2::{ClientSecret, RefreshToken, Scope};
use rmcp::transport::auth::enterprise::{
    EmaAccessToken, EmaAuthorizationServer, EmaClientAuthentication, EmaError, EmaExchangeRequest,
};
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, OAuthTokenResponse, StoredCredentials,
    VendorExtraTokenFields, WWWAuthenticateParams, default_oauth_http_client,
};

use super::OAuth;

/// The token of a company's identity provider for a user who is logged in there.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum IdentityToken {
    /// The ID token of OpenID Connect, which is valid for minutes to hours.
    Id(Secret),
    /// A refresh token of the provider.
    Refresh(Secret),
}

/// A function that returns the token of the user at each login, or the reason why there is none.
pub type IdentitySource = Arc<dyn Fn() -> BoxFuture<'static, Result<IdentityToken, String>> + Send + Sync>;

/// A company's identity provider, and the program's account there.
///
/// ```
/// use std::sync::Arc;
/// use agent_tools::mcp::{McpServer, oauth::{IdentityProvider, IdentityToken, OAuth}};
///
/// let user = Arc::new(|| Box::pin(async { Ok(IdentityToken::Id("from the user's login".into())) }) as _);
/// let provider = IdentityProvider::new("https://idp.example.com", "https://idp.example.com/token", "our-app", user)
///     .with_client_secret("a secret of our-app");
/// let login = OAuth::for_enterprise("our-app-at-the-server", Some("another secret".into()), provider);
/// let server = McpServer::http("wiki", "https://mcp.example.com/mcp").with_oauth(login);
/// assert!(!format!("{server:?}").contains("secret of"));
/// ```
#[derive(Clone)]
pub struct IdentityProvider {
    issuer: String,
    token_endpoint: String,
    client_id: String,
    client_secret: Option<Secret>,
    user: IdentitySource,
}

impl IdentityProvider {
    /// Describes a provider by its issuer and its token endpoint, as listed in its OpenID configuration. The program is
    /// registered there as `client_id`. Both addresses must begin with `https://`, or name this machine.
    #[must_use]
    pub fn new(
        issuer: impl Into<String>,
        token_endpoint: impl Into<String>,
        client_id: impl Into<String>,
        user: IdentitySource,
    ) -> Self {
        Self {
            issuer: issuer.into(),
            token_endpoint: token_endpoint.into(),
            client_id: client_id.into(),
            client_secret: None,
            user,
        }
    }

    /// Sets the program's secret at the provider, which is sent as `client_secret_basic`. Without it the program is a
    /// public client.
    #[must_use]
    pub fn with_client_secret(mut self, secret: impl Into<Secret>) -> Self {
        self.client_secret = Some(secret.into());
        self
    }

    pub(super) fn secret(&self) -> Option<&Secret> {
        self.client_secret.as_ref()
    }
}

impl fmt::Debug for IdentityProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdentityProvider")
            .field("issuer", &self.issuer)
            .field("token_endpoint", &self.token_endpoint)
            .field("client_id", &self.client_id)
            .field("client_secret", &self.client_secret.is_some())
            .finish_non_exhaustive()
    }
}

/// The reason why there is no token.
#[derive(Debug, thiserror::Error)]
pub(super) enum CompanyError {
    #[error("the user's token of the identity provider {issuer} cannot be had: {why}")]
    NoIdentity { issuer: String, why: String },
    #[error("the server does not say which authorization server it has, with an issuer; ask its operator")]
    NoIssuer,
    #[error(
        "the authorization server {issuer} takes the program's secret in no way that is known here (client_secret_basic, \
         client_secret_post)"
    )]
    NoAuthentication { issuer: String },
    #[error(
        "what the identity provider {provider} says of the user could not be made a token of {server}: {source}"
    )]
    Exchange { provider: String, server: String, source: EmaError },
    #[error(transparent)]
    Sdk(#[from] AuthError),
}

/// Exchanges the user's token for an assertion of the provider, and the assertion for credentials of the server, which
/// the caller stores.
pub(super) async fn exchange(
    login: &OAuth,
    provider: &IdentityProvider,
    manager: &AuthorizationManager,
    url: &str,
    challenge: Option<&str>,
) -> Result<StoredCredentials, CompanyError> {
    let resolved = manager.resolve_metadata_from_challenge(challenge).await?;
    let server = authorization_server(login, &resolved.metadata)?;
    let issuer = server.issuer.clone();
    let identity = (provider.user)().await;
    let identity =
        identity.map_err(|why| CompanyError::NoIdentity { issuer: provider.issuer.clone(), why })?;
    let authentication = provider.client_secret.as_ref().map_or(EmaClientAuthentication::None, |secret| {
        EmaClientAuthentication::ClientSecretBasic(ClientSecret::new(secret.expose().to_owned()))
    });
    let company =
        EmaAuthorizationServer::new(&provider.issuer, &provider.token_endpoint, &provider.client_id)
            .with_client_authentication(authentication);
    let refresh;
    let request = match &identity {
        IdentityToken::Id(token) => {
            EmaExchangeRequest::new_with_id_token(company, server, url, token.expose())
        }
        IdentityToken::Refresh(token) => {
            refresh = RefreshToken::new(token.expose().to_owned());
            EmaExchangeRequest::new(company, server, url, &refresh)
        }
    };
    let http = default_oauth_http_client()?;
    let request = request.with_scopes(scopes(login, url, challenge));
    let token = request.exchange(&http, &http).await.map_err(|source| CompanyError::Exchange {
        provider: provider.issuer.clone(),
        server: issuer.clone(),
        source,
    })?;
    let id = login.client_id.clone().unwrap_or_default();
    Ok(credentials(id, token).with_issuer(Some(issuer)))
}

/// Returns the server's authorization server with the way in which the program authenticates there.
fn authorization_server(
    login: &OAuth,
    metadata: &AuthorizationMetadata,
) -> Result<EmaAuthorizationServer, CompanyError> {
    let issuer = metadata.issuer.clone().ok_or(CompanyError::NoIssuer)?;
    let methods = metadata.additional_fields.get("token_endpoint_auth_methods_supported");
    // RFC 8414: the default is `client_secret_basic`.
    let takes = |method: &str| match methods.and_then(serde_json::Value::as_array) {
        Some(methods) => methods.iter().any(|known| known == method),
        None => method == "client_secret_basic",
    };
    let authentication = match &login.client_secret {
        None => EmaClientAuthentication::None,
        Some(secret) => {
            let secret = ClientSecret::new(secret.expose().to_owned());
            if takes("client_secret_basic") {
                EmaClientAuthentication::ClientSecretBasic(secret)
            } else if takes("client_secret_post") {
                EmaClientAuthentication::ClientSecretPost(secret)
            } else {
                return Err(CompanyError::NoAuthentication { issuer });
            }
        }
    };
    let id = login.client_id.as_deref().unwrap_or_default();
    Ok(EmaAuthorizationServer::new(issuer, &metadata.token_endpoint, id)
        .with_client_authentication(authentication))
}

/// Returns the caller's scopes, or those of the server's challenge if there are none.
fn scopes(login: &OAuth, url: &str, challenge: Option<&str>) -> Vec<String> {
    if !login.scopes.is_empty() {
        return login.scopes.clone();
    }
    let (Some(challenge), Ok(url)) = (challenge, reqwest::Url::parse(url)) else { return Vec::new() };
    let asked = WWWAuthenticateParams::parse(challenge, &url).scope.unwrap_or_default();
    let mut scopes: Vec<String> = Vec::new();
    for scope in asked.split_whitespace() {
        if !scopes.iter().any(|known| known == scope) {
            scopes.push(scope.to_owned());
        }
    }
    scopes
}

/// Converts a token to the form in which the SDK stores it.
///
/// It gets no time of arrival, because there is no token to renew it with: it is used until the server rejects it.
fn credentials(client_id: String, token: EmaAccessToken) -> StoredCredentials {
    let mut scopes: Vec<String> = token.scopes.into_iter().collect();
    scopes.sort();
    let extra = VendorExtraTokenFields::default();
    let mut response = OAuthTokenResponse::new(token.access_token, BasicTokenType::Bearer, extra);
    response.set_expires_in(token.expires_in.as_ref());
    response.set_scopes(Some(scopes.iter().cloned().map(Scope::new).collect()));
    StoredCredentials::new(client_id, Some(response), scopes, None)
}
