//! Assigns credentials to their places in a request, which are reserved against arguments.

use std::collections::BTreeMap;
use std::fmt;

use agent_core::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oas3::spec::SecurityScheme;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde_json::Value;

use super::auth::{OpenApiAuth, OpenApiCredential};
use super::config::OpenApiConfig;
use super::document::Document;
use super::error::{OpenApiError, OpenApiProblem, Warnings};
use super::reserved::Reserved;
use crate::secrets::Secrets;

/// A credential with its place in a request.
#[derive(Clone)]
pub(super) enum Placed {
    Header(HeaderName, HeaderValue),
    Query(String, Secret),
    Cookie(String, Secret),
}

impl fmt::Debug for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name, _) => f.debug_tuple("Header").field(name).finish(),
            Self::Query(name, _) => f.debug_tuple("Query").field(name).finish(),
            Self::Cookie(name, _) => f.debug_tuple("Cookie").field(name).finish(),
        }
    }
}

/// All credentials of an API.
#[derive(Debug)]
pub(super) struct Credentials {
    always: Vec<Placed>,
    schemes: BTreeMap<String, Option<Placed>>,
    pub(super) reserved: Reserved,
    pub(super) secrets: Secrets,
}

/// The credentials of an operation.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) placed: Vec<Placed>,
    /// A required scheme without a credential.
    pub(super) missing: Option<String>,
}

impl Credentials {
    pub(super) fn new(
        document: &Document,
        config: &OpenApiConfig,
        warnings: &mut Warnings,
    ) -> Result<Self, OpenApiError> {
        let mut all = Self {
            always: Vec::new(),
            schemes: BTreeMap::new(),
            reserved: Reserved::default(),
            secrets: Secrets::default(),
        };
        let mut secrets = Vec::new();
        all.always.extend(of_auth(&config.auth, &mut secrets)?);
        for (name, value) in &config.headers {
            all.always.push(header(name, value.expose())?);
            secrets.push(value.clone());
        }
        let listed = document.field("components").and_then(|components| components.get("securitySchemes"));
        for (name, value) in listed.and_then(Value::as_object).into_iter().flatten() {
            let scheme = match scheme(document, value) {
                Ok(scheme) => scheme,
                Err(what) => {
                    let what = format!("its security scheme `{name}` cannot be read: {what}");
                    warnings.add("the description", OpenApiProblem::Guessed { what });
                    continue;
                }
            };
            all.reserved.add_scheme(&scheme);
            let placed = match config.credentials.get(name) {
                Some(credential) => Some(of_scheme(name, &scheme, credential, &mut secrets)?),
                None => None,
            };
            all.schemes.insert(name.clone(), placed);
        }
        for name in config.credentials.keys().filter(|name| !all.schemes.contains_key(*name)) {
            let problem = OpenApiProblem::NotThere { wanted: format!("the security scheme {name}") };
            warnings.add("the credentials", problem);
        }
        let used = all.always.iter().chain(all.schemes.values().flatten());
        for placed in used {
            all.reserved.add(placed);
        }
        all.secrets = Secrets::new(secrets);
        Ok(all)
    }

    /// Returns the credentials of the first alternative for which all are configured.
    pub(super) fn for_operation(&self, security: Option<&Value>) -> Chosen {
        let mut placed = self.always.clone();
        let alternatives = security.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut is_open = alternatives.is_empty();
        let mut missing = None;
        for alternative in alternatives {
            let Some(wanted) = alternative.as_object() else { continue };
            if wanted.is_empty() {
                is_open = true;
                continue;
            }
            let lacks = |name: &&String| !matches!(self.schemes.get(*name), Some(Some(_)));
            match wanted.keys().find(lacks) {
                None => {
                    placed.extend(wanted.keys().filter_map(|name| self.schemes.get(name)?.clone()));
                    return Chosen { placed, missing: None };
                }
                Some(name) => {
                    missing.get_or_insert_with(|| name.clone());
                }
            }
        }
        // A credential or a header for all operations overrides the schemes of the description.
        let missing = missing.filter(|_| !is_open && self.always.is_empty());
        Chosen { placed, missing }
    }
}

fn scheme(document: &Document, value: &Value) -> Result<SecurityScheme, String> {
    let mut object = document.object(value).map_err(|problem| problem.to_string())?.clone();
    // The addresses of logins are not needed, and oas3 requires them to be absolute.
    object.insert("flows".to_owned(), Value::Object(serde_json::Map::new()));
    serde_json::from_value(Value::Object(object)).map_err(|error| error.to_string())
}

