//! The configuration of an API.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use agent_core::Secret;

use super::auth::{OpenApiAuth, OpenApiCredential};
use super::{CALL_TIMEOUT, MAX_RESPONSE_BYTES};

/// The configuration of an API: its address, its credentials and the limits of calls.
///
/// ```
/// use agent_tools::openapi::{OpenApiAuth, OpenApiConfig};
/// let config = OpenApiConfig::new()
///     .with_base_url("https://staging.example.com/v2")
///     .with_auth(OpenApiAuth::bearer("a-token"))
///     .with_header("X-Team", "blue-team-token");
/// let shown = format!("{config:?}");
/// assert!(!shown.contains("a-token") && !shown.contains("blue-team-token"));
/// ```
#[derive(Clone)]
pub struct OpenApiConfig {
    pub(super) base_url: Option<String>,
    pub(super) spec_url: Option<String>,
    pub(super) variables: BTreeMap<String, String>,
    pub(super) auth: OpenApiAuth,
    pub(super) credentials: BTreeMap<String, OpenApiCredential>,
    pub(super) origins: Vec<String>,
    pub(super) headers: Vec<(String, Secret)>,
    pub(super) prefix: Option<String>,
    pub(super) timeout: Duration,
    pub(super) max_response_bytes: usize,
    pub(super) slashes: PathSlashes,
    pub(super) cookies: CookieParameters,
    pub(super) missing_ids: MissingIds,
    pub(super) client: Option<reqwest::Client>,
}

/// What happens to a `/` in the value of a path parameter. A parameter that the description marks with
/// `x-multi-segment: true` always accepts slashes, which are sent unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PathSlashes {
    /// The call is refused, because a server that decodes the path first would execute another operation. This is the
    /// default.
    #[default]
    Refused,
    /// The slash is sent as `%2F`. Use it for servers that are known to distinguish this from `/`.
    Encoded,
}

/// What happens to cookie parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CookieParameters {
    /// They are skipped without a warning. This is the default.
    #[default]
    Ignored,
    /// The model can set them, except those that carry credentials.
    Offered,
}

/// Sets what happens to operations without an `operationId`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum MissingIds {
    /// They are skipped, each with a warning. This is the default.
    #[default]
    LeftOut,
    /// An id is derived from the method and the path: `get_pets_petId` for `GET /pets/{petId}`.
    FromPath,
}

impl Default for OpenApiConfig {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenApiConfig {
    /// Creates a configuration with the first server of the description, no credentials and the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self {
            base_url: None,
            spec_url: None,
            variables: BTreeMap::new(),
            auth: OpenApiAuth::None,
            credentials: BTreeMap::new(),
            origins: Vec::new(),
            headers: Vec::new(),
            prefix: None,
            timeout: CALL_TIMEOUT,
            max_response_bytes: MAX_RESPONSE_BYTES,
            slashes: PathSlashes::default(),
            cookies: CookieParameters::default(),
            missing_ids: MissingIds::default(),
            client: None,
        }
    }

    /// Sends all requests to this address instead of the servers of the description.
    #[must_use]
    pub fn with_base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// Sets the address of the description, which resolves relative server addresses. [`OpenApiAdapter::from_url`] sets
    /// it automatically.
    ///
    /// [`OpenApiAdapter::from_url`]: super::OpenApiAdapter::from_url
    #[must_use]
    pub fn with_spec_url(mut self, url: impl Into<String>) -> Self {
        self.spec_url = Some(url.into());
        self
    }

    /// Sets the value of a variable in a server's address, instead of its default.
    #[must_use]
    pub fn with_server_variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Sets the credential of every request, regardless of the description.
    #[must_use]
    pub fn with_auth(mut self, auth: OpenApiAuth) -> Self {
        self.auth = auth;
        self
    }

    /// Sets the credential of a security scheme, by its name in the description. It is sent with the operations that
    /// require the scheme, in the place that the scheme defines.
    #[must_use]
    pub fn with_credential(mut self, scheme: impl Into<String>, credential: OpenApiCredential) -> Self {
        self.credentials.insert(scheme.into(), credential);
        self
    }

    /// Sends credentials and headers also to servers at this origin, such as `https://uploads.example.com`. By default
    /// they are sent only to the origin of the base address or of the API's first server.
    #[must_use]
    pub fn with_trusted_origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into());
        self
    }

    /// Sends one more header with every request. The model cannot set it, and its value is not shown in errors or
    /// results.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets a prefix for the tool names, which become `{prefix}__{operationId}`.
    #[must_use]
    pub fn with_name_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Sets the maximum duration of a call. The default is [`CALL_TIMEOUT`].
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the maximum size of a response for the model. The default is [`MAX_RESPONSE_BYTES`].
    #[must_use]
    pub fn with_max_response_bytes(mut self, bytes: usize) -> Self {
        self.max_response_bytes = bytes;
        self
    }

    /// Sets what happens to a `/` in the value of a path parameter.
    #[must_use]
    pub fn with_path_slashes(mut self, slashes: PathSlashes) -> Self {
        self.slashes = slashes;
        self
    }

    /// Sets whether the model can set cookie parameters.
    #[must_use]
    pub fn with_cookie_parameters(mut self, cookies: CookieParameters) -> Self {
        self.cookies = cookies;
        self
    }

    /// Sets what happens to operations without an `operationId`.
    #[must_use]
    pub fn with_missing_ids(mut self, ids: MissingIds) -> Self {
        self.missing_ids = ids;
        self
    }

    /// Sends requests through this client. It should not follow redirects, because their targets would receive the
    /// credentials.
    #[must_use]
    pub fn with_http_client(mut self, client: reqwest::Client) -> Self {
        self.client = Some(client);
        self
    }
}

/// Shows the names of credentials and headers without their values, and addresses without their queries.
impl fmt::Debug for OpenApiConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |url: &Option<String>| url.as_ref().map(|url| super::fetch::shown(url));
        f.debug_struct("OpenApiConfig")
            .field("base_url", &plain(&self.base_url))
            .field("spec_url", &plain(&self.spec_url))
            .field("variables", &self.variables)
            .field("auth", &self.auth)
            .field("credentials", &self.credentials)
            .field("trusted_origins", &self.origins)
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("name_prefix", &self.prefix)
            .field("timeout", &self.timeout)
            .field("max_response_bytes", &self.max_response_bytes)
            .field("path_slashes", &self.slashes)
            .field("cookie_parameters", &self.cookies)
            .field("missing_ids", &self.missing_ids)
            .finish_non_exhaustive()
    }
}
