//! Reads a description from a file or an address, with limits.

use std::path::Path;

use reqwest::redirect::Policy;

use super::adapter::text;
use super::error::OpenApiError;
use super::{CONNECT_TIMEOUT, FETCH_TIMEOUT, MAX_REDIRECTS, MAX_SPEC_BYTES};
use crate::bounded::BoundedFolder;

/// Returns an address for display, without its query and credentials.
pub(super) fn shown(url: &str) -> String {
    let plain = url.split(['?', '#']).next().unwrap_or_default();
    match plain.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}{path}")
        }
        None => plain.to_owned(),
    }
}

pub(super) async fn file(path: &Path) -> Result<String, OpenApiError> {
    let owned = path.to_owned();
    // One byte more than the limit, so that `text` finds a longer description.
    let limit = u64::try_from(MAX_SPEC_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let read = move || BoundedFolder::read_named(owned, limit).map_err(std::io::Error::from);
    let failed = |source| OpenApiError::File { path: path.to_owned(), source };
    let read = match tokio::runtime::Handle::try_current() {
        Ok(runtime) => {
            runtime.spawn_blocking(read).await.map_err(|error| failed(std::io::Error::other(error)))?
        }
        Err(_) => read(),
    };
    text(read.map_err(failed)?.bytes)
}

/// Returns the description and its address after redirects.
pub(super) async fn address(
    url: &str,
    client: Option<&reqwest::Client>,
) -> Result<(String, String), OpenApiError> {
    if tokio::runtime::Handle::try_current().is_err() {
        let detail = "no tokio runtime is running here; fetch the description from inside one".to_owned();
        return Err(OpenApiError::Config { detail });
    }
    let client = match client {
        Some(client) => client.clone(),
        // The request has no credentials, so a redirect may lead to any host.
        None => reqwest::Client::builder()
            .redirect(Policy::limited(MAX_REDIRECTS))
            .connect_timeout(CONNECT_TIMEOUT)
            .build()
            .map_err(|source| OpenApiError::Client { source })?,
    };
    let failed =
        |source: reqwest::Error| OpenApiError::Fetch { url: shown(url), source: source.without_url() };
    let mut response = client.get(url).timeout(FETCH_TIMEOUT).send().await.map_err(failed)?;
    if !response.status().is_success() {
        return Err(OpenApiError::Status { url: shown(url), status: response.status().as_u16() });
    }
    let address = response.url().to_string();
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_SPEC_BYTES {
            return Err(OpenApiError::TooLarge { limit: MAX_SPEC_BYTES });
        }
    }
    Ok((text(bytes)?, address))
}
