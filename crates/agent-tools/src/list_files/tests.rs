use super::Listing;
use crate::glob::NamePattern;
use std::path::Path;

#[track_caller]
fn check_matches(pattern: &str, path: &str, expect: bool) {
    let found = NamePattern::new(pattern).unwrap().matches(Path::new(path));
    assert_eq!(found, expect, "{pattern} and {path}");
}

#[test]
fn a_pattern_without_a_slash_is_for_names_and_one_with_a_slash_for_paths() {
    check_matches("*.rs", "a.rs", true);
    check_matches("*.rs", "deep/down/a.rs", true);
    check_matches("*.rs", "a.rst", false);
    check_matches("*.{rs,toml}", "Cargo.toml", true);
    check_matches("src/*.rs", "src/a.rs", true);
    check_matches("./src/*.rs", "src/a.rs", true);
    check_matches("src/*.rs", "src/deep/a.rs", false);
    check_matches("src/**/*.rs", "src/deep/a.rs", true);
    check_matches("**/a.rs", "a.rs", true);
    check_matches("w/*.rs", "a.rs", false);
    check_matches(".*", ".env", true);
}

/// REQ-105.
#[test]
fn the_notice_comes_only_when_there_are_more_than_are_shown() {
    let listing = |total: usize| {
        let mut listing = Listing::new(3);
        for n in (0..total).rev() {
            listing.add(format!("f{n}"));
        }
        listing.into_result("here", 0).to_text()
    };
    assert_eq!(listing(0), "No files found in here");
    assert_eq!(listing(1), "f0\n\n(1 files)");
    assert_eq!(listing(3), "f0\nf1\nf2\n\n(3 files)");
    assert_eq!(listing(4), "f0\nf1\nf2\n\n... (4 files, showing first 3)");
}
