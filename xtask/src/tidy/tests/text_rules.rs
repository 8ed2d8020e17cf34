use super::*;

#[test]
fn a_path_of_one_machine_is_refused_in_any_text() {
    check("docs/a.md", "see `/home/somebody/x`\n", &[("machine-paths", 1)]);
    check("crates/a/src/x.rs", "// one\nopen(\"/home/somebody/.cargo\");\n", &[("machine-paths", 2)]);
    check("docs/a.md", "/home/karl/x", &[("machine-paths", 1)]);
}

#[test]
fn addresses_templates_and_people_who_do_not_exist_are_no_paths_of_a_machine() {
    check("docs/a.md", "https://example.com/home/list and {dir}/home/x\n", &[]);
    check("docs/a.md", "HOME=/home/user/ or /home/alice/x\n", &[]);
}

#[test]
fn the_folder_of_the_checkout_and_what_is_beside_it_are_of_one_machine() {
    #[track_caller]
    fn check(root: &str, text: &str, expect: usize) {
        let file = SourceFile { path: "docs/a.md".into(), text: text.into() };
        let mut findings = Vec::new();
        words::paths_of_the_checkout(root.as_ref(), &[file], &mut findings);
        assert_eq!(findings.len(), expect, "{root}: {text}");
    }
    check("/builds/looptree", "see /builds/looptree/x and\n/builds/other/y\n", 2);
    check("/builds/looptree", "https://example.com/builds/list\n", 0);
    check("/tmp/looptree", "a file in /tmp/x\n", 0);
    check("/tmp/looptree", "a file in /tmp/looptree/x\n", 1);
    check("/home/karl/looptree", "/home/user/x\n", 0);
}

#[test]
fn nothing_says_that_it_is_not_done() {
    check("crates/a/src/x.rs", "// For now this is enough\n", &[("unfinished", 1)]);
    check("docs/a.md", "a Placeholder\n", &[("unfinished", 1)]);
    check("crates/a/src/x.rs", "// HTTP/1.1 501 Not Implemented\n", &[]);
    check("crates/a/a.sse", "placeholder\n", &[]);
    check("crates/a/src/x.rs", "impl Environment for Nowhere {}\n", &[]);
}

#[test]
fn a_test_carries_at_most_three_tags_that_exist_and_differ() {
    let tagged = |docs: &str| format!("/// {docs}\n#[test]\nfn t() {{}}\n");
    check("crates/a/tests/x.rs", &tagged("REQ-001, REQ-002, B-001."), &[]);
    check("crates/a/tests/x.rs", &tagged("REQ-001, REQ-002, B-001, B-002."), &[("doc-tags", 3)]);
    check("crates/a/tests/x.rs", &tagged("REQ-999."), &[("doc-tags", 3)]);
    check("crates/a/tests/x.rs", &tagged("B-12."), &[("doc-tags", 3)]);
    check("crates/a/tests/x.rs", &tagged("B-012 and B-012."), &[("doc-tags", 3)]);
}

#[track_caller]
fn check_licence(expression: &str, allowed: bool) {
    assert_eq!(licence::is_allowed(expression), allowed, "{expression}");
}

#[test]
fn a_licence_is_accepted_when_a_choice_of_it_is_on_the_list() {
    check_licence("MIT", true);
    check_licence("MIT OR Apache-2.0", true);
    check_licence("MIT/Apache-2.0", true);
    check_licence("GPL-3.0 OR MIT", true);
    check_licence("(MIT OR GPL-3.0) AND Unicode-3.0", true);
    check_licence("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true);
}

#[test]
fn a_licence_is_refused_when_a_part_of_it_is_not_on_the_list_or_cannot_be_read() {
    check_licence("MPL-2.0", false);
    check_licence("MIT AND GPL-3.0", false);
    check_licence("(MIT AND MPL-2.0) OR LGPL-3.0", false);
    check_licence("", false);
    check_licence("MIT MIT", false);
    check_licence("(MIT", false);
}
