//! Which place is meant.

use super::{check, check_error, edited};

/// B-171.
#[test]
fn what_is_there_once_letter_for_letter_is_replaced() {
    check("a b c", "b", "x", "a x c");
    check("a b c", "a b c", "", "");
    check("tail", "tail", "tail\n", "tail\n");
    check("née", "é", "e", "nee");
}

/// B-171.
#[test]
fn small_differences_of_style_do_not_matter_when_the_place_is_clear() {
    check("x = 1;  \ny = 2;\t\nz\n", "x = 1;\ny = 2;", "q;", "q;\t\nz\n");
    check("a\nb\n", "a  \nb", "c", "c\n");
    check("say \u{201C}hi\u{201D} now", "\"hi\"", "\"ho\"", "say \"ho\" now");
    check("it\u{2019}s", "it's", "is", "is");
    check("it's", "it\u{2019}s", "is", "is");
    check("1\u{2013}2 \u{2014} 3", "1-2 - 3", "x", "x");
    check("a\u{00A0}b\u{202F}c\u{3000}d", "a b c d", "x", "x");
    check("ﬁne … ＡＢ", "fine ... AB", "x", "x");
}

/// B-171.
#[test]
fn line_ends_do_not_matter_and_new_lines_get_those_of_the_place() {
    check("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n");
    check("a\nb\nc\n", "a\r\nb", "x\ny", "x\ny\nc\n");
    check("a\r\nb", "b", "x\ny", "a\r\nx\r\ny");
    check("a\nb\r\nc\n", "a", "x\ny", "x\ny\nb\r\nc\n");
    check("a\nb\r\nc\n", "b", "x\ny", "a\nx\r\ny\r\nc\n");
    check("only", "only", "x\ny", "x\ny");
    // Line ends that are written out are meant.
    check("a\nb\n", "a\nb\n", "a\r\nb\n", "a\r\nb\n");
}

/// B-171.
#[test]
fn a_byte_order_mark_stays_and_is_not_in_the_way() {
    check("\u{FEFF}a\nb", "a", "x", "\u{FEFF}x\nb");
    check("\u{FEFF}a\nb", "\u{FEFF}a", "\u{FEFF}x", "\u{FEFF}x\nb");
}

#[test]
fn a_place_that_fits_letter_for_letter_wins_over_one_that_is_alike() {
    check("\u{201C}a\u{201D} \"a\"", "\"a\"", "b", "\u{201C}a\u{201D} b");
}

/// REQ-102, B-171.
#[test]
fn what_is_there_more_than_once_is_an_error_with_the_count() {
    let many = |count| {
        format!(
            "old_text matches {count} locations in f. Include more surrounding context to make the match unique."
        )
    };
    check_error("a a a", &[("a", "b")], &many(3));
    check_error("aaa", &[("aa", "b")], &many(2));
    check_error("\u{201C}a\u{201D} \u{201E}a\u{201F} \u{201F}a\u{201F}", &[("\"a\"", "b")], &many(3));
    // Nobody who reads the file can see that these differ.
    check_error("a\nb\na\r\nb\n", &[("a\nb", "c")], &many(2));
    check_error("a \nb\na\t\nb\n", &[("a\nb", "c")], &many(2));
    check_error("x a a", &[("x", "y"), ("a", "b")], &format!("edit 2: {}", many(2)));
}

#[test]
fn blanks_that_were_dropped_do_not_make_a_match_inside_a_word() {
    let error = edited("letter\n", &[("let  ", "x")]).unwrap_err().to_string();
    assert!(error.starts_with("old_text not found in f."), "{error}");
    check("let\nter\n", "let  ", "x", "x\nter\n");
    // Half a ligature cannot be replaced.
    assert!(edited("ﬁ", &[("f", "x")]).is_err());
}

/// REQ-101.
#[test]
fn what_is_not_there_gets_a_hint_or_a_tip() {
    check_error(
        "one\nfn main() { // start\n    go();\n}\nend\n",
        &[("  fn main() {\n    run();", "x")],
        "old_text not found in f.\n\nDid you mean:\nfn main() { // start\n    go();\n}",
    );
    check_error(
        "alpha\nlet total = count + 1;\nomega\n",
        &[("let total = count + 2;", "x")],
        "old_text not found in f.\n\nDid you mean:\nlet total = count + 1;\nomega",
    );
    check_error(
        "alpha\n",
        &[("nothing like it", "x")],
        "old_text not found in f. Tip: read the file again and copy the text as it is there, with its blanks.",
    );
    check_error(
        "",
        &[("a", "x")],
        "old_text not found in f. Tip: read the file again and copy the text as it is there, with its blanks.",
    );
}

/// B-171.
#[test]
fn an_empty_text_is_not_looked_for() {
    let text = "old_text is empty; give the text to replace, or use write_file to write the whole file";
    check_error("abc", &[("", "x")], text);
    check_error("abc", &[("a", "x"), ("", "x")], &format!("edit 2: {text}"));
}

/// B-171.
#[test]
fn many_edits_refer_to_the_file_as_it_was() {
    // The second would not be found after the first, the third would be found twice.
    let edits = [("a", "b"), ("b", "c"), ("c", "b b")];
    assert_eq!(edited("a b c", &edits).unwrap(), "b c b b");
    assert_eq!(edited("a b c", &[("c", "3"), ("a", "1")]).unwrap(), "1 b 3");
    assert_eq!(edited("ab", &[("b", "2"), ("a", "1")]).unwrap(), "12");
}

/// B-171.
#[test]
fn edits_that_overlap_are_refused() {
    check_error("a b c", &[("b c", "x"), ("a b", "y")], "edits 1 and 2 overlap in f; make one edit of them");
    check_error(
        "a b c",
        &[("c", "z"), ("b", "x"), ("a b", "y")],
        "edits 2 and 3 overlap in f; make one edit of them",
    );
}

#[test]
fn a_text_that_is_nearly_everywhere_does_not_take_hours() {
    let file = "a".repeat(1_000_000);
    let error = edited(&file, &[(&file[..500_000], "b")]).unwrap_err().to_string();
    assert!(error.starts_with("old_text matches "), "{error}");
    let blanks = format!("{} ", &file[..500_000]);
    assert!(edited(&file, &[(&blanks, "b")]).is_err());
}
