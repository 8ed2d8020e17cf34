mod code_rules;
mod graph_rules;
mod language_rules;
mod module_rules;
mod text_rules;

use super::*;

fn file(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.to_owned(), text: text.to_owned() }
}

/// The rules that one file breaks, with the lines.
#[track_caller]
fn check(path: &str, text: &str, expected: &[(&str, usize)]) {
    let findings = check_files(&[file(path, text)]);
    let found: Vec<(&str, usize)> = findings.iter().map(|f| (f.rule, f.line)).collect();
    assert_eq!(found, expected, "{path}: {text}");
}

#[test]
fn a_finding_says_where_which_rule_and_what() {
    let error = Finding::error("file-size", "a.rs", 3, "too long");
    assert_eq!(error.to_string(), "a.rs:3: [file-size] too long");
    let warning = Finding::warning("file-size", "a.rs", 0, "long");
    assert_eq!(warning.to_string(), "a.rs: [warning, file-size] long");
}

#[test]
fn rules_are_chosen_by_name_or_by_group_and_a_misspelt_name_is_an_error() {
    let read = |words: &[&str]| options(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
    assert_eq!(read(&[]).unwrap(), Options::default());
    let some = read(&["--count", "--only", "language,panics"]).unwrap();
    assert!(
        some.count && some.shows("language-codes") && some.shows("language-docs") && some.shows("panics")
    );
    assert!(!some.shows("layers") && !read(&["--only", "module"]).unwrap().shows("modules"));
    let error = read(&["--only", "langage"]).unwrap_err().to_string();
    assert!(error.contains("no rule `langage`") && error.contains("language-phrases"), "{error}");
    assert!(read(&["--only"]).is_err() && read(&["--rules"]).is_err());
}

#[test]
fn findings_are_counted_by_crate_and_by_file() {
    let finding = |place: &str| Finding::error("panics", place, 1, "x");
    let text = counts(&[
        finding("crates/a/src/x.rs"),
        finding("crates/a/src/y.rs"),
        finding("crates/a/src/y.rs"),
        finding("README.md"),
        Finding::error("bans", "ring 0.17.0", 0, "x"),
    ]);
    let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows[1], ["3", "panics", "crates/a"]);
    assert_eq!(rows[2], ["1", "panics", "README.md"]);
    assert_eq!(rows[5], ["2", "panics", "crates/a/src/y.rs"]);
}

#[test]
fn a_rule_that_is_reported_can_be_chosen() {
    let files = crate::workspace::Workspace::find().unwrap().texts().unwrap();
    let rules = files.iter().filter(|f| f.path.starts_with("xtask/src/tidy/") && !is_test_file(&f.path));
    let mut seen = 0;
    for line in rules.flat_map(|f| f.text.lines()) {
        for opening in ["Finding::error(\"", "Finding::warning(\""] {
            let Some((_, rest)) = line.split_once(opening) else { continue };
            let name = rest.split('"').next().unwrap();
            assert!(NAMES.contains(&name), "`{name}` is missing in NAMES");
            seen += 1;
        }
    }
    assert!(seen > 10, "only {seen} rules were found");
}
