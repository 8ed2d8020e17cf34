mod code_rules;
mod graph_rules;
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
