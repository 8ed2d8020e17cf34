use super::*;

const SOURCE: &str = "crates/a/src/x.rs";

#[test]
fn codes_in_comments_of_production_code_are_refused() {
    for (text, code) in [
        ("/// Ends the run (REQ-123).", "REQ-123"),
        ("// As B-12 demands.", "B-12"),
        ("//! See D37, and more.", "D37"),
        ("/// A range, REQ-182..185", "REQ-182..185"),
        ("/* X3 */", "X3"),
        ("/// The case S104.", "S104"),
        ("/// Holds invariant 7.", "invariant 7"),
        ("/// Holds invariants 7 and 8.", "invariants 7"),
    ] {
        let findings = check_files(&[file(SOURCE, &format!("fn f() {{}}\n{text}\nfn g() {{}}\n"))]);
        let found: Vec<_> = findings.iter().map(|f| (f.rule, f.line)).collect();
        assert_eq!(found, [("language-codes", 2)], "{text}");
        assert!(findings[0].text.starts_with(&format!("`{code}`")), "{}", findings[0].text);
    }
}

#[test]
fn what_only_looks_like_a_code_is_none() {
    for text in [
        "// base64: D2sf and aD12, 3D, D12x, D1234",
        "// the model `D12` of a vendor, X11, X509",
        "// S3 and S1234 are no codes, B-tree, REQ-",
        "// an invariant of 7 parts",
        "fn f() { g(\"REQ-123 D37\") }",
        "const D37: u8 = 1;",
        "/// ```\n/// let D37 = X3;\n/// ```",
    ] {
        check(SOURCE, &format!("{text}\n"), &[]);
    }
}

#[test]
fn a_code_block_ends_with_its_comment() {
    check(SOURCE, "/// ```\n/// D37\nfn f() {}\n// D38\n", &[("language-codes", 4)]);
    check(SOURCE, "/// ```\n///\n/// D37\n/// ```\nfn f() {}\n", &[]);
}

#[test]
fn tests_and_the_list_of_requirements_have_codes_and_other_pages_have_none() {
    check("crates/a/src/x/tests.rs", "// D37\n", &[]);
    check("crates/a/tests/x.rs", "// D37\n", &[]);
    check("docs/requirements.md", "REQ-001 D37\n", &[]);
    check("docs/tools/bash.md", "one\n(REQ-001)\n", &[("language-codes", 2)]);
    check("README.md", "```\nD37\n```\nD37\n", &[("language-codes", 4)]);
    check("crates/a/README.md", "X1\n", &[("language-codes", 1)]);
    check("CHANGELOG.md", "D37\n", &[]);
}

#[test]
fn phrases_of_the_list_are_found_across_lines_and_in_any_case() {
    check(SOURCE, "/// What Is To\n/// be `done`, at last.\nfn f() {}\n", &[("language-phrases", 1)]);
    check(SOURCE, "/// A run.\n/// It goes on with it.\nfn f() {}\n", &[("language-phrases", 2)]);
    check("README.md", "Nothing is lost in\nsilence.\n", &[("language-phrases", 1)]);
    check(SOURCE, "// a store of one's own\n", &[("language-phrases", 1)]);
    check("docs/concepts/loop.md", "lost in silence\n", &[("language-phrases", 1)]);
    check(SOURCE, "// nobody's\nconst A: &str = \"in silence\";\n", &[("language-phrases", 1)]);
}

#[test]
fn words_of_different_sentences_and_comments_are_no_phrase() {
    check(SOURCE, "// It is in. Silence follows.\n", &[]);
    check(SOURCE, "// it is in\nfn f() {}\n// silence\n", &[]);
    check(SOURCE, "/// in\n///\n/// silence\nfn f() {}\n", &[]);
    check(SOURCE, "// in silences\n", &[]);
}

#[test]
fn the_longest_phrase_is_reported_and_says_what_to_write() {
    let findings = check_files(&[file(SOURCE, "// It goes on with the next.\n")]);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].text, "`goes on with`: write \"resumes\", \"continues with\"");
}

#[test]
fn the_list_of_phrases_is_well_formed() {
    let list = include_str!("../phrases.txt");
    let mut seen = std::collections::BTreeSet::new();
    for line in list.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let (phrase, instead) = line.split_once(" => ").unwrap_or_else(|| panic!("no suggestion: {line}"));
        assert!(!instead.is_empty() && phrase == phrase.trim().to_lowercase(), "{line}");
        assert!(seen.insert(phrase), "twice: {phrase}");
    }
    assert!(seen.len() > 50);
}

#[test]
fn public_items_have_doc_comments_of_four_words() {
    for item in [
        "pub fn f() {}",
        "pub struct S;",
        "pub const C: u8 = 1;",
        "pub type T = u8;",
        "pub enum E { }",
        "pub trait T {}",
    ] {
        check(SOURCE, &format!("/// Only three words.\n{item}\n"), &[("language-docs", 1)]);
        check(SOURCE, &format!("/// Only three\n/// words, more.\n{item}\n"), &[]);
    }
    check(
        SOURCE,
        "/// The struct of it.\npub struct S {\n/// Which.\npub a: u8,\n/// Not.\nb: u8 }\n",
        &[("language-docs", 3)],
    );
    check(SOURCE, "/// The enum of it.\npub enum E {\n/// Why.\nA,\n}\n", &[("language-docs", 3)]);
    check(
        SOURCE,
        "pub struct S;\nimpl S {\n/// When.\npub fn a() {}\n/// When.\nfn b() {}\n}\n",
        &[("language-docs", 3)],
    );
}

#[test]
fn private_items_tests_and_items_without_a_comment_may_be_short() {
    for item in ["fn f() {}", "pub(crate) fn f() {}", "impl Clone for S { /// Short.\n fn clone() {} }"] {
        check(SOURCE, &format!("/// Short.\n{item}\n"), &[]);
    }
    check(SOURCE, "pub fn f() {}\n#[cfg(test)]\n/// Short.\npub fn g() {}\n", &[]);
    check("xtask/src/x.rs", "/// Short.\npub fn f() {}\n", &[]);
    check("crates/a/tests/x.rs", "/// Short.\npub fn f() {}\n", &[]);
}

#[test]
fn each_package_has_a_copy_of_both_licences() {
    let rules = |apache: &str| {
        let files = [
            file("LICENSE-APACHE", "apache"),
            file("LICENSE-MIT", "mit"),
            file("crates/a/Cargo.toml", ""),
            file("crates/a/LICENSE-APACHE", apache),
            file("examples/Cargo.toml", ""),
        ];
        check_files(&files).iter().map(|f| (f.rule, f.place.clone())).collect::<Vec<_>>()
    };
    assert_eq!(rules("apache"), [("licence-copies", "crates/a/LICENSE-MIT".to_owned())]);
    assert_eq!(rules("changed").len(), 2);
}
