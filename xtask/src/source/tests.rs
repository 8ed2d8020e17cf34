use super::*;

#[track_caller]
fn check_code(source: &str, expected: &str) {
    let code = code_only(source);
    assert_eq!(code.split_whitespace().collect::<Vec<_>>().join(" "), expected);
    assert_eq!(code.lines().count(), source.lines().count(), "lines moved");
}

#[test]
fn comments_and_texts_are_blanked_and_code_stays() {
    check_code("let a = 1; // std::fs", "let a = 1;");
    check_code("/* a /* b */ c */ let x = 2;", "let x = 2;");
    check_code(r#"let s = "std::fs \" more"; f();"#, "let s = ; f();");
    check_code("let s = r#\"quote \" and std::fs\"#; g();", "let s = ; g();");
    check_code("let s = br\"bytes\"; h();", "let s = ; h();");
    check_code("let r#type = 1; for r in x {}", "let r#type = 1; for r in x {}");
}

#[test]
fn lifetimes_are_not_taken_for_characters() {
    check_code("fn f<'a>(x: &'a str) -> char { '\"' }", "fn f<'a>(x: &'a str) -> char { }");
    check_code(
        r"let q = '\''; let n = '\n'; let u = '\u{1F600}'; k();",
        "let q = ; let n = ; let u = ; k();",
    );
}

#[test]
fn a_text_over_several_lines_keeps_the_line_numbers() {
    let source = "let s = \"one\ntwo\";\nlet HashMap = 1;";
    assert_eq!(lines_with(&code_only(source), "HashMap"), [3]);
}

#[test]
fn words_are_found_whole_and_once_a_line() {
    assert_eq!(lines_with("HashMapper\nmy_HashMap\nHashMap<HashMap>", "HashMap"), [3]);
    assert_eq!(lines_with("x.unwrap();\nx.unwrap_or(1)", ".unwrap()"), [1]);
}

#[test]
fn tests_are_found_with_their_docs() {
    let source = r#"
/// REQ-001.
#[test]
fn first() {}

/// Not a test: REQ-002.
fn helper() {}

/// REQ-003, B-004.
///
/// More words.
#[tokio::test(start_paused = true)]
async fn second() {}

proptest! {
    /// B-005.
    #[test]
    fn third(x in 0..9) {}
}
"#;
    let tests = tests_in(source);
    let names: Vec<_> = tests.iter().map(|t| (t.name.as_str(), t.docs.as_str())).collect();
    assert_eq!(
        names,
        [("first", "REQ-001.\n"), ("second", "REQ-003, B-004.\n\nMore words.\n"), ("third", "B-005.\n")]
    );
    assert_eq!(tests[0].line, 4);
}

#[test]
fn docs_do_not_jump_over_other_items() {
    let source = "/// REQ-001.\nconst X: u8 = 1;\n#[test]\nfn t() {}\n";
    assert_eq!(tests_in(source)[0].docs, "");
}

#[test]
fn an_attribute_over_several_lines_between_docs_and_function_is_passed_over() {
    let source = "/// REQ-009.\n#[test]\n#[cfg_attr(\n  windows,\n  ignore = \"a\"\n)]\nfn t() {}\n";
    let tests = tests_in(source);
    assert_eq!((tests[0].name.as_str(), tests[0].docs.as_str()), ("t", "REQ-009.\n"));
}

#[test]
fn source_inside_a_text_is_no_test() {
    assert_eq!(tests_in("const S: &str = r#\"\n#[test]\nfn t() {}\n\"#;\n"), []);
}