fn header(name: &str, value: &str) -> Result<Placed, OpenApiError> {
    let bad = |what| OpenApiError::Config {
        detail: format!("the {what} of the header `{}` is not valid", name.escape_debug()),
    };
    let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("name"))?;
    let mut value = HeaderValue::from_str(value).map_err(|_| bad("value"))?;
    value.set_sensitive(true);
    Ok(Placed::Header(key, value))
}

fn basic(user: &str, password: &Secret, secrets: &mut Vec<Secret>) -> Result<Placed, OpenApiError> {
    let whole = format!("{user}:{}", password.expose());
    let pair = STANDARD.encode(&whole);
    // The pair in Base64 contains a short password, which is not replaced by itself.
    secrets.extend([password.clone(), Secret::from(whole), Secret::from(pair.as_str())]);
    header(AUTHORIZATION.as_str(), &format!("Basic {pair}"))
}

fn cookie(name: &str, value: &Secret) -> Result<Placed, OpenApiError> {
    let is_plain = |text: &str| text.bytes().all(|b| b.is_ascii_graphic() && !b";,\"\\".contains(&b));
    if name.is_empty() || name.contains('=') || !is_plain(name) || !is_plain(value.expose()) {
        let detail = format!("the cookie `{}` has characters that a cookie cannot hold", name.escape_debug());
        return Err(OpenApiError::Config { detail });
    }
    Ok(Placed::Cookie(name.to_owned(), value.clone()))
}

fn of_auth(auth: &OpenApiAuth, secrets: &mut Vec<Secret>) -> Result<Option<Placed>, OpenApiError> {
    let mut keep = |value: &Secret| secrets.push(value.clone());
    Ok(Some(match auth {
        OpenApiAuth::None => return Ok(None),
        OpenApiAuth::Bearer(token) => {
            keep(token);
            header(AUTHORIZATION.as_str(), &format!("Bearer {}", token.expose()))?
        }
        OpenApiAuth::ApiKey { header: name, value } => {
            keep(value);
            header(name, value.expose())?
        }
        OpenApiAuth::QueryKey { name, value } => {
            keep(value);
            Placed::Query(name.clone(), value.clone())
        }
        OpenApiAuth::CookieKey { name, value } => {
            keep(value);
            cookie(name, value)?
        }
        OpenApiAuth::Basic { user, password } => basic(user, password, secrets)?,
    }))
}

fn of_scheme(
    name: &str,
    scheme: &SecurityScheme,
    credential: &OpenApiCredential,
    secrets: &mut Vec<Secret>,
) -> Result<Placed, OpenApiError> {
    let bad = |what: &str| OpenApiError::Config { detail: format!("the credential for `{name}`: {what}") };
    let token = match credential {
        OpenApiCredential::Token(token) => token,
        OpenApiCredential::Basic { user, password } => {
            return match scheme {
                SecurityScheme::Http { scheme, .. } if scheme.eq_ignore_ascii_case("basic") => {
                    basic(user, password, secrets)
                }
                _ => Err(bad("the scheme wants a token and not a user with a password")),
            };
        }
    };
    secrets.push(token.clone());
    match scheme {
        SecurityScheme::ApiKey { name, location, .. } => match location.as_str() {
            "header" => header(name, token.expose()),
            "query" => Ok(Placed::Query(name.clone(), token.clone())),
            "cookie" => cookie(name, token),
            other => Err(bad(&format!("the scheme wants it in `{other}`, which is not known"))),
        },
        SecurityScheme::Http { scheme, .. } if scheme.eq_ignore_ascii_case("basic") => {
            Err(bad("the scheme wants a user with a password and not a token"))
        }
        SecurityScheme::Http { scheme, .. } if !scheme.eq_ignore_ascii_case("bearer") => {
            header(AUTHORIZATION.as_str(), &format!("{scheme} {}", token.expose()))
        }
        SecurityScheme::Http { .. }
        | SecurityScheme::OAuth2 { .. }
        | SecurityScheme::OpenIdConnect { .. } => {
            header(AUTHORIZATION.as_str(), &format!("Bearer {}", token.expose()))
        }
        SecurityScheme::MutualTls { .. } => Err(bad(
            "the scheme wants a client certificate; give a client that has one with `with_http_client`",
        )),
    }
}
