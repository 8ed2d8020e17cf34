//! Authentication of the calls.

use std::fmt;

use agent_core::Secret;

/// The text that replaces a secret in output.
const HIDDEN: &str = "****";

/// The credential that every request of an API carries, regardless of its description.
///
/// ```
/// use agent_tools::openapi::OpenApiAuth;
/// assert_eq!(format!("{:?}", OpenApiAuth::bearer("token")), r#"Bearer("****")"#);
/// let key = OpenApiAuth::api_key("X-Key", "value");
/// assert_eq!(format!("{key:?}"), r#"ApiKey { header: "X-Key", value: "****" }"#);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenApiAuth {
    /// Sends calls without credentials.
    #[default]
    None,
    /// A token that is sent as `Authorization: Bearer …`.
    Bearer(Secret),
    /// A key that is sent in a header.
    ApiKey {
        /// The name of the header.
        header: String,
        /// The key that is sent.
        value: Secret,
    },
    /// A key that is sent in the query.
    QueryKey {
        /// The name of the parameter.
        name: String,
        /// The key that is sent.
        value: Secret,
    },
    /// A key that is sent in a cookie.
    CookieKey {
        /// The name of the cookie.
        name: String,
        /// The key that is sent.
        value: Secret,
    },
    /// A user and a password that are sent as `Authorization: Basic …`.
    Basic {
        /// The name of the user.
        user: String,
        /// The password of the user.
        password: Secret,
    },
}

impl OpenApiAuth {
    /// Authenticates with `Authorization: Bearer …`.
    #[must_use]
    pub fn bearer(token: impl Into<Secret>) -> Self {
        Self::Bearer(token.into())
    }

    /// A key that is sent in a header.
    #[must_use]
    pub fn api_key(header: impl Into<String>, value: impl Into<Secret>) -> Self {
        Self::ApiKey { header: header.into(), value: value.into() }
    }

    /// Authenticates with `Authorization: Basic …`.
    #[must_use]
    pub fn basic(user: impl Into<String>, password: impl Into<Secret>) -> Self {
        Self::Basic { user: user.into(), password: password.into() }
    }
}

impl fmt::Debug for OpenApiAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Bearer(_) => f.debug_tuple("Bearer").field(&HIDDEN).finish(),
            Self::ApiKey { header, .. } => {
                f.debug_struct("ApiKey").field("header", header).field("value", &HIDDEN).finish()
            }
            Self::QueryKey { name, .. } => {
                f.debug_struct("QueryKey").field("name", name).field("value", &HIDDEN).finish()
            }
            Self::CookieKey { name, .. } => {
                f.debug_struct("CookieKey").field("name", name).field("value", &HIDDEN).finish()
            }
            Self::Basic { .. } => {
                f.debug_struct("Basic").field("user", &HIDDEN).field("password", &HIDDEN).finish()
            }
        }
    }
}

/// A credential for one of the security schemes of a description. The scheme defines its place in a request.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenApiCredential {
    /// A token or a key, for the schemes `apiKey`, `http` with `bearer`, `oauth2` and `openIdConnect`.
    Token(Secret),
    /// A user and a password, for the scheme `http` with `basic`.
    Basic {
        /// The name of the user.
        user: String,
        /// The password of the user.
        password: Secret,
    },
}

impl OpenApiCredential {
    /// Creates a credential of a token or a key.
    #[must_use]
    pub fn token(token: impl Into<Secret>) -> Self {
        Self::Token(token.into())
    }

    /// Creates a credential of a user and a password.
    #[must_use]
    pub fn basic(user: impl Into<String>, password: impl Into<Secret>) -> Self {
        Self::Basic { user: user.into(), password: password.into() }
    }
}

impl fmt::Debug for OpenApiCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(_) => f.debug_tuple("Token").field(&HIDDEN).finish(),
            Self::Basic { .. } => {
                f.debug_struct("Basic").field("user", &HIDDEN).field("password", &HIDDEN).finish()
            }
        }
    }
}
