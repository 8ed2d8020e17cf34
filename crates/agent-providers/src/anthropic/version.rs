//! The versions of the API, and what requests of each may not contain.

#[cfg(test)]
mod tests;

use agent_core::{ErrorKind, ModelConfig, ProviderError};
use http::HeaderValue;

use crate::request::refuse;

/// The version that requests name unless the model has another one.
const DEFAULT: &str = "2023-06-01";

/// What a version refuses. A version has the refusals of all earlier ones.
struct Change {
    since: &'static str,
    refuses: &'static [Refused],
}

/// A part of a request that a version refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// `temperature`, `top_p` and `top_k`.
    Sampling,
    /// Citations in the text of a user message.
    UserCitations,
}

const CHANGES: &[Change] =
    &[Change { since: "2026-10-21", refuses: &[Refused::Sampling, Refused::UserCitations] }];

/// Returns the version of the requests to a model.
fn of(model: &ModelConfig) -> &str {
    model.api_version.as_deref().unwrap_or(DEFAULT)
}

/// Returns whether the version of the model refuses a part of a request. Versions are dates, so text order is their order.
pub(super) fn refuses(model: &ModelConfig, part: Refused) -> bool {
    CHANGES.iter().filter(|change| change.since <= of(model)).any(|change| change.refuses.contains(&part))
}

/// Returns the value of the header that names the version.
///
/// # Errors
/// Returns an error if the version is not a date such as `2026-10-21`.
pub(super) fn header(model: &ModelConfig) -> Result<HeaderValue, ProviderError> {
    let version = of(model);
    let is_date = version.len() == DEFAULT.len()
        && version.bytes().zip(DEFAULT.bytes()).all(|(byte, form)| match form {
            b'-' => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    let value = HeaderValue::from_str(version).ok().filter(|_| is_date);
    value.ok_or_else(|| {
        let message = format!("{version:?} is no version of the API");
        refuse(model, ErrorKind::Other, &message, "use a date such as 2026-10-21")
    })
}
