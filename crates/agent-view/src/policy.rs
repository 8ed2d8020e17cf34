//! The content security policy of the page.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

/// Returns the policy for a page with this style and this script. Everything else is forbidden, except pictures whose bytes are
/// in the page.
pub(crate) fn policy(style: &str, script: &str) -> String {
    format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        source(script),
        source(style),
    )
}

/// Returns the source expression that permits an inline element with exactly this content.
fn source(content: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(content.as_bytes())))
}

#[cfg(test)]
mod tests;
