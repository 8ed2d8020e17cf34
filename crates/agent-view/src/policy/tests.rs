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
