//! Endpoint and credentials of a request.

#[cfg(test)]
mod tests;

use agent_core::{ErrorContext, ErrorKind, ModelConfig, ModelRequest, ProviderError, Secret};
use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::google::{API_KEY, METHOD, segment, streamed};
use crate::request;

/// The version of the API.
const VERSION: &str = "/v1";

/// The region that is no place.
const GLOBAL: &str = "global";

/// A publisher of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Publisher {
    Google,
    Anthropic,
}

impl Publisher {
    fn name(self) -> &'static str {
        match self {
            Self::Google => "google",
            Self::Anthropic => "anthropic",
        }
    }

    /// Returns the method that streams a reply.
    fn method(self) -> &'static str {
        match self {
            Self::Google => METHOD,
            Self::Anthropic => ":streamRawPredict",
        }
    }
}

/// Regions of several places, which have a host of another form.
const MULTI_REGIONS: &[&str] = &["us", "eu"];

/// The prefixes of Google's API keys. Any other credential is a token.
const KEY_PREFIXES: &[&str] = &["AIza", "AQ."];

/// The credentials of a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Credential<'r> {
    /// The application default credentials.
    Default,
    /// A service account, given as the text of its JSON key.
    Account(&'r Secret),
    /// An API key, which selects express mode.
    Key(&'r Secret),
    /// An access token, which is sent as a bearer token.
    Bearer(&'r Secret),
    /// The caller's own headers contain the credentials, or state that there are none.
    ByHand,
}

/// Returns the credentials of a request.
pub(super) fn credential(request: &ModelRequest) -> Credential<'_> {
    match request.key().filter(|key| !key.is_empty()) {
        Some(key) if key.expose().trim_start().starts_with('{') => Credential::Account(key),
        Some(key) if project(&request.model).is_none() || is_api_key(key) => Credential::Key(key),
        Some(key) => Credential::Bearer(key),
        None if request::names_header(request, &[&API_KEY, &AUTHORIZATION]) => Credential::ByHand,
        None => Credential::Default,
    }
}

fn is_api_key(key: &Secret) -> bool {
    KEY_PREFIXES.iter().any(|prefix| key.expose().trim().starts_with(prefix))
}

fn project(model: &ModelConfig) -> Option<&str> {
    model.project.as_deref().map(str::trim).filter(|p| !p.is_empty())
}

fn region(model: &ModelConfig) -> &str {
    model.region.as_deref().map(str::trim).filter(|r| !r.is_empty()).unwrap_or(GLOBAL)
}

/// Returns the URL of a project and a region, or of express mode if there is no project, which only Google's own models
/// have. The configured base may end with a version or with `/models`, or be the whole URL.
///
/// # Errors
/// Returns an error if `base_url` is not a web address, neither a project nor an API key is set, or a name contains
/// characters that a URL cannot.
pub(super) fn endpoint(request: &ModelRequest, publisher: Publisher) -> Result<reqwest::Url, ProviderError> {
    let url = address(request, publisher)?;
    Ok(if publisher == Publisher::Google { streamed(url) } else { url })
}

fn address(request: &ModelRequest, publisher: Publisher) -> Result<reqwest::Url, ProviderError> {
    let method = publisher.method();
    let model = &*request.model;
    let id = segment(model, "model id", &model.id)?;
    let place = word(model, "region", region(model), "")?;
    let default_base = host(place);
    let base = model.base_url.as_deref().unwrap_or(&default_base);
    let address = base.split('?').next().unwrap_or_default().trim().trim_end_matches('/');
    let plain = id.rsplit('/').next().unwrap_or_default();
    let last = address.rsplit('/').next().unwrap_or_default();
    if last == "models" {
        return request::endpoint(model, &default_base, &format!("/{plain}{method}"));
    }
    let version = if matches!(last, "v1" | "v1beta1" | "v1alpha1") { "" } else { VERSION };
    let resource = match (id, project(model)) {
        (id, _) if id.starts_with("projects/") => id.to_owned(),
        (id, project) => {
            let published = if id.starts_with("publishers/") {
                id.to_owned()
            } else {
                format!("publishers/{}/models/{plain}", publisher.name())
            };
            match project {
                Some(project) => {
                    let project = word(model, "project", project, ".:")?;
                    format!("projects/{project}/locations/{place}/{published}")
                }
                None if publisher == Publisher::Google
                    && matches!(credential(request), Credential::Key(_)) =>
                {
                    published
                }
                None => return Err(project_missing(model, publisher)),
            }
        }
    };
    request::endpoint(model, &default_base, &format!("{version}/{resource}{method}"))
}

/// Checks that a name consists of letters, digits, `-` and the characters in `also`. The region becomes part of the
/// host, which receives a token.
fn word<'n>(model: &ModelConfig, what: &str, name: &'n str, also: &str) -> Result<&'n str, ProviderError> {
    if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || also.contains(c)) {
        return Ok(name);
    }
    let context = ErrorContext::new(format!("the {what} {name:?} is none of Google Cloud"))
        .with_target(&model.provider, &model.id)
        .with_advice("set project and region as the console shows them, for example \"europe-west4\"");
    Err(ProviderError::new(ErrorKind::Other, context))
}

fn host(place: &str) -> String {
    match place {
        GLOBAL => String::from("https://aiplatform.googleapis.com"),
        place if MULTI_REGIONS.contains(&place) => format!("https://aiplatform.{place}.rep.googleapis.com"),
        place => format!("https://{place}-aiplatform.googleapis.com"),
    }
}

fn project_missing(model: &ModelConfig, publisher: Publisher) -> ProviderError {
    let context = ErrorContext::new("no Google Cloud project was given")
        .with_target(&model.provider, &model.id)
        .with_advice(match publisher {
            Publisher::Google => {
                "set the model's project and region (ModelConfig::vertex), or its api_key for express mode"
            }
            Publisher::Anthropic => "set the model's project and region (ModelConfig::vertex_claude)",
        });
    ProviderError::new(ErrorKind::Auth, context)
}

/// Returns the protocol's headers without a fetched token.
///
/// # Errors
/// Returns an error if the key contains characters that are invalid in a header.
pub(super) fn headers(request: &ModelRequest) -> Result<HeaderMap, ProviderError> {
    let model = &*request.model;
    let mut headers = request::stream_headers();
    match credential(request) {
        Credential::Key(key) => {
            headers.insert(API_KEY, request::credential(model, "", key)?);
        }
        Credential::Bearer(token) => {
            headers.insert(AUTHORIZATION, request::credential(model, "Bearer ", token)?);
        }
        Credential::Default | Credential::Account(_) | Credential::ByHand => {}
    }
    Ok(headers)
}
