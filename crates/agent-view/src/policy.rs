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
mod tests {
    use super::*;

    /// The hash of the empty text is known.
    #[test]
    fn the_policy_permits_one_script_and_one_style_by_their_hashes_and_nothing_else() {
        let text = policy("", "");
        let empty = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='";
        assert_eq!(
            text,
            format!(
                "default-src 'none'; script-src {empty}; style-src {empty}; img-src data:; base-uri 'none'; form-action 'none'"
            )
        );
        assert!(!text.contains("unsafe"));
    }
}
