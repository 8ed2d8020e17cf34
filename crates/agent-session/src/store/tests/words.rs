use super::super::words::{asked, find, snippet};

#[track_caller]
fn check(text: &str, question: &str, expect: Option<usize>) {
    assert_eq!(find(text, &asked(question)), expect, "{question:?} in {text:?}");
}

#[test]
fn each_word_of_a_question_begins_a_word_of_the_text_in_any_order_and_case() {
    check("The linker failed", "link", Some(4));
    check("The linker failed", "FAIL link", Some(4));
    check("The linker failed", "inker", None);
    check("The linker failed", "linker works", None);
    check("a-b_c.d", "B D", Some(2));
    check("Größe: 12", "größe", Some(0));
    check("日本語の文", "語", Some(6));
    check("日本語の文", "文 日本", Some(0));
    check("İstanbul", "istan", Some(0));
    check("", "x", None);
}

#[test]
fn a_snippet_is_one_line_and_cuts_no_character() {
    let text = format!("{}\nneedle\t{}", "é".repeat(200), "ü".repeat(200));
    let at = find(&text, &asked("needle")).unwrap();
    let line = snippet(&text, at);
    assert!(line.starts_with('…') && line.ends_with('…') && line.contains(" needle "), "{line}");
    assert!(!line.contains('\n') && line.len() < 250);
    assert_eq!(snippet("short", 0), "short");
}
